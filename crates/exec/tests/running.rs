//! What a process sees, what it prints, and how its end is reported.

mod rig;

use cadran_core::{Order, Outcome, Param, Precondition, ReportKind, Step, Work};
use cadran_exec::EXIT_OUTPUT_TOO_LARGE;
use rig::{Rig, body, program, script, shell, start, start_with, variables};

#[tokio::test]
async fn ends_are_reported_as_they_were() {
    let mut rig = Rig::new().await;
    let rows = [
        (shell("true"), Outcome::Exited(0)),
        (shell("exit 7"), Outcome::Exited(7)),
        (shell("kill -9 $$"), Outcome::Signaled(9)),
        (shell("kill -TERM $$"), Outcome::Signaled(15)),
        (program(&["sh", "-c", "exit 3"]), Outcome::Exited(3)),
        (script("exit 4"), Outcome::Exited(4)),
        (script("#!/bin/sh -e\nfalse\nexit 9"), Outcome::Exited(1)),
    ];
    for (run, (step, outcome)) in (1..).zip(rows) {
        assert_eq!(rig.run(run, body(step)).await.0, outcome, "row {run}");
    }
    let reports = rig.all_reports();
    let kinds: Vec<bool> = reports.iter().map(|report| report.kind == ReportKind::Started).collect();
    assert_eq!(kinds, [true, false].repeat(7), "a start before every end");
    assert!(reports.iter().all(|report| report.at == 1_000));
}

#[tokio::test]
async fn what_cannot_start_says_which_path() {
    let mut rig = Rig::new().await;
    std::fs::write(rig.dir.join("plain"), "no program").expect("written");
    let with_dir = |dir: &str| Step { dir: Some(dir.into()), ..shell("true") };
    let rows = [
        (program(&["/no/such/program"]), "the program /no/such/program does not exist"),
        (program(&["nosuchprogram"]), "the program nosuchprogram was not found in PATH ("),
        (program(&["./plain"]), "plain may not be executed"),
        (program(&["/"]), "/ is a directory"),
        (program(&[]), "the step has no command"),
        (program(&["${EMPTY}"]), "the step's command is empty"),
        (with_dir("/no/such/dir"), "the working directory /no/such/dir does not exist"),
        (with_dir("plain"), "plain is not a directory"),
        (Step { shell: Some(vec!["nosuchshell".into()]), ..shell("true") }, "nosuchshell was not found"),
        (Step { stdout: Some("no/dir/out".into()), ..shell("true") }, "no/dir/out cannot be opened"),
        (Step { env: vec![("A=B".into(), "".into())], ..shell("true") }, "\"A=B\" cannot be the name"),
        (
            Step { env: vec![("BIG".into(), "x".repeat(200_000))], ..shell("true") },
            "too large for the system",
        ),
        (program(&["echo", "a\0b"]), "NUL"),
    ];
    for (run, (step, expected)) in (1..).zip(rows) {
        match rig.run(run, body(step)).await.0 {
            Outcome::NotStarted(why) => assert!(why.contains(expected), "{why} instead of {expected}"),
            other => panic!("{other:?} instead of {expected}"),
        }
        assert!(rig.log(run).contains(expected), "the log says it too: {}", rig.log(run));
    }
    assert!(rig.all_reports().iter().all(|report| report.kind != ReportKind::Started));
}

