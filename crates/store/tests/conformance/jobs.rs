use std::sync::Arc;

use cadran_core::{Batch, History, JobId, JobPut, JobRemoved, JobState};
use cadran_store::{JobQuery, Loaded, PrunePass, Pruned, Retention, Store};

use crate::backend::Fixture;
use crate::rows::*;

pub(crate) async fn a_new_store_is_empty(fixture: &Fixture) {
    let store = &fixture.store;
    store.ping().await.unwrap();
    let Loaded { jobs, open, last_id } = store.load().await.unwrap();
    assert!(jobs.is_empty() && open.is_empty() && last_id.is_none());
    assert!(store.commit(&Batch::default()).await.unwrap().refused.is_empty());
    assert_eq!(store.job(&name("nobody")).await.unwrap(), None);
    assert_eq!(store.run(run(1)).await.unwrap(), None);
    assert_eq!(store.definition(JobId(1), 1).await.unwrap(), None);
    assert_eq!(store.last_successes(&[]).await.unwrap(), []);
    let mut pass = PrunePass::new(0, Retention::default());
    assert_eq!(store.prune(&mut pass, 10).await.unwrap(), Pruned::default());
}

pub(crate) async fn jobs_come_back_as_they_were_put(fixture: &Fixture) {
    let store = &fixture.store;
    let puts = vec![
        put(0),
        JobPut { history: History::Count(7), source: "".into(), source_mark: "".into(), ..put(3) },
        JobPut { revision: u32::from(u16::MAX) * 3, history: History::Days(0), ..put(2_000_000_000) },
    ];
    store.commit(&Batch { jobs: puts.clone(), ..Batch::default() }).await.unwrap();
    let loaded = store.load().await.unwrap();
    let found: Vec<_> = loaded.jobs.iter().map(|record| record.put.clone()).collect();
    assert_eq!(found, puts);
    assert!(loaded.jobs.iter().all(|record| record.removed_at.is_none() && record.state.watermark.is_none()));

    let changed = JobPut { source: "elsewhere.yaml".into(), name: name("renamed"), ..put(3) };
    store.commit(&Batch { jobs: vec![changed.clone()], ..Batch::default() }).await.unwrap();
    assert_eq!(store.load().await.unwrap().jobs[1].put, changed);
    assert_eq!(store.job(&name("job-000003")).await.unwrap(), None);
    assert_eq!(store.job(&name("renamed")).await.unwrap().unwrap().put, changed);
}

pub(crate) async fn the_last_state_of_a_job_counts(fixture: &Fixture) {
    let store = &fixture.store;
    store.commit(&jobs(2)).await.unwrap();
    let paused = JobState {
        watermark: None,
        paused_at: Some(-4),
        holes: vec![(1, 2), (i64::MIN, i64::MAX)],
        ..state(0, 0)
    };
    let batch = Batch { states: vec![state(0, 10), state(1, 20), paused.clone()], ..Batch::default() };
    for _ in 0..2 {
        store.commit(&batch).await.unwrap();
        let loaded = store.load().await.unwrap();
        assert_eq!((&loaded.jobs[0].state, &loaded.jobs[1].state), (&paused, &state(1, 20)));
    }
    // A state may come before its job.
    store.commit(&Batch { states: vec![state(9, 90)], ..Batch::default() }).await.unwrap();
    store.commit(&Batch { jobs: vec![put(9)], ..Batch::default() }).await.unwrap();
    assert_eq!(store.load().await.unwrap().jobs[2].state, state(9, 90));
}

