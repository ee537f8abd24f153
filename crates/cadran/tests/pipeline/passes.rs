//! Single passes with shell lines for builds and fuzzers: limits, stops, kills, what is saved and what is counted.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::home::{Home, is_alive, said, text, texts, wait_for};

const GOOD: &str = "echo '#!/bin/sh' > \"$CADRAN_OUT/fuzz\"";
const STATUS_LINE: &str = "echo '#7 NEW cov: 5 ft: 5 corp: 2/3b exec/s: 11 rss: 3Mb'";

/// Builds the only commit and schedules it.
fn scheduled(home: &Home) -> String {
    home.json(0, &["manager"]);
    assert_eq!(home.json(0, &["builder"])["outcome"], "built");
    home.json(0, &["manager"]);
    home.schedule()[0].0.clone()
}

// covers: option fuzz builder --commit
#[test]
fn h14_what_the_compiler_says_is_told_from_what_happens_to_it() {
    let home = Home::plain(GOOD, "true", "");
    let check = |line: &str, outcome: &str, code: i32, why: &str| {
        home.settings(line, "true", "");
        let hash = home.commit("src/a.cpp", line);
        home.json(0, &["manager"]);
        let built = home.json(code, &["builder", "--commit", &hash]);
        assert_eq!(text(&built["outcome"]), outcome, "{line}: {built}");
        assert!(built["reason"].as_str().unwrap_or_default().contains(why), "{line}: {built}");
    };
    check("echo wrong >&2; exit 1", "failed", 0, "exit code 1: wrong");
    check("true", "failed", 0, "put nothing into $CADRAN_OUT");
    check("no-such-compiler", "trouble", 1, "could not be run (exit code 127)");
    check("kill -9 $$", "trouble", 1, "ended by signal 9");
    check("sh -c 'kill -9 $$'; exit 137", "trouble", 1, "ended by signal 9");
    check("echo 'a.o: No space left on device' >&2; exit 1", "trouble", 1, "the disk is full");
    check(GOOD, "built", 0, "");
}

// covers: command fuzz retry
// covers: option fuzz retry HASH
#[test]
fn h14_trouble_is_tried_three_times_and_a_poison_head_does_not_block() {
    let home = Home::plain("kill -9 $$", "true", "");
    home.json(0, &["manager"]);
    for _ in 0..3 {
        assert_eq!(home.json(1, &["builder"])["outcome"], "trouble");
    }
    let status = home.status();
    assert!(status["queue"].as_array().is_some_and(Vec::is_empty), "{status}");
    assert!(text(&status["failed"][0]["reason"]).contains("3 attempts"), "{status}");
    let hash = text(&status["failed"][0]["hash"]);
    // Each attempt has left its log with the commit.
    assert_eq!(home.keys(&format!("logs/{hash}/build-")).len(), 3);
    // By hand it is tried again.
    home.settings(GOOD, "true", "");
    assert_eq!(home.json(0, &["retry", &hash])["answer"], "added");
    assert_eq!(home.json(0, &["builder"])["outcome"], "built");
}

// covers: key fuzz_build.timeout
#[test]
fn a_build_that_never_ends_is_cut_with_its_whole_tree() {
    // One child ignores the request, one left the session.
    let line = "trap '' TERM; (setsid sh -c 'echo $$ >> \"$0\"; exec sleep 1000' PIDS &); \
                sh -c 'trap \"\" TERM; echo $$ >> PIDS; while :; do sleep 1; done' & while :; do sleep 1; done";
    let home = Home::plain("true", "true", "");
    let pids = home.path("pids");
    home.settings(&line.replace("PIDS", &pids.display().to_string()), "true", "");
    home.edit(&[("timeout: 20s", "timeout: 2s")]);
    home.json(0, &["manager"]);
    let built = home.json(1, &["builder"]);
    assert!(text(&built["reason"]).contains("did not end within 2 s and was cut"), "{built}");
    let pids = fs::read_to_string(pids).expect("they were started");
    assert_eq!(pids.lines().count(), 2);
    for pid in pids.lines() {
        assert!(!is_alive(pid), "{pid} is alive");
    }
}

