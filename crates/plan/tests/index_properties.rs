//! The index against a plain oracle: a list of (due, job), sorted, without duplicates.

use std::collections::BTreeMap;
use std::sync::Arc;

use cadran_cron::{Dialect, Millis, Schedule, Zone};
use cadran_plan::index::{Buffers, Fleet, Index, Run, Window, build};
use proptest::prelude::*;

/// 2026-03-29T00:00Z: Paris changes its clocks an hour later, the others do not.
const START: Millis = 1_774_742_400_000;

/// Expressions that use minutes, seconds, days and elapsed time in every way that is expanded differently.
const EXPRESSIONS: &[&str] = &[
    "* * * * *",
    "*/15 * * * *",
    "0 * * * *",
    "7,37 */2 * * *",
    "30 2 * * *",
    "0 0 1 * *",
    "*/20 * * * * *",
    "30 */10 * * * *",
    "5-9 0 * * * *",
    "* * * * * *",
    "every 90s",
    "every 7s",
    "every 5m",
    "every 45m",
    "every 1700ms",
    "every 61s",
];

const ZONES: &[&str] =
    &["UTC", "Europe/Paris", "Asia/Kolkata", "Asia/Kathmandu", "America/New_York", "Australia/Lord_Howe"];

fn schedule(expression: usize, zone: usize) -> Arc<Schedule> {
    let zone = Zone::get(ZONES[zone % ZONES.len()]).unwrap();
    let text = EXPRESSIONS[expression % EXPRESSIONS.len()];
    Arc::new(Schedule::parse(text, &zone, Dialect::Cadran).unwrap_or_else(|error| panic!("{text}: {error}")))
}

/// A job with up to three schedules; none means that it is removed.
fn change() -> impl Strategy<Value = (u32, Vec<(usize, usize)>)> {
    (0..40u32, prop::collection::vec((0..EXPRESSIONS.len(), 0..ZONES.len()), 0..4))
        .prop_map(|(job, schedules)| (if job < 35 { job } else { job * 1_000 }, schedules))
}

fn apply(
    fleet: &mut Fleet,
    model: &mut BTreeMap<u32, Vec<Arc<Schedule>>>,
    change: &(u32, Vec<(usize, usize)>),
) {
    let schedules: Vec<_> = change.1.iter().map(|&(expression, zone)| schedule(expression, zone)).collect();
    fleet.set(change.0, &schedules);
    if schedules.is_empty() {
        model.remove(&change.0)
    } else {
        model.insert(change.0, schedules)
    };
}

fn oracle(model: &BTreeMap<u32, Vec<Arc<Schedule>>>, from: Millis, to: Millis) -> Vec<(Millis, u32)> {
    let mut runs = Vec::new();
    for (&job, schedules) in model {
        for schedule in schedules {
            let mut after = from - 1;
            while let Some(due) = schedule.next(after).filter(|&due| due < to) {
                runs.push((due, job));
                after = due;
            }
        }
    }
    runs.sort_unstable();
    runs.dedup();
    runs
}

fn check(index: &Index, expected: &[(Millis, u32)]) {
    assert!(index.into_iter().eq(expected.iter().copied()), "{:?}", difference(index, expected));
    assert_eq!(index.len(), expected.len());
    assert_eq!(index.peek(), expected.first().copied());
}

fn difference(
    index: &Index,
    expected: &[(Millis, u32)],
) -> Option<(usize, Option<(Millis, u32)>, Option<(Millis, u32)>)> {
    let found: Vec<_> = index.into_iter().collect();
    let place = (0..=found.len().max(expected.len())).find(|&n| found.get(n) != expected.get(n))?;
    Some((place, found.get(place).copied(), expected.get(place).copied()))
}

