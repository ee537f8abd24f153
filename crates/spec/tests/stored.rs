//! Jobs into the store and back.

use std::sync::Arc;

use cadran_core::{
    Block, Body, ContinueOn, Dotenv, Dst, FootprintSpec, GlueKind, Handlers, History, JobName, Misfire,
    OnConflict, Overlap, Param, Policy, PoolShare, Precondition, Retry, Route, ScheduleAction, ScheduleEntry,
    Step, StepNo, Target, Work, Zone,
};
use cadran_cron::Dialect;
use cadran_spec::{DecodeError, Decoder, ReadOptions, ScheduleText, encode, read_job, stored_schedules};
use proptest::prelude::*;

fn name() -> JobName {
    "job".parse().unwrap()
}

fn text() -> BoxedStrategy<String> {
    prop_oneof![Just(String::new()), "[a-z]{1,8}", "\\PC{0,12}", "[\\x01-\\x7f]{0,8}"].boxed()
}

fn pairs() -> BoxedStrategy<Vec<(String, String)>> {
    prop::collection::vec((text(), text()), 0..3).boxed()
}

fn texts() -> BoxedStrategy<Vec<String>> {
    prop::collection::vec(text(), 0..3).boxed()
}

fn maybe<S: Strategy>(inner: S) -> impl Strategy<Value = Option<S::Value>>
where
    S::Value: Clone,
{
    prop::option::of(inner)
}

fn precondition() -> BoxedStrategy<Precondition> {
    (text(), maybe(text()), any::<bool>())
        .prop_map(|(condition, expected, negate)| Precondition { condition, expected, negate })
        .boxed()
}

fn retry() -> BoxedStrategy<Retry> {
    let made =
        (0..9u32, 0..9_000_000i64, 1.0..100f64, 0..9_000_000i64, prop::collection::vec(0..256i32, 0..3))
            .prop_map(|(limit, interval_ms, backoff, interval_ms_max, exit_codes)| Retry {
                limit,
                interval_ms,
                backoff,
                interval_ms_max,
                exit_codes,
            });
    prop_oneof![Just(Retry::default()), made].boxed()
}

fn work() -> BoxedStrategy<Work> {
    let glue =
        (0..GlueKind::WORDS.len(), text()).prop_map(|(at, text)| Work::Glue(GlueKind::WORDS[at].0, text));
    prop_oneof![
        text().prop_map(Work::Shell),
        texts().prop_map(Work::Program),
        text().prop_map(Work::Script),
        text().prop_map(Work::Handler),
        glue
    ]
    .boxed()
}

fn target() -> BoxedStrategy<Box<Target>> {
    let words = (0..Route::WORDS.len(), 0..Block::WORDS.len());
    (words, 1..9u32, maybe(text()), pairs())
        .prop_map(|((route, block), concurrency, params, labels)| {
            Box::new(Target {
                route: Route::WORDS[route].0,
                block: Block::WORDS[block].0,
                concurrency,
                params,
                labels,
                ..Target::new("billing".parse().expect("a name"))
            })
        })
        .boxed()
}

fn continue_on() -> BoxedStrategy<ContinueOn> {
    (any::<bool>(), any::<bool>(), prop::collection::vec(0..256i32, 0..3), any::<bool>())
        .prop_map(|(failure, skipped, exit_codes, mark_success)| ContinueOn {
            failure,
            skipped,
            exit_codes,
            mark_success,
        })
        .boxed()
}

fn step() -> BoxedStrategy<Step> {
    let what = (text(), work(), maybe(texts()), maybe(text()), pairs(), retry(), maybe(1..9_000_000i64));
    let around = (
        continue_on(),
        prop::collection::vec(precondition(), 0..2),
        maybe(text()),
        maybe(text()),
        maybe(text()),
        maybe(1..32i32),
        maybe(target()),
    );
    (what, around)
        .prop_map(|((name, work, shell, dir, env, retry, timeout_ms), around)| {
            let (continue_on, preconditions, output, stdout, stderr, signal_on_stop, target) = around;
            Step {
                for_each: None,
                name,
                work,
                shell,
                dir,
                env,
                depends: Vec::new(),
                retry,
                timeout_ms,
                continue_on,
                preconditions,
                output,
                stdout,
                stderr,
                signal_on_stop,
                target,
            }
        })
        .boxed()
}

fn footprint() -> BoxedStrategy<FootprintSpec> {
    let pools = prop::collection::vec((text(), 1..9u32, 9..99u32), 0..3);
    let on_conflict = prop::sample::select(OnConflict::WORDS);
    (texts(), texts(), texts(), pools, any::<bool>(), on_conflict)
        .prop_map(|(reads, writes, claims, pools, ordered, on_conflict)| FootprintSpec {
            reads,
            writes,
            claims,
            pools: pools
                .into_iter()
                .map(|(pool, units, capacity)| PoolShare { pool, units, capacity })
                .collect(),
            ordered,
            on_conflict: on_conflict.0,
        })
        .boxed()
}

