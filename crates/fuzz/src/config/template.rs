//! What `cadran fuzz init` writes: a commented `fuzz.yaml`, and the job files of the four passes.

use std::fmt::Write as _;
use std::path::Path;

use crate::TargetName;

/// What is asked for.
#[derive(Clone, Debug)]
pub struct InitOptions {
    /// The name of the target.
    pub target: TargetName,
    /// The repository.
    pub repository: String,
    /// Its branch.
    pub branch: String,
    /// The store.
    pub store: String,
}

/// A job file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobFile {
    /// Its name in the jobs folder.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// A `fuzz.yaml` with every setting explained. It works as it is for a project with its sources in `src`, its fuzz
/// target in `fuzz` and clang on the machine.
pub fn template(options: &InitOptions) -> String {
    let InitOptions { target, repository, branch, store } = options;
    let mut text = String::new();
    let _ = write!(
        text,
        "\
# One fuzz target: every commit of a repository is built, fuzzed and remembered.
# `cadran fuzz status` reads this file and shows where things stand.
target: {target}
repository: {}
branch: {}

# Where the state, the binaries, the corpus and the crashes live: s3://BUCKET/PREFIX (with ?endpoint=http://… for a
# server of your own) or file:///DIRECTORY. Several machines may share it. S3 keys come from the AWS_… variables.
store: {}
# How often a request that failed is repeated when the store is away. Conflicts with other writers are repeated by time.
store_retries: 3
# Names of the state files: `v1` is state.json, build-queue.json, fuzzing-schedule.json; `v2` is what later versions of
# the original tools use: statev2.json, build-queue-v2.json (with `queue` only), fuzzing-schedulev2.json, builds/v2/.
layout: v1
",
        quoted(repository),
        quoted(branch),
        quoted(store),
    );
    text.push_str(BODY);
    text
}

const BODY: &str = r#"
# Which commits are worth a build: those that change a file with one of these endings (the last one counts).
files: [.cpp, .cc, .cxx, .c, .h, .hpp, .hxx, .hh]
# `first-parent` follows the branch itself, a merge is one commit; `all` takes commits of merged branches too.
history: first-parent
# Only commits of the current day (UTC)? Loses what comes at midnight or during an outage.
only_today: false
submodules: false

# Commands are lines for /bin/sh. They see PATH, HOME and the like, what `pass_env` names, and:
#   CADRAN_COMMIT   the full hash                  CADRAN_TARGET    the target
#   CADRAN_OUT      where results go               CADRAN_BIN       where the binaries of the commit are
#   CADRAN_CORPUS   the inputs                     CADRAN_SECONDS   the time there is
# pass_env: [CC, CXX]

