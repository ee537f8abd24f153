//! The example project through the whole pipeline, with clang and libFuzzer: detected, built, fuzzed, crash found,
//! bisected to its commit, fix verified.

use std::path::Path;
use std::process::Command;

use super::home::{Home, said, text, texts};

/// Set by `cargo xtask test` when clang is there. Without it the test fails, so that nobody believes it passed.
const CLANG: &str = "CADRAN_TEST_CLANG";
const SKIP: &str = "CADRAN_SKIP_CLANG";

fn has_clang() -> bool {
    if std::env::var_os(SKIP).is_some() {
        eprintln!("{SKIP}: passed over");
        return false;
    }
    assert!(
        std::env::var_os(CLANG).is_some(),
        "{CLANG} is not set; run `cargo xtask test`, or go without: {SKIP}=1"
    );
    true
}

/// The first `count` commits of the example.
fn grow(home: &Home, count: usize) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/fuzz/make-repository.sh");
    let output =
        Command::new(script).arg(home.path("repo")).arg(count.to_string()).output().expect("it starts");
    assert!(output.status.success(), "{}", said(&output));
}

#[test]
fn the_example_goes_through_the_whole_pipeline() {
    if !has_clang() {
        return;
    }
    let home = Home::new();
    grow(&home, 3);
    home.init();
    home.edit(&[
        ("duration: 6h", "duration: 60s"),
        ("stop_buffer: 5m", "stop_buffer: 20s"),
        ("after_crash: continue", "after_crash: stop"),
        ("minimise_timeout: 60s", "minimise_timeout: 4s"),
        // So many executions are enough here, and a slow machine has its time limit.
        (
            "-max_total_time=\"$CADRAN_SECONDS\" -artifact_prefix",
            "-runs=200000 -max_total_time=\"$CADRAN_SECONDS\" -artifact_prefix",
        ),
    ]);

    // Detected: the third commit changes no source.
    let pass = home.json(0, &["manager"]);
    let commits: Vec<String> =
        home.git(&["log", "--reverse", "--format=%H"]).lines().map(Into::into).collect();
    assert_eq!(texts(&pass["queued"]), [commits[0].as_str(), commits[1].as_str()]);
    grow(&home, 7);
    let commits: Vec<String> =
        home.git(&["log", "--reverse", "--format=%H"]).lines().map(Into::into).collect();
    let pass = home.json(0, &["manager"]);
    assert_eq!(texts(&pass["queued"]), commits[3..7]);
    let (planted, broken, repaired, fixed) = (&commits[3], &commits[4], &commits[5], &commits[6]);

    // Built, but for the one that does not.
    let built = home.json(0, &["builder", "--all"]);
    let outcomes: Vec<String> =
        built.as_array().expect("lines").iter().map(|line| text(&line["outcome"])).collect();
    assert_eq!(outcomes, ["built", "built", "built", "failed", "built", "built", "nothing"]);
    let status = home.status();
    assert_eq!(text(&status["failed"][0]["hash"]), *broken);
    let log = home.object(&format!("logs/{broken}/build-1-production.log"));
    assert!(log.contains("no member named 'sum'"), "{log}");
    let pass = home.json(0, &["manager"]);
    assert_eq!(pass["handed_over"], 5);

    // Fuzzed, and the crash is found.
    let run = home.json(0, &["fuzzer", "--commit", &planted[..10]]);
    assert_eq!(run["outcome"], "fuzzed", "{run}");
    let ids = texts(&run["report"]["crashes_new"]);
    assert_eq!(ids.len(), 1, "{run}");
    let id = ids[0].as_str();
    let crash = home.json(0, &["crashes", id]);
    assert_eq!(text(&crash["title"]), "heap-buffer-overflow in read_title, src/record.cpp");
    assert_eq!((&crash["reproduced"], &crash["tries"]), (&3.into(), &3.into()));
    // Letters, kind and length, and one byte too many.
    assert!(crash["input_bytes"].as_u64().is_some_and(|bytes| (21..64).contains(&bytes)), "{crash}");

    // Bisected to its commit, over the one that does not build and the one that changes no source.
    let found = home.json(0, &["bisect", id]);
    assert_eq!(text(&found["found"]["commit"]), *planted, "{found}");
    assert_eq!(text(&found["found"]["after"]), commits[1]);
    assert!(found["found"]["untried"].is_null(), "{found}");

    // The fix is verified by the next run of a later commit, and found as a commit.
    let run = home.json(0, &["fuzzer", "--commit", fixed]);
    assert_eq!(run["outcome"], "fuzzed", "{run}");
    assert_eq!(texts(&run["report"]["crashes_fixed"]), [id]);
    assert!(texts(&run["report"]["crashes_new"]).is_empty(), "{run}");
    assert!(run["report"]["executions"].as_u64().is_some_and(|count| count > 1000), "{run}");
    let found = home.json(0, &["bisect", id, "--fix"]);
    assert_eq!(text(&found["found"]["commit"]), *fixed, "{found}");
    assert_eq!(text(&found["found"]["after"]), *repaired);
    let retested = home.json(0, &["retest", id]);
    assert_eq!(
        (text(&retested["commit"]), text(&retested["crashes"][0]["status"])),
        (fixed.clone(), "fixed".into())
    );

    // The corpus is one pack by now, and a map says which of it is worth fuzzing.
    assert_eq!(home.keys("corpus/").len(), 1);
    let map = home.json(0, &["coverage"]);
    assert_eq!(map["outcome"], "mapped", "{map}");
    assert!(map["report"]["kept"].as_u64().is_some_and(|kept| kept > 1), "{map}");
    let run = home.json(0, &["fuzzer", "--commit", &commits[1]]);
    assert_eq!(run["report"]["mapped"], true, "{run}");

    // Counts rose once each, and nobody holds anything any more.
    let mut schedule = home.schedule();
    schedule.sort();
    let mut expected = vec![
        (planted.clone(), 1),
        (fixed.clone(), 1),
        (commits[1].clone(), 1),
        (commits[0].clone(), 0),
        (repaired.clone(), 0),
    ];
    // A run of the fuzzer takes its commit out again when all were fuzzed at most once and there are more than four.
    expected.retain(|(hash, _)| schedule.iter().any(|(other, _)| other == hash));
    expected.sort();
    assert_eq!(schedule, expected);
    assert!(schedule.len() >= 4);
    let status = home.status();
    assert_eq!(status["claims"].as_array().map(Vec::len), Some(0), "{status}");
    for kind in ["production", "coverage"] {
        let digest = home.object(&format!("logs/{planted}/{kind}.sha256"));
        assert!(digest.ends_with(&format!("  {planted}.tar.gz\n")), "{digest}");
    }
}