fn body() -> BoxedStrategy<Body> {
    let params = prop::collection::vec((maybe(text()), text(), any::<bool>()), 0..3);
    let history = prop_oneof![
        Just(History::default()),
        (1..9u32).prop_map(History::Days),
        (1..9u32).prop_map(History::Count)
    ];
    let first = (text(), pairs(), pairs(), params, prop::collection::vec(step(), 1..4));
    let second =
        ([maybe(step()), maybe(step()), maybe(step()), maybe(step())], maybe(1..9_000_000i64), 1..1001u16);
    let third = (maybe(text()), maybe(texts()), footprint(), history);
    (first, second, prop::collection::vec(precondition(), 0..2), third)
        .prop_map(
            |(
                (description, labels, env, params, mut steps),
                (handlers, timeout_ms, max_active_steps),
                preconditions,
                third,
            )| {
                let (dir, shell, footprint, history) = third;
                for (at, step) in steps.iter_mut().enumerate() {
                    step.depends = (0..at).map(|no| StepNo(no as u16)).collect();
                }
                Body {
                    description,
                    labels,
                    env,
                    params: params
                        .into_iter()
                        .map(|(name, default, required)| Param { name, default, required })
                        .collect(),
                    steps,
                    children: vec!["child".parse().expect("a name")],
                    handlers: Handlers { steps: handlers.map(|step| step.map(Box::new)) },
                    preconditions,
                    timeout_ms,
                    max_active_steps,
                    dir,
                    shell,
                    footprint,
                    history,
                    disabled: max_active_steps % 2 == 0,
                    create_dir: max_active_steps % 3 == 0,
                    dotenv: (max_active_steps % 5 == 0).then(|| {
                        Box::new(Dotenv { folder: "/srv/jobs".to_owned(), files: vec![".env".to_owned()] })
                    }),
                    partial_success: max_active_steps % 7 == 0,
                }
            },
        )
        .boxed()
}

fn policy() -> BoxedStrategy<Policy> {
    let misfire = prop::sample::select(Misfire::WORDS);
    let overlap = prop::sample::select(Overlap::WORDS);
    (misfire, 0..9_000_000i64, overlap, -9..9i32, any::<bool>(), any::<bool>())
        .prop_map(|(misfire, catchup_window_ms, overlap, priority, skip_if_successful, at_most_once)| {
            Policy {
                misfire: misfire.0,
                catchup_window_ms,
                overlap: overlap.0,
                priority,
                skip_if_successful,
                at_most_once,
            }
        })
        .boxed()
}

fn schedule() -> BoxedStrategy<ScheduleText> {
    let rows = [
        ("0 9 * * 1-5", Dialect::Cadran),
        ("*/7 2,3 L * *", Dialect::Cadran),
        ("CRON_TZ=Asia/Tokyo 30 8 * * *", Dialect::Cadran),
        ("0 0 9 ? * MON", Dialect::Quartz),
        ("0 9 */2 * 1", Dialect::Vixie),
        ("30 2 * * *", Dialect::Dagu),
        ("every 250ms", Dialect::Cadran),
        ("every 1m from 2026-01-01T00:00:07", Dialect::Cadran),
        ("at 2030-01-01T09:00:00", Dialect::Cadran),
    ];
    let actions = [ScheduleAction::Start, ScheduleAction::Stop, ScheduleAction::Restart];
    let zones = ["UTC", "Europe/Paris", "America/New_York"];
    let dsts = [Dst::Auto, Dst::Skip, Dst::Shift, Dst::Both];
    (
        prop::sample::select(rows.to_vec()),
        prop::sample::select(actions.to_vec()),
        prop::sample::select(zones.to_vec()),
        prop::sample::select(dsts.to_vec()),
    )
        .prop_map(|((text, dialect), action, zone, dst)| ScheduleText {
            not_before: (dst == Dst::Skip).then_some(1_000),
            not_after: (dst == Dst::Both || dst == Dst::Skip).then_some(2_000_000_000_000),
            text: text.to_owned(),
            action,
            zone: Zone::get(zone).unwrap(),
            dialect,
            dst,
        })
        .boxed()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_encoded_is_decoded(
        schedules in prop::collection::vec(schedule(), 0..4),
        policy in policy(),
        body in body(),
    ) {
        let text = encode(&schedules, &policy, &body);
        let mut decoder = Decoder::default();
        let job = decoder.decode(name(), &text).unwrap();
        let expected: Vec<ScheduleEntry> = schedules
            .iter()
            .map(|text| ScheduleEntry { schedule: Arc::new(text.compile().unwrap()), action: text.action })
            .collect();
        prop_assert_eq!(&*job.schedules, expected.as_slice());
        prop_assert_eq!(job.policy, policy);
        prop_assert_eq!(&*job.body, &body);
        prop_assert_eq!(stored_schedules(&name(), &text).unwrap(), schedules.clone());
        // The same job gives the same text, and the same text the same job.
        prop_assert_eq!(&*encode(&schedules, &job.policy, &job.body), &*text);
        let again = decoder.decode(name(), &text).unwrap();
        prop_assert!(Arc::ptr_eq(&again.body, &job.body) && Arc::ptr_eq(&again.schedules, &job.schedules));
    }
}