#[test]
fn h04_a_fuzzer_that_ignores_its_own_limit_is_ended_from_outside_and_counts() {
    let line = format!("{STATUS_LINE}; echo $$ > PID; trap '' TERM; while :; do sleep 1; done");
    let home = Home::plain(GOOD, "true", "");
    let pid = home.path("pid");
    home.settings(GOOD, &line.replace("PID", &pid.display().to_string()), "");
    let hash = scheduled(&home);
    let run = home.json(0, &["fuzzer"]);
    assert_eq!((text(&run["outcome"]), text(&run["report"]["commit"])), ("fuzzed".into(), hash.clone()));
    assert_eq!(run["report"]["executions"], 7);
    assert!(!is_alive(&fs::read_to_string(pid).expect("it ran")));
    assert_eq!(home.schedule(), [(hash, 1)]);
}

#[test]
fn h27_a_run_that_dies_before_it_fuzzes_does_not_count() {
    let home = Home::plain(GOOD, "echo no map >&2; exit 3", "");
    let hash = scheduled(&home);
    let run = home.json(1, &["fuzzer"]);
    assert_eq!(run["outcome"], "died");
    assert!(text(&run["reason"]).contains("exit code 3): no map"), "{run}");
    assert_eq!(home.schedule(), [(hash, 0)]);
}

// covers: key fuzz_file.crashes
// covers: key fuzz_crashes.{reproduce,minimise,tries}
// covers: key fuzz_fuzz.after_crash
// covers: command fuzz crashes
// covers: option fuzz crashes CRASH
// covers: option fuzz crashes --{save,merge-into,title,open}
#[test]
fn crashes_are_reproduced_bucketed_minimised_and_counted_once_per_run() {
    // Two inputs that crash alike, one that does not crash again, one elsewhere.
    let fuzz = "echo '#9 NEW cov: 1 ft: 1 corp: 1/1b exec/s: 1 rss: 1Mb'; cd \"$CADRAN_CRASHES\"; \
                echo parse-long-input > a; echo parse-other > b; echo flaky > c; echo write > d; exit 77";
    let reproduce = "case $(cat \"$CADRAN_INPUT\") in parse*) f=parse;; write) f=write;; *) exit 0;; esac; \
                     echo '==1==ERROR: AddressSanitizer: heap-use-after-free on address 0x1'; \
                     root=$(sed 's/.*\"root\":\"\\([^\"]*\\)\".*/\\1/' \"$CADRAN_BIN/cadran-build.json\"); \
                     echo \"    #0 0x1 in $f(char const*) $root/src/$f.cpp:1:2\"; exit 1";
    let minimise = "echo parse > \"$CADRAN_OUTPUT\"";
    let quoted = |text: &str| serde_json::to_string(text).expect("text");
    let crashes = format!(
        "  after_crash: stop\ncrashes:\n  reproduce: {}\n  minimise: {}\n  tries: 2\n",
        quoted(reproduce),
        quoted(minimise)
    );
    let home = Home::plain(GOOD, fuzz, &crashes);
    let hash = scheduled(&home);
    let run = home.json(0, &["fuzzer"]);
    assert_eq!(texts(&run["report"]["crashes_new"]).len(), 3, "{run}");
    assert_eq!(home.json(0, &["crashes", "--open"])["crashes"].as_array().map(Vec::len), Some(2));
    let all = home.json(0, &["crashes"]);
    let rows: Vec<String> = all["crashes"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|crash| {
            let number = |name: &str| crash[name].as_u64().unwrap_or(u64::MAX);
            format!(
                "{} {}/{} {} x{} {}",
                text(&crash["status"]),
                number("reproduced"),
                number("tries"),
                text(&crash["title"]),
                number("sightings"),
                number("input_bytes")
            )
        })
        .collect();
    let has = |row: &str| assert!(rows.contains(&row.to_owned()), "{row} in {rows:#?}");
    // The smaller input of the first is kept for both.
    has("open 2/2 heap-use-after-free in parse, src/parse.cpp x2 6");
    // What the minimiser made of it crashes elsewhere, so the input stays as it was.
    has("open 2/2 heap-use-after-free in write, src/write.cpp x1 6");
    has("unconfirmed 0/2 crash x1 6");
    assert_eq!(home.schedule(), [(hash, 1)]);

    // Buckets can be edited: both are one from now on.
    let ids: Vec<String> = all["crashes"]
        .as_array()
        .expect("a list")
        .iter()
        .filter(|crash| crash["status"] == "open")
        .map(|crash| text(&crash["id"]))
        .collect();
    home.json(0, &["crashes", &ids[0], "--merge-into", &ids[1]]);
    home.json(0, &["fuzzer"]);
    let open = home.json(0, &["crashes", "--open"]);
    assert_eq!(open["crashes"].as_array().map(Vec::len), Some(1));
    assert_eq!(open["crashes"][0]["sightings"], 6);
    let titled = home.json(0, &["crashes", &ids[1], "--title", "two of a kind"]);
    assert_eq!(titled["title"], "two of a kind");
    let saved = home.path("input");
    home.json(0, &["crashes", &ids[1], "--save", &saved.display().to_string()]);
    assert_eq!(fs::metadata(saved).expect("saved").len(), 6);
}

