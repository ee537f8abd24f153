use cadran_core::{Batch, History, JobId, JobPut, RunStatus};
use cadran_store::{PrunePass, Retention, RunQuery, SkipQuery};

use crate::backend::Fixture;
use crate::rows::*;

async fn left(fixture: &Fixture) -> Vec<u64> {
    let views = fixture.store.runs(&RunQuery::default()).await.unwrap();
    views.iter().rev().map(|view| view.record.promise.run.raw()).collect()
}

/// One whole pass.
async fn prune_with(fixture: &Fixture, now: i64, retention: Retention, rows_max: u32) -> Vec<u64> {
    let mut gone = Vec::new();
    let mut pass = PrunePass::new(now, retention);
    while !pass.is_over() {
        let pruned = fixture.store.prune(&mut pass, rows_max).await.unwrap();
        assert!(pruned.runs.len() <= rows_max as usize, "{} of {rows_max}", pruned.runs.len());
        gone.extend(pruned.runs.iter().map(|run| run.raw()));
    }
    gone.sort_unstable();
    gone
}

async fn prune_all(fixture: &Fixture, now: i64, rows_max: u32) -> Vec<u64> {
    prune_with(fixture, now, Retention::default(), rows_max).await
}

pub(crate) async fn days_are_counted_from_the_end(fixture: &Fixture) {
    let store = &fixture.store;
    let history = |job, days| JobPut { history: History::Days(days), ..put(job) };
    store.commit(&Batch { jobs: vec![history(0, 1), history(1, 10)], ..Batch::default() }).await.unwrap();
    store
        .commit(&Batch {
            promised: vec![
                promise(1, 0, 1),
                promise(2, 0, 2),
                promise(3, 0, 3),
                promise(4, 1, 4),
                promise(5, 1, 5),
                promise(6, 0, 6),
            ],
            runs: vec![
                ended(1, 0),
                ended(2, DAY),
                ended(3, 5 * DAY),
                ended(4, 0),
                ended(5, DAY),
                // Ended without a time: the promise counts.
                update(6, RunStatus::Skipped),
            ],
            skips: vec![skip(7, 0, 0), skip(8, 0, 5 * DAY), skip(9, 1, 0)],
            ..Batch::default()
        })
        .await
        .unwrap();
    assert_eq!(prune_all(fixture, DAY, 100).await, [0u64; 0]);
    assert_eq!(prune_all(fixture, DAY + 1, 100).await, [1]);
    assert_eq!(prune_all(fixture, 2 * DAY + 1, 100).await, [2, 6]);
    assert_eq!(prune_all(fixture, 10 * DAY + 1, 100).await, [3, 4]);
    assert_eq!(left(fixture).await, [5]);
    let skips = store.skips(&SkipQuery::default()).await.unwrap();
    assert_eq!(skips.len(), 0);
}

pub(crate) async fn counts_keep_the_newest(fixture: &Fixture) {
    let store = &fixture.store;
    let history = |job, count| JobPut { history: History::Count(count), ..put(job) };
    let jobs = vec![history(0, 2), history(1, 0), history(2, 100)];
    store.commit(&Batch { jobs, ..Batch::default() }).await.unwrap();
    let rows = (1..=15u64).map(|raw| (raw, (raw % 3) as u32));
    store
        .commit(&Batch {
            promised: rows.clone().map(|(raw, job)| promise(raw, job, raw as i64)).collect(),
            runs: rows.clone().map(|(raw, _)| ended(raw, raw as i64)).collect(),
            skips: rows.map(|(raw, job)| skip(raw + 100, job, 1)).collect(),
            ..Batch::default()
        })
        .await
        .unwrap();
    // Job 0 has 3, 6, 9, 12, 15 and keeps two; job 1 has 1, 4, 7, 10, 13 and keeps none.
    assert_eq!(prune_all(fixture, 0, 100).await, [1, 3, 4, 6, 7, 9, 10, 13]);
    assert_eq!(left(fixture).await, [2, 5, 8, 11, 12, 14, 15]);
    let skips = store.skips(&SkipQuery::default()).await.unwrap();
    assert_eq!(
        skips.iter().map(|view| view.skip.id.raw()).collect::<Vec<_>>(),
        [115, 114, 112, 111, 108, 105, 102]
    );
    assert_eq!(prune_all(fixture, i64::MAX, 100).await, [0u64; 0]);
}

pub(crate) async fn open_runs_are_never_forgotten(fixture: &Fixture) {
    let store = &fixture.store;
    let history = |job, history| JobPut { history, ..put(job) };
    let jobs = vec![history(0, History::Days(0)), history(1, History::Count(0))];
    store.commit(&Batch { jobs, ..Batch::default() }).await.unwrap();
    let all = || 1..=8u64;
    let statuses = [RunStatus::Promised, RunStatus::Waiting, RunStatus::Running, RunStatus::Failed];
    store
        .commit(&Batch {
            promised: all().map(|raw| promise(raw, (raw % 2) as u32, raw as i64)).collect(),
            runs: all().map(|raw| update(raw, statuses[(raw as usize - 1) / 2])).collect(),
            ..Batch::default()
        })
        .await
        .unwrap();
    assert_eq!(prune_all(fixture, 100 * DAY, 100).await, [7, 8]);
    assert_eq!(left(fixture).await, [1, 2, 3, 4, 5, 6]);
    assert_eq!(store.load().await.unwrap().open.len(), 6);
}

