//! A server that meets what a newer version wrote, or a damaged disk: refused or shown, never passed over.

mod support;

use std::fs;

use cadran_core::{Batch, History, JobId, JobPut, JobState};
use cadran_store::Store;
use support::{Home, wait_for};

const NEWER: &str = r#"{"v":2,"schedules":["every 1s"],"body":{"steps":[{"name":"main","orbit":"moon"}]}}"#;

/// Puts a job on record as a newer version would have.
fn record_newer(home: &Home, name: &str) {
    fs::create_dir_all(home.data()).expect("made");
    let put = JobPut {
        job: JobId(3),
        name: name.parse().expect("a name"),
        revision: 5,
        definition: NEWER.into(),
        source: format!("{name}.yaml").into(),
        source_mark: "2;UTC;something".into(),
        history: History::Days(30),
    };
    let state = JobState { job: JobId(3), watermark: None, paused_at: None, holes: Vec::new() };
    let batch = Batch { jobs: vec![put], states: vec![state], ..Batch::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let store = Store::open(&format!("sqlite:{}", home.data().join("cadran.db").display()))
            .await
            .expect("a store");
        store.commit(&batch).await.expect("on record");
        store.close().await;
    });
}

#[test]
fn a_definition_of_a_newer_version_is_replaced_by_what_the_file_says() {
    let home = Home::new();
    record_newer(&home, "report");
    home.job("report", "schedule: every 1s\nrun: echo fine\n");
    let server = home.serve();
    assert!(server.ready.contains("1 jobs"), "{}", server.ready);
    let run = server.run_with("report", "succeeded");
    assert!(run["revision"].as_u64() >= Some(5), "the same job goes on: {run}");
    let (_, body) = server.get("/api/v1/problems");
    let problem = &body["problems"][0];
    assert_eq!(
        (&problem["code"], &problem["severity"]),
        (&"stored_definition".into(), &"warning".into()),
        "{body}"
    );
    assert!(problem["message"].as_str().is_some_and(|it| it.contains("version 2")), "{body}");
    assert!(server.stop().success());
    // From now on the record has a definition of this version.
    let server = home.serve();
    assert_eq!(server.get("/api/v1/problems").1["problems"].as_array().map(Vec::len), Some(0));
    assert!(server.stop().success());
}

#[test]
fn a_schedule_of_a_newer_version_that_no_file_explains_is_not_dropped_without_a_word() {
    let home = Home::new();
    record_newer(&home, "report");
    home.job("report", "schedule: every 1s\norbit: moon\nrun: echo fine\n");
    home.job("other", "schedule: every 1s\nrun: echo fine\n");
    let server = home.serve();
    server.run_with("other", "succeeded");
    let (_, body) = server.get("/api/v1/problems");
    let problems = body["problems"].as_array().expect("a list");
    let stored = problems.iter().find(|problem| problem["code"] == "stored_definition").expect("shown");
    let message = stored["message"].as_str().expect("a text");
    assert!(message.contains("report is not in force") && message.contains("use a newer one"), "{message}");
    assert!(!body.to_string().contains("stays as it was before"), "it does not: {body}");
    let said = String::from_utf8(home.client(&["status"]).stdout).expect("text");
    assert!(said.contains("report is not in force"), "{said}");
    // Written so that this version reads it, it is in force again.
    home.job("report", "schedule: every 1s\nrun: echo fine\n");
    server.run_with("report", "succeeded");
    wait_for("the problem to go", || {
        (server.get("/api/v1/problems").1["problems"].as_array()?.is_empty()).then_some(())
    });
    assert!(server.stop().success());
}

#[test]
fn a_journal_of_a_newer_version_is_refused_with_what_to_do() {
    let home = Home::new();
    for (file, name) in [("journal", "journal"), ("ledger", "ledger"), ("workers", "ledger")] {
        assert!(home.serve().stop().success());
        let path = home.data().join("exec").join(file);
        let before = fs::read_to_string(&path).expect("there");
        let header = format!("cadran {name} 7 9.9.9");
        let newer = format!("{:08x} {header}\n", crc32(header.as_bytes()));
        fs::write(&path, &newer).expect("written");
        let output = home.serve_command(&[]).output().expect("it ends");
        assert!(!output.status.success());
        for part in
            ["format 7", "cadran 9.9.9", "start that version or a later one", path.to_str().expect("a path")]
        {
            assert!(home.log().contains(part), "{part:?} in {}", home.log());
        }
        assert_eq!(fs::read_to_string(&path).expect("there"), newer, "left as it was");
        fs::write(&path, before).expect("written");
    }
}

#[test]
fn a_damaged_journal_is_reported_and_the_rest_of_it_taken() {
    let home = Home::new();
    home.job("long", "run: sleep 600\n");
    let server = home.serve();
    home.client(&["trigger", "long"]);
    server.run_with("long", "running");
    let path = home.data().join("exec/journal");
    wait_for("the process to be noted", || fs::read_to_string(&path).ok()?.contains(" P ").then_some(()));
    server.kill();
    home.kill_executor();
    let mut bytes = fs::read(&path).expect("there");
    let at = bytes.windows(3).position(|it| it == b" S ").expect("a start") + 4;
    bytes[at] ^= 1;
    fs::write(&path, &bytes).expect("written");
    let server = home.serve();
    let (_, body) = server.get("/api/v1/problems");
    let problem = &body["problems"][0];
    assert_eq!(problem["code"], "damaged", "{body}");
    assert!(problem["message"].as_str().is_some_and(|it| it.contains("the first one line 2")), "{body}");
    assert_eq!(fs::read(home.data().join("exec/journal.damaged")).expect("kept"), bytes);
    assert!(home.log().contains("is damaged"), "{}", home.log());
    server.kill();
}

/// CRC-32 as everybody computes it.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc: u32, byte| {
        (0..8)
            .fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 & (!(crc & 1)).wrapping_add(1)))
    })
}
