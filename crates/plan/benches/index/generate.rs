//! Straight from schedules: against the plain sort alone, and against other crates that only generate.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use cadran_cron::{Dialect, Schedule, Zone};
use cadran_plan::index::{Buffers, Fleet, Index, Window, build};
use chrono::{DateTime, TimeZone as _, Utc};

use crate::fleets::{self, ZONES};
use crate::measure::{Effort, allocated};
use crate::plain;
use crate::run_list::{HOUR, List, START};
use cadran_dev::bench_table::Table;

/// A million runs straight from schedules.
pub(crate) fn schedules(effort: Effort, _quick: bool, table: &mut Table) {
    let mut buffers = Buffers::default();
    let dense = List::dense(10_000, 100);
    let sort = effort.best(|| dense.plain(), plain::build);
    let fleet = fleets::fleet(&fleets::minutely(10_000), &["UTC"]).snapshot();
    let ours = effort.renewed(&mut buffers, |buffers| build(&fleet, dense.window, buffers));
    table.faster("1 M dense: minutely fleet to index", ours, ("plain sort", sort), 60.0);

    // As dense, but no two neighbours alike: every number is written on its own.
    let alternating: Vec<String> =
        (0..10_000).map(|job| ["* * * * *", "0-59 * * * *", "*/1 0-23 * * *"][job % 3].to_owned()).collect();
    let mut apart = Fleet::new();
    for (job, text) in alternating.iter().enumerate() {
        let zone = Zone::get(ZONES[job % ZONES.len()]).unwrap();
        apart.set(job as u32, &[Arc::new(Schedule::parse(text, &zone, Dialect::Cadran).unwrap())]);
    }
    let apart = apart.snapshot();
    assert_eq!(build(&apart, dense.window, &mut buffers).len(), 1_000_000);
    let ours = effort.renewed(&mut buffers, |buffers| build(&apart, dense.window, buffers));
    table.faster("1 M dense, neighbours in different zones", ours, ("plain sort", sort), 60.0);

    let unique = fleets::fleet(&fleets::unique(12_000), &["UTC"]).snapshot();
    let window = Window::new(START, START + HOUR);
    let count = build(&unique, window, &mut buffers).len();
    let spread = List::seconds(10_000, 100);
    let sort = effort.best(|| spread.plain(), plain::build);
    let ours = effort.renewed(&mut buffers, |buffers| build(&unique, window, buffers));
    table.faster(
        &format!("{count} runs at seconds, all schedules different"),
        ours,
        ("plain sort of 1 M", sort),
        15.0,
    );
}

/// One hour of fleets, generated and indexed, beside crates that only generate.
pub(crate) fn peers(effort: Effort, _quick: bool, table: &mut Table) {
    let (window, end) = (Window::new(START, START + HOUR), START + HOUR);
    let mut buffers = Buffers::default();
    for (name, expressions) in [("mixed", fleets::mixed(10_000)), ("minutely", fleets::minutely(10_000))] {
        let fleet = fleets::fleet(&expressions, &["UTC"]);
        let snapshot = fleet.snapshot();
        let index = build(&snapshot, window, &mut buffers);
        let ours = effort.renewed(&mut buffers, |buffers| build(&snapshot, window, buffers));
        let label = format!("one hour of {name} ({} different, {} runs)", fleet.schedules_len(), index.len());

        let mut dues: Vec<i64> = Vec::with_capacity(1_000_000);
        let start: DateTime<Utc> = Utc.timestamp_millis_opt(START).unwrap();
        let few = Effort { budget: Duration::ZERO, times_min: 3 };

        let peer: Vec<_> =
            expressions.iter().map(|text| cron::Schedule::from_str(&format!("0 {text}")).unwrap()).collect();
        let before = start - chrono::TimeDelta::milliseconds(1);
        let time = few.best(
            || (),
            |()| {
                dues.clear();
                for schedule in &peer {
                    dues.extend(
                        schedule
                            .after(&before)
                            .map(|due| due.timestamp_millis())
                            .take_while(|&due| due < end),
                    );
                }
            },
        );
        assert_eq!(dues.len(), index.len(), "cron");
        table.faster(&label, ours, ("cron, generating alone,", time), 50.0);

        let peer: Vec<_> = expressions.iter().map(|text| croner::Cron::from_str(text).unwrap()).collect();
        let zoned = jiff::Timestamp::from_millisecond(START).unwrap().to_zoned(jiff::tz::TimeZone::UTC);
        let time = few.best(
            || (),
            |()| {
                dues.clear();
                for schedule in &peer {
                    let found = schedule.iter_from(zoned.clone(), croner::Direction::Forward);
                    dues.extend(
                        found.map(|due| due.timestamp().as_millisecond()).take_while(|&due| due < end),
                    );
                }
            },
        );
        assert_eq!(dues.len(), index.len(), "croner");
        table.faster(&label, ours, ("croner, generating alone,", time), 100.0);

        let peer: Vec<saffron::Cron> = expressions.iter().map(|text| text.parse().unwrap()).collect();
        let time = few.best(
            || (),
            |()| {
                dues.clear();
                for schedule in peer.iter().cloned() {
                    dues.extend(
                        schedule
                            .iter_from(start)
                            .map(|due| due.timestamp_millis())
                            .take_while(|&due| due < end),
                    );
                }
            },
        );
        assert_eq!(dues.len(), index.len(), "saffron");
        table.faster(&label, ours, ("saffron, generating alone,", time), 8.0);

        let zoned = fleets::fleet(&expressions, &ZONES);
        let snapshot = zoned.snapshot();
        let ours = effort.renewed(&mut buffers, |buffers| build(&snapshot, window, buffers));
        table
            .time(&format!("one hour of {name} over nine zones ({} different)", zoned.schedules_len()), ours);
    }
}

