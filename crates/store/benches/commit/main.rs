//! How fast is a batch durable, and what does it cost?
//!
//! `cargo bench -p cadran-store --bench commit [-- --quick]`, with `CADRAN_TEST_POSTGRES` set to measure PostgreSQL
//! too. Three designs in the same run, on the same disk and server: row by row, *plain* (one multi-row statement per
//! batch into one narrow table), and the store. CPU is that of this process and, for PostgreSQL, of the server's
//! processes when they are on this machine.
#![allow(missing_docs)]
// A benchmark reads the clock; the ban is for code that decides.
#![allow(clippy::disallowed_methods)]

mod cpu;
mod designs;

use std::time::{Duration, Instant};

use cadran_core::{
    Batch, History, JobId, JobPut, JobState, Promise, RunId, RunStatus, RunUpdate, StepRecord, StepStatus,
    Trigger,
};
use cadran_store::Store;

use cpu::Cpu;
use designs::{Plain, RowByRow};

/// Runs of one batch: one tick of 10,000 schedules that are all due.
pub(crate) const BATCH: u64 = 10_000;

pub(crate) struct Scale {
    batches: u64,
    jobs: u32,
    load_jobs: u32,
    /// Rows written one by one, since a full batch would take too long.
    rows_one_by_one: u64,
}

fn main() {
    let quick = std::env::args().any(|arg| arg == "--quick");
    let scale = if quick {
        Scale { batches: 5, jobs: 50_000, load_jobs: 50_000, rows_one_by_one: 500 }
    } else {
        Scale { batches: 30, jobs: 200_000, load_jobs: 1_000_000, rows_one_by_one: 5_000 }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        println!(
            "{:<9} {:<10} {:<9} {:>12} {:>12} {:>10}",
            "store", "design", "work", "rows/s", "CPU us/row", "vs plain"
        );
        measure("memory", "memory:", None, &scale).await;
        let directory =
            tempfile::tempdir_in(std::env::var("CADRAN_BENCH_DIR").unwrap_or_else(|_| ".".into())).unwrap();
        let path = |name: &str| format!("sqlite:{}", directory.path().join(name).display());
        measure("sqlite", &path("store.db"), Some(&path("plain.db")), &scale).await;
        match std::env::var("CADRAN_TEST_POSTGRES") {
            Ok(url) if !url.is_empty() => {
                let (ours, plain) = designs::fresh_schemas(&url).await;
                measure("postgres", &ours, Some(&plain), &scale).await;
                designs::drop_schemas(&url).await;
            }
            _ => println!("postgres: left out; set CADRAN_TEST_POSTGRES to a server's URL"),
        }
    });
}

async fn measure(name: &str, url: &str, baseline: Option<&str>, scale: &Scale) {
    let mut plain_rates = [0.0; 3];
    if let Some(url) = baseline {
        let mut rows = RowByRow::open(url).await;
        let cpu = Cpu::of(url).await;
        let took =
            timed(&cpu, scale.rows_one_by_one, async || rows.insert(scale.rows_one_by_one).await).await;
        took.print(name, "row by row", "promise", None);
        let mut plain = Plain::open(url).await;
        for (at, work) in ["promise", "start", "end"].into_iter().enumerate() {
            let took = timed(&cpu, scale.batches * BATCH, async || {
                for batch in 0..scale.batches {
                    plain.write(work, batch * BATCH + 1).await;
                }
            })
            .await;
            plain_rates[at] = took.rate();
            took.print(name, "plain", work, None);
        }
    }

    let store = Store::open(url).await.unwrap();
    let cpu = Cpu::of(url).await;
    let batches: Vec<Batch> = registrations(0, scale.jobs).collect();
    let registered = timed(&cpu, scale.jobs.into(), async || {
        for batch in &batches {
            store.commit(batch).await.unwrap();
        }
    })
    .await;
    drop(batches);
    registered.print(name, "store", "register", None);
    let mut total = Duration::ZERO;
    for (at, work) in ["promise", "start", "end"].into_iter().enumerate() {
        let batches: Vec<Batch> = (0..scale.batches).map(|tick| batch(work, tick)).collect();
        let took = timed(&cpu, scale.batches * BATCH, async || {
            for batch in &batches {
                assert!(store.commit(batch).await.unwrap().refused.is_empty());
            }
        })
        .await;
        total += took.cpu;
        took.print(name, "store", work, Some(plain_rates[at]));
    }
    let per_run = total.as_secs_f64() * 1e6 / (scale.batches * BATCH) as f64;
    println!("{name:<9} {:<10} {:<9} {:>12} {per_run:>12.2}", "store", "whole run", "");

    for batch in registrations(scale.jobs, scale.load_jobs) {
        store.commit(&batch).await.unwrap();
    }
    let mut loaded = 0;
    let took =
        timed(&cpu, scale.load_jobs.into(), async || loaded = store.load().await.unwrap().jobs.len()).await;
    took.print(name, "store", "load", None);
    println!("{name:<9} {:<10} {:<9} {:>11.2}s for {loaded} jobs", "store", "load", took.wall.as_secs_f64());
    store.close().await;
}

