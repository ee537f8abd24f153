use std::sync::atomic::{AtomicBool, Ordering};

use cadran_core::{
    Batch, IdempotencyKey, JobId, Promise, RunRecord, RunStatus, RunUpdate, SkipReason, StepRecord,
    StepStatus, Trigger, TriggerKey,
};
use cadran_store::{RunQuery, Store};

use crate::backend::Fixture;
use crate::rows::*;

async fn record(store: &Store, raw: u64) -> Option<RunRecord> {
    store.run(run(raw)).await.unwrap().map(|view| view.record)
}

pub(crate) async fn a_run_comes_back_as_it_was_written(fixture: &Fixture) {
    let store = &fixture.store;
    store.commit(&jobs(1)).await.unwrap();
    let asked = Promise {
        revision: 12,
        trigger: Trigger::Manual,
        promised_at: -1,
        params: vec![("1".into(), "it's \"so\"".into()), ("é".into(), "".into())],
        addresses: vec!["http://h:9999/".parse().unwrap(), "worker:w-1".parse().unwrap()],
        parent: Some((run(u64::MAX), 31)),
        ..promise(1 << 62, 0, i64::MAX)
    };
    store.commit(&promised(vec![asked.clone()])).await.unwrap();
    let fresh = record(store, 1 << 62).await.unwrap();
    assert_eq!(fresh.promise, asked);
    assert_eq!(fresh.state, RunUpdate { attempt: 0, ..update(1 << 62, RunStatus::Promised) });

    let full = StepRecord {
        message: Some("exit 3: 'no' 🦀".into()),
        output: Some("a\nb".into()),
        exit_code: Some(-9),
        lost: 2,
        ..step("b; --", StepStatus::Failed)
    };
    let failed = RunUpdate {
        attempt: 7,
        started_at: Some(5),
        ended_at: Some(i64::MIN),
        skip: Some(SkipReason::WaitRoomFull),
        message: Some("step 'b' failed\u{1}".into()),
        steps: Some(vec![step("a", StepStatus::Succeeded), full]),
        ..update(1 << 62, RunStatus::Failed)
    };
    store.commit(&updated(vec![failed.clone()])).await.unwrap();
    let view = store.run(run(1 << 62)).await.unwrap().unwrap();
    assert_eq!(view.job_name, name("job-000000"));
    assert_eq!(view.record, RunRecord { promise: asked, state: failed.clone() });

    // An update without steps keeps them and clears what it does not name.
    store
        .commit(&updated(vec![RunUpdate { attempt: 8, ..update(1 << 62, RunStatus::Waiting) }]))
        .await
        .unwrap();
    let found = record(store, 1 << 62).await.unwrap().state;
    assert_eq!(found, RunUpdate { attempt: 8, steps: failed.steps, ..update(1 << 62, RunStatus::Waiting) });
}

pub(crate) async fn a_batch_written_twice_is_a_batch_written_once(fixture: &Fixture) {
    let store = &fixture.store;
    let everything = Batch {
        jobs: vec![put(0), put(1)],
        removed: vec![cadran_core::JobRemoved { job: JobId(1), at: 9 }],
        states: vec![state(0, 100)],
        promised: vec![promise(1, 0, 10), promise(2, 0, 20), promise(3, 0, 30)],
        runs: vec![update(1, RunStatus::Running), ended(2, 25)],
        skips: vec![skip(4, 0, 5)],
        trigger_keys: vec![TriggerKey { key: IdempotencyKey { key: 5, request: 6 }, run: run(1), at: 7 }],
    };
    let mut seen = Vec::new();
    for _ in 0..3 {
        assert_eq!(store.commit(&everything).await.unwrap().refused, []);
        let loaded = store.load().await.unwrap();
        let runs = store.runs(&RunQuery::default()).await.unwrap();
        let skips = store.skips(&Default::default()).await.unwrap();
        seen.push(format!("{loaded:?} {runs:?} {skips:?}"));
    }
    assert_eq!(seen[0], seen[1]);
    assert_eq!(seen[1], seen[2]);
    assert_eq!(store.runs(&RunQuery::default()).await.unwrap().len(), 3);
}

