//! The options that all commands of the pipeline share, and keys of `fuzz.yaml` that no other test looks at.

use std::fs;
use std::process::Command;

use super::home::{Home, said, text, texts};

const GOOD: &str = "echo '#!/bin/sh' > \"$CADRAN_OUT/fuzz\"";
const STATUS_LINE: &str = "echo '#7 NEW cov: 5 ft: 5 corp: 2/3b exec/s: 11 rss: 3Mb'";

/// A target whose second commit crashes and whose third one does not, all built, the crash found.
fn crashed(more: &str) -> (Home, Vec<String>, String) {
    let build = "cp src/a.cpp \"$CADRAN_OUT/fuzz\"";
    let fuzz = format!(
        "{STATUS_LINE}; grep -q bad \"$CADRAN_BIN/fuzz\" && echo input > \"$CADRAN_CRASHES/x\" && exit 77; true"
    );
    let crashes =
        format!("  after_crash: stop\ncrashes:\n  reproduce: '! grep -q bad \"$CADRAN_BIN/fuzz\"'\n{more}");
    let home = Home::plain(build, &fuzz, &crashes);
    let mut commits = vec![home.git(&["rev-parse", "HEAD"]).trim().to_owned()];
    commits.push(home.commit("src/a.cpp", "bad\n"));
    commits.push(home.commit("src/a.cpp", "good\n"));
    home.json(0, &["manager"]);
    home.json(0, &["builder", "--all"]);
    home.json(0, &["manager"]);
    let run = home.json(0, &["fuzzer", "--commit", &commits[1]]);
    let crash = texts(&run["report"]["crashes_new"]).first().cloned().unwrap_or_else(|| panic!("{run}"));
    (home, commits, crash)
}

/// Gives the newest commit another moment.
fn amend_at(home: &Home, moment: &str) {
    let words =
        ["-c", "user.name=A", "-c", "user.email=a@example.org", "commit", "--quiet", "--amend", "--no-edit"];
    let amended = Command::new("git")
        .args(words)
        .env("GIT_COMMITTER_DATE", moment)
        .current_dir(home.path("repo"))
        .status();
    assert!(amended.expect("git starts").success());
}

// covers: command fuzz
// covers: command fuzz {builder,fuzzer,status,bisect,retest}
// covers: option fuzz {manager,builder,fuzzer,coverage,status,crashes,bisect,retry,retest} --{config,target,cache,json}
// covers: option fuzz builder --all
// covers: option fuzz fuzzer --fail-on-crash
// covers: option fuzz coverage --commit
// covers: option fuzz bisect CRASH
// covers: option fuzz bisect --{fix,build}
// covers: option fuzz retest CRASH
// covers: option fuzz retest --{commit,fuzz}
#[test]
fn every_pass_takes_its_target_from_anywhere() {
    let (home, commits, crash) = crashed("coverage:\n  run: 'echo > \"$CADRAN_OUT/map\"'\n");
    let config = home.path("fuzz.yaml").display().to_string();
    let cache = home.path("another-cache").display().to_string();
    let elsewhere = tempfile::tempdir().expect("a directory");
    let cadran = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cadran"));
        command.arg("fuzz").args(words).current_dir(elsewhere.path());
        command.env_remove("CADRAN_FUZZ_CACHE").env_remove("CADRAN_FUZZ_CONFIG").output().expect("it starts")
    };
    for (words, code) in [
        (vec!["manager"], 0),
        (vec!["builder", "--all"], 0),
        (vec!["fuzzer", "--commit", &commits[1], "--fail-on-crash"], 1),
        (vec!["coverage", "--commit", &commits[2]], 0),
        (vec!["status"], 0),
        (vec!["crashes", &crash], 0),
        (vec!["bisect", &crash], 0),
        (vec!["retest", &crash, "--commit", &commits[2]], 0),
        (vec!["bisect", &crash, "--fix", "--build"], 0),
        (vec!["retest", "--fuzz", &commits[0]], 0),
        // None of them failed, so there is nothing to put back.
        (vec!["retry", &commits[0]], 4),
    ] {
        let with = |more: &[&str]| cadran(&[&words[..], more].concat());
        let output = with(&["--config", &config, "--target", "demo", "--cache", &cache, "--json"]);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {}", said(&output));
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            serde_json::from_str::<serde_json::Value>(line).unwrap_or_else(|_| panic!("{words:?}: {line}"));
        }
        let nowhere = with(&["--config", "/nonexistent/fuzz.yaml"]);
        assert!(
            !nowhere.status.success() && said(&nowhere).contains("/nonexistent/fuzz.yaml"),
            "{words:?}: {}",
            said(&nowhere)
        );
        let other = with(&["--config", &config, "--target", "other"]);
        assert!(!other.status.success() && said(&other).contains("other"), "{words:?}: {}", said(&other));
        let none = with(&[]);
        assert!(!none.status.success() && said(&none).contains("fuzz.yaml"), "{words:?}: {}", said(&none));
    }
    assert!(fs::read_dir(&cache).expect("the cache was used").count() > 0);
    let found = home.json(0, &["bisect", &crash]);
    assert_eq!(text(&found["found"]["commit"]), commits[1], "{found}");
    let found = home.json(0, &["bisect", &crash, "--fix"]);
    assert_eq!(text(&found["found"]["commit"]), commits[2], "{found}");
    assert_eq!(text(&home.json(0, &["retest", &crash])["crashes"][0]["status"]), "fixed");
    assert_eq!(
        home.schedule().iter().find(|(hash, _)| *hash == commits[0]).map(|(_, count)| *count),
        Some(0)
    );
}