/// Every way of reading a query gives what the oracle has in that window.
fn check_query(index: &Index, all: &[(Millis, u32)], start: Millis, end: Millis) {
    let expected: Vec<_> = all.iter().copied().filter(|run| start <= run.0 && run.0 < end).collect();
    let runs = index.query(start, end);
    assert_eq!(runs.iter().collect::<Vec<_>>(), expected);
    assert_eq!(runs.len(), expected.len());
    assert_eq!(runs.is_empty(), expected.is_empty());
    assert_eq!(runs.first(), expected.first().copied());
    let whole: Vec<_> = expected.iter().copied().filter(|run| run.0 % 1000 == 0).collect();
    let between: Vec<_> = expected.iter().copied().filter(|run| run.0 % 1000 != 0).collect();
    let by_second = runs.seconds().flat_map(|(due, jobs)| jobs.iter().map(move |job| (due, job)));
    assert_eq!(by_second.collect::<Vec<_>>(), whole);
    assert!(runs.slices().flatten().copied().eq(whole.iter().map(|run| run.1)));
    assert_eq!(runs.fine().collect::<Vec<_>>(), between);
    if let Some(slice) = runs.as_slice() {
        assert!(slice.iter().copied().eq(expected.iter().map(|run| run.1)));
    }
    for due in [start, end] {
        let jobs: Vec<u32> =
            all.iter().filter(|run| run.0 == due && due % 1000 == 0).map(|run| run.1).collect();
        assert!(index.second(due).iter().eq(jobs.iter().copied()));
        assert_eq!(index.second(due).len(), jobs.len());
    }
}