pub(crate) async fn a_due_belongs_to_one_run(fixture: &Fixture) {
    let store = &fixture.store;
    store.commit(&jobs(3)).await.unwrap();
    store.commit(&promised(vec![promise(1, 0, 10), promise(2, 1, 10)])).await.unwrap();
    let late = Promise { trigger: Trigger::CatchUp, ..promise(11, 0, 10) };
    let restart = Promise { trigger: Trigger::Restart, ..promise(12, 1, 10) };
    // 14 and 15 name one due inside one batch: the first holds it.
    let batch = Batch {
        promised: vec![
            late,
            restart,
            promise(13, 0, 11),
            promise(14, 2, 10),
            promise(15, 2, 10),
            promise(2, 1, 10),
        ],
        runs: vec![update(11, RunStatus::Running), update(13, RunStatus::Running), ended(15, 99)],
        states: vec![state(0, 11)],
        ..Batch::default()
    };
    for _ in 0..2 {
        assert_eq!(store.commit(&batch).await.unwrap().refused, [run(11), run(12), run(15)]);
        assert_eq!(record(store, 11).await, None);
        assert_eq!(record(store, 13).await.unwrap().state.status, RunStatus::Running);
        assert_eq!(record(store, 14).await.unwrap().state.status, RunStatus::Promised);
        assert_eq!(
            store.load().await.unwrap().jobs[0].state,
            state(0, 11),
            "the rest of the batch is recorded"
        );
        let open: Vec<u64> =
            store.load().await.unwrap().open.iter().map(|open| open.promise.run.raw()).collect();
        assert_eq!(open, [1, 2, 13, 14]);
    }
    // An update of a run that does not exist changes nothing.
    store.commit(&updated(vec![ended(11, 5), ended(999, 5)])).await.unwrap();
    assert_eq!(store.runs(&RunQuery::default()).await.unwrap().len(), 4);
}

pub(crate) async fn manual_runs_share_a_due(fixture: &Fixture) {
    let store = &fixture.store;
    store.commit(&jobs(1)).await.unwrap();
    let manual = |raw| Promise { trigger: Trigger::Manual, ..promise(raw, 0, 10) };
    let batch = promised(vec![manual(1), promise(2, 0, 10), manual(3)]);
    assert_eq!(store.commit(&batch).await.unwrap().refused, []);
    assert_eq!(store.commit(&promised(vec![manual(4), promise(5, 0, 10)])).await.unwrap().refused, [run(5)]);
    assert_eq!(store.runs(&RunQuery::default()).await.unwrap().len(), 4);
}

pub(crate) async fn the_last_update_of_a_run_counts(fixture: &Fixture) {
    let store = &fixture.store;
    store.commit(&jobs(1)).await.unwrap();
    store.commit(&promised(vec![promise(1, 0, 10), promise(2, 0, 20)])).await.unwrap();
    let with_steps = RunUpdate {
        steps: Some(vec![step("a", StepStatus::Running)]),
        message: Some("gone".into()),
        ..update(1, RunStatus::Running)
    };
    let last = RunUpdate { ended_at: Some(12), ..update(1, RunStatus::Lost) };
    store
        .commit(&updated(vec![with_steps.clone(), update(2, RunStatus::Waiting), last.clone()]))
        .await
        .unwrap();
    assert_eq!(record(store, 1).await.unwrap().state, RunUpdate { steps: with_steps.steps, ..last });
    assert_eq!(record(store, 2).await.unwrap().state.status, RunStatus::Waiting);
}

pub(crate) async fn promise_and_end_in_one_batch(fixture: &Fixture) {
    let store = &fixture.store;
    store.commit(&jobs(1)).await.unwrap();
    let batch = Batch {
        promised: vec![promise(1, 0, 10), promise(2, 0, 20)],
        runs: vec![update(1, RunStatus::Running), update(2, RunStatus::Running), ended(1, 15)],
        ..Batch::default()
    };
    store.commit(&batch).await.unwrap();
    assert_eq!(record(store, 1).await.unwrap().state, ended(1, 15));
    let open = store.load().await.unwrap().open;
    assert_eq!(open.iter().map(|open| open.promise.run.raw()).collect::<Vec<_>>(), [2]);
}

pub(crate) async fn a_grown_batch_is_written_again(fixture: &Fixture) {
    // The answer to a commit was lost, and the loop gives the batch again together with what happened since.
    let store = &fixture.store;
    store.commit(&jobs(1)).await.unwrap();
    let mut batch = promised(vec![promise(1, 0, 10), promise(2, 0, 20)]);
    store.commit(&batch).await.unwrap();
    batch.append(Batch {
        promised: vec![promise(3, 0, 30)],
        runs: vec![ended(1, 15), update(3, RunStatus::Running)],
        ..Batch::default()
    });
    assert_eq!(store.commit(&batch).await.unwrap().refused, []);
    assert_eq!(record(store, 1).await.unwrap().state, ended(1, 15));
    assert_eq!(record(store, 2).await.unwrap().state.status, RunStatus::Promised);
    assert_eq!(record(store, 3).await.unwrap().state.status, RunStatus::Running);
    let open = store.load().await.unwrap().open;
    assert_eq!(open.iter().map(|open| open.promise.run.raw()).collect::<Vec<_>>(), [2, 3]);
}