/// A million jobs, and ten million runs.
pub(crate) fn memory(effort: Effort, quick: bool, table: &mut Table) {
    let schedules: Vec<Arc<Schedule>> = fleets::mixed(1_000_000)
        .iter()
        .map(|text| Arc::new(Schedule::parse(text, &Zone::utc(), Dialect::Cadran).unwrap()))
        .collect();
    let (mut fleet, left, _) = allocated(|| {
        let mut fleet = Fleet::new();
        (0..).zip(&schedules).for_each(|(job, schedule)| fleet.set(job, std::slice::from_ref(schedule)));
        fleet
    });
    table.at_most(
        &format!("1 M jobs, {} schedules: fleet", fleet.schedules_len()),
        left as f64 / 1e6,
        "bytes/job",
        30.0,
    );
    table.time("1 M jobs: snapshot", effort.best(|| (), |()| fleet.snapshot()));
    let kept = fleet.snapshot();
    let mut turn = 0;
    let set = effort.best_of_many(1_000, 500_000, |job| {
        turn = (turn + 1) % 1_000;
        fleet.set(job + turn, &schedules[turn as usize..=turn as usize]);
    });
    table.time("1 M jobs: set one", set);
    drop((kept, schedules));
    let distinct: Vec<Arc<Schedule>> = (0..1_000_000u64)
        .map(|job| {
            let rule = cadran_cron::Rule::Every { period_ms: 3_600_000, anchor_ms: job as i64 * 3 };
            Arc::new(Schedule::new(rule, Zone::utc(), cadran_cron::Dst::Auto))
        })
        .collect();
    let (fleet, left, _) = allocated(|| {
        let mut fleet = Fleet::new();
        (0..).zip(&distinct).for_each(|(job, schedule)| fleet.set(job, std::slice::from_ref(schedule)));
        fleet
    });
    // Beside the schedule itself: the job's number for it, a count of users, a place in the hash table.
    let counted =
        format!("1 M jobs, all schedules different: fleet, schedules of {} included", size_of::<Schedule>());
    table.at_most(&counted, left as f64 / 1e6, "bytes/job", 100.0);
    drop((fleet, distinct));

    ten_million(quick, table);
}

/// Ten million runs, straight from schedules and from lists at both grains.
fn ten_million(quick: bool, table: &mut Table) {
    let jobs = if quick { 20_000 } else { 100_000 };
    let fleet = fleets::fleet(&fleets::minutely(jobs), &ZONES).snapshot();
    let window = Window::new(START, START + 100 * 60_000);
    let (index, left, beyond) = allocated(|| build(&fleet, window, &mut Buffers::default()));
    table.figure(&format!("{} runs: index", index.len()), &format!("{:.1} MB", left as f64 / 1e6));
    let label = format!("{} runs from schedules: most memory beyond the index", index.len());
    table.at_most(&label, beyond as f64 / 1e6, "MB", 100.0);
    drop(index);
    let few = Effort { budget: Duration::from_millis(500), times_min: 3 };
    let mut buffers = Buffers::default();
    table.time(
        &format!("{} runs from schedules: build", jobs * 100),
        few.renewed(&mut buffers, |buffers| build(&fleet, window, buffers)),
    );
    drop((fleet, buffers));

    let jobs = if quick { 10_000 } else { 100_000 };
    for (grain, list) in [("seconds", List::seconds as fn(u32, u32) -> List), ("milliseconds", List::millis)]
    {
        let list = list(jobs, 100);
        let (index, _, beyond) =
            allocated(|| Index::from_runs(&list.runs, list.window, &mut Buffers::default()));
        let label = format!("{} runs from a list at {grain}: most memory beyond the index", index.len());
        table.at_most(&label, beyond as f64 / 1e6, "MB", 100.0);
    }
}