fn instant() -> impl Strategy<Value = Millis> {
    prop_oneof![
        (-2i64..40).prop_map(|n| n * 600_000),
        (0i64..12_000).prop_map(|n| n * 1_000),
        -1_000_000i64..12_000_000,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_run_list_gives_the_sorted_list(
        runs in prop::collection::vec((instant(), prop_oneof![0..5u32, any::<u32>()]), 0..800),
        from in instant(),
        span in prop_oneof![9 => 0i64..15_000_000, 1 => Just(Window::SPAN_MS_MAX / 20)],
        queries in prop::collection::vec((instant(), instant()), 4),
    ) {
        let list: Vec<Run> = runs.iter().map(|&(due, job)| Run { due, job }).collect();
        let mut buffers = Buffers::default();
        let mut expected: Vec<_> = runs.into_iter().filter(|run| (from..from + span).contains(&run.0)).collect();
        expected.sort_unstable();
        expected.dedup();
        // Twice: what the buffers keep must not show.
        for _ in 0..2 {
            let index = Index::from_runs(&list, Window::new(from, from + span), &mut buffers);
            check(&index, &expected);
            for &(start, end) in &queries {
                check_query(&index, &expected, start, end);
            }
            let minutes = (span / 60_000 + 1).min(500) as usize;
            let counts = index.counts_per_minute(from, minutes);
            for (n, &count) in counts.iter().enumerate() {
                let start = from + n as Millis * 60_000;
                let inside = expected.iter().filter(|run| (start..start + 60_000).contains(&run.0)).count();
                prop_assert_eq!(count as usize, inside);
            }
            buffers.recycle(Arc::new(index));
        }
    }

    #[test]
    fn a_fleet_gives_what_its_schedules_name(
        changes in prop::collection::vec(change(), 1..60),
        from in instant(),
        span in 0i64..9_000_000,
        queries in prop::collection::vec((instant(), instant()), 4),
    ) {
        let (mut fleet, mut model) = (Fleet::new(), BTreeMap::new());
        changes.iter().for_each(|change| apply(&mut fleet, &mut model, change));
        prop_assert_eq!(fleet.len(), model.len());
        prop_assert!(fleet.jobs().eq(model.keys().copied()));
        let (from, to) = (START + from, START + from + span);
        let expected = oracle(&model, from, to);
        let index = build(&fleet.snapshot(), Window::new(from, to), &mut Buffers::default());
        check(&index, &expected);
        for (start, end) in queries {
            check_query(&index, &expected, START + start, START + end);
        }
        let mut dues = vec![(0, 0)];
        fleet.dues_between(from, to, &mut dues);
        prop_assert_eq!(&dues[1..], expected.as_slice());
    }

    #[test]
    fn a_patch_equals_a_rebuild(
        first in prop::collection::vec(change(), 0..50),
        then in prop::collection::vec(prop::collection::vec(change(), 1..4), 1..4),
        from in instant(),
        span in 0i64..9_000_000,
    ) {
        let (mut fleet, mut model) = (Fleet::new(), BTreeMap::new());
        first.iter().for_each(|change| apply(&mut fleet, &mut model, change));
        let window = Window::new(START + from, START + from + span);
        let mut buffers = Buffers::default();
        let mut index = build(&fleet.snapshot(), window, &mut buffers);
        for changes in then {
            let kept = Arc::new(index.clone());
            let before = oracle(&model, window.from(), window.to());
            changes.iter().for_each(|change| apply(&mut fleet, &mut model, change));
            let jobs: Vec<u32> = changes.iter().map(|change| change.0).collect();
            index = index.with_changed(&fleet.snapshot(), &jobs, &mut buffers);
            check(&index, &oracle(&model, window.from(), window.to()));
            check(&kept, &before);
            // Memory that is taken back must not be memory that is still read.
            buffers.recycle(kept);
            check(&index, &oracle(&model, window.from(), window.to()));
        }
    }

    /// Changes and steps forward in any order: every index on the way is the one a fresh build gives, and the ones before
    /// it stay as they were.
    #[test]
    fn changes_and_steps_pile_up(
        steps in prop::collection::vec((prop::collection::vec(change(), 0..3), 0i64..900_000), 1..8),
    ) {
        let (mut fleet, mut model) = (Fleet::new(), BTreeMap::new());
        // Enough jobs that segments are patched and not written anew.
        (100..110).for_each(|job| apply(&mut fleet, &mut model, &(job, vec![(9, 0), (0, 1)])));
        let mut buffers = Buffers::default();
        let mut from = START;
        let mut index = build(&fleet.snapshot(), Window::new(from, from + 1_800_000), &mut buffers);
        let mut kept = Vec::new();
        for (changes, step) in steps {
            kept.push((index.clone(), (&index).into_iter().collect::<Vec<_>>()));
            changes.iter().for_each(|change| apply(&mut fleet, &mut model, change));
            let jobs: Vec<u32> = changes.iter().map(|change| change.0).collect();
            index = index.with_changed(&fleet.snapshot(), &jobs, &mut buffers);
            from += step;
            let window = Window::new(from, from + 1_800_000);
            index = index.advance(&fleet.snapshot(), window, &mut buffers);
            let fresh = build(&fleet.snapshot(), window, &mut Buffers::default());
            check(&index, &(&fresh).into_iter().collect::<Vec<_>>());
            check_query(&index, &oracle(&model, from, from + 700_000), from + 1_000, from + 699_000);
        }
        for (old, expected) in kept {
            check(&old, &expected);
        }
    }

    #[test]
    fn rolling_forward_equals_a_rebuild(
        changes in prop::collection::vec(change(), 0..40),
        steps in prop::collection::vec((-100_000i64..2_000_000, 0i64..5_000_000), 1..6),
        changed in change(),
    ) {
        let (mut fleet, mut model) = (Fleet::new(), BTreeMap::new());
        changes.iter().for_each(|change| apply(&mut fleet, &mut model, change));
        let mut buffers = Buffers::default();
        let mut from = START;
        let mut index = build(&fleet.snapshot(), Window::new(from, from + 1_000_000), &mut buffers);
        for (n, (step, span)) in steps.into_iter().enumerate() {
            if n == 1 {
                apply(&mut fleet, &mut model, &changed);
                index = index.with_changed(&fleet.snapshot(), &[changed.0], &mut buffers);
            }
            from += step;
            let window = Window::new(from, from + span);
            index = index.advance(&fleet.snapshot(), window, &mut buffers);
            prop_assert_eq!(index.window(), window);
            check(&index, &oracle(&model, window.from(), window.to()));
        }
    }
}

/// Enough runs for every way of sorting and every spelling of the directory.
#[test]
fn large_lists_agree_with_sorting() {
    let mix = |n: u64| (n ^ n >> 7).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    let grains: [&dyn Fn(u64) -> Millis; 4] = [
        &|n| (mix(n) % 20) as Millis * 60_000,
        &|n| (mix(n) % 1_200) as Millis * 1_000,
        &|n| (mix(n) % 1_200_000) as Millis,
        &|n| (mix(n) % if n % 2 == 0 { 7_000 } else { 1_200_000 }) as Millis,
    ];
    let mut buffers = Buffers::default();
    for grain in grains {
        let grouped: Vec<Run> =
            (0..40_000).map(|n| Run { due: START + grain(n), job: (n / 40) as u32 }).collect();
        let mut shuffled = grouped.clone();
        shuffled.sort_unstable_by_key(|run| mix(run.due as u64 ^ u64::from(run.job) << 24));
        let mut expected: Vec<_> = grouped.iter().map(|run| (run.due, run.job)).collect();
        expected.sort_unstable();
        expected.dedup();
        for runs in [grouped, shuffled] {
            let index = Index::from_runs(&runs, Window::new(START, START + 1_200_000), &mut buffers);
            check(&index, &expected);
            for step in 0..40 {
                let start = START + step * 31_007;
                check_query(&index, &expected, start, start + step * 2_500);
            }
            buffers.recycle(Arc::new(index));
        }
    }
}

/// A list looks like whole seconds and has something else in it after all, and lies partly outside the window.
#[test]
fn a_list_need_not_be_what_it_looks_like() {
    let minutely = |n: u64| START + (n % 9) as Millis * 60_000;
    let odd: [(&str, &dyn Fn(u64) -> Millis); 4] = [
        ("minutes only", &minutely),
        ("one at a second", &|n| minutely(n) + Millis::from(n == 4_321) * 17_000),
        ("one at a millisecond", &|n| minutely(n) + Millis::from(n == 4_321) * 17_003),
        ("a tenth at milliseconds", &|n| minutely(n) + Millis::from(n % 10 == 7) * 17_003),
    ];
    let mut buffers = Buffers::default();
    for (name, due) in odd {
        let runs: Vec<Run> = (0..9_700).map(|n| Run { due: due(n), job: (n / 9) as u32 }).collect();
        let window = Window::new(START + 60_000, START + 500_000);
        let mut expected: Vec<_> =
            runs.iter().filter(|run| window.contains(run.due)).map(|run| (run.due, run.job)).collect();
        expected.sort_unstable();
        assert!(expected.len() > 5_000, "{name}");
        check(&Index::from_runs(&runs, window, &mut buffers), &expected);
    }
}

/// More runs in a few seconds than a bucket has counters for, and jobs that do not fit the small packing.
#[test]
fn crowded_seconds_and_high_jobs_agree_with_sorting() {
    let mix = |n: u64| (n ^ n >> 7).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    for (span, job_step) in [(5_000, 1), (5_000, 1 << 18), (60_000, 1 << 18)] {
        let mut runs: Vec<Run> = (0..80_000)
            .map(|n| Run { due: START + (mix(n) % span) as Millis, job: (n / 80) as u32 * job_step })
            .collect();
        let mut expected: Vec<_> = runs.iter().map(|run| (run.due, run.job)).collect();
        expected.sort_unstable();
        expected.dedup();
        for _ in 0..2 {
            let window = Window::new(START, START + 90_000);
            let index = Index::from_runs(&runs, window, &mut Buffers::default());
            check(&index, &expected);
            runs.reverse();
        }
    }
}

/// A thousand jobs of a dense fleet are changed one after another: every index is right, and none of them grows.
#[test]
fn a_thousand_changes_pile_up_within_bounds() {
    let mut fleet = Fleet::new();
    (0..1_500).for_each(|job| fleet.set(job, &[schedule(0, job as usize)]));
    let mut buffers = Buffers::default();
    let window = Window::new(START, START + 1_800_000);
    let mut index = build(&fleet.snapshot(), window, &mut buffers);
    let mut slices_most = 0;
    for n in 0..1_000u32 {
        // Some lose runs, some get others, some are new, some come back.
        let (job, expression) = (n * 37 % 1_600, [1, 3, 8, 10, 0, 14][n as usize % 6]);
        if n % 7 == 0 {
            fleet.remove(job)
        } else {
            fleet.set(job, &[schedule(expression, 0)])
        }
        let next = index.with_changed(&fleet.snapshot(), &[job], &mut buffers);
        buffers.recycle(Arc::new(std::mem::replace(&mut index, next)));
        if n % 10 == 0 {
            slices_most = slices_most.max(index.runs().slices().count());
        }
        if n % 100 == 99 {
            let mut dues = Vec::new();
            fleet.dues_between(window.from(), window.to(), &mut dues);
            check(&index, &dues);
            check_query(&index, &dues, START + 599_500, START + 1_260_000);
            let fresh = build(&fleet.snapshot(), window, &mut Buffers::default()).bytes();
            let more = index.bytes() as f64 / fresh as f64;
            assert!(more < 1.15, "{more} times the memory of a fresh index after {n} changes");
        }
    }
    assert!(slices_most > 20, "the jobs stayed where they were: {slices_most} slices");
    assert!(slices_most <= index.len() / 16, "{slices_most} slices of {} runs", index.len());
}

/// Every zone of the database around every one of its clock changes, 2020–2037: the masks that a build expands rules to
/// name what the schedules name one by one.
#[test]
fn every_zone_around_every_clock_change() {
    let (first, last) = (1_577_836_800, 2_145_916_800);
    // The changes of all zones by instant, each zone's rules read once.
    let mut changes: BTreeMap<Millis, Vec<[Arc<Schedule>; 3]>> = BTreeMap::new();
    for name in Zone::names() {
        let zone = Zone::get(&name).unwrap();
        let parse = |text| Arc::new(Schedule::parse(text, &zone, Dialect::Cadran).unwrap());
        let rules = ["*/20 * * * *", "30 0-3 * * *", "0 15 1,2 * * *"].map(parse);
        let following = jiff::tz::TimeZone::get(&name).unwrap();
        let following = following.following(jiff::Timestamp::from_second(first).unwrap());
        for at in following.map(|change| change.timestamp().as_second()).take_while(|&at| at < last) {
            changes.entry(at * 1000).or_default().push(rules.clone());
        }
    }
    let (mut looked_at, mut buffers) = (0, Buffers::default());
    for (at, zones) in changes {
        let (mut fleet, mut model) = (Fleet::new(), BTreeMap::new());
        for (job, schedule) in (0..).zip(zones.iter().flatten()) {
            fleet.set(job, std::slice::from_ref(schedule));
            model.insert(job, vec![schedule.clone()]);
        }
        looked_at += zones.len();
        let window = Window::new(at - 3_600_000, at + 5_400_000);
        let index = build(&fleet.snapshot(), window, &mut buffers);
        check(&index, &oracle(&model, window.from(), window.to()));
    }
    assert!(looked_at > 4_000, "only {looked_at} changes were looked at");
}

/// So many runs between seconds that they are generated in smaller parts.
#[test]
fn a_fleet_of_short_periods_gives_what_its_schedules_name() {
    let (mut fleet, mut model) = (Fleet::new(), BTreeMap::new());
    let utc = Zone::utc();
    for (job, text) in [(3, "every 10ms"), (9, "every 330ms"), (1, "* * * * *"), (64, "every 10ms")] {
        let schedule = Arc::new(Schedule::parse(text, &utc, Dialect::Cadran).unwrap());
        fleet.set(job, std::slice::from_ref(&schedule));
        model.insert(job, vec![schedule]);
    }
    let window = Window::new(START + 500_007, START + 1_300_000);
    let index = build(&fleet.snapshot(), window, &mut Buffers::default());
    check(&index, &oracle(&model, window.from(), window.to()));
}

#[test]
fn a_list_index_rolls_forward_from_its_fleet() {
    let mut fleet = Fleet::new();
    fleet.set(3, &[schedule(0, 0)]);
    let snapshot = fleet.snapshot();
    let window = Window::new(START + 90_000, START + 1_500_000);
    let mut runs = Vec::new();
    snapshot.dues_between(window.from(), window.to(), &mut runs);
    let list: Vec<Run> = runs.iter().map(|&(due, job)| Run { due, job }).collect();
    let mut buffers = Buffers::default();
    let index = Index::from_runs(&list, window, &mut buffers);
    // The list ends inside a segment: what lies behind its end has to be found all the same.
    let later = Window::new(START, START + 3_600_000);
    check(
        &index.advance(&snapshot, later, &mut buffers),
        &oracle(&BTreeMap::from([(3, vec![schedule(0, 0)])]), START, later.to()),
    );
}

#[test]
fn schedules_are_kept_once_and_forgotten_with_their_last_job() {
    let mut fleet = Fleet::new();
    for job in 0..1_000 {
        fleet.set(job, &[schedule(0, 0), schedule(1, 1), schedule(0, 0)]);
    }
    assert_eq!((fleet.len(), fleet.schedules_len()), (1_000, 2));
    assert_eq!(fleet.schedules(7).count(), 2);
    fleet.set(0, &[schedule(1, 1)]);
    for job in 1..1_000 {
        fleet.remove(job);
    }
    assert_eq!((fleet.len(), fleet.schedules_len()), (1, 1));
    fleet.remove(0);
    fleet.remove(5_000_000);
    assert_eq!((fleet.len(), fleet.schedules_len()), (0, 0));
    assert!(fleet.is_empty());
}

#[test]
fn a_snapshot_does_not_see_later_changes() {
    let mut fleet = Fleet::new();
    fleet.set(1, &[schedule(0, 0)]);
    let snapshot = fleet.snapshot();
    fleet.remove(1);
    fleet.set(2, &[schedule(1, 0)]);
    let mut dues = Vec::new();
    snapshot.dues_between(START, START + 120_000, &mut dues);
    assert_eq!(dues, [(START, 1), (START + 60_000, 1)]);
}