#[tokio::test]
async fn a_process_sees_a_clean_environment() {
    let mut rig = Rig::with(|options| {
        options.base_env.push(("CADRAN_TOKEN".into(), "secret".into()));
        options.base_env.retain(|(name, _)| name == "PATH" || name.starts_with("CADRAN"));
    })
    .await;
    let step = Step {
        env: vec![("C".into(), "${B} ${P} ${OUT}".into()), ("OUT".into(), "hidden".into())],
        ..program(&["env"])
    };
    let mut body = body(step);
    body.env = vec![("A".into(), "1".into()), ("B".into(), "${A}2$$".into()), ("P".into(), "job".into())];
    body.params = vec![
        Param { name: Some("P".into()), default: "default".into(), required: false },
        Param { name: Some("Q".into()), default: "q".into(), required: false },
        Param { name: None, default: "one".into(), required: false },
    ];
    let params = [("P", "given"), ("2", "two")];
    rig.local.submit(vec![Order::Start(start_with(9, 0, 1, body, &params, &[("OUT", "from a step")]))]);
    assert_eq!(rig.ended(9, 0, 1).await.0, Outcome::Exited(0));
    let log = rig.log(9);
    let seen = variables(&log);
    let run = cadran_core::RunId::from_raw(9).to_string();
    for (name, value) in [
        ("A", "1"),
        ("B", "12$"),
        ("C", "12$ given from a step"),
        ("P", "given"),
        ("Q", "q"),
        ("OUT", "from a step"),
        ("CADRAN_PARAM_1", "one"),
        ("CADRAN_PARAM_2", "two"),
        ("CADRAN_JOB", "nightly"),
        ("CADRAN_RUN_ID", &run),
        ("CADRAN_ATTEMPT", "1"),
        ("CADRAN_DUE", "2023-11-14T22:13:20.123Z"),
        ("CADRAN_TRIGGER", "manual"),
        ("CADRAN_SHARD_INDEX", "2"),
        ("CADRAN_SHARD_TOTAL", "5"),
        ("CADRAN_STEP", "step"),
        ("DAG_NAME", "nightly"),
        ("DAG_RUN_ID", &run),
        ("DAG_RUN_STEP_NAME", "step"),
    ] {
        assert_eq!(seen.get(name), Some(&value), "{name}");
    }
    assert!(seen["CADRAN_LOG"].ends_with("0-step.1.log"));
    let known = [
        "PATH",
        "CADRAN_LOG",
        "CADRAN_LOG_DIR",
        "CADRAN_MARK",
        "DAG_RUN_LOG_FILE",
        "DAG_RUN_STEP_STDOUT_FILE",
        "DAG_RUN_STEP_STDERR_FILE",
    ];
    assert_eq!(seen.len(), 19 + known.len(), "and nothing else: {seen:?}");
}

#[tokio::test]
async fn values_are_never_executed() {
    let mut rig = Rig::new().await;
    let values = [
        "plain",
        "",
        "two  words",
        "'; touch hacked; '",
        "\"; touch hacked; \"",
        "$(touch hacked)",
        "`touch hacked`",
        "; touch hacked",
        "line\nbreak\n; touch hacked",
        "${HOME} $HOME $$ %s \\",
        "-c",
        "é ✓ \u{7f}\t",
    ];
    let show = "printf '<%s>' \"${VALUE}\" \"$1\" \"${CADRAN_PARAM_1}\"";
    for (at, value) in (0..).zip(values) {
        let expected = format!("<{value}><{value}><{value}>");
        let steps = [
            shell(show),
            script(show),
            script(&format!("#!/bin/sh\n{show}")),
            Step { shell: Some(vec!["sh".into(), "-eu".into()]), ..shell(show) },
            program(&["printf", "<%s>", "${VALUE}", "${1}", "${CADRAN_PARAM_1}"]),
        ];
        for (kind, step) in (0..).zip(steps) {
            let run = 1 + at * 10 + kind;
            let start = start_with(run, 0, 1, body(step), &[("VALUE", value), ("1", value)], &[]);
            rig.local.submit(vec![Order::Start(start)]);
            assert_eq!(rig.ended(run, 0, 1).await.0, Outcome::Exited(0), "{value:?} by {kind}");
            assert_eq!(rig.log(run), expected, "{value:?} by {kind}");
        }
    }
    assert!(!rig.dir.join("hacked").exists());
}

