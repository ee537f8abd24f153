use std::collections::BTreeSet;
use std::sync::Arc;

use crate::{
    Address, History, IdempotencyKey, JobId, JobName, Millis, RunId, RunStatus, SkipReason, StepRecord,
    Trigger,
};

/// Everything one turn of the loop wants durable, written in one transaction.
///
/// Writing a batch twice has the same result as writing it once: a store that lost its connection in the middle of
/// a commit is simply given the batch again.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// New and changed jobs.
    pub jobs: Vec<JobPut>,
    /// Jobs that went away.
    pub removed: Vec<JobRemoved>,
    /// Planning state of jobs: watermark and pause. The last one of a job counts.
    pub states: Vec<JobState>,
    /// New runs. (job, due) is unique among scheduled runs.
    pub promised: Vec<Promise>,
    /// What became of runs. The last one of a run counts.
    pub runs: Vec<RunUpdate>,
    /// Dues that never became runs, counted.
    pub skips: Vec<Skip>,
    /// Keys of triggers. A key that is recorded already stays as it is.
    pub trigger_keys: Vec<TriggerKey>,
}

/// A trigger that came with a key of the caller's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TriggerKey {
    /// The key, and what was asked for under it.
    pub key: IdempotencyKey,
    /// The run that was made.
    pub run: RunId,
    /// When.
    pub at: Millis,
}

impl Batch {
    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
            && self.removed.is_empty()
            && self.states.is_empty()
            && self.promised.is_empty()
            && self.runs.is_empty()
            && self.skips.is_empty()
            && self.trigger_keys.is_empty()
    }

    /// How many rows it writes.
    pub fn len(&self) -> usize {
        self.jobs.len()
            + self.removed.len()
            + self.states.len()
            + self.promised.len()
            + self.runs.len()
            + self.skips.len()
            + self.trigger_keys.len()
    }

    /// Adds everything of a later batch behind this one. A store writes jobs before removals, so a removal that a
    /// later put takes back is left out.
    pub fn append(&mut self, mut later: Batch) {
        if !self.removed.is_empty() && !later.jobs.is_empty() {
            let put: BTreeSet<JobId> = later.jobs.iter().map(|put| put.job).collect();
            self.removed.retain(|removed| !put.contains(&removed.job));
        }
        self.jobs.append(&mut later.jobs);
        self.removed.append(&mut later.removed);
        self.states.append(&mut later.states);
        self.promised.append(&mut later.promised);
        self.runs.append(&mut later.runs);
        self.skips.append(&mut later.skips);
        self.trigger_keys.append(&mut later.trigger_keys);
    }
}

/// A job as it is kept: the definition is text that only `cadran-spec` reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobPut {
    /// Its number.
    pub job: JobId,
    /// Its name.
    pub name: JobName,
    /// Rises with every change of the definition.
    pub revision: u32,
    /// The definition, encoded.
    pub definition: Arc<str>,
    /// The file it came from, relative to the jobs directory; empty without a file.
    pub source: Arc<str>,
    /// What the file looked like (size, time, hash), so that an unchanged file is not read again.
    pub source_mark: Arc<str>,
    /// How long its ended runs are kept.
    pub history: History,
}

/// A job that went away. Its row stays for the history's sake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobRemoved {
    /// Its number.
    pub job: JobId,
    /// When.
    pub at: Millis,
}

/// The planning state of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobState {
    /// Its number.
    pub job: JobId,
    /// Latest due planned. `None` is a lost watermark: no catch-up.
    pub watermark: Option<Millis>,
    /// Since when it is paused.
    pub paused_at: Option<Millis>,
    /// Stretches `(from, to]` after the watermark whose dues are recorded already (pauses during a backlog).
    pub holes: Vec<(Millis, Millis)>,
}

/// A run that will happen, or say why not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promise {
    /// The run.
    pub run: RunId,
    /// Its job.
    pub job: JobId,
    /// The revision of the job it was promised under.
    pub revision: u32,
    /// The due, or the moment of the manual trigger.
    pub due: Millis,
    /// Why.
    pub trigger: Trigger,
    /// When it was promised.
    pub promised_at: Millis,
    /// Values given with the trigger.
    pub params: Vec<(Box<str>, Box<str>)>,
    /// The executors it may go to, given with the trigger; empty for all of its groups.
    pub addresses: Vec<Address>,
    /// The run that asked for this one, and how many runs stand above it.
    pub parent: Option<(RunId, u32)>,
}

/// The whole changeable part of a run's row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunUpdate {
    /// The run.
    pub run: RunId,
    /// Where it stands.
    pub status: RunStatus,
    /// How many times the run was started: 1, and one more for each recovery or retry.
    pub attempt: u32,
    /// First start.
    pub started_at: Option<Millis>,
    /// End.
    pub ended_at: Option<Millis>,
    /// Why it was skipped.
    pub skip: Option<SkipReason>,
    /// Why it waits, failed, was stopped or lost, in words.
    pub message: Option<Box<str>>,
    /// The steps, when they changed; `None` leaves what is recorded.
    pub steps: Option<Vec<StepRecord>>,
}

impl RunUpdate {
    /// A run that was promised, and of which nothing more is known.
    pub fn promised(run: RunId) -> RunUpdate {
        RunUpdate {
            run,
            status: RunStatus::Promised,
            attempt: 0,
            started_at: None,
            ended_at: None,
            skip: None,
            message: None,
            steps: None,
        }
    }
}

/// Dues that never became runs. A later skip with the same `id` replaces it: a stretch grows in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skip {
    /// Names the stretch; from the same sequence as run ids.
    pub id: RunId,
    /// The job.
    pub job: JobId,
    /// First due of the stretch.
    pub first_due: Millis,
    /// Last due of the stretch.
    pub last_due: Millis,
    /// How many dues.
    pub count: u64,
    /// Why.
    pub reason: SkipReason,
    /// When it was decided.
    pub at: Millis,
}

/// A run as it is read back: at start, to go on with what was open, and to retry one that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRecord {
    /// What was promised.
    pub promise: Promise,
    /// What has become of it.
    pub state: RunUpdate,
}