// covers: command fuzz init
// covers: option fuzz init --{target,repo,store,branch,dir,json}
#[test]
fn init_writes_a_target_that_works_and_nothing_over_another() {
    let home = Home::plain(GOOD, STATUS_LINE, "");
    let (repo, store) =
        (home.path("repo").display().to_string(), format!("file://{}", home.path("store").display()));
    let words = [
        "init", "--target", "fresh", "--repo", &repo, "--store", &store, "--branch", "main", "--dir", "made",
    ];
    let made = home.cadran(&[&words[..], &["--json"]].concat());
    serde_json::from_slice::<serde_json::Value>(&made.stdout).unwrap_or_else(|_| panic!("{}", said(&made)));
    let written = fs::read_to_string(home.path("made/fuzz.yaml")).expect("written");
    assert!(written.contains("branch: ") && written.contains("main"), "{written}");
    assert!(home.path("made/jobs/fresh-manager.yaml").exists());
    let status = home.json(0, &["status", "--config", "made/fuzz.yaml", "--target", "fresh"]);
    assert!(status["queue"].as_array().is_some_and(Vec::is_empty), "{status}");
    let again = home.cadran(&words);
    assert!(!again.status.success() && said(&again).contains("exists already"), "{}", said(&again));
    let wrong = home.cadran(&["init", "--target", "a/b", "--repo", &repo, "--store", &store]);
    assert!(!wrong.status.success(), "{}", said(&wrong));
}

