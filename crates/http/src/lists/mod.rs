//! Jobs, runs and skips in short, kept in memory beside the record: which rows a page of a list has is found here,
//! whatever the filter, without a scan of the store and without a question to the loop. The rows themselves are then read
//! from the store by their keys: the lists say which, the record says what.
//!
//! A thread of its own fills them from the store at the start, and then applies every batch after its commit. An endpoint
//! waits until all that was committed before its request is applied.

mod history;
mod jobs;
mod runs;
mod stats;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread;
use std::time::Duration;

use cadran_core::{Batch, JobId, Millis, Refusal, RunId};
use cadran_store::{HEADS_MAX, SkipQuery, Store, StoreError};
use tokio::runtime::Handle;
use tokio::sync::watch;

pub(crate) use history::{DueOutcome, DueQuery, RecordedDue, SkipFilter};
pub(crate) use jobs::{JobFilter, JobRow, JobSort, JobWord, LabelFilter};
pub(crate) use runs::{RunFilter, param_hash};
pub(crate) use stats::{DURATION_BOUNDS_MS, LATENESS_BOUNDS_MS, StatsCell};

use history::Skips;
use jobs::Jobs;
use runs::Runs;

/// How long an endpoint waits for the lists: they are made in seconds at the start, and are milliseconds behind a commit.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// Next dues that have passed are looked for this often.
const REFRESH_EVERY: Duration = Duration::from_secs(1);

/// The first wait after the store did not answer while the lists are made, and how often it is tried.
const LOAD_PAUSE: Duration = Duration::from_millis(500);

/// The lists. See the head of this file.
pub struct Lists {
    tables: Arc<RwLock<Tables>>,
    messages: Sender<Message>,
    /// Batches that were given here.
    given: AtomicU64,
    /// Batches that are applied; `None` until the lists are made.
    applied: watch::Receiver<Option<u64>>,
}

/// What an answer is made from.
#[derive(Default)]
pub(crate) struct Tables {
    pub(crate) jobs: Jobs,
    pub(crate) runs: Runs,
    pub(crate) skips: Skips,
}

enum Message {
    Committed(Box<Batch>, Vec<RunId>),
    Forgotten(Vec<RunId>),
}

impl Lists {
    /// Starts to make the lists of a record, on a thread of its own. `clock` is the wall clock. Batches that are committed
    /// from now on have to be given to [`Lists::committed`].
    pub fn start(store: Store, runtime: Handle, clock: fn() -> Millis) -> std::io::Result<Lists> {
        let (messages, incoming) = channel();
        let (progress, applied) = watch::channel(None);
        let tables: Arc<RwLock<Tables>> = Arc::default();
        let work = Work { tables: tables.clone(), store, runtime, clock };
        thread::Builder::new().name("cadran-lists".into()).spawn(move || work.run(&incoming, &progress))?;
        Ok(Lists { tables, messages, given: AtomicU64::new(0), applied })
    }

    /// A batch was committed, but for these runs.
    pub fn committed(&self, batch: Batch, refused: &[RunId]) {
        self.send(Message::Committed(Box::new(batch), refused.to_vec()));
    }

    /// Runs and skips with these ids were taken off the record.
    pub fn forgotten(&self, ids: Vec<RunId>) {
        self.send(Message::Forgotten(ids));
    }

    /// Rises with every change of a job: whatever was made from the jobs before is old then.
    pub fn generation(&self) -> u64 {
        self.tables.read().unwrap_or_else(PoisonError::into_inner).jobs.generation()
    }