// covers: key fuzz_fuzz.seeds
// covers: option fuzz fuzzer --commit
#[test]
fn an_input_of_the_corpus_that_crashes_does_not_hold_up_the_run() {
    // Ends at the first bad input, as fuzzers do while they read their corpus.
    let fuzz = format!(
        "for f in \"$CADRAN_CORPUS\"/*; do grep -q bad \"$f\" && cp \"$f\" \"$CADRAN_CRASHES/\" && exit 77; done; {STATUS_LINE}"
    );
    let home = Home::plain(GOOD, &fuzz, "  seeds: seeds\n");
    for (name, content) in [("a", "bad 1"), ("b", "good"), ("c", "bad 2")] {
        home.commit(&format!("seeds/{name}"), content);
    }
    home.commit("src/a.cpp", "2");
    home.json(0, &["manager"]);
    let hash = home.git(&["rev-parse", "HEAD"]);
    let run = home.json(0, &["fuzzer", "--commit", hash.trim()]);
    assert_eq!((&run["report"]["rounds"], &run["report"]["executions"]), (&3.into(), &7.into()), "{run}");
    // They are in the corpus again when it goes up.
    assert_eq!(run["report"]["corpus"], 3, "{run}");
}

#[test]
fn a_stop_saves_what_was_found_and_gives_the_commit_back() {
    let fuzz = format!("echo found > \"$CADRAN_CORPUS/new\"; while :; do {STATUS_LINE}; sleep 0.1; done");
    let home = Home::plain(GOOD, &fuzz, "");
    home.edit(&[("duration: 12s", "duration: 1h")]);
    let hash = scheduled(&home);
    let mut child = home
        .command(&["fuzzer", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let pid = Pid::from_raw(child.id() as i32);
    let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
    // A line a person can read, while it goes on.
    let line =
        lines.by_ref().map_while(Result::ok).find(|line| line.contains("executions")).expect("progress");
    assert!(line.contains("7 executions, 11 a second, coverage 5 (+0), corpus 2, 0 crashes"), "{line}");
    kill(pid, Signal::SIGINT).expect("it is ours");
    assert!(lines.map_while(Result::ok).any(|line| line.contains("stopping")));
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130));
    let run: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(run["outcome"], "stopped");
    assert_eq!(run["report"]["corpus"], 1);
    assert_eq!(home.keys("corpus/").len(), 1);
    assert_eq!(home.schedule(), [(hash, 0)]);
    assert_eq!(home.status()["claims"].as_array().map(Vec::len), Some(0));
}

