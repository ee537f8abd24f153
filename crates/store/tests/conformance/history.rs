use cadran_core::{
    Batch, JobId, Promise, RunStatus, RunUpdate, SeatRecord, SeatStatus, Skip, SkipReason, StepRecord,
    StepStatus, share_of,
};
use cadran_store::{LIMIT_MAX, PrunePass, Retention, RunQuery, SkipQuery, StoreError};

use crate::backend::Fixture;
use crate::rows::*;

pub(crate) async fn runs_are_paged_newest_first(fixture: &Fixture) {
    let store = &fixture.store;
    store.commit(&jobs(3)).await.unwrap();
    let all = (1..=1200).map(|raw| promise(raw, (raw % 3) as u32, raw as i64)).collect();
    store.commit(&promised(all)).await.unwrap();
    let page = async |job: Option<&str>, before: Option<u64>, limit: u32| -> Vec<u64> {
        let query = RunQuery { job: job.map(name), before: before.map(run), limit, ..RunQuery::default() };
        let views = store.runs(&query).await.unwrap();
        views.iter().map(|view| view.record.promise.run.raw()).collect()
    };
    assert_eq!(page(None, None, 3).await, [1200, 1199, 1198]);
    assert_eq!(page(None, Some(1198), 2).await, [1197, 1196]);
    assert_eq!(page(None, Some(1), 5).await, [0u64; 0]);
    assert_eq!(page(None, None, 0).await, [0u64; 0]);
    assert_eq!(page(None, None, u32::MAX).await.len(), LIMIT_MAX as usize);
    assert_eq!(page(Some("job-000001"), Some(10), 5).await, [7, 4, 1]);
    assert_eq!(page(Some("nobody"), None, 5).await, [0u64; 0]);
}

pub(crate) async fn children_are_found_by_their_run(fixture: &Fixture) {
    let store = &fixture.store;
    store.commit(&jobs(2)).await.unwrap();
    let below =
        |raw, job, parent: u64| Promise { parent: Some((run(parent), 1)), ..promise(raw, job, raw as i64) };
    let all = vec![
        promise(1, 0, 1),
        promise(2, 0, 2),
        below(3, 1, 1),
        below(4, 0, 1),
        below(5, 1, 2),
        below(6, 1, 1),
    ];
    store.commit(&promised(all)).await.unwrap();
    store.commit(&updated(vec![ended(4, 9)])).await.unwrap();
    let store = &fixture.reopen().await;
    let children = async |query: RunQuery| -> Vec<u64> {
        let views = store.runs(&query).await.unwrap();
        views.iter().map(|view| view.record.promise.run.raw()).collect()
    };
    let of = |parent| RunQuery { parent: Some(run(parent)), ..RunQuery::default() };
    assert_eq!(children(of(1)).await, [6, 4, 3]);
    assert_eq!(children(of(2)).await, [5]);
    assert_eq!(children(of(9)).await, [0u64; 0]);
    assert_eq!(children(RunQuery { statuses: vec![RunStatus::Promised], ..of(1) }).await, [6, 3]);
    assert_eq!(children(RunQuery { job: Some(name("job-000000")), ..of(1) }).await, [4]);
    assert_eq!(children(RunQuery { before: Some(run(6)), limit: 1, ..of(1) }).await, [4]);
    store.close().await;
}

pub(crate) async fn shares_survive_a_restart(fixture: &Fixture) {
    let store = &fixture.store;
    store.commit(&jobs(1)).await.unwrap();
    store.commit(&promised(vec![promise(1, 0, 1)])).await.unwrap();
    let statuses = [SeatStatus::Succeeded, SeatStatus::Stopping, SeatStatus::Failed];
    let seat = |(index, status): (usize, SeatStatus)| SeatRecord {
        index: index as u32,
        total: 3,
        address: format!("http://10.0.0.{index}:9999").parse().unwrap(),
        log: 1 << 52,
        attempt: 2,
        at: 5,
        ended_at: status.is_ended().then_some(9),
        status,
        message: Some("said \0 'so'".into()),
        again: status == SeatStatus::Failed,
    };
    let seats = statuses.into_iter().enumerate().map(seat).collect();
    let shared = StepRecord { seats, ..step("all", StepStatus::Running) };
    let update = RunUpdate { steps: Some(vec![shared.clone()]), ..update(1, RunStatus::Running) };
    store.commit(&updated(vec![update])).await.unwrap();
    let store = &fixture.reopen().await;
    let found = store.run(run(1)).await.unwrap().unwrap().record.state.steps.unwrap();
    assert_eq!(found, [shared]);
    assert_eq!(share_of(&found, 2).unwrap().1.status, SeatStatus::Failed);
    let loaded = store.load().await.unwrap().open;
    assert_eq!(loaded[0].state.steps.as_ref(), Some(&found), "a start goes on with them");
    store.close().await;
}

