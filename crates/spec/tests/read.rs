//! What a good file means: every field, in every spelling.

use cadran_core::{
    Block, GlueKind, Handler, History, Job, Misfire, Overlap, Policy, Retry, Route, ScheduleAction, StepNo,
    Target, Work, Zone,
};
use cadran_cron::{Dialect, Rule};
use cadran_spec::{Parsed, ReadOptions, Reader, read_job};

fn parsed(text: &str) -> Parsed {
    read_job(text.as_bytes(), "job", &ReadOptions::default()).unwrap_or_else(|errors| {
        panic!("{}", errors.iter().map(|e| e.render("job.yaml", text, false)).collect::<String>())
    })
}

fn job(text: &str) -> Job {
    parsed(text).job
}

fn pairs(list: &[(String, String)]) -> Vec<(&str, &str)> {
    list.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

#[test]
fn the_smallest_job() {
    let job = job("run: echo hello");
    assert_eq!(job.name.as_str(), "job");
    assert!(job.schedules.is_empty());
    assert_eq!(job.policy, Policy::DEFAULT);
    assert_eq!(job.body.steps.len(), 1);
    assert_eq!(job.body.steps[0].name, "main");
    assert_eq!(job.body.steps[0].work, Work::Shell("echo hello".into()));
    assert_eq!(job.body.max_active_steps, 64);
    assert_eq!(job.body.history, History::Days(30));
}

#[test]
fn forms_of_the_schedule() {
    let check = |schedule: &str, expected: &[(&str, ScheduleAction)]| {
        let parsed = parsed(&format!("run: x\nschedule: {schedule}\n"));
        let found: Vec<(&str, ScheduleAction)> =
            parsed.schedules.iter().map(|text| (text.text.as_str(), text.action)).collect();
        assert_eq!(found, expected, "{schedule}");
        assert_eq!(parsed.job.schedules.len(), expected.len());
        for (entry, text) in parsed.job.schedules.iter().zip(&parsed.schedules) {
            assert_eq!((&*entry.schedule, entry.action), (&text.compile().unwrap(), text.action));
        }
    };
    use ScheduleAction::{Restart, Start, Stop};
    check("'*/5 * * * *'", &[("*/5 * * * *", Start)]);
    check("5 * * * *", &[("5 * * * *", Start)]);
    check("every 250ms", &[("every 250ms", Start)]);
    check("'@daily'", &[("@daily", Start)]);
    check("at 2030-01-01T00:00:00Z", &[("at 2030-01-01T00:00:00Z", Start)]);
    check("['0 9 * * *', every 10s]", &[("0 9 * * *", Start), ("every 10s", Start)]);
    check("''", &[]);
    check("~", &[]);
    check("[]", &[]);
    check("{cron: '0 9 * * *'}", &[("0 9 * * *", Start)]);
    check("{expression: '0 9 * * *', kind: cron}", &[("0 9 * * *", Start)]);
    check("{every: 2h, from: 2026-01-01T00:30:00Z}", &[("every 2h from 2026-01-01T00:30:00Z", Start)]);
    check("{at: 2030-01-01T00:00:00Z}", &[("at 2030-01-01T00:00:00Z", Start)]);
    check(
        "{start: 0 9 * * *, stop: [0 18 * * *, {every: 7h}]}",
        &[("0 9 * * *", Start), ("0 18 * * *", Stop), ("every 7h", Stop)],
    );
    check("{restart: {cron: 0 12 * * *}}", &[("0 12 * * *", Restart)]);
}

#[test]
fn zones_dialects_and_clock_changes() {
    let paris = ReadOptions { default_zone: Zone::get("Europe/Paris").unwrap(), ..ReadOptions::default() };
    let zone = |text: &str| {
        let parsed = read_job(text.as_bytes(), "job", &paris).unwrap();
        parsed.job.schedules[0].schedule.zone().name().to_owned()
    };
    assert_eq!(zone("run: x\nschedule: 0 9 * * *\n"), "Europe/Paris");
    assert_eq!(zone("run: x\nschedule: 0 9 * * *\ntimezone: Asia/Tokyo\n"), "Asia/Tokyo");
    assert_eq!(zone("run: x\nschedule: {cron: 0 9 * * *, timezone: UTC}\ntimezone: Asia/Tokyo\n"), "UTC");
    assert_eq!(
        zone("run: x\nschedule: CRON_TZ=America/Lima 0 9 * * *\ntimezone: Asia/Tokyo\n"),
        "America/Lima"
    );
    let parsed = parsed("run: x\nschedule: 0 0 9 ? * 2\ndialect: quartz\ndst: both\n");
    assert_eq!((parsed.schedules[0].dialect, parsed.schedules[0].dst.name()), (Dialect::Quartz, "both"));
    // Monday in Quartz is 2.
    assert_eq!(parsed.job.schedules[0].schedule.next(1_794_700_800_000), Some(1_794_819_600_000));
    // Periods and instants have neither.
    let parsed = self::parsed("run: x\nschedule: [{every: 5s}]\ndialect: quartz\ndst: both\n");
    assert!(matches!(
        parsed.job.schedules[0].schedule.rule(),
        Rule::Every { period_ms: 5_000, anchor_ms: 0 }
    ));
    assert!(!parsed.definition.contains("quartz"));
}

#[test]
fn policies() {
    let check = |text: &str, expected: Policy| {
        assert_eq!(job(&format!("run: x\n{text}\n")).policy, expected, "{text}");
    };
    let default = Policy::DEFAULT;
    check("misfire: skip", Policy { misfire: Misfire::Skip, ..default });
    check("misfire: DO_NOTHING", Policy { misfire: Misfire::Skip, ..default });
    check("misfireStrategy: FIRE_ONCE_NOW", Policy { misfire: Misfire::Once, ..default });
    let all = Policy { misfire: Misfire::All, catchup_window_ms: 216_000_000, ..default };
    check("catchup_window: 2d12h", all);
    check("catchupWindow: 2d12h", all);
    check("misfire: all\ncatchup_window: 60h", all);
    for (word, overlap) in [
        ("allow", Overlap::Allow),
        ("skip", Overlap::Skip),
        ("wait", Overlap::Wait),
        ("all", Overlap::Wait),
        ("latest", Overlap::Latest),
        ("replace", Overlap::Replace),
    ] {
        check(&format!("overlap: {word}"), Policy { overlap, ..default });
        check(&format!("overlapPolicy: {word}"), Policy { overlap, ..default });
        check(&format!("overlap_policy: {word}"), Policy { overlap, ..default });
    }
    check("priority: -7", Policy { priority: -7, ..default });
    check("skipIfSuccessful: true", Policy { skip_if_successful: true, ..default });
    check("retry: never", Policy { at_most_once: true, ..default });
}

#[test]
fn the_job_around_its_steps() {
    let job = job("\
name: other
description: |
  Two
  lines.
labels: {team: ops, urgent: true}
tags: [nightly, team=ops, kind=x]
timeoutSec: 90
dir: /srv
shell: bash -eu
histRetentionDays: 7
maxActiveSteps: 3
precondition: test -e /x
footprint: {reads: a:b, writes: [c:d, e:f], claims: 'port:8080'}
run: x
");
    let body = &job.body;
    assert_eq!(job.name.as_str(), "other");
    assert_eq!(body.description, "Two\nlines.");
    assert_eq!(pairs(&body.labels), [("team", "ops"), ("urgent", "true"), ("nightly", ""), ("kind", "x")]);
    assert_eq!((body.timeout_ms, body.max_active_steps), (Some(90_000), 3));
    assert_eq!(body.dir.as_deref(), Some("/srv"));
    assert_eq!(body.shell.as_deref().unwrap(), ["bash", "-eu"]);
    assert_eq!(body.history, History::Days(7));
    assert_eq!(body.preconditions[0].condition, "test -e /x");
    assert_eq!(body.footprint.reads, ["a:b"]);
    assert_eq!(body.footprint.writes, ["c:d", "e:f"]);
    assert_eq!(body.footprint.claims, ["port:8080"]);
}

#[test]
fn histories() {
    let check =
        |text: &str, expected| assert_eq!(job(&format!("run: x\n{text}\n")).body.history, expected, "{text}");
    check("history: 7", History::Days(7));
    check("history: {days: 7}", History::Days(7));
    check("history: {count: 7}", History::Count(7));
    check("history: {runs: 7}", History::Count(7));
    check("hist_retention_days: 7", History::Days(7));
    check("histRetentionRuns: 7", History::Count(7));
}

#[test]
fn environments_labels_and_parameters() {
    let env = |text: &str| job(&format!("run: x\nenv: {text}\n")).body.env.clone();
    let expected = [("A", "1"), ("B", "x=y"), ("C", "")];
    assert_eq!(pairs(&env("{A: 1, B: x=y, C: }")), expected);
    assert_eq!(pairs(&env("[{A: 1}, B=x=y, {C: ''}]")), expected);
    assert_eq!(pairs(&env("[A=1, 'B=x=y', C=]")), expected);
    // The Norway problem: words stay words.
    assert_eq!(
        pairs(&env("{A: no, B: 010, C: 1.50, D: ~}")),
        [("A", "no"), ("B", "010"), ("C", "1.50"), ("D", "")]
    );

    let params = |text: &str| {
        let job = job(&format!("run: x\nparams: {text}\n"));
        let shown = |param: &cadran_core::Param| {
            format!(
                "{}={}{}",
                param.name.as_deref().unwrap_or("?"),
                param.default,
                if param.required { "!" } else { "" }
            )
        };
        job.body.params.iter().map(shown).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(params("a b"), "?=a ?=b");
    assert_eq!(params("\"k=v k2='v v' \\\"a b\\\"\""), "k=v k2=v v ?=a b");
    assert_eq!(params("[a, k=v, {X: 1, Y: 2}]"), "?=a k=v X=1 Y=2");
    assert_eq!(params("{X: 1, Y: {default: 2, required: true}}"), "X=1 Y=2!");
    assert_eq!(params("[{name: X, required: true}, {name: Y, default: z}]"), "X=! Y=z");
    // Values are data: nothing in them is run or replaced.
    assert_eq!(params("[A=`rm -rf /`, 'B=$(date)', 'C=${HOME}']"), "A=`rm -rf /` B=$(date) C=${HOME}");

    let labels = |text: &str| job(&format!("run: x\nlabels: {text}\n")).body.labels.clone();
    assert_eq!(pairs(&labels("a, b=c ,d")), [("a", ""), ("b", "c"), ("d", "")]);
    assert_eq!(pairs(&labels("[a, {b: c}]")), [("a", ""), ("b", "c")]);
}

#[test]
fn steps_in_every_form() {
    let job = job("\
steps:
  - echo one
  - name: two
    run: [echo, two, 2]
    depends: step_1
  - name: three
    script: |
      print('x')
    command: python3 -u
    depends: [step_1, two, two]
    working_dir: /tmp
    env: [A=1]
    shell:
    stdout: out.txt
    stderr: err.txt
    output: $RESULT
    timeout: 1m30s
    signalOnStop: int
    description: has a description
");
    let steps = &job.body.steps;
    assert_eq!((steps[0].name.as_str(), &steps[0].work), ("step_1", &Work::Shell("echo one".into())));
    assert_eq!(steps[1].work, Work::Program(vec!["echo".into(), "two".into(), "2".into()]));
    assert_eq!(steps[1].depends, [StepNo(0)]);
    let three = &steps[2];
    assert_eq!(three.work, Work::Script("print('x')\n".into()));
    assert_eq!(three.shell.as_deref().unwrap(), ["python3", "-u"]);
    assert_eq!(three.depends, [StepNo(0), StepNo(1)]);
    assert_eq!(three.dir.as_deref(), Some("/tmp"));
    assert_eq!((three.stdout.as_deref(), three.stderr.as_deref()), (Some("out.txt"), Some("err.txt")));
    assert_eq!(three.output.as_deref(), Some("RESULT"));
    assert_eq!((three.timeout_ms, three.signal_on_stop), (Some(90_000), Some(2)));

    let by_name = self::job("steps:\n  a: echo a\n  b: {run: echo b, depends: a}\n");
    assert_eq!(by_name.body.steps[1].name, "b");
    assert_eq!(by_name.body.steps[1].depends, [StepNo(0)]);

    let chain = self::job("type: chain\nsteps: [echo a, echo b, echo c]\n");
    let depends: Vec<_> = chain.body.steps.iter().map(|step| step.depends.clone()).collect();
    assert_eq!(depends, [vec![], vec![StepNo(0)], vec![StepNo(1)]]);

    let signal = |word: &str| {
        self::job(&format!("steps: [{{run: x, signal_on_stop: {word}}}]")).body.steps[0].signal_on_stop
    };
    assert_eq!(
        [signal("SIGTERM"), signal("term"), signal("15"), signal("SIGUSR1")],
        [Some(15), Some(15), Some(15), Some(10)]
    );
}

#[test]
fn retries() {
    let retry = |text: &str| job(&format!("steps: [{{run: x, {text}}}]")).body.steps[0].retry.clone();
    let default = Retry::default();
    assert_eq!(retry("retry: 3"), Retry { limit: 3, ..default.clone() });
    let full = Retry {
        limit: 3,
        interval_ms: 5_000,
        backoff: 2.0,
        interval_ms_max: 60_000,
        exit_codes: vec![1, 75],
    };
    assert_eq!(
        retry("retry: {limit: 3, interval: 5s, backoff: true, max_interval: 1m, exit_codes: [1, 75]}"),
        full
    );
    assert_eq!(
        retry("retryPolicy: {limit: 3, intervalSec: 5, backoff: 2, maxIntervalSec: 60, exitCode: [1, 75]}"),
        full
    );
    assert_eq!(retry("retry_policy: {limit: 1, interval_sec: 7200}").interval_ms_max, 7_200_000);
    assert_eq!(retry("retry: never"), default);

    // The job's policy is the default of its steps, not of its handlers.
    let job = job(
        "retry: {limit: 2}\nsteps: [x, {run: y, retry: never}, {run: z, retry: 5}]\nhandlers: {exit: e}\n",
    );
    let limits: Vec<u32> = job.body.steps.iter().map(|step| step.retry.limit).collect();
    assert_eq!(limits, [2, 0, 5]);
    assert_eq!(job.body.handlers.get(Handler::Exit).unwrap().retry, Retry::default());
}

#[test]
fn what_goes_on_after_a_failure() {
    let on = |text: &str| job(&format!("steps: [{{run: x, {text}}}]")).body.steps[0].continue_on.clone();
    assert!(on("continue_on: failure").failure);
    assert!(on("continueOn: failed").failure);
    assert!(on("continue_on: [failed, skipped]").skipped);
    let full = on("continueOn: {failure: true, skipped: true, exitCode: [1, 2], markSuccess: true}");
    assert!(full.failure && full.skipped && full.mark_success);
    assert_eq!(full.exit_codes, [1, 2]);
    assert_eq!(on("continue_on: {exit_codes: 3}").exit_codes, [3]);
}

#[test]
fn preconditions() {
    let job = job("\
run: x
preconditions:
  - test -d /tmp
  - condition: $(date +%u)
    expected: re:[1-5]
    negate: true
  - command: 'true'
");
    let found: Vec<_> = job
        .body
        .preconditions
        .iter()
        .map(|found| (found.condition.as_str(), found.expected.as_deref(), found.negate))
        .collect();
    assert_eq!(
        found,
        [("test -d /tmp", None, false), ("$(date +%u)", Some("re:[1-5]"), true), ("true", None, false)]
    );
}

#[test]
fn handlers_in_every_spelling() {
    for (block, names) in [
        ("handlers: {success: a, failure: b, stop: c, exit: d}", "abcd"),
        (
            "handlerOn: {success: {command: a}, failure: {command: b}, cancel: {command: c}, exit: {command: d}}",
            "abcd",
        ),
        ("handler_on: {abort: c, exit: {run: d, name: cleanup}}", "cd"),
    ] {
        let job = job(&format!("run: x\n{block}\n"));
        let found: String = Handler::ALL
            .iter()
            .filter_map(|handler| job.body.handlers.get(*handler).map(|step| (handler, step)))
            .map(|(handler, step)| {
                assert_eq!(step.name, handler.step_name());
                let Work::Shell(line) = &step.work else { panic!("{:?}", step.work) };
                line.as_str()
            })
            .collect();
        assert_eq!(found, names, "{block}");
    }
}

#[test]
fn jobs_read_by_one_reader_share() {
    let mut reader = Reader::default();
    let one = reader.read(b"run: x\nschedule: '*/5 * * * *'\n", "one").unwrap().job;
    let two = reader.read(b"schedule: ['0-59/5 * * * *']\nrun: x\n", "two").unwrap().job;
    assert!(std::sync::Arc::ptr_eq(&one.body, &two.body));
    assert!(std::sync::Arc::ptr_eq(&one.schedules, &two.schedules));
}

#[test]
fn a_byte_order_mark_and_line_ends_of_windows() {
    let parsed =
        read_job(b"\xef\xbb\xbfrun: |\r\n  a\r\n  b\r\nname: n\r\n", "job", &ReadOptions::default()).unwrap();
    assert_eq!(parsed.job.body.steps[0].work, Work::Shell("a\nb\n".into()));
    assert_eq!(parsed.job.name.as_str(), "n");
}

#[test]
fn steps_on_executors() {
    let one =
        job("executor: billing\nhandler: demoJobHandler\nroute: ROUND\nblock: DISCARD_LATER\nparams: a b\n");
    let step = &one.body.steps[0];
    assert_eq!((step.name.as_str(), &step.work), ("main", &Work::Handler("demoJobHandler".into())));
    let target = step.target.as_deref().unwrap();
    assert_eq!(
        (target.group.as_str(), target.route, target.block),
        ("billing", Route::Round, Block::Discard)
    );
    assert_eq!((target.concurrency, &target.params), (1, &None), "the parameters are the job's own");
    assert_eq!(one.body.params.len(), 2);

    let many = job("\
executor: billing
route: lru
steps:
  - {name: a, handler: h, params: 'day ${DAY}', block: concurrent, concurrency: 3}
  - {name: b, run: echo here, executor: local}
  - {name: c, executor: reports, route: broadcast, glue: GLUE_PYTHON, script: print(1)}
  - echo there
  - {name: e, executor: {group: gpus, labels: {zone: eu, gpu: a100}}, run: train, route: random}
handlers: {exit: echo bye}
");
    let shown: Vec<String> = many
        .body
        .steps
        .iter()
        .map(|step| match step.target.as_deref() {
            None => "here".to_owned(),
            Some(Target { group, route, block, concurrency, params, labels }) => {
                let params = params.as_deref().unwrap_or("-");
                let labels: String = labels.iter().map(|(name, value)| format!(" {name}={value}")).collect();
                format!("{group} {} {} {concurrency} {params}{labels}", route.word(), block.word())
            }
        })
        .collect();
    assert_eq!(
        shown,
        [
            "billing least_recently_used concurrent 3 day ${DAY}",
            "here",
            "reports sharding_broadcast serial 1 -",
            "billing least_recently_used serial 1 -",
            "gpus random serial 1 - gpu=a100 zone=eu",
        ]
    );
    assert_eq!(many.body.steps[2].work, Work::Glue(GlueKind::Python, "print(1)".into()));
    assert!(many.body.handlers.get(Handler::Exit).unwrap().target.is_none(), "handlers stay on the server");
    let round = job("executor: {group: docker, labels: {}}\nrun: x\n");
    assert_eq!(round.body.steps[0].target.as_deref().unwrap().route, Route::Round, "commands go round");
    for (route, word) in Route::WORDS {
        for word in [word.to_string(), word.to_uppercase()] {
            let job = job(&format!("executor: g\nhandler: h\nroute: {word}\n"));
            assert_eq!(job.body.steps[0].target.as_deref().unwrap().route, *route);
        }
    }
}
