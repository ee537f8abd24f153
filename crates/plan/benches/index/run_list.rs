//! From a run list to an index, and reading it: against the plain design.

use std::sync::Arc;

use cadran_plan::index::{Buffers, Index, Run, Window};

use crate::measure::{Effort, allocated};
use crate::plain;
use cadran_dev::bench_table::Table;

/// A Monday morning, on the hour.
pub(crate) const START: i64 = 1_789_974_000_000;
pub(crate) const HOUR: i64 = 3_600_000;

/// A list of runs grouped by job, as generating makes it, and the ids of its jobs.
pub(crate) struct List {
    pub(crate) runs: Vec<Run>,
    pub(crate) window: Window,
    ids: Vec<String>,
}

impl List {
    /// `jobs` jobs with `each` runs; `due(job, n)` is counted from the start.
    pub(crate) fn new(jobs: u32, each: u32, window_ms: i64, due: impl Fn(u64, u64) -> i64) -> List {
        let mut runs = Vec::with_capacity(jobs as usize * each as usize);
        for job in 0..jobs {
            let first = runs.len();
            runs.extend((0..each).map(|n| Run { due: START + due(job.into(), n.into()), job }));
            runs[first..].sort_unstable();
        }
        let ids = (0..jobs).map(|job| format!("team-{}/job-{job:07}", job % 37)).collect();
        List { runs, window: Window::new(START, START + window_ms), ids }
    }

    /// Every job each minute.
    pub(crate) fn dense(jobs: u32, minutes: u32) -> List {
        List::new(jobs, minutes, i64::from(minutes) * 60_000, |_, n| n as i64 * 60_000)
    }

    /// Each job at seconds of its own within the hour.
    pub(crate) fn seconds(jobs: u32, each: u32) -> List {
        List::new(jobs, each, HOUR, |job, n| (scatter(job << 20 | n) % 3_600) as i64 * 1000)
    }

    /// Each job at milliseconds of its own within the hour.
    pub(crate) fn millis(jobs: u32, each: u32) -> List {
        List::new(jobs, each, HOUR, |job, n| (scatter(job << 20 | n) % 3_600_000) as i64)
    }

    pub(crate) fn plain(&self) -> Vec<plain::PlainRun<'_>> {
        self.runs.iter().map(|run| (run.due, self.ids[run.job as usize].as_str())).collect()
    }
}