pub(crate) async fn a_removed_job_stays_and_may_return(fixture: &Fixture) {
    let store = &fixture.store;
    store.commit(&jobs(2)).await.unwrap();
    let removed = Batch { removed: vec![JobRemoved { job: JobId(0), at: 77 }], ..Batch::default() };
    for _ in 0..2 {
        store.commit(&removed).await.unwrap();
        let loaded = store.load().await.unwrap();
        assert_eq!(loaded.jobs[0].removed_at, Some(77));
        assert_eq!(loaded.jobs[1].removed_at, None);
    }
    let listed = store.jobs(&JobQuery::default()).await.unwrap();
    assert_eq!(listed.iter().map(|view| view.put.job.0).collect::<Vec<_>>(), [1]);
    assert_eq!(
        store.jobs(&JobQuery { include_removed: true, ..JobQuery::default() }).await.unwrap().len(),
        2
    );

    store.commit(&Batch { jobs: vec![JobPut { revision: 2, ..put(0) }], ..Batch::default() }).await.unwrap();
    assert_eq!(store.load().await.unwrap().jobs[0].removed_at, None);

    // Put and removed in one batch: removed.
    let both =
        Batch { jobs: vec![put(1)], removed: vec![JobRemoved { job: JobId(1), at: 5 }], ..Batch::default() };
    store.commit(&both).await.unwrap();
    assert_eq!(store.load().await.unwrap().jobs[1].removed_at, Some(5));
}

pub(crate) async fn earlier_definitions_stay_readable(fixture: &Fixture) {
    let store = &fixture.store;
    let revision = |revision: u32| JobPut { revision, definition: format!("r{revision}").into(), ..put(4) };
    let definition = async |revision| store.definition(JobId(4), revision).await.unwrap();
    store.commit(&Batch { jobs: vec![revision(1)], ..Batch::default() }).await.unwrap();
    // Runs of one batch may be promised under any of its revisions.
    let batch = Batch { jobs: vec![revision(2), revision(3), revision(4)], ..Batch::default() };
    for _ in 0..2 {
        store.commit(&batch).await.unwrap();
        for known in 1..=4 {
            assert_eq!(definition(known).await.as_deref(), Some(format!("r{known}").as_str()));
        }
        assert_eq!(definition(5).await, None);
        assert_eq!(store.definition(JobId(5), 1).await.unwrap(), None);
    }
    // The same revision with another text: the text counts.
    store
        .commit(&Batch { jobs: vec![JobPut { definition: "new".into(), ..revision(4) }], ..Batch::default() })
        .await
        .unwrap();
    assert_eq!(definition(4).await.as_deref(), Some("new"));
}

pub(crate) async fn a_name_belongs_to_one_job(fixture: &Fixture) {
    let store = &fixture.store;
    store.commit(&jobs(2)).await.unwrap();
    let clash = JobPut { name: name("job-000001"), ..put(7) };
    let batch = Batch { jobs: vec![put(6), clash], ..Batch::default() };
    let error = store.commit(&batch).await.unwrap_err();
    assert!(!error.is_transient(), "{error}");
    assert!(error.to_string().contains("commit"), "{error}");
    assert_eq!(store.load().await.unwrap().jobs.len(), 2, "nothing of a refused batch is recorded");
}

pub(crate) async fn jobs_are_found_by_name_and_text(fixture: &Fixture) {
    let store = &fixture.store;
    let names = ["Zeta", "alpha", "beta_1", "beta-2", "beta.3", "_x"];
    let puts = names.iter().enumerate().map(|(at, text)| JobPut { name: name(text), ..put(at as u32) });
    store.commit(&Batch { jobs: puts.collect(), ..Batch::default() }).await.unwrap();
    store.commit(&promised(vec![promise(5, 1, 50), promise(9, 1, 90), promise(7, 1, 70)])).await.unwrap();
    let found = async |query: JobQuery| -> Vec<String> {
        let views = store.jobs(&query).await.unwrap();
        views.iter().map(|view| view.put.name.to_string()).collect()
    };
    let all = ["Zeta", "_x", "alpha", "beta-2", "beta.3", "beta_1"];
    assert_eq!(found(JobQuery::default()).await, all, "order of bytes");
    let mut paged = Vec::new();
    loop {
        let after = paged.last().map(|text: &String| name(text));
        let page = found(JobQuery { after, limit: 4, ..JobQuery::default() }).await;
        if page.is_empty() {
            break;
        }
        paged.extend(page);
    }
    assert_eq!(paged, all);
    let text = |text: &str| JobQuery { text: Some(text.into()), ..JobQuery::default() };
    assert_eq!(found(text("ETA")).await, ["Zeta", "beta-2", "beta.3", "beta_1"]);
    for (part, expected) in
        [("a_1", 1), ("%", 0), ("_", 2), ("'", 0), ("\0", 0), ("\\", 0), ("é", 0), ("", 6)]
    {
        assert_eq!(found(text(part)).await.len(), expected, "{part:?}");
    }
    let alpha = store.job(&name("alpha")).await.unwrap().unwrap();
    assert_eq!(alpha.last_run.map(|last| (last.run, last.due)), Some((run(9), 90)));
    assert_eq!(store.job(&name("_x")).await.unwrap().unwrap().last_run, None);
}