# Run in a work tree of the commit. What is put into $CADRAN_OUT is kept. A command that ends with an error is a build
# that failed; one that runs out of time, or is killed, is tried again, three times in all.
build:
  production: >-
    clang++ -std=c++17 -g -O1 -fno-omit-frame-pointer -fsanitize=fuzzer,address
    src/*.cpp fuzz/*.cpp -o "$CADRAN_OUT/fuzz"
  coverage: >-
    clang++ -std=c++17 -g -O1 -fsanitize=fuzzer -fprofile-instr-generate -fcoverage-mapping
    src/*.cpp fuzz/*.cpp -o "$CADRAN_OUT/fuzz"
  timeout: 2h

fuzz:
  # Crashing inputs go to $CADRAN_CRASHES. The time limit is held from outside too, for the whole process tree.
  run: >-
    "$CADRAN_BIN/fuzz" -max_total_time="$CADRAN_SECONDS" -artifact_prefix="$CADRAN_CRASHES/" "$CADRAN_CORPUS"
  # Keeps in $CADRAN_OUT what of the corpus adds coverage. Without it, or when it fails, everything is kept.
  merge: '"$CADRAN_BIN/fuzz" -merge=1 "$CADRAN_OUT" "$CADRAN_CORPUS"'
  # A directory of the project with inputs to begin with.
  seeds: fuzz/seeds
  # One run, download and upload included; the fuzzer itself is stopped `stop_buffer` before its end.
  duration: 6h
  stop_buffer: 5m
  # From the request to stop until the whole tree is killed.
  grace: 30s
  # How many runs start in a day, on all machines; the forecast counts with it.
  runs_per_day: 4
  # `continue` starts the fuzzer again after a crash, until its time is over; `stop` ends the run with its results.
  after_crash: continue

crashes:
  # Runs $CADRAN_INPUT; any exit code but 0 is a crash. Each new crash is tried `tries` times before it is believed.
  reproduce: '"$CADRAN_BIN/fuzz" -timeout=25 "$CADRAN_INPUT"'
  tries: 3
  timeout: 60s
  # Writes a smaller input that crashes to $CADRAN_OUTPUT.
  minimise: >-
    "$CADRAN_BIN/fuzz" -minimize_crash=1 -max_total_time="$CADRAN_SECONDS"
    -exact_artifact_path="$CADRAN_OUTPUT" "$CADRAN_INPUT"
  minimise_timeout: 60s
  # Crashes are told apart by the first function of the project on the stack. These never count as it:
  # ignore_frames: [check_failed, assert_that]

coverage:
  # Run with the coverage binary in a work tree of the commit. What is put into $CADRAN_OUT is kept and handed to later
  # fuzz runs as $CADRAN_COVERAGE. A directory corpus in it holds the inputs that are worth fuzzing: those and newer ones
  # are then taken, instead of all.
  run: |
    set -e
    LLVM_PROFILE_FILE="$CADRAN_OUT/all.profraw" "$CADRAN_BIN/fuzz" -runs=0 "$CADRAN_CORPUS"
    llvm-profdata merge -o "$CADRAN_OUT/all.profdata" "$CADRAN_OUT/all.profraw"
    llvm-cov report "$CADRAN_BIN/fuzz" -instr-profile="$CADRAN_OUT/all.profdata" > "$CADRAN_OUT/report.txt"
    mkdir "$CADRAN_OUT/corpus"
    LLVM_PROFILE_FILE=/dev/null "$CADRAN_BIN/fuzz" -merge=1 "$CADRAN_OUT/corpus" "$CADRAN_CORPUS"
    rm "$CADRAN_OUT/all.profraw"
  timeout: 1h
  # An older map is not used; the whole corpus is fuzzed then.
  max_age: 45d

retention:
  # Binaries of commits that are scheduled and not fuzzed yet are kept longer, up to the limit of the schedule.
  binaries: 7d

# When more commits arrive than can be fuzzed: `fair` (oldest first), `newest-first`, or `coalesce` (neighbours share one
# build; a crash is bisected).
overload: fair
limits:
  schedule_min: 4
  schedule_max: 64
"#;

/// Hands the commit of a trigger on; without one it is empty, and the pass chooses for itself.
const COMMIT: &str = "--commit=${commit}";

/// The four jobs, with the documented times in UTC. `program` is the cadran binary, `config` the `fuzz.yaml`.
pub fn job_files(target: &TargetName, program: &Path, config: &Path) -> Vec<JobFile> {
    let line = |words: &[&str]| words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(", ");
    let (program, config) = (program.display().to_string(), config.display().to_string());
    let job = |pass: &str, about: &str, schedule: &str, overlap: &str, rest: &str| {
        let text = format!(
            "description: {about}\nlabels: {{fuzz: {}}}\nschedule: {}\ntimezone: UTC\noverlap: {overlap}\n\
             # cadran trigger {target}-{pass} -p commit=HASH\nparams: {{commit: \"\"}}\nsteps:\n  \
             - name: {pass}\n    run: [{}]\n{rest}",
            quoted(target.as_str()),
            quoted(schedule),
            line(&[&program, "fuzz", pass, "--config", &config, COMMIT]),
        );
        JobFile { name: format!("{target}-{pass}.yaml"), text }
    };
    let build = format!("'{}' trigger {target}-builder", program.replace('\'', "'\\''"));
    let trigger = format!(
        "    # Builds need not wait for their own schedule: with this line instead they begin when the queue has grown.\n    \
         # run: [{}]\n",
        line(&[&program, "fuzz", "manager", "--config", &config, COMMIT, "--on-queued", &build]),
    );
    vec![
        job(
            "manager",
            "looks for new commits and hands built ones over to the fuzzer",
            "*/15 * * * *",
            "skip",
            &trigger,
        ),
        job("builder", "builds the next commit of the queue", "5,35 * * * *", "skip", ""),
        job(
            "fuzzer",
            "fuzzes the commit that was fuzzed least",
            "45 0,6,12,18 * * *",
            // A run that takes a moment too long delays the next one instead of costing it.
            "wait",
            "",
        ),
        job("coverage", "maps which code the corpus reaches", "0 0 1 * *", "wait", ""),
    ]
}

/// Text in YAML whatever is in it.
fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;
    use cadran_spec::{ReadOptions, read_job};

    #[test]
    fn what_is_written_can_be_read() {
        let options = InitOptions {
            target: TargetName::new("demo").expect("good"),
            repository: "https://example.org/a \"b\": #c.git".into(),
            branch: "main".into(),
            store: "s3://bucket/prefix?endpoint=http://127.0.0.1:1".into(),
        };
        let config = Config::read(template(&options).as_bytes()).expect("good");
        assert_eq!(config.target.repository, options.repository);
        assert_eq!(config.store, options.store);
        assert!(config.tools.minimise.expect("there").contains("-minimize_crash=1"));
        assert_eq!(config.target.budgets, crate::Budgets::default());
        assert_eq!(config.target.retention, crate::Retention::default());
        assert_eq!(config.target.limits, crate::Limits::default());
    }

    #[test]
    fn rule_02_the_four_jobs_have_the_documented_times() {
        let target = TargetName::new("demo").expect("good");
        let files = job_files(&target, Path::new("/opt/my programs/cadran"), Path::new("/srv/fuzz.yaml"));
        let check = |at: usize, name: &str, schedule: &str| {
            assert_eq!(files[at].name, format!("{name}.yaml"));
            let parsed = read_job(files[at].text.as_bytes(), name, &ReadOptions::default()).expect("a job");
            assert!(parsed.warnings.is_empty(), "{:?}", parsed.warnings);
            assert_eq!(parsed.schedules.len(), 1);
            assert!(format!("{:?}", parsed.schedules[0]).contains(schedule), "{:?}", parsed.schedules);
            assert!(format!("{:?}", parsed.job.schedules).contains("UTC"), "{:?}", parsed.job.schedules);
        };
        check(0, "demo-manager", "*/15 * * * *");
        check(1, "demo-builder", "5,35 * * * *");
        check(2, "demo-fuzzer", "45 0,6,12,18 * * *");
        check(3, "demo-coverage", "0 0 1 * *");

        // The trigger besides the cron: its line in place of the other.
        let (before, after) = files[0].text.split_once("    run: ").expect("a command");
        let eager = after.split_once("    # run: ").expect("the other command").1;
        let text = format!("{before}    run: {eager}");
        let parsed = read_job(text.as_bytes(), "demo-manager", &ReadOptions::default()).expect("a job");
        let shown = format!("{:?}", parsed.job);
        assert!(shown.contains("'/opt/my programs/cadran' trigger demo-builder"), "{shown}");
    }
}