// covers: key fuzz_file.lease
#[test]
fn a_builder_that_is_killed_leaves_no_process_and_its_commit_to_the_next() {
    let home = Home::plain("true", "true", "");
    let (pids, gate) = (home.path("pids"), home.path("gate"));
    let line = format!(
        "[ -e {gate} ] && {GOOD} && exit; echo $$ > {pids}.new; mv {pids}.new {pids}; sleep 1000",
        gate = gate.display(),
        pids = pids.display()
    );
    home.settings(&line, "true", "lease: 2s\n");
    home.json(0, &["manager"]);
    let mut child = home.command(&["builder"]).stderr(Stdio::null()).spawn().expect("it starts");
    let pid = wait_for("the build", || fs::read_to_string(&pids).ok());
    child.kill().expect("it is ours");
    child.wait().expect("it ends");
    wait_for("its build to end", || (!is_alive(&pid)).then_some(()));
    fs::write(gate, "").expect("written");
    let built = wait_for("the lease to end", || {
        let built = home.json(0, &["builder"]);
        (built["outcome"] != "nothing").then_some(built)
    });
    assert_eq!(built["outcome"], "built");
    let status = home.status();
    assert_eq!(status["built"].as_array().map(Vec::len), Some(1), "{status}");
    // What the killed one left of its work tree is gone.
    let left = fs::read_dir(home.path("cache/work")).expect("there").count();
    assert_eq!(left, 0);
}

