//! Bad input: every answer says what, and what to do next, and no state is lost.

use std::fs;

use super::home::{Home, text, texts};

const GOOD: &str = "echo '#!/bin/sh' > \"$CADRAN_OUT/fuzz\"";

#[test]
fn h29_hashes_that_are_none_are_refused() {
    let home = Home::plain(GOOD, "true", "");
    let tree = home.git(&["rev-parse", "HEAD^{tree}"]);
    let blob = home.git(&["rev-parse", "HEAD:src/a.cpp"]);
    let check = |hash: &str, why: &str| {
        for command in ["manager", "builder", "fuzzer", "coverage"] {
            let said = home.refused(4, &[command, "--commit", hash]);
            assert!(said.contains(why), "{command} {hash}: {said}");
        }
        assert!(home.refused(4, &["retry", hash]).contains(why));
    };
    check("0123456789abcdef0123456789abcdef01234567", "is in no history of this repository");
    check("abcdef0", "is in no history of this repository");
    check("HEAD", "7 to 40 hexadecimal digits");
    check(tree.trim(), "is a tree, not a commit");
    check(&blob.trim()[..12], "is a blob, not a commit");
    assert_eq!(home.status()["queue"].as_array().map(Vec::len), Some(0));
}

// covers: command fuzz manager
// covers: option fuzz manager --{commit,front}
#[test]
fn h30_a_commit_that_the_filter_leaves_out_is_taken_with_a_warning() {
    let home = Home::plain(GOOD, "true", "");
    let hash = home.commit("notes.cpp.md", "text");
    let output = home.cadran(&["manager", "--commit", &hash[..7].to_uppercase(), "--front"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&output.stderr).contains("warning:"));
    assert_eq!(texts(&home.status()["queue"]), [hash]);
}

#[test]
fn h09_a_force_push_starts_fresh_and_says_so() {
    let home = Home::plain(GOOD, "true", "");
    for text in ["1", "2", "3"] {
        home.commit("src/a.cpp", text);
    }
    home.json(0, &["manager"]);
    assert_eq!(home.status()["queue"].as_array().map(Vec::len), Some(4));
    // The branch is written anew from its first commit on; the clone in the cache still has the old one.
    home.git(&["reset", "--quiet", "--hard", "HEAD~3"]);
    let new = home.commit("src/a.cpp", "other");
    let pass = home.json(0, &["manager"]);
    assert_eq!(texts(&pass["queued"]), [new.as_str()], "{pass}");
    let status = home.status();
    assert_eq!(text(&status["last_checked_commit"]), new);
    let fresh = |pass: &serde_json::Value| {
        let events = pass["events"].as_array().cloned().unwrap_or_default();
        events
            .iter()
            .any(|event| event.to_string().contains("the branch was rewritten, or it is another one"))
    };
    assert!(fresh(&pass), "{pass}");

    // Another repository under the same address.
    fs::remove_dir_all(home.path("repo")).expect("removed");
    fs::create_dir(home.path("repo")).expect("made");
    home.git(&["init", "--quiet", "--initial-branch=main", "."]);
    let other = home.commit("lib/b.cc", "int b;\n");
    let pass = home.json(0, &["manager"]);
    assert_eq!(texts(&pass["queued"]), [other], "{pass}");
    assert!(fresh(&pass), "{pass}");
}

#[test]
fn a_repository_that_cannot_be_read_costs_nothing_else() {
    let home = Home::plain(GOOD, "true", "");
    home.json(0, &["manager"]);
    assert_eq!(home.json(0, &["builder"])["outcome"], "built");
    fs::rename(home.path("repo"), home.path("away")).expect("moved");
    let said = home.refused(3, &["manager"]);
    assert!(said.contains("the repository cannot be read"), "{said}");
    // The rest of the pass was done.
    assert_eq!(home.schedule().len(), 1);
    // The clone is enough for what is known.
    fs::rename(home.path("away"), home.path("repo")).expect("moved back");
    home.json(0, &["manager"]);
}

// covers: key fuzz_file.repository_mib_max
#[test]
fn a_repository_that_is_too_large_is_refused() {
    let home = Home::plain(GOOD, "true", "repository_mib_max: 1\n");
    // Does not compress.
    let mut state = 1_u64;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as u8
    })
    .take(3 << 20)
    .collect();
    fs::write(home.path("repo/noise"), noise).expect("written");
    home.commit("src/a.cpp", "2");
    let said = home.refused(3, &["manager"]);
    assert!(said.contains("larger than the limit of 1048576 bytes"), "{said}");
    assert!(home.status()["last_checked_commit"].is_null());
}