struct Took {
    rows: u64,
    wall: Duration,
    cpu: Duration,
}

impl Took {
    fn rate(&self) -> f64 {
        self.rows as f64 / self.wall.as_secs_f64()
    }

    fn print(&self, store: &str, design: &str, work: &str, plain: Option<f64>) {
        let cpu = self.cpu.as_secs_f64() * 1e6 / self.rows as f64;
        let ratio = plain
            .filter(|rate| *rate > 0.0)
            .map_or(String::new(), |rate| format!("{:.2} x", self.rate() / rate));
        println!("{store:<9} {design:<10} {work:<9} {:>12.0} {cpu:>12.2} {ratio:>10}", self.rate());
    }
}

async fn timed(cpu: &Cpu, rows: u64, work: impl AsyncFnOnce()) -> Took {
    let (cpu_before, started) = (cpu.used(), Instant::now());
    work().await;
    Took { rows, wall: started.elapsed(), cpu: cpu.used() - cpu_before }
}

/// New jobs `from..to`. Definitions as a person would have them: a few hundred bytes, each a little different.
fn registrations(from: u32, to: u32) -> impl Iterator<Item = Batch> {
    let filler = "x".repeat(200);
    let put = move |job: u32| JobPut {
        job: JobId(job),
        name: format!("job-{job:07}").parse().unwrap(),
        revision: 1,
        definition: format!("{{\"schedule\":\"* * * * * *\",\"steps\":[\"echo {job} {filler}\"]}}").into(),
        source: format!("team-{}/job-{job}.yaml", job % 100).into(),
        source_mark: format!("{job}:1731700000000:0123456789abcdef").into(),
        history: History::default(),
    };
    (from..to).step_by(BATCH as usize).map(move |first| {
        let jobs = first..to.min(first + BATCH as u32);
        Batch {
            jobs: jobs.clone().map(&put).collect(),
            states: jobs.map(|job| state(job, 0)).collect(),
            ..Batch::default()
        }
    })
}

fn state(job: u32, watermark: i64) -> JobState {
    JobState { job: JobId(job), watermark: Some(watermark), paused_at: None, holes: Vec::new() }
}

/// One tick of the first 10,000 jobs.
fn batch(work: &str, tick: u64) -> Batch {
    let due = 1_731_700_000_000 + tick as i64 * 1000;
    let runs = (0..BATCH).map(|at| (RunId::from_raw(1 << 60 | tick << 22 | at), at as u32));
    match work {
        "promise" => Batch {
            promised: runs
                .map(|(run, job)| Promise {
                    run,
                    job: JobId(job),
                    revision: 1,
                    due,
                    trigger: Trigger::Schedule,
                    promised_at: due - 4000,
                    params: Vec::new(),
                    addresses: Vec::new(),
                    parent: None,
                })
                .collect(),
            states: (0..BATCH as u32).map(|job| state(job, due)).collect(),
            ..Batch::default()
        },
        "start" => Batch {
            runs: runs.map(|(run, _)| update(run, RunStatus::Running, due)).collect(),
            ..Batch::default()
        },
        _ => Batch {
            runs: runs.map(|(run, _)| update(run, RunStatus::Succeeded, due)).collect(),
            ..Batch::default()
        },
    }
}

fn update(run: RunId, status: RunStatus, due: i64) -> RunUpdate {
    let step = |ended: bool| StepRecord {
        name: "main".into(),
        status: if ended { StepStatus::Succeeded } else { StepStatus::Running },
        attempt: 1,
        lost: 0,
        started_at: Some(due),
        ended_at: ended.then_some(due + 12),
        exit_code: ended.then_some(0),
        message: None,
        output: None,
        seats: Vec::new(),
        calls: Vec::new(),
    };
    RunUpdate {
        run,
        status,
        attempt: 1,
        started_at: Some(due),
        ended_at: status.is_ended().then_some(due + 13),
        skip: None,
        message: None,
        steps: status.is_ended().then(|| vec![step(true)]),
    }
}