pub(crate) async fn equal_definitions_are_shared_after_a_load(fixture: &Fixture) {
    let store = fixture.reopen().await;
    let same: Arc<str> = "the same".into();
    let puts = (0..10).map(|job| JobPut { definition: same.clone(), ..put(job) }).collect();
    store.commit(&Batch { jobs: puts, ..Batch::default() }).await.unwrap();
    let loaded = store.load().await.unwrap();
    let first = &loaded.jobs[0].put.definition;
    assert!(loaded.jobs.iter().all(|record| Arc::ptr_eq(&record.put.definition, first)));
    store.close().await;
}

pub(crate) async fn text_of_every_kind_survives(fixture: &Fixture) {
    let store = &fixture.store;
    let texts = [
        "'; drop table jobs; --",
        "\"quoted\" \\ back $1 ?1 :x @y %s {}",
        "🦀 é \u{202e}rtl\u{feff}",
        "line\r\nline\ttab\u{1}\u{7f}",
        "null",
        "{a,b,NULL}",
        "\\N",
        "",
    ];
    let puts: Vec<JobPut> = texts
        .iter()
        .enumerate()
        .map(|(at, text)| JobPut {
            definition: (*text).into(),
            source: (*text).into(),
            source_mark: (*text).into(),
            ..put(at as u32)
        })
        .collect();
    store.commit(&Batch { jobs: puts.clone(), ..Batch::default() }).await.unwrap();
    let found: Vec<_> = store.load().await.unwrap().jobs.into_iter().map(|record| record.put).collect();
    assert_eq!(found, puts);
}

pub(crate) async fn a_nul_is_refused_or_shown(fixture: &Fixture) {
    use cadran_core::{RunStatus, RunUpdate, StepRecord, StepStatus};
    let store = &fixture.store;
    let error = store
        .commit(&Batch { jobs: vec![JobPut { definition: "a\0b".into(), ..put(0) }], ..Batch::default() })
        .await
        .unwrap_err();
    assert!(!error.is_transient() && error.to_string().contains("job-000000"), "{error}");

    // What programs said must never stop a commit.
    store.commit(&jobs(1)).await.unwrap();
    let steps = vec![StepRecord { output: Some("a\0b".into()), ..step("main", StepStatus::Failed) }];
    let failed = RunUpdate {
        message: Some("a\0b".into()),
        steps: Some(steps.clone()),
        ..update(1, RunStatus::Failed)
    };
    let mut asked = promise(1, 0, 5);
    asked.params = vec![("k\0".into(), "v\0".into())];
    store.commit(&promised(vec![asked.clone()])).await.unwrap();
    store.commit(&updated(vec![failed])).await.unwrap();
    let found = store.run(run(1)).await.unwrap().unwrap().record;
    assert_eq!(found.promise, asked);
    assert_eq!(found.state.message.as_deref(), Some("a\u{2400}b"));
    assert_eq!(found.state.steps, Some(steps));
}

pub(crate) async fn a_reopened_store_has_everything(fixture: &Fixture) {
    async fn see(store: &Store) -> (usize, usize, Option<u64>) {
        let loaded = store.load().await.unwrap();
        (loaded.jobs.len(), loaded.open.len(), loaded.last_id.map(|id| id.raw()))
    }
    fixture.store.commit(&jobs(3)).await.unwrap();
    fixture.store.commit(&promised(vec![promise(1, 0, 5), promise(2, 1, 5)])).await.unwrap();
    fixture.store.commit(&Batch { skips: vec![skip(9, 1, 4)], ..Batch::default() }).await.unwrap();
    let before = see(&fixture.store).await;
    assert_eq!(before, (3, 2, Some(9)));
    let reopened = fixture.reopen().await;
    assert_eq!(see(&reopened).await, before);
    reopened.close().await;
}