#[test]
fn nothing_of_the_repository_runs_before_the_build() {
    let home =
        Home::plain("test ! -e .git/modules && test ! -e sub/secret && echo > \"$CADRAN_OUT/x\"", "true", "");
    // A submodule that would be fetched by running a program, and a hook in a template directory of the caller.
    fs::write(
        home.path("repo/.gitmodules"),
        "[submodule \"sub\"]\n\tpath = sub\n\turl = ext::sh -c touch% ran\n",
    )
    .expect("written");
    let hash = home.git(&["rev-parse", "HEAD"]);
    fs::create_dir(home.path("repo/sub")).expect("made");
    home.git(&["update-index", "--add", "--cacheinfo", &format!("160000,{},sub", hash.trim())]);
    home.commit("src/a.cpp", "2");
    fs::create_dir_all(home.path("template/hooks")).expect("made");
    let hook = home.path("template/hooks/post-checkout");
    fs::write(&hook, format!("#!/bin/sh\ntouch {}\n", home.path("hooked").display())).expect("written");
    std::process::Command::new("chmod").arg("+x").arg(&hook).status().expect("it runs");
    let with = |args: &[&str]| {
        let mut command = home.command(args);
        command.env("GIT_TEMPLATE_DIR", home.path("template")).env("GIT_DIR", "/nowhere");
        let output = command.output().expect("it starts");
        assert_eq!(output.status.code(), Some(0), "{}", super::home::said(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    with(&["manager"]);
    let built = with(&["builder", "--all"]);
    assert!(built.contains("built") && !built.contains("not build"), "{built}");
    assert!(!home.path("hooked").exists() && !home.path("ran").exists() && !home.path("repo/ran").exists());
}

#[test]
fn a_bucket_that_vanishes_is_said_and_nothing_is_taken_for_missing() {
    let home = Home::plain(GOOD, "true", "");
    home.json(0, &["manager"]);
    assert_eq!(home.json(0, &["builder"])["outcome"], "built");
    home.json(0, &["manager"]);
    let before = home.schedule();
    assert_eq!(before.len(), 1);
    fs::rename(home.path("store"), home.path("gone")).expect("moved");
    for command in ["manager", "builder", "fuzzer", "status", "crashes"] {
        let output = home.cadran(&[command]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(matches!(output.status.code(), Some(2 | 3 | 5)), "{command}: {said}");
        assert!(said.contains("store"), "{command}: {said}");
    }
    assert!(!home.path("store").exists(), "nobody made a new one");
    fs::rename(home.path("gone"), home.path("store")).expect("moved back");
    assert_eq!(home.schedule(), before);
}

#[test]
fn a_binary_that_was_changed_in_the_store_is_not_run() {
    let home = Home::plain(GOOD, "true", "");
    home.json(0, &["manager"]);
    assert_eq!(home.json(0, &["builder"])["outcome"], "built");
    home.json(0, &["manager"]);
    let hash = home.schedule()[0].0.clone();
    let key = home.path(&format!("store/solvers/demo/builds/production/{hash}.tar.gz"));
    let other = home.path(&format!("store/solvers/demo/builds/coverage/{hash}.tar.gz"));
    fs::copy(other, key).expect("copied");
    let run = home.json(1, &["fuzzer"]);
    assert!(text(&run["reason"]).contains("it was damaged"), "{run}");
    assert_eq!(home.schedule(), [(hash, 0)]);
}

#[test]
fn mistakes_in_fuzz_yaml_have_their_place() {
    let home = Home::plain(GOOD, "true", "overlod: fair\n");
    let said = home.refused(2, &["status"]);
    assert!(said.contains("unknown key `overlod`") && said.contains("fuzz.yaml:13:1"), "{said}");
    assert!(said.contains("did you mean `overload`?"), "{said}");
    let said = home.refused(2, &["status", "--config", "nowhere.yaml"]);
    assert!(said.contains("nowhere.yaml") && said.contains("cadran fuzz init"), "{said}");
    let said = home.refused(5, &["init", "--target", "demo", "--repo", "repo", "--store", "file:///tmp"]);
    assert!(said.contains("exists already; nothing was written"), "{said}");
    assert!(!home.path("jobs/demo-manager.yaml").exists());
    let said = home.refused(2, &["init", "--target", "a/b", "--repo", "x", "--store", "file:///tmp"]);
    assert!(said.contains("is no name for a target"), "{said}");
    let said = home.refused(
        2,
        &["init", "--target", "a", "--repo", "ext::sh", "--store", "file:///tmp", "--dir", "new"],
    );
    assert!(said.contains("ext:: is not an address"), "{said}");
    assert!(!home.path("new").exists());
}