pub(crate) async fn runs_are_filtered(fixture: &Fixture) {
    use RunStatus::*;
    let store = &fixture.store;
    store.commit(&jobs(2)).await.unwrap();
    let statuses = [Promised, Running, Succeeded, Failed, Succeeded, Waiting];
    let rows = statuses.iter().enumerate().map(|(at, status)| (at as u64 + 1, *status));
    store
        .commit(&Batch {
            promised: rows.clone().map(|(raw, _)| promise(raw, (raw % 2) as u32, raw as i64 * 10)).collect(),
            runs: rows.map(|(raw, status)| update(raw, status)).collect(),
            ..Batch::default()
        })
        .await
        .unwrap();
    let found = async |query: RunQuery| -> Vec<u64> {
        let views = store.runs(&query).await.unwrap();
        views.iter().map(|view| view.record.promise.run.raw()).collect()
    };
    let all = RunQuery::default;
    let cases: Vec<(RunQuery, &[u64])> = vec![
        (all(), &[6, 5, 4, 3, 2, 1]),
        (RunQuery { statuses: vec![Succeeded], ..all() }, &[5, 3]),
        (RunQuery { statuses: vec![Promised, Waiting], ..all() }, &[6, 1]),
        (RunQuery { statuses: vec![Running, Failed], ..all() }, &[4, 2]),
        (RunQuery { statuses: vec![Promised, Waiting, Running], before: Some(run(6)), ..all() }, &[2, 1]),
        (RunQuery { statuses: vec![Lost], ..all() }, &[]),
        (RunQuery { due_from: Some(30), ..all() }, &[6, 5, 4, 3]),
        (RunQuery { due_to: Some(30), ..all() }, &[2, 1]),
        (RunQuery { due_from: Some(20), due_to: Some(50), ..all() }, &[4, 3, 2]),
        (RunQuery { job: Some(name("job-000001")), due_from: Some(20), ..all() }, &[5, 3]),
        (
            RunQuery {
                parent: None,
                job: Some(name("job-000001")),
                statuses: vec![Succeeded],
                before: Some(run(5)),
                due_from: Some(0),
                due_to: Some(99),
                limit: 1,
            },
            &[3],
        ),
    ];
    for (query, expected) in cases {
        assert_eq!(found(query.clone()).await, expected, "{query:?}");
    }
}

pub(crate) async fn skips_are_paged_and_replaced(fixture: &Fixture) {
    let store = &fixture.store;
    store.commit(&jobs(2)).await.unwrap();
    let reasons = SkipReason::WORDS.iter().map(|(reason, _)| *reason);
    let skips: Vec<Skip> = reasons
        .enumerate()
        .map(|(at, reason)| Skip { reason, ..skip(at as u64 + 1, (at % 2) as u32, at as i64) })
        .collect();
    store.commit(&Batch { skips: skips.clone(), ..Batch::default() }).await.unwrap();
    let found = store.skips(&SkipQuery::default()).await.unwrap();
    assert_eq!(found.iter().rev().map(|view| view.skip).collect::<Vec<_>>(), skips);

    // A stretch grows in place, also twice in one batch.
    let grown = Skip { last_due: 500, count: u64::from(u32::MAX) + 1, at: 501, ..skips[3] };
    let batch = Batch { skips: vec![Skip { count: 2, ..grown }, grown], ..Batch::default() };
    for _ in 0..2 {
        store.commit(&batch).await.unwrap();
        let query = SkipQuery { job: Some(name("job-000001")), before: Some(run(5)), limit: 1 };
        let found = store.skips(&query).await.unwrap();
        assert_eq!(
            found.iter().map(|view| (view.skip, view.job_name.as_str())).collect::<Vec<_>>(),
            [(grown, "job-000001")]
        );
    }
    assert_eq!(store.skips(&SkipQuery { limit: 3, ..SkipQuery::default() }).await.unwrap().len(), 3);
    assert_eq!(store.load().await.unwrap().last_id, Some(run(skips.len() as u64)));
}

pub(crate) async fn counts_follow_the_runs(fixture: &Fixture) {
    let store = &fixture.store;
    store.commit(&jobs(3)).await.unwrap();
    store.commit(&promised((1..=6).map(|raw| promise(raw, 0, raw as i64)).collect())).await.unwrap();
    store
        .commit(&Batch {
            runs: vec![
                update(1, RunStatus::Waiting),
                update(2, RunStatus::Running),
                RunUpdate { skip: Some(SkipReason::Overlap), ..update(3, RunStatus::Skipped) },
            ],
            removed: vec![cadran_core::JobRemoved { job: JobId(2), at: 1 }],
            ..Batch::default()
        })
        .await
        .unwrap();
    let counts = store.counts().await.unwrap();
    assert_eq!((counts.jobs, counts.promised, counts.waiting, counts.running), (2, 3, 1, 1));
}

pub(crate) async fn a_closed_store_says_so(fixture: &Fixture) {
    let store = &fixture.store;
    store.close().await;
    for error in [
        store.commit(&jobs(1)).await.unwrap_err(),
        store.load().await.unwrap_err(),
        store.ping().await.unwrap_err(),
        store.prune(&mut PrunePass::new(0, Retention::default()), 1).await.unwrap_err(),
    ] {
        assert!(matches!(error, StoreError::Closed(_)) && !error.is_transient(), "{error}");
    }
}