/// A fixed mixing of bits, so that every run measures the same data.
pub(crate) fn scatter(n: u64) -> u64 {
    let mut x = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// One million runs from a list, and what they take.
pub(crate) fn build(effort: Effort, _quick: bool, table: &mut Table) {
    let mut buffers = Buffers::default();
    let lists = [
        ("1 M dense (10,000 jobs x 100 minutes)", List::dense(10_000, 100), Some(25.0), 4.5),
        ("1 M spread over seconds", List::seconds(10_000, 100), Some(15.0), 4.5),
        ("1 M at milliseconds", List::millis(10_000, 100), Some(5.0), 8.5),
        ("100,000 spread over seconds", List::seconds(1_000, 100), None, 4.5),
        ("100,000 at milliseconds", List::millis(1_000, 100), None, 8.5),
        (
            "100,000 seconds, 24 hours",
            List::new(1_000, 100, 24 * HOUR, |j, n| (scatter(j << 20 | n) % 86_400) as i64 * 1000),
            None,
            4.5,
        ),
    ];
    for (name, list, goal, bytes_goal) in lists {
        let (index, left, _) =
            allocated(|| Index::from_runs(&list.runs, list.window, &mut Buffers::default()));
        table.at_most(&format!("{name}: memory"), left as f64 / index.len() as f64, "bytes/run", bytes_goal);
        let bytes = index.bytes() as f64 / index.len() as f64;
        assert!((bytes - left as f64 / index.len() as f64).abs() < 0.05, "bytes() says {bytes}");
        let plain = effort.best(|| list.plain(), plain::build);
        let ours = effort.renewed(&mut buffers, |buffers| Index::from_runs(&list.runs, list.window, buffers));
        let label = format!("{name}: list to index");
        match goal {
            Some(goal) => table.faster(&label, ours, ("plain", plain), goal),
            None => table.beside(&label, ours, ("plain", plain)),
        }
    }
    let mut shuffled = List::seconds(10_000, 100);
    shuffled.runs.sort_unstable_by_key(|run| scatter(run.due as u64 ^ u64::from(run.job) << 40));
    let plain = effort.best(|| shuffled.plain(), plain::build);
    let ours =
        effort.renewed(&mut buffers, |buffers| Index::from_runs(&shuffled.runs, shuffled.window, buffers));
    table.beside("1 M spread over seconds, shuffled: list to index", ours, ("plain", plain));
}

/// Looks at every job, several at a time.
fn read_through(jobs: &[u32]) -> u32 {
    let (chunks, rest) = jobs.as_chunks::<32>();
    let mut lanes = [0u32; 32];
    for chunk in chunks {
        lanes.iter_mut().zip(chunk).for_each(|(lane, job)| *lane ^= job);
    }
    lanes.iter().chain(rest).fold(0, |all, job| all ^ job)
}

/// Queries of several lengths on several sizes, peek, forecasts.
pub(crate) fn query(effort: Effort, _quick: bool, table: &mut Table) {
    let mut buffers = Buffers::default();
    for (name, list) in [("1 M dense", List::dense(10_000, 100)), ("1 M seconds", List::seconds(10_000, 100))]
    {
        let plain = plain::build(list.plain());
        let index = Index::from_runs(&list.runs, list.window, &mut buffers);
        for (label, span) in
            [("1 s", 1_000), ("30 s", 30_000), ("1 min", 60_000), ("10 min", 600_000), ("1 h", HOUR)]
        {
            let (start, end) = (START + HOUR / 2, START + HOUR / 2 + span);
            let count = index.query(start, end).len();
            let window = (&plain[..], start, end);
            let copy = effort.best_of_many(16, window, |(runs, start, end)| plain::query(runs, start, end));
            let copy_read = effort.best_of_many(16, window, |(runs, start, end)| {
                let found = plain::query(runs, start, end);
                found.iter().fold(0u32, |sum, run| {
                    sum.wrapping_add(run.1.as_bytes().iter().map(|&byte| u32::from(byte)).sum())
                })
            });
            let window = (&index, start, end);
            let read = effort.best_of_many(1_000, window, |(index, start, end)| {
                index.query(start, end).slices().fold(0, |sum, jobs| sum ^ read_through(jobs))
            });
            let label = format!("{name}, {label} ({count} runs): read through");
            table.faster(&label, read, ("plain's copy, its ids read", copy_read), 50.0);
            table.beside(&label, read, ("plain's copy, not read", copy));
        }
        let many = 100_000;
        let made =
            effort.best_of_many(many, (&index, START), |(index, start)| index.query(start, start + HOUR));
        table.time(&format!("{name}: making a query"), made);
        let iterated = effort.best_of_many(1, &index, |index| {
            index.into_iter().map(|(due, job)| due as u64 ^ u64::from(job)).sum::<u64>()
        });
        table.time(&format!("{name}: every (due, job) one by one"), iterated);
        table.time(&format!("{name}: peek"), effort.best_of_many(many, &index, Index::peek));
        let second =
            effort.best_of_many(many, (&index, START + 120_000), |(index, at)| index.second(at).as_slice());
        table.time(&format!("{name}: one second's slice"), second);
        let forecast =
            effort.best_of_many(100, (&index, START), |(index, start)| index.counts_per_minute(start, 60));
        table.time(&format!("{name}: counts of 60 minutes"), forecast);
    }
}

/// Building 10 to 10 M runs.
pub(crate) fn sizes(effort: Effort, quick: bool, table: &mut Table) {
    let mut buffers = Buffers::default();
    for (jobs, each) in
        [(10, 1), (100, 1), (100, 10), (1_000, 10), (1_000, 100), (10_000, 100), (100_000, 100)]
    {
        let runs = jobs * each;
        if quick && runs > 1_000_000 {
            continue;
        }
        let list = List::seconds(jobs, each);
        // Short ones many times between two looks at the clock.
        let calls = (100_000 / runs).max(1);
        let mut last = Arc::new(Index::default());
        let ours = effort.best_of_many(calls, &list, |list| {
            let next = Arc::new(Index::from_runs(&list.runs, list.window, &mut buffers));
            buffers.recycle(std::mem::replace(&mut last, next));
        });
        let plain = effort.best_of_batch(calls as usize, || list.plain(), plain::build);
        table.beside(&format!("{runs} runs spread over seconds: list to index"), ours, ("plain", plain));
        let index = Index::from_runs(&list.runs, list.window, &mut buffers);
        table.time(&format!("{runs} runs: peek"), effort.best_of_many(100_000, &index, Index::peek));
    }
}