#[tokio::test]
async fn bad_parameters_are_refused_by_name() {
    let mut rig = Rig::new().await;
    let declared = Param { name: Some("LD_LIBRARY_PATH".into()), default: "/x".into(), required: false };
    let required = Param { name: Some("WHO".into()), default: String::new(), required: true };
    let rows: [(&[(&str, &str)], Option<&str>); 10] = [
        (&[("WHO", "me")], None),
        (&[], Some("the parameter WHO is required")),
        (&[("WHO", "me"), ("LD_LIBRARY_PATH", "/y")], None),
        (&[("WHO", "me"), ("LD_PRELOAD", "/evil.so")], Some("LD_PRELOAD would change how programs run")),
        (&[("WHO", "me"), ("PATH", "/evil")], Some("PATH would change")),
        (&[("WHO", "me"), ("CADRAN_RUN_ID", "x")], Some("CADRAN_RUN_ID would change")),
        (&[("WHO", "me"), ("a-b", "x")], Some("\"a-b\" cannot be the name")),
        (&[("WHO", "m\0e")], Some("NUL")),
        (&[("WHO", "me"), ("0", "x")], Some("there is no parameter 0")),
        (&[("WHO", "me"), ("4000000000", "x")], Some("there is no parameter 4000000000")),
    ];
    for (run, (params, refused)) in (1..).zip(rows) {
        let mut body = body(shell("true"));
        body.params = vec![declared.clone(), required.clone()];
        rig.local.submit(vec![Order::Start(start_with(run, 0, 1, body, params, &[]))]);
        match (rig.ended(run, 0, 1).await.0, refused) {
            (Outcome::Exited(0), None) => {}
            (Outcome::NotStarted(why), Some(expected)) => assert!(why.contains(expected), "{why}"),
            (other, _) => panic!("{params:?}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn scripts_are_private_and_go_away() {
    let mut rig = Rig::new().await;
    let step = script("stat -c %a \"$0\"; echo \"$0\"");
    assert_eq!(rig.run(1, body(step)).await.0, Outcome::Exited(0));
    let log = rig.log(1);
    let (mode, path) = log.trim().split_once('\n').expect("two lines");
    assert_eq!(mode, "700");
    assert!(
        path.starts_with(rig.dir.to_str().expect("text")) && !std::path::Path::new(path).exists(),
        "{path}"
    );
    let step = script("#!/usr/bin/env -S sh -c 'echo by env'");
    assert_eq!((rig.run(2, body(step)).await.0, rig.log(2)), (Outcome::Exited(0), "by env\n".into()));
}

#[tokio::test]
async fn dirs_and_files_follow_variables() {
    let mut rig = Rig::new().await;
    std::fs::create_dir_all(rig.dir.join("a/b")).expect("created");
    let mut body = body(Step {
        dir: Some("${SUB}".into()),
        stdout: Some("${SUB}.out".into()),
        stderr: Some("err".into()),
        env: vec![("SUB".into(), "b".into())],
        ..shell("pwd; echo problem >&2")
    });
    body.dir = Some("a".into());
    assert_eq!(rig.run(1, body).await.0, Outcome::Exited(0));
    let at = rig.dir.join("a/b");
    let out = std::fs::read_to_string(at.join("b.out")).expect("stdout file");
    assert_eq!(std::path::Path::new(out.trim()).canonicalize().ok(), at.canonicalize().ok());
    assert_eq!(std::fs::read_to_string(at.join("err")).expect("stderr file"), "problem\n");
    let log = rig.log(1);
    assert!(log.contains(&out) && log.contains("problem\n"), "the log has both: {log}");
}

#[tokio::test]
async fn output_is_captured_trimmed_and_bounded() {
    let mut rig = Rig::with(|options| options.output_bytes_max = 1000).await;
    let capture = |text: &str| body(Step { output: Some("X".into()), ..shell(text) });
    assert_eq!(
        rig.run(1, capture("echo; echo '  a b '; echo no >&2")).await,
        (Outcome::Exited(0), Some("a b".into()))
    );
    assert!(rig.log(1).contains("no\n"), "standard error is in the log only");
    assert_eq!(rig.run(2, capture("printf x; exit 3")).await, (Outcome::Exited(3), Some("x".into())));
    assert_eq!(rig.run(3, capture("true")).await, (Outcome::Exited(0), Some("".into())));
    let flood = capture("head -c 1001 /dev/zero | tr '\\0' x");
    assert_eq!(rig.run(4, flood).await, (Outcome::Exited(EXIT_OUTPUT_TOO_LARGE), None));
    assert!(rig.log(4).contains("cadran: the output is larger than 1000 bytes"), "{}", rig.log(4));
    assert_eq!(rig.run(5, body(shell("echo not asked for"))).await, (Outcome::Exited(0), None));
}

#[tokio::test]
async fn preconditions_decide_whether_a_step_starts() {
    let mut rig = Rig::new().await;
    // (condition, expected, negate, unmet because)
    let rows: [(&str, Option<&str>, bool, Option<&str>); 16] = [
        ("true", None, false, None),
        ("exit 3", None, false, Some("`exit 3` exited with 3")),
        ("exit 3", None, true, None),
        ("true", None, true, Some("`true` exited with 0, and must not hold")),
        ("test \"$WHO\" = me", None, false, None),
        ("kill -9 $$", None, false, Some("ended by a signal")),
        ("${WHO}", Some("me"), false, None),
        ("${WHO}", Some("you"), false, Some("`${WHO}` is \"me\", expected \"you\"")),
        ("${WHO}", Some("you"), true, None),
        ("`echo 0; echo 1`", Some("0\n1"), false, None),
        ("$(echo a; echo $WHO)", Some("re:^a\nm"), false, None),
        ("$(echo abc)", Some("re:^b"), false, Some("\"abc\"")),
        ("$(echo b12)", Some("re:^b\\d+$"), false, None),
        ("$(exit 1)", Some(""), false, None),
        ("${NOTHING}", Some(""), false, None),
        ("${WHO}; touch hacked", Some("me; touch hacked"), false, None),
    ];
    for (run, (condition, expected, negate, unmet)) in (1..).zip(rows) {
        let precondition =
            Precondition { condition: condition.into(), expected: expected.map(Into::into), negate };
        let mut body = body(Step { preconditions: vec![precondition], ..shell("true") });
        body.env = vec![("WHO".into(), "me".into())];
        match (rig.run(run, body).await.0, unmet) {
            (Outcome::Exited(0), None) => {}
            (Outcome::PreconditionUnmet(why), Some(part)) => assert!(why.contains(part), "{why}"),
            (other, _) => panic!("{condition}: {other:?}"),
        }
    }
    assert!(!rig.dir.join("hacked").exists());
    let broken = Precondition { condition: "x".into(), expected: Some("re:(".into()), negate: false };
    let body = body(Step { preconditions: vec![broken], ..shell("true") });
    assert!(
        matches!(rig.run(99, body).await.0, Outcome::NotStarted(why) if why.contains("regular expression"))
    );
}

#[tokio::test]
async fn a_slow_precondition_is_cut_off() {
    let mut rig =
        Rig::with(|options| options.precondition_timeout = std::time::Duration::from_millis(100)).await;
    let slow = Precondition { condition: "sleep 1000".into(), expected: None, negate: false };
    let body = body(Step { preconditions: vec![slow], ..shell("true") });
    assert!(
        matches!(rig.run(1, body).await.0, Outcome::PreconditionUnmet(why) if why.contains("did not answer"))
    );
}

#[tokio::test]
async fn preconditions_of_the_job_are_judged_once_per_run() {
    let mut rig = Rig::new().await;
    let two_steps = |condition: &str| {
        let mut body = body(shell("true"));
        body.steps.push(shell("true"));
        body.preconditions =
            vec![Precondition { condition: condition.into(), expected: None, negate: false }];
        body
    };
    for (run, condition) in [(1, "echo x >>judged; true"), (2, "echo x >>judged; false")] {
        let starts = (0..2).map(|step| Order::Start(start(run, step, 1, two_steps(condition)))).collect();
        rig.local.submit(starts);
        for step in 0..2 {
            let outcome = rig.ended(run, step, 1).await.0;
            match run {
                1 => assert_eq!(outcome, Outcome::Exited(0)),
                _ => assert!(
                    matches!(outcome, Outcome::JobPreconditionUnmet(why) if why.contains("exited with 1"))
                ),
            }
        }
    }
    assert_eq!(rig.lines("judged", 2).await.len(), 2);
}

#[tokio::test]
async fn a_repeated_start_is_ignored() {
    let mut rig = Rig::new().await;
    let again = || Order::Start(start(1, 0, 1, body(shell("echo x >>times"))));
    rig.local.submit(vec![again(), again()]);
    rig.local.submit(vec![again()]);
    rig.ended(1, 0, 1).await;
    rig.local.submit(vec![again(), Order::Start(start(1, 0, 2, body(shell("echo y >>times"))))]);
    rig.ended(1, 0, 2).await;
    assert_eq!(rig.lines("times", 2).await, ["x", "y"]);
    assert_eq!(rig.all_reports().len(), 4);
}

#[tokio::test]
async fn those_beyond_the_bound_wait_in_line() {
    let mut rig = Rig::with(|options| options.live_max = 2).await;
    let starts = (1..=20).map(|run| Order::Start(start(run, 0, 1, body(shell("true"))))).collect();
    rig.local.submit(starts);
    for run in 1..=20 {
        assert_eq!(rig.ended(run, 0, 1).await.0, Outcome::Exited(0));
    }
    rig::eventually("nothing live", || rig.local.live() == 0).await;
}

#[tokio::test]
async fn a_flood_of_output_leaves_head_tail_and_a_marker() {
    let mut rig = Rig::with(|options| options.log_bytes_max = 1 << 20).await;
    let memory = || {
        let status = std::fs::read_to_string("/proc/self/status").expect("there");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line").trim();
        line.trim_end_matches(" kB").parse::<u64>().expect("a number")
    };
    let before = memory();
    let text = "echo first; head -c 300000000 /dev/zero | tr '\\0' x; echo; echo last";
    assert_eq!(rig.shell(1, text).await, Outcome::Exited(0));
    let log = rig.log(1);
    assert!(log.starts_with("first\nxxx") && log.ends_with("xxx\nlast\n"), "head and tail are kept");
    let missing = 300_000_000 + 6 + 6 - (1 << 20);
    assert!(log.contains(&format!("… cut: {missing} bytes left out …")), "{}", &log[log.len() - 100..]);
    assert!(log.len() < (1 << 20) + 500, "{}", log.len());
    assert!(memory() - before < 32_000, "memory stays flat: {} kB more", memory() - before);
}

#[tokio::test]
async fn both_streams_keep_their_order() {
    let mut rig = Rig::new().await;
    rig.shell(1, "for n in 1 2 3; do echo out $n; echo err $n >&2; done").await;
    assert_eq!(rig.log(1), "out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3\n");
}

#[tokio::test]
async fn a_handler_is_a_step_behind_the_steps() {
    let mut rig = Rig::new().await;
    let mut body = body(shell("true"));
    let handler = Step { name: "on_exit".into(), work: Work::Shell("echo bye".into()), ..Step::default() };
    body.handlers.steps[3] = Some(Box::new(handler));
    rig.local.submit(vec![Order::Start(start(1, 4, 1, body.clone())), Order::Start(start(1, 9, 1, body))]);
    assert_eq!(rig.ended(1, 4, 1).await.0, Outcome::Exited(0));
    assert!(matches!(rig.ended(1, 9, 1).await.0, Outcome::NotStarted(why) if why.contains("no step 9")));
}

#[tokio::test]
async fn an_executor_in_process_reports_in_batches() {
    use cadran_exec::InProcess;
    use std::sync::mpsc;
    let orders = || (1..=3).map(|run| Order::Start(start(run, 0, 1, body(shell("true"))))).collect();
    let kinds = |batch: Vec<cadran_core::Report>| -> Vec<(u64, bool)> {
        batch.iter().map(|report| (report.run.raw(), report.kind == ReportKind::Started)).collect()
    };
    let (sender, batches) = mpsc::channel();
    let sink: cadran_exec::Sink = std::sync::Arc::new(move |batch| drop(sender.send(batch)));
    let at_once = InProcess::new(|| 5, std::sync::Arc::clone(&sink));
    at_once.submit(orders());
    let batch = batches.try_recv().expect("inside submit");
    assert_eq!(kinds(batch), [(1, true), (1, false), (2, true), (2, false), (3, true), (3, false)]);
    let later = InProcess::with_delay(|| 5, sink, std::time::Duration::from_millis(1)).expect("a thread");
    later.submit(orders());
    for is_start in [true, false] {
        let batch = batches.recv_timeout(rig::PATIENCE).expect("a batch");
        assert_eq!(kinds(batch), [(1, is_start), (2, is_start), (3, is_start)]);
    }
    assert_eq!((at_once.starts(), later.starts()), (3, 3));
}