pub(crate) async fn an_ended_run_opens_again(fixture: &Fixture) {
    let store = &fixture.store;
    store.commit(&jobs(1)).await.unwrap();
    let open = async || store.load().await.unwrap().open.len();
    store.commit(&promised(vec![promise(1, 0, 10)])).await.unwrap();
    assert_eq!(open().await, 1);
    for attempt in 1..=3 {
        let last = RunUpdate { attempt, status: RunStatus::Failed, ..ended(1, 20) };
        store.commit(&updated(vec![last.clone()])).await.unwrap();
        store.commit(&updated(vec![last])).await.unwrap();
        assert_eq!(open().await, 0);
        store.commit(&updated(vec![RunUpdate { attempt, ..update(1, RunStatus::Waiting) }])).await.unwrap();
        store.commit(&updated(vec![RunUpdate { attempt, ..update(1, RunStatus::Running) }])).await.unwrap();
        assert_eq!(open().await, 1);
    }
}

pub(crate) async fn open_runs_are_loaded(fixture: &Fixture) {
    let store = &fixture.store;
    store.commit(&jobs(1)).await.unwrap();
    let statuses = RunStatus::WORDS.iter().map(|(status, _)| *status);
    let mut expected = Vec::new();
    for (at, status) in statuses.enumerate() {
        let raw = at as u64 + 1;
        store.commit(&promised(vec![promise(raw, 0, raw as i64)])).await.unwrap();
        store.commit(&updated(vec![update(raw, status)])).await.unwrap();
        if !status.is_ended() {
            expected.push(raw);
        }
    }
    let loaded = store.load().await.unwrap();
    assert_eq!(loaded.open.iter().map(|open| open.promise.run.raw()).collect::<Vec<_>>(), expected);
    assert_eq!(loaded.last_id, Some(run(RunStatus::WORDS.len() as u64)));
}

pub(crate) async fn open_runs_are_found_after_every_restart(fixture: &Fixture) {
    let open = async |store: &Store| -> Vec<u64> {
        let loaded = store.load().await.unwrap();
        assert_eq!(store.counts().await.unwrap().running, loaded.open.len() as u64);
        loaded.open.iter().map(|open| open.promise.run.raw()).collect()
    };
    let running = |runs: &[u64]| updated(runs.iter().map(|raw| update(*raw, RunStatus::Running)).collect());
    let store = &fixture.store;
    store.commit(&jobs(1)).await.unwrap();
    store.commit(&promised((10..=15).map(|raw| promise(raw, 0, raw as i64)).collect())).await.unwrap();
    store.commit(&running(&[10, 11, 12, 13, 14, 15])).await.unwrap();
    store.commit(&updated(vec![ended(10, 1), ended(15, 1)])).await.unwrap();
    let store = &fixture.reopen().await;
    assert_eq!(open(store).await, [11, 12, 13, 14]);
    // Old runs end and open again, a late server promises under a low number, new runs come.
    store.commit(&updated(vec![ended(11, 2), ended(12, 2)])).await.unwrap();
    store.commit(&promised(vec![promise(5, 0, 5), promise(20, 0, 20), promise(21, 0, 21)])).await.unwrap();
    store.commit(&running(&[10, 5, 20, 21])).await.unwrap();
    store.commit(&updated(vec![ended(20, 3)])).await.unwrap();
    assert_eq!(open(store).await, [5, 10, 13, 14, 21]);
    let again = if fixture.kind == crate::backend::Kind::Memory {
        store.clone()
    } else {
        store.close().await;
        Store::open(&fixture.url).await.unwrap()
    };
    assert_eq!(open(&again).await, [5, 10, 13, 14, 21]);
    again.commit(&updated([5, 10, 13, 14, 21].map(|raw| ended(raw, 9)).to_vec())).await.unwrap();
    assert_eq!(open(&again).await, [0u64; 0]);
    again.close().await;
}

pub(crate) async fn the_last_success_is_found(fixture: &Fixture) {
    let store = &fixture.store;
    store.commit(&jobs(4)).await.unwrap();
    store
        .commit(&Batch {
            promised: vec![
                promise(1, 0, 10),
                promise(2, 0, 20),
                promise(3, 0, 30),
                promise(4, 1, 40),
                promise(5, 3, 5),
            ],
            runs: vec![ended(1, 11), ended(2, 21), update(3, RunStatus::Failed), ended(5, 6)],
            ..Batch::default()
        })
        .await
        .unwrap();
    let asked = [JobId(2), JobId(1), JobId(0), JobId(0), JobId(77)];
    assert_eq!(store.last_successes(&asked).await.unwrap(), [(JobId(0), 20)]);
    let all: Vec<JobId> = (0..20_000).map(JobId).collect();
    assert_eq!(store.last_successes(&all).await.unwrap(), [(JobId(0), 20), (JobId(3), 5)]);
}

