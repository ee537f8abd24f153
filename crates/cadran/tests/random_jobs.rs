//! Folders of job files drawn at random, given to the real server: every file that `check` accepts is a job of the server,
//! every run ends, and the server is alive and well throughout.
//!
//! `cargo xtask random-jobs` plays more of them. `CADRAN_RANDOM_JOBS` says how many, `CADRAN_RANDOM_JOBS_SEED` which.

mod support;

use std::collections::BTreeSet;
use std::fs;

use cadran_sim::{JobFile, RESOURCES, Setting, Value, draw_files, shrink_value};
use support::{Home, Server, run, wait_for};

/// Job files with every run of the tests.
const JOBS: u64 = 500;
/// Jobs of one folder: they name one another as children and share footprints.
const JOBS_PER_FOLDER: u64 = 50;
/// Folders that are tried to make the file of a failure shorter.
const SHRINK_TRIES_MAX: u32 = 60;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn drawn_jobs_run_on_the_real_server_and_every_run_ends() {
    let (jobs, first) = (number("CADRAN_RANDOM_JOBS", JOBS), number("CADRAN_RANDOM_JOBS_SEED", 1));
    let (mut accepted, mut refused, mut runs) = (0, 0, 0);
    for seed in first..first + jobs.div_ceil(JOBS_PER_FOLDER) {
        let files = draw_files(seed, JOBS_PER_FOLDER, Setting::Real(now_ms()));
        match play(&files) {
            Ok(played) => {
                accepted += played.accepted;
                refused += played.refused;
                runs += played.runs;
            }
            Err(why) => fail(seed, files, &why),
        }
    }
    println!("{accepted} drawn jobs accepted, {refused} refused, {runs} runs, all of them ended");
    assert!(
        accepted > 8 * refused && runs >= accepted,
        "{accepted} accepted, {refused} refused, {runs} runs"
    );
}

#[allow(clippy::disallowed_methods)] // Drawn schedules lie around the present.
fn now_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as i64)
}

#[derive(Default)]
struct Played {
    accepted: usize,
    refused: usize,
    runs: usize,
}

/// Starts a server on a folder of these files, runs every job by hand and waits for the end of every run.
fn play(files: &[JobFile]) -> Result<Played, String> {
    let home = Home::new();
    fs::write(home.path("jobs/resources.yaml"), RESOURCES).expect("a file can be written");
    for file in files {
        home.job(&file.name, &file.value.file());
    }
    let accepted = accepted_by_check(&home, files)?;
    let server = home.serve();
    let played =
        ask_all(&server, &accepted).map_err(|why| format!("{why}\nlog of the server:\n{}", home.log()));
    let runs = played?;
    if !server.stop().success() {
        return Err(format!("the server did not end well: {}", home.log()));
    }
    Ok(Played { accepted: accepted.len(), refused: files.len() - accepted.len(), runs })
}

/// The jobs whose files `cadran check` accepts.
fn accepted_by_check(home: &Home, files: &[JobFile]) -> Result<BTreeSet<String>, String> {
    let jobs = home.path("jobs");
    let output = run(&["check", "--json", &jobs.to_string_lossy()]);
    let said = String::from_utf8_lossy(&output.stdout);
    if output.status.code().is_none_or(|code| code > 1) {
        return Err(format!("check ended with {}: {said}", output.status));
    }
    let answers: Vec<serde_json::Value> =
        said.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let good = |file: &&JobFile| {
        let name = format!("/{}.yaml", file.name);
        let is_it =
            |answer: &&serde_json::Value| answer["file"].as_str().is_some_and(|at| at.ends_with(&name));
        answers.iter().find(is_it).is_some_and(|answer| answer["ok"] == true)
    };
    Ok(files.iter().filter(good).map(|file| file.name.clone()).collect())
}

/// Runs every job, twice at once, and waits until nothing is open that was asked for.
fn ask_all(server: &Server, accepted: &BTreeSet<String>) -> Result<usize, String> {
    let (code, body) = server.get("/api/v1/jobs?limit=1000");
    let listed = body["jobs"].as_array().ok_or_else(|| format!("{code} {body}"))?;
    let known: BTreeSet<String> =
        listed.iter().filter_map(|job| job["name"].as_str().map(str::to_owned)).collect();
    if known != *accepted {
        return Err(format!(
            "check and the server differ: {:?}",
            known.symmetric_difference(accepted).collect::<Vec<_>>()
        ));
    }
    let mut runs = Vec::new();
    for job in accepted.iter().chain(accepted) {
        let (code, answer) = server.post(&format!("/api/v1/jobs/{job}/trigger"), "{}");
        if code >= 300 {
            return Err(format!("{job} cannot be run: {code} {answer}"));
        }
        runs.push((job, support::id_of(&answer)));
    }
    for (job, run) in &runs {
        let mut last = String::new();
        let ended = wait_for_end(|| {
            let (_, body) = server.get(&format!("/api/v1/runs/{run}"));
            last = body.to_string();
            let status = body["status"].as_str().unwrap_or_default();
            ["succeeded", "failed", "stopped", "skipped", "lost"].contains(&status)
        });
        if !ended {
            return Err(format!("run {run} of {job} does not end: {last}"));
        }
        let (code, health) = server.get("/health");
        if code != 200 || health["status"] != "ok" {
            return Err(format!("the server is not well after {run} of {job}: {code} {health}"));
        }
    }
    Ok(runs.len())
}

/// Whether a moment comes within the patience of a test.
fn wait_for_end(mut is_over: impl FnMut() -> bool) -> bool {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        wait_for("a run to end", || is_over().then_some(()));
    }))
    .is_ok()
}

/// Says what failed, with the shortest file that still shows it.
fn fail(seed: u64, files: Vec<JobFile>, why: &str) -> ! {
    println!("seed {seed}: {why}\nmaking the files fewer…");
    let alone = files.iter().find(|file| play(std::slice::from_ref(file)).is_err());
    let Some(file) = alone else {
        panic!("seed {seed}: no file shows it alone, only the folder does: {why}");
    };
    let fails = |value: &Value| play(&[JobFile { name: file.name.clone(), value: value.clone() }]).is_err();
    let short = shrink_value(&file.value, SHRINK_TRIES_MAX, fails);
    let again = play(&[JobFile { name: file.name.clone(), value: short.clone() }]).err().unwrap_or_default();
    panic!("seed {seed}: {again}\n{}.yaml:\n{}", file.name, short.file());
}