/// The exact texts: changing one of them makes old stores unreadable, or every job look changed.
#[test]
fn texts_of_version_1() {
    let check = |yaml: &str, expected: &str| {
        let parsed = read_job(yaml.as_bytes(), "job", &ReadOptions::default()).unwrap();
        assert_eq!(&*parsed.definition, expected, "{yaml}");
        let job = Decoder::default().decode(name(), expected).unwrap();
        assert_eq!((job.body, job.policy), (parsed.job.body, parsed.job.policy));
    };
    check("run: 'true'\n", r#"{"v":1,"body":{"steps":[{"name":"main","run":"true"}]}}"#);
    check(
        "run: date\nschedule: '*/5 * * * *'\n",
        r#"{"v":1,"schedules":["*/5 * * * *"],"body":{"steps":[{"name":"main","run":"date"}]}}"#,
    );
    check(
        "run: [a, b]\nschedule: {stop: {cron: 0 9 * * *, timezone: Europe/Paris, dst: skip}}\nretry: never\npriority: 3\n",
        r#"{"v":1,"schedules":[{"text":"0 9 * * *","zone":"Europe/Paris","action":"stop","dst":"skip"}],"priority":3,"at_most_once":true,"body":{"steps":[{"name":"main","program":["a","b"]}]}}"#,
    );
    check(
        "steps:\n- {name: a, script: x, retry: {limit: 2, interval: 1s, backoff: 1.5}}\n- {run: y, depends: a, output: O}\nhandlers: {exit: z}\n",
        r#"{"v":1,"body":{"steps":[{"name":"a","script":"x","retry":{"limit":2,"interval_ms":1000,"backoff":1.5}},{"name":"step_2","run":"y","depends":[0],"output":"O"}],"handlers":[null,null,null,{"name":"on_exit","run":"z"}]}}"#,
    );
    check(
        "run: x\nfootprint: {reads: 'a:b', writes: ['c:d'], on_conflict: skip, ordered: true}\n",
        r#"{"v":1,"body":{"steps":[{"name":"main","run":"x"}],"reads":["a:b"],"writes":["c:d"],"ordered":true,"on_conflict":"skip"}}"#,
    );
}

#[test]
fn a_plain_job_is_short() {
    let yaml = "schedule: 0 3 * * *\ntimezone: Europe/Paris\nrun: /usr/local/bin/backup --all\n";
    let parsed = read_job(yaml.as_bytes(), "job", &ReadOptions::default()).unwrap();
    assert!(parsed.definition.len() < 140, "{} bytes", parsed.definition.len());
}

#[test]
fn jobs_that_are_alike_share() {
    let mut decoder = Decoder::default();
    let text = |minute: u32, line: &str| {
        format!(
            r#"{{"v":1,"schedules":["{minute} * * * *"],"body":{{"steps":[{{"name":"main","run":"{line}"}}]}}}}"#
        )
    };
    let one = decoder.decode("one".parse().unwrap(), &text(1, "x")).unwrap();
    let two = decoder.decode("two".parse().unwrap(), &text(2, "x")).unwrap();
    let three = decoder.decode("three".parse().unwrap(), &text(1, "y")).unwrap();
    assert!(Arc::ptr_eq(&one.body, &two.body));
    assert!(!Arc::ptr_eq(&one.schedules, &two.schedules));
    assert!(Arc::ptr_eq(&one.schedules, &three.schedules));
    assert!(!Arc::ptr_eq(&one.body, &three.body));
    assert_eq!(two.name.as_str(), "two");
}

#[test]
fn what_does_not_read_says_which_job_and_why() {
    let check = |text: &str, expected: &str| {
        let error = Decoder::default().decode(name(), text).unwrap_err();
        assert!(error.to_string().starts_with("the stored definition of job job "), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    };
    check("", "does not read");
    check("[]", "does not read");
    check(r#"{"v":1}"#, "missing field `body`");
    check(r#"{"v":2,"body":{"steps":[]}}"#, "version 2; this program reads up to 1");
    check(r#"{"v":1,"body":{"steps":[]}}"#, "0 steps");
    check(
        r#"{"v":1,"body":{"steps":[{"name":"a"}]}}"#,
        "not exactly one of run, program, script and handler",
    );
    check(r#"{"v":1,"body":{"steps":[{"name":"a","run":"x","depends":[7]}]}}"#, "depends on step 7");
    check(r#"{"v":1,"schedules":["61 * * * *"],"body":{"steps":[{"name":"a","run":"x"}]}}"#, "bad schedule");
    check(r#"{"v":1,"overlap":"zzz","body":{"steps":[{"name":"a","run":"x"}]}}"#, "overlap cannot be `zzz`");
    check(r#"{"v":1,"future":1,"body":{"steps":[{"name":"a","run":"x"}]}}"#, "unknown field `future`");
    let schedule = DecodeError::Schedule { name: name(), why: "w".into() };
    assert_eq!(schedule.to_string(), "the stored definition of job job has a bad schedule: w");
}