pub(crate) async fn large_batches_are_written_again(fixture: &Fixture) {
    // Large batches take other ways than small ones: all new, all known, half and half.
    let store = &fixture.store;
    let rows =
        |from: u64| -> Vec<Promise> { (from..from + 200).map(|raw| promise(raw, raw as u32, 7)).collect() };
    for jobs in [jobs(200), jobs(200), jobs(400)] {
        store.commit(&jobs).await.unwrap();
        let loaded = store.load().await.unwrap();
        assert_eq!(loaded.jobs.len(), jobs.jobs.len());
        assert!(loaded.jobs.iter().zip(&jobs.jobs).all(|(found, put)| found.put == *put));
    }
    for from in [1, 1, 101] {
        assert_eq!(store.commit(&promised(rows(from))).await.unwrap().refused, []);
    }
    let mut taken = rows(301);
    taken[150] = promise(999, 300, 7);
    assert_eq!(store.commit(&promised(taken)).await.unwrap().refused, [run(999)]);
    assert_eq!(store.load().await.unwrap().open.len(), 300 + 199);
}

pub(crate) async fn a_batch_of_100_000_is_one_batch(fixture: &Fixture) {
    const ALL: u64 = 100_000;
    let store = &fixture.store;
    store.commit(&jobs(100)).await.unwrap();
    let all = || 1..=ALL;
    let due = |raw: u64| (raw / 100) as i64;
    store
        .commit(&Batch {
            promised: all().map(|raw| promise(raw, (raw % 100) as u32, due(raw))).collect(),
            states: all().map(|raw| state((raw % 100) as u32, raw as i64)).collect(),
            ..Batch::default()
        })
        .await
        .unwrap();
    assert_eq!(store.counts().await.unwrap().promised, ALL);
    store.commit(&updated(all().map(|raw| ended(raw, due(raw))).collect())).await.unwrap();
    let counts = store.counts().await.unwrap();
    assert_eq!((counts.promised, counts.running, counts.jobs), (0, 0, 100));
    let loaded = store.load().await.unwrap();
    assert_eq!((loaded.open.len(), loaded.last_id), (0, Some(run(ALL))));
    assert_eq!(loaded.jobs[99].state.watermark, Some(ALL as i64 - 1));
    assert_eq!(record(store, ALL).await.unwrap().state, ended(ALL, due(ALL)));
}

/// Rows that the writer of the next case writes.
const ROWS_ALL: u64 = 4000;

pub(crate) async fn readers_see_whole_batches(fixture: &Fixture) {
    const ROWS: u64 = 100;
    const BATCHES: u64 = ROWS_ALL / ROWS;
    let store = &fixture.store;
    store.commit(&jobs(ROWS as u32)).await.unwrap();
    let done = AtomicBool::new(false);
    let write = async {
        for batch in 0..BATCHES {
            let rows =
                (0..ROWS).map(|row| promise(batch * ROWS + row + 1, row as u32, batch as i64)).collect();
            store.commit(&promised(rows)).await.unwrap();
        }
        done.store(true, Ordering::Release);
    };
    let read = async {
        let mut last = 0;
        loop {
            let over = done.load(Ordering::Acquire);
            let promised = store.counts().await.unwrap().promised;
            assert!(promised.is_multiple_of(ROWS), "{promised} is half of a batch");
            assert!(promised >= last, "{promised} after {last}");
            last = promised;
            if over {
                return last;
            }
        }
    };
    let ((), seen, also) = tokio::join!(write, read, read_pages(store, &done));
    assert_eq!((seen, also), (BATCHES * ROWS, BATCHES * ROWS));
}

/// Pages through all runs until the writer is done, and once more.
async fn read_pages(store: &Store, done: &AtomicBool) -> u64 {
    loop {
        let over = done.load(Ordering::Acquire);
        let mut seen = 0;
        let mut before = None;
        loop {
            let page = store.runs(&RunQuery { before, ..RunQuery::default() }).await.unwrap();
            let Some(last) = page.last() else { break };
            before = Some(last.record.promise.run);
            seen += page.len() as u64;
            assert!(seen <= ROWS_ALL, "pages repeat");
        }
        if over {
            return seen;
        }
    }
}
