//! Thousands of bad job files: each is answered with a place, in bounded memory, and a server among them goes on.

mod support;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use cadran_dev::allocation::{CountingAllocator, measure};
use cadran_dev::bad_input::{self as corpus, Content};
use cadran_spec::{Decoder, FILE_BYTES_MAX, ReadOptions, read_job};
use support::{Home, run, wait_for};

/// What one file may take, above what was taken before.
const BYTES_MAX: usize = 64 << 20;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// The most a call took above what was there before.
fn peak<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let (value, memory) = measure(work);
    (value, memory.peak)
}

#[test]
fn every_bad_file_is_answered() {
    let files = corpus::corpus();
    assert!(files.len() >= 2_000, "{}", files.len());
    let (mut refused, mut accepted, mut most) = (0, 0, (0, String::new()));
    let mut wrong: Vec<String> = Vec::new();
    let mut decoder = Decoder::default();
    for file in &files {
        let (name, zeros);
        name = &file.name;
        let bytes = match &file.content {
            Content::Bytes(bytes) => bytes,
            // A reader takes one byte more than it allows, and no more.
            Content::Zeros(len) => {
                zeros = vec![0; (*len).min(FILE_BYTES_MAX as u64 + 1) as usize];
                &zeros
            }
        };
        let read = || read_job(bytes, "job", &ReadOptions::default());
        let (answer, bytes_taken) = peak(|| catch_unwind(AssertUnwindSafe(read)));
        if bytes_taken > most.0 {
            most = (bytes_taken, name.clone());
        }
        if bytes_taken > BYTES_MAX {
            wrong.push(format!("{name}: took {bytes_taken} bytes"));
        }
        let text = String::from_utf8_lossy(bytes);
        match answer {
            Err(_) => wrong.push(format!("{name}: panicked")),
            Ok(Ok(parsed)) => {
                accepted += 1;
                if file.refused {
                    wrong.push(format!("{name}: was accepted: {:.200}", text));
                }
                match decoder.decode(parsed.job.name.clone(), &parsed.definition) {
                    Ok(job) if job.body == parsed.job.body => {}
                    Ok(_) => wrong.push(format!("{name}: comes back from the store as another job")),
                    Err(error) => wrong.push(format!("{name}: does not come back from the store: {error}")),
                }
            }
            Ok(Err(found)) => {
                refused += 1;
                if found.is_empty() {
                    wrong.push(format!("{name}: refused without a reason"));
                }
                for found in found {
                    let shown = found.render("file.yaml", &text, false);
                    let whole = found.line == 0 && (bytes.len() > FILE_BYTES_MAX || text.trim().is_empty());
                    if (found.line == 0 || found.column == 0) && !whole {
                        wrong.push(format!("{name}: no place: {found}"));
                    }
                    let raw = |text: &str| text.chars().any(|c| c.is_control() && c != '\n');
                    if found.message.len() > 2_000
                        || shown.len() > 10_000
                        || raw(&found.message)
                        || raw(&shown)
                    {
                        wrong.push(format!("{name}: badly shown: {shown:?}"));
                    }
                }
            }
        }
    }
    println!(
        "{} files: {refused} refused, {accepted} accepted; most memory {} KiB, for {}",
        files.len(),
        most.0 >> 10,
        most.1
    );
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong[..wrong.len().min(40)].join("\n"));
}

#[test]
fn check_and_a_server_among_bad_files_go_on() {
    let home = Home::new();
    let count = corpus::write(&home.path("jobs/bad")).expect("the corpus is written");
    let checked = run(&["check", "--json", &home.path("jobs").display().to_string()]);
    assert_eq!(checked.status.code(), Some(1), "{}", String::from_utf8_lossy(&checked.stderr));
    let raw = checked.stdout.iter().any(|byte| byte.is_ascii_control() && *byte != b'\n');
    assert!(!raw, "a control character came out raw");
    home.job("good", "schedule: every 1s\nrun: echo good\n");
    let server = home.serve();
    server.run_with("good", "succeeded");
    // Every file that must be refused is listed, with its place.
    let must: Vec<String> =
        corpus::corpus().into_iter().filter(|bad| bad.refused).map(|bad| bad.name).collect();
    let (code, body) = server.get("/api/v1/problems");
    assert_eq!(code, 200);
    let mut listed: BTreeMap<&str, u64> = BTreeMap::new();
    for problem in body["problems"].as_array().expect("a list") {
        let file = problem["file"].as_str().expect("a file");
        *listed.entry(file.rsplit('/').next().unwrap_or(file)).or_default() += 1;
    }
    let missing: Vec<&String> = must.iter().filter(|name| !listed.contains_key(name.as_str())).collect();
    assert!(
        missing.is_empty(),
        "{} of {} are not listed: {:?}",
        missing.len(),
        must.len(),
        &missing[..missing.len().min(20)]
    );
    println!("{count} files, {} of them listed with {} problems", listed.len(), listed.values().sum::<u64>());
    // More of them come while it runs, and go; the good job does not mind.
    corpus::write(&home.path("jobs/more")).expect("the corpus is written");
    let before = server.runs("good", "succeeded").len();
    wait_for("more runs", || (server.runs("good", "succeeded").len() > before + 2).then_some(()));
    std::fs::remove_dir_all(home.path("jobs/bad")).expect("it goes");
    std::fs::remove_dir_all(home.path("jobs/more")).expect("it goes");
    wait_for("the problems to go", || {
        server.get("/api/v1/problems").1["problems"].as_array()?.is_empty().then_some(())
    });
    let before = server.runs("good", "succeeded").len();
    wait_for("more runs", || (server.runs("good", "succeeded").len() > before + 1).then_some(()));
    assert!(server.stop().success());
}