    fn send(&self, message: Message) {
        // Only when the thread has ended is there nobody to hear it; then whoever asks is told so.
        if self.messages.send(message).is_ok() {
            self.given.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// The tables with everything that was committed before this call.
    pub(crate) async fn read(&self) -> Result<RwLockReadGuard<'_, Tables>, Refusal> {
        let given = self.given.load(Ordering::Acquire);
        let mut applied = self.applied.clone();
        let is_there = |applied: &Option<u64>| applied.is_some_and(|applied| applied >= given);
        match tokio::time::timeout(WAIT_MAX, applied.wait_for(is_there)).await {
            Ok(Ok(_)) => Ok(self.tables.read().unwrap_or_else(PoisonError::into_inner)),
            Ok(Err(_)) => {
                Err(Refusal::Busy("the lists of jobs and runs are not kept any more; restart the server"))
            }
            Err(_) => Err(Refusal::Busy("the lists of jobs and runs are being made; try again in a moment")),
        }
    }
}

struct Work {
    tables: Arc<RwLock<Tables>>,
    store: Store,
    runtime: Handle,
    clock: fn() -> Millis,
}

impl Work {
    fn run(&self, incoming: &Receiver<Message>, progress: &watch::Sender<Option<u64>>) {
        while let Err(error) = self.runtime.block_on(self.load()) {
            tracing::warn!(%error, "the lists of jobs and runs could not be made; trying again");
            self.runtime.block_on(tokio::time::sleep(LOAD_PAUSE));
            // Nobody is left who could ask.
            if progress.is_closed() {
                return;
            }
        }
        progress.send_replace(Some(0));
        let mut done = 0;
        loop {
            match incoming.recv_timeout(REFRESH_EVERY) {
                Ok(message) => {
                    self.apply(message);
                    done += 1;
                    progress.send_replace(Some(done));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.refresh();
        }
    }

    fn write(&self) -> RwLockWriteGuard<'_, Tables> {
        self.tables.write().unwrap_or_else(PoisonError::into_inner)
    }

    async fn load(&self) -> Result<(), StoreError> {
        let mut jobs = Jobs::default();
        let mut from = Some(JobId(0));
        while let Some(first) = from {
            let (records, next) = self.store.load_jobs(first).await?;
            for record in &records {
                jobs.load(record);
            }
            from = next;
        }
        jobs.refresh_all((self.clock)());
        let (mut heads, mut params, mut before) = (Vec::new(), runs::ParamTable::default(), None);
        while heads.len() < runs::RUNS_MAX {
            let page = self.store.run_heads(before, HEADS_MAX).await?;
            let Some(last) = page.last() else { break };
            before = Some(last.run);
            heads.extend(page.iter().map(runs::Row::of_head));
            for head in page.iter().filter(|head| !head.params.is_empty()) {
                runs::note_params(&mut params, head.run, &head.params);
            }
        }
        heads.reverse();
        for row in &heads {
            jobs.began(row);
        }
        let (mut skips, mut before) = (Vec::new(), None);
        while skips.len() < history::SKIPS_MAX {
            let page = self.store.skips(&SkipQuery { before, ..SkipQuery::default() }).await?;
            let Some(last) = page.last() else { break };
            before = Some(last.skip.id);
            skips.extend(page.iter().map(|view| view.skip));
        }
        skips.reverse();
        *self.write() = Tables { jobs, runs: Runs::new(heads, params), skips: Skips::new(skips) };
        Ok(())
    }

    fn apply(&self, message: Message) {
        let now = (self.clock)();
        match message {
            Message::Committed(batch, refused) => {
                let mut tables = self.write();
                let Tables { jobs, runs, skips } = &mut *tables;
                for put in &batch.jobs {
                    jobs.put(put, now);
                }
                for removed in &batch.removed {
                    jobs.remove(removed.job);
                }
                for state in &batch.states {
                    jobs.set_paused(state.job, state.paused_at.is_some());
                }
                for promise in batch.promised.iter().filter(|promise| !refused.contains(&promise.run)) {
                    runs.promise(promise);
                }
                for update in &batch.runs {
                    if let Some(row) = runs.update(update) {
                        jobs.began(&row);
                    }
                }
                for skip in &batch.skips {
                    skips.put(*skip);
                }
            }
            Message::Forgotten(gone) => {
                let mut tables = self.write();
                tables.runs.forget(&gone);
                tables.skips.forget(&gone);
            }
        }
    }

    /// Next dues that have passed are replaced, in slices: nobody waits for all of a fleet.
    fn refresh(&self) {
        let now = (self.clock)();
        let mut from = Some(0);
        while let Some(first) = from {
            let is_due = self.tables.read().unwrap_or_else(PoisonError::into_inner).jobs.passed(first, now);
            let Some(at) = is_due else { return };
            from = self.write().jobs.refresh(at, now);
        }
    }
}
