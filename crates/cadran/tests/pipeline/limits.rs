//! Keys of `fuzz.yaml` that bound time: how long commands may take, and how long things are kept.

use std::fs;

use super::home::{Home, said, text, texts};

const GOOD: &str = "echo '#!/bin/sh' > \"$CADRAN_OUT/fuzz\"";
const STATUS_LINE: &str = "echo '#7 NEW cov: 5 ft: 5 corp: 2/3b exec/s: 11 rss: 3Mb'";

/// Builds what waits and schedules it.
fn scheduled(home: &Home) {
    home.json(0, &["manager"]);
    home.json(0, &["builder", "--all"]);
    home.json(0, &["manager"]);
}

// covers: key fuzz_crashes.{timeout,minimise_timeout,ignore_frames}
#[test]
fn trying_and_minimising_a_crash_takes_no_longer_than_it_may() {
    let fuzz = format!("{STATUS_LINE}; echo input > \"$CADRAN_CRASHES/x\"; exit 77");
    let settings = |crashes: &str| {
        let home = Home::plain(GOOD, &fuzz, &format!("  after_crash: stop\ncrashes:\n{crashes}"));
        scheduled(&home);
        home.json(0, &["fuzzer"]);
        home.json(0, &["crashes"])["crashes"][0].clone()
    };
    // Each would take ten minutes, far longer than a fuzz run of 12 seconds has.
    let slow = settings("  reproduce: sleep 600\n  tries: 1\n  timeout: 1s\n");
    assert!(slow["id"].is_string(), "{slow}");
    let reproduce = "root=$(sed 's/.*\"root\":\"\\([^\"]*\\)\".*/\\1/' \"$CADRAN_BIN/cadran-build.json\"); \
                     echo '==1==ERROR: AddressSanitizer: heap-use-after-free on address 0x1'; \
                     echo \"    #0 0x1 in check_failed(int) $root/src/check.cpp:1:2\"; \
                     echo \"    #1 0x2 in parse(char const*) $root/src/parse.cpp:3:4\"; exit 1";
    let quoted = serde_json::to_string(reproduce).expect("text");
    let more = "  tries: 1\n  minimise: sleep 600\n  minimise_timeout: 1s\n";
    let plain = settings(&format!("  reproduce: {quoted}\n{more}"));
    assert!(text(&plain["title"]).contains("in check_failed"), "{plain}");
    let ignored = settings(&format!("  reproduce: {quoted}\n{more}  ignore_frames: [check_failed]\n"));
    assert!(text(&ignored["title"]).contains("in parse"), "{ignored}");
}

// covers: key fuzz_coverage.{timeout,max_age}
#[test]
fn a_map_that_takes_too_long_or_is_too_old_is_not_used() {
    let home = Home::plain(GOOD, STATUS_LINE, "coverage:\n  run: sleep 600\n  timeout: 1s\n");
    scheduled(&home);
    let cut = home.cadran(&["coverage"]);
    assert!(
        !cut.status.success() && said(&cut).contains("did not end within 1 s and was cut"),
        "{}",
        said(&cut)
    );
    let map = "  run: 'mkdir \"$CADRAN_OUT/corpus\"'\n";
    for (age, used) in [("1ms", false), ("1h", true)] {
        home.settings(GOOD, STATUS_LINE, &format!("coverage:\n{map}  max_age: {age}\n"));
        home.json(0, &["coverage"]);
        let run = home.cadran(&["fuzzer"]);
        assert!(run.status.success(), "{}", said(&run));
        assert_eq!(!said(&run).contains("old; the whole corpus is fuzzed"), used, "{age}: {}", said(&run));
    }
}

// covers: key fuzz_file.repository_timeout
#[test]
fn a_repository_that_does_not_answer_in_time_is_said() {
    let home = Home::plain(GOOD, STATUS_LINE, "repository_timeout: 1ms\n");
    let refused = home.refused(3, &["manager"]);
    assert!(refused.contains("repository"), "{refused}");
    // As when the pass was ended while git wrote to the new clone.
    let cache: Vec<_> =
        fs::read_dir(home.path("cache")).expect("there").map(|it| it.expect("an entry").path()).collect();
    let lock = cache
        .iter()
        .find(|path| path.extension().is_some_and(|it| it == "lock"))
        .expect("the lock of the clone");
    fs::create_dir_all(lock.with_extension("git")).expect("a directory");
    fs::remove_dir_all(lock.with_extension("git").join("objects")).ok();
    fs::write(lock.with_extension("git").join("config.lock"), "").expect("a file");
    home.settings(GOOD, STATUS_LINE, "repository_timeout: 1m\n");
    assert_eq!(texts(&home.json(0, &["manager"])["queued"]).len(), 1);
}

// covers: key fuzz_file.retention
// covers: key fuzz_retention.{binaries,missing_grace,events}
#[test]
fn what_is_old_goes_and_what_is_missing_counts_as_failed() {
    let home = Home::plain(GOOD, STATUS_LINE, "retention: {binaries: 1ms, events: 1ms}\n");
    scheduled(&home);
    assert_eq!(home.keys("builds/production/").len(), 1, "not fuzzed yet");
    home.json(0, &["fuzzer"]);
    let before = home.keys("fuzzing-state/events/");
    home.json(0, &["manager"]);
    let after = home.keys("fuzzing-state/events/");
    assert!(!before.is_empty() && before.iter().all(|key| !after.contains(key)), "{before:?} {after:?}");
    assert!(home.keys("builds/production/").is_empty(), "{:?}", home.keys("builds/"));
    let long = Home::plain(GOOD, STATUS_LINE, "retention: {missing_grace: 1ms}\n");
    long.json(0, &["manager"]);
    long.json(0, &["builder"]);
    let key = long.keys("builds/production/").remove(0);
    fs::remove_file(long.path("store/solvers/demo").join(key)).expect("it is there");
    long.json(0, &["manager"]);
    long.json(0, &["manager"]);
    let status = long.status();
    assert_eq!(status["failed"].as_array().map(Vec::len), Some(1), "{status}");
}

// covers: key fuzz_limits.fuzz_attempts
// covers: key fuzz_fuzz.runs_per_day
#[test]
fn a_commit_that_dies_too_often_stands_back_and_the_forecast_counts_runs() {
    let chosen = |more: &str| {
        let home = Home::plain(GOOD, "exit 3", more);
        home.commit("src/a.cpp", "2");
        scheduled(&home);
        let commit = || text(&home.json(1, &["fuzzer"])["commit"]);
        (commit(), commit())
    };
    let (first, second) = chosen("limits: {fuzz_attempts: 1}\n");
    assert_ne!(first, second);
    let (first, second) = chosen("limits: {fuzz_attempts: 3}\n");
    assert_eq!(first, second);
    let forecast = |runs: u32| {
        let home = Home::plain(GOOD, STATUS_LINE, &format!("  runs_per_day: {runs}\n"));
        scheduled(&home);
        home.status()["forecast"].to_string()
    };
    assert_ne!(forecast(1), forecast(24));
}