#[test]
fn a_fuzzer_whose_claim_is_lost_ends_its_run_and_does_not_count_it() {
    let home = Home::plain("true", "true", "");
    let (pids, gate) = (home.path("pids"), home.path("gate"));
    let fuzz = format!(
        "{STATUS_LINE}; [ -e {gate} ] && exit; echo $$ > {pids}.new; mv {pids}.new {pids}; while :; do sleep 1; done",
        gate = gate.display(),
        pids = pids.display()
    );
    home.settings(GOOD, &fuzz, "lease: 2s\n");
    home.edit(&[("duration: 12s", "duration: 1h")]);
    let hash = scheduled(&home);
    let child = home
        .command(&["fuzzer", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let pid = Pid::from_raw(child.id() as i32);
    let fuzzing = wait_for("the fuzzer", || fs::read_to_string(&pids).ok());
    // It stands still for longer than its lease, and another one takes over.
    kill(pid, Signal::SIGSTOP).expect("it is ours");
    fs::write(gate, "").expect("written");
    let other = wait_for("the lease to end", || {
        let run = home.json(0, &["fuzzer"]);
        (run["outcome"] != "nothing").then_some(run)
    });
    assert_eq!(other["outcome"], "fuzzed", "{other}");
    kill(pid, Signal::SIGCONT).expect("it is ours");
    let output = child.wait_with_output().expect("it ends");
    let run: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(run["outcome"], "lost", "{run}");
    assert!(!is_alive(&fuzzing), "the run goes on");
    assert_eq!(home.schedule(), [(hash, 1)], "counted by one of them");
}

#[test]
fn rule_03_h03_the_budget_counts_from_the_start_and_keeps_time_to_save() {
    let home = Home::plain(GOOD, "true", "");
    let told = home.path("told");
    let line = format!("{STATUS_LINE}; echo \"$CADRAN_SECONDS\" > {}", told.display());
    home.settings(GOOD, &line, "");
    scheduled(&home);
    assert_eq!(home.json(0, &["fuzzer"])["outcome"], "fuzzed");
    // 12 s, less 2 s to save what is found, less what getting ready took.
    let seconds: u64 = fs::read_to_string(told).expect("it ran").trim().parse().expect("a number");
    assert!((1..=10).contains(&seconds), "{seconds}");
    // Runs follow one another: a tick during a run waits for its end.
    fs::remove_file(home.path("fuzz.yaml")).expect("there");
    home.init();
    let job = fs::read_to_string(home.path("jobs/demo-fuzzer.yaml")).expect("written");
    assert!(job.contains("overlap: wait"), "{job}");
}

// covers: key fuzz_file.coverage
// covers: key fuzz_coverage.run
// covers: command fuzz coverage
#[test]
fn rule_27_h33_the_newest_map_chooses_inputs_and_none_stops_a_run() {
    let home = Home::plain(GOOD, "true", "");
    let seen = home.path("seen");
    let line = format!("{STATUS_LINE}; ls \"$CADRAN_CORPUS\" | wc -l > {}", seen.display());
    // A map that keeps one input.
    let map =
        r#"mkdir "$CADRAN_OUT/corpus"; cd "$CADRAN_CORPUS"; cp "$(ls | head -n 1)" "$CADRAN_OUT/corpus/""#;
    home.settings(GOOD, &line, &format!("  seeds: seeds\ncoverage:\n  run: '{map}'\n"));
    let commit = |seed: &str| {
        fs::create_dir_all(home.path("repo/seeds")).expect("made");
        fs::write(home.path("repo/seeds").join(seed), seed).expect("written");
        let hash = home.commit("src/b.cpp", seed);
        home.json(0, &["manager"]);
        assert_eq!(home.json(0, &["builder", "--commit", &hash])["outcome"], "built");
        home.json(0, &["manager"]);
        hash
    };
    let check = |hash: &str, why: &str, inputs: &str| {
        let run = home.cadran(&["fuzzer", "--commit", hash]);
        assert!(run.status.success() && said(&run).contains(why), "{why}: {}", said(&run));
        assert_eq!(fs::read_to_string(&seen).expect("it ran").trim(), inputs, "{why}");
    };
    commit("one");
    let hash = commit("two");
    check(&hash, "there is no coverage map yet; the whole corpus is fuzzed", "2");
    home.json(0, &["coverage"]);
    check(&hash, "leaves out 1 inputs", "1");
    // Other seeds: another map.
    let other = commit("three");
    check(&other, "the seeds of the project have changed", "1");
    assert_eq!(home.keys("coverage/").len(), 2);
    // All maps are of long ago.
    for key in home.keys("coverage/") {
        let dir = home.path("store/solvers/demo");
        let (_, rest) = key.split_once('-').expect("a moment first");
        fs::rename(dir.join(&key), dir.join(format!("coverage/0000000000001-{rest}"))).expect("renamed");
    }
    check(&other, "days old; the whole corpus is fuzzed", "3");
}

// covers: option fuzz manager --on-queued
#[test]
fn rule_02_h02_whoever_wants_to_know_is_told_that_the_queue_has_grown() {
    let home = Home::plain(GOOD, "true", "");
    let told = home.path("told");
    let line = format!("echo told >> {}", told.display());
    let times = || fs::read_to_string(&told).unwrap_or_default().lines().count();
    let manager = ["manager", "--on-queued", &line];
    assert_eq!(texts(&home.json(0, &manager)["queued"]).len(), 1);
    assert_eq!(times(), 1);
    home.json(0, &manager);
    assert_eq!(times(), 1, "nothing new");
    // What a person writes into the file counts, and so does what is asked for.
    let other = home.commit("README.md", "text");
    let key = "fuzzing-state/build-queue.json";
    let queue: serde_json::Value = serde_json::from_str(&home.object(key)).expect("JSON");
    let mut waiting = texts(&queue["queue"]);
    waiting.push(other[..8].to_owned());
    let text = serde_json::json!({ "queue": waiting }).to_string();
    fs::write(home.path("store/solvers/demo").join(key), text).expect("written");
    home.json(0, &manager);
    assert_eq!(times(), 2);
    let asked = home.commit("notes.md", "text");
    home.json(0, &["manager", "--commit", &asked, "--on-queued", &line]);
    assert_eq!(times(), 3);
    // The pass has done its work, whatever comes of the command.
    home.commit("src/a.cpp", "int b;\n");
    let output = home.cadran(&["manager", "--on-queued", "exit 3"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(
        said(&output).contains("--on-queued did not succeed: it ended with exit status: 3"),
        "{}",
        said(&output)
    );
}

// covers: key fuzz_file.layout
#[test]
fn the_passes_work_in_the_second_layout() {
    let home = Home::plain(GOOD, STATUS_LINE, "layout: v2\n");
    let hash = scheduled(&home);
    assert_eq!(home.json(0, &["fuzzer"])["outcome"], "fuzzed");
    let plan: serde_json::Value =
        serde_json::from_str(&home.object("fuzzing-state/fuzzing-schedulev2.json")).expect("JSON");
    assert_eq!(plan, serde_json::json!([{ "hash": hash, "fuzz_count": 1 }]));
    let queue = home.object("fuzzing-state/build-queue-v2.json");
    assert_eq!(queue.split_whitespace().collect::<String>(), "{\"queue\":[]}");
    assert_eq!(home.keys("builds/v2/").len(), 2);
    assert!(home.keys("builds/production/").is_empty());
}