// covers: key fuzz_file.{target,repository,branch,store,files,history,only_today,pass_env,build,fuzz}
// covers: key fuzz_build.{production,coverage}
// covers: key fuzz_fuzz.{run,duration,stop_buffer,grace,merge}
#[test]
fn a_target_builds_and_fuzzes_as_its_file_says() {
    let home = Home::plain(GOOD, STATUS_LINE, "");
    home.git(&["checkout", "--quiet", "-b", "dev"]);
    let first = home.commit("src/b.zig", "1");
    home.git(&["checkout", "--quiet", "-b", "side"]);
    home.commit("src/c.zig", "2");
    home.git(&["checkout", "--quiet", "dev"]);
    home.commit("src/d.cpp", "3");
    home.git(&["merge", "--quiet", "--no-ff", "--message", "merged", "side"]);
    let settings = |more: &str| {
        let (repo, store) =
            (home.path("repo").display().to_string(), home.path("store").display().to_string());
        let text = format!(
            "target: demo\nrepository: {repo}\nbranch: dev\nstore: file://{store}\nfiles: [.zig]\npass_env: [MARK]\n{more}\n\
             build:\n  production: 'echo \"$MARK\" > \"$CADRAN_OUT/fuzz\"'\n  coverage: 'echo coverage > \"$CADRAN_OUT/cov\"'\n\
             fuzz:\n  run: '{}; cat \"$CADRAN_BIN/fuzz\" > {}; for i in 1 2 3; do echo $i > \"$CADRAN_CORPUS/$i\"; done'\n  \
             duration: 20s\n  stop_buffer: 2s\n  grace: 300ms\n  merge: 'cp \"$CADRAN_CORPUS/2\" \"$CADRAN_OUT/\"'\n",
            STATUS_LINE.replace('\'', "''"),
            home.path("ran").display()
        );
        fs::write(home.path("fuzz.yaml"), text).expect("written");
    };
    let queue = |more: &str| {
        let _ = fs::remove_dir_all(home.path("store"));
        fs::create_dir(home.path("store")).expect("made");
        settings(more);
        texts(&home.json(0, &["manager"])["queued"])
    };
    let (all, own) = (queue("history: all"), queue("history: first-parent"));
    assert_eq!((all.len(), own.len()), (3, 2), "{all:?} {own:?}");
    assert!(own.iter().all(|hash| all.contains(hash)), "the branch itself, and the side commit with it");
    assert!(own.contains(&first));
    // A first look takes what is there; from then on commits of other days are left out.
    settings("only_today: true");
    home.commit("src/e.zig", "4");
    amend_at(&home, "2020-01-01T00:00:00Z");
    let old = home.git(&["rev-parse", "HEAD"]).trim().to_owned();
    let new = home.commit("src/e.zig", "5");
    let queued = texts(&home.json(0, &["manager"])["queued"]);
    assert!(queued == [new] && !queued.contains(&old), "{queued:?}");
    settings("history: first-parent");
    let built = home
        .command(&["builder", "--commit", &first, "--json"])
        .env("MARK", "marked")
        .output()
        .expect("it starts");
    assert!(built.status.success(), "{}", said(&built));
    home.json(0, &["manager"]);
    let run = home.json(0, &["fuzzer", "--commit", &first]);
    assert_eq!((&run["outcome"], &run["report"]["corpus"]), (&"fuzzed".into(), &1.into()), "{run}");
    assert_eq!(fs::read_to_string(home.path("ran")).expect("it ran").trim(), "marked");
    assert_eq!(home.keys("corpus/").len(), 1);
}

// covers: key fuzz_file.{limits,overload}
// covers: key fuzz_limits.{commits_per_pass,fresh_commits,failed,build_attempts,schedule_max,schedule_min}
#[test]
fn the_state_keeps_to_its_limits() {
    let home = Home::plain(GOOD, STATUS_LINE, "limits: {commits_per_pass: 2, fresh_commits: 3}\n");
    home.json(0, &["manager"]);
    for no in 0..5 {
        home.commit("src/a.cpp", &no.to_string());
    }
    assert_eq!(texts(&home.json(0, &["manager"])["queued"]).len(), 2);
    assert_eq!(texts(&home.json(0, &["manager"])["queued"]).len(), 2);
    assert_eq!(texts(&home.json(0, &["manager"])["queued"]).len(), 1);

    let fresh = Home::plain(GOOD, STATUS_LINE, "limits: {fresh_commits: 3}\n");
    for no in 0..5 {
        fresh.commit("src/a.cpp", &no.to_string());
    }
    assert_eq!(texts(&fresh.json(0, &["manager"])["queued"]).len(), 3);

    let failing = Home::plain("kill -9 $$", STATUS_LINE, "limits: {build_attempts: 1, failed: 2}\n");
    for no in 0..3 {
        failing.commit("src/a.cpp", &no.to_string());
    }
    failing.json(0, &["manager"]);
    for _ in 0..4 {
        failing.json(1, &["builder"]);
    }
    let status = failing.status();
    assert_eq!(status["failed"].as_array().map(Vec::len), Some(2), "{status}");

    let full = Home::plain(
        GOOD,
        STATUS_LINE,
        "overload: newest-first\nlimits: {schedule_min: 1, schedule_max: 2}\n",
    );
    let mut newest = String::new();
    for no in 1..5 {
        full.commit("src/a.cpp", &no.to_string());
        amend_at(&full, &format!("2026-01-0{no}T00:00:00Z"));
        newest = full.git(&["rev-parse", "HEAD"]).trim().to_owned();
    }
    full.json(0, &["manager"]);
    assert_eq!(text(&full.json(0, &["builder"])["commit"]), newest);
    full.json(0, &["builder", "--all"]);
    full.json(0, &["manager"]);
    assert_eq!(full.schedule().len(), 2);
    // What was just fuzzed leaves a schedule that is longer than its minimum.
    full.json(0, &["fuzzer"]);
    assert_eq!(full.schedule().len(), 1);
}