pub(crate) async fn slices_are_bounded_and_go_on(fixture: &Fixture) {
    let store = &fixture.store;
    let puts = (0..6000).map(|job| match job % 2 {
        0 => JobPut { history: History::Days(1), ..put(job) },
        _ => JobPut { history: History::Count(1), ..put(job) },
    });
    store.commit(&Batch { jobs: puts.collect(), ..Batch::default() }).await.unwrap();
    let rows = (1..=12_000u64).map(|raw| (raw, (raw % 6000) as u32));
    store
        .commit(&Batch {
            promised: rows.clone().map(|(raw, job)| promise(raw, job, raw as i64)).collect(),
            runs: rows.map(|(raw, _)| ended(raw, if raw <= 6000 { 0 } else { 9 * DAY })).collect(),
            ..Batch::default()
        })
        .await
        .unwrap();
    let gone = prune_all(fixture, 9 * DAY, 50).await;
    assert_eq!(gone.len(), 6000);
    assert!(gone.iter().all(|raw| *raw <= 6000));
    let kept = store.runs(&RunQuery { before: Some(run(6001)), ..RunQuery::default() }).await.unwrap();
    assert_eq!(kept.len(), 0);
}

pub(crate) async fn old_definitions_go_with_their_runs(fixture: &Fixture) {
    let store = &fixture.store;
    let revision = |revision: u32| JobPut {
        revision,
        definition: format!("r{revision}").into(),
        history: History::Count(1),
        ..put(0)
    };
    for at in 1..=4u32 {
        let promised = cadran_core::Promise { revision: at, ..promise(at.into(), 0, at.into()) };
        let batch = Batch { jobs: vec![revision(at)], promised: vec![promised], ..Batch::default() };
        store.commit(&batch).await.unwrap();
    }
    let known = async || -> Vec<u32> {
        let mut known = Vec::new();
        for at in 1..=4 {
            known.extend(store.definition(JobId(0), at).await.unwrap().map(|_| at));
        }
        known
    };
    assert_eq!(prune_all(fixture, 0, 10).await, [0u64; 0]);
    assert_eq!(known().await, [1, 2, 3, 4]);
    store.commit(&updated(vec![ended(1, 1), ended(2, 2), ended(3, 3)])).await.unwrap();
    assert_eq!(prune_all(fixture, 0, 10).await, [1, 2]);
    assert_eq!(known().await, [3, 4]);
    store.commit(&updated(vec![ended(4, 4)])).await.unwrap();
    assert_eq!(prune_all(fixture, 0, 10).await, [3]);
    assert_eq!(known().await, [4]);
}

/// One job that runs often leaves more rows behind than one slice takes.
pub(crate) async fn one_pass_forgets_all_of_a_long_history(fixture: &Fixture) {
    let store = &fixture.store;
    let jobs = vec![
        JobPut { history: History::Days(1), ..put(0) },
        JobPut { history: History::Count(7), ..put(1) },
        JobPut { history: History::Count(7), ..put(2) },
    ];
    store.commit(&Batch { jobs, ..Batch::default() }).await.unwrap();
    let rows = || (1..=4_000u64).map(|raw| (raw, (raw % 2) as u32));
    store
        .commit(&Batch {
            promised: rows().map(|(raw, job)| promise(raw, job, raw as i64)).collect(),
            runs: rows().map(|(raw, _)| ended(raw, raw as i64)).collect(),
            skips: rows().map(|(raw, job)| skip(raw + 10_000, job, 1)).collect(),
            ..Batch::default()
        })
        .await
        .unwrap();
    // One that is still on is not among the seven.
    store.commit(&Batch { promised: vec![promise(4_001, 1, 4_001)], ..Batch::default() }).await.unwrap();
    assert_eq!(prune_all(fixture, 9 * DAY, 100).await.len(), 4_000 - 7);
    assert_eq!(left(fixture).await, [3987, 3989, 3991, 3993, 3995, 3997, 3999, 4001]);
    let skips = store.skips(&SkipQuery::default()).await.unwrap();
    assert_eq!(skips.len(), 7);
    assert_eq!(prune_all(fixture, 9 * DAY, 100).await, [0u64; 0]);
}

/// What the server keeps at most counts for every job, and a job that keeps less keeps less.
pub(crate) async fn the_limits_of_a_pass_are_for_all_jobs(fixture: &Fixture) {
    let store = &fixture.store;
    let jobs = vec![
        JobPut { history: History::Days(100), ..put(0) },
        JobPut { history: History::Count(2), ..put(1) },
    ];
    store.commit(&Batch { jobs, ..Batch::default() }).await.unwrap();
    let rows = || (1..=20u64).map(|raw| (raw, (raw % 2) as u32));
    store
        .commit(&Batch {
            promised: rows().map(|(raw, job)| promise(raw, job, raw as i64)).collect(),
            runs: rows().map(|(raw, _)| ended(raw, raw as i64 * DAY)).collect(),
            ..Batch::default()
        })
        .await
        .unwrap();
    let by_count = Retention { runs_max: Some(5), ..Retention::default() };
    assert_eq!(prune_with(fixture, 21 * DAY, by_count, 3).await.len(), 5 + 8);
    assert_eq!(left(fixture).await, [12, 14, 16, 17, 18, 19, 20]);
    let by_days = Retention { days_max: Some(4), ..Retention::default() };
    assert_eq!(prune_with(fixture, 21 * DAY, by_days, 3).await, [12, 14, 16]);
    // Older ones count first, so that the newest are not counted away with them.
    let both = Retention { days_max: Some(2), runs_max: Some(1) };
    assert_eq!(prune_with(fixture, 21 * DAY, both, 3).await, [17, 18]);
    assert_eq!(store.known_runs(&[run(1), run(18), run(19), run(20)]).await.unwrap(), [run(19), run(20)]);
}
