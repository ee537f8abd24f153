//! Recovery at start: reads jobs and open runs from the record back into the engine.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use cadran_core::{Found, Job, JobId, JobName, Now, Refusal, RunId, TRIGGER_KEY_MS};
use cadran_engine::{Engine, Event, Restored, RestoredJob, RestoredRun, Token};
use cadran_spec::{DecodeError, Decoder};
use cadran_store::{Store, StoreError};
use tokio::runtime::Handle;

use super::event_loop::{Message, Recall};
use super::{LoopHandle, Problems};

/// A job file as it was when it was last read: its path, its mark, and the job it held.
pub type KnownFile = (Arc<str>, Arc<str>, JobName);

/// Reads the record into a fresh engine, job by job in slices.
///
/// A definition that cannot be read, as one that a newer version wrote, is taken from the job's file: `from_file` reads
/// it. Without one the job is not in force, and that is a problem that is shown: one bad row does not keep a server from
/// starting, and no schedule is dropped without a word.
pub async fn restore(
    store: &Store,
    engine: &mut Engine,
    found: Vec<Found>,
    last_log: u64,
    now: Now,
    from_file: impl Fn(&str) -> Option<Job>,
    problems: &Problems,
) -> Result<Vec<KnownFile>, StoreError> {
    let (open, last_id) = store.load_runs().await?;
    let wanted: HashSet<JobId> = open.iter().map(|record| record.promise.job).collect();
    let mut restored = Restored { found, last_id, last_log, ..Restored::default() };
    let mut decoder = Decoder::default();
    let mut current: HashMap<JobId, (JobName, u32)> = HashMap::new();
    let (mut successes_of, mut files) = (Vec::new(), Vec::new());
    engine.reserve(store.counts().await?.jobs as usize);
    let mut from = Some(JobId(0));
    while let Some(first) = from {
        let (records, next) = store.load_jobs(first).await?;
        let mut jobs = Vec::with_capacity(records.len());
        for record in records {
            let (id, name, revision) = (record.put.job, record.put.name, record.put.revision);
            let source = Arc::clone(&record.put.source);
            let is_of_file = record.removed_at.is_none() && !source.is_empty();
            if wanted.contains(&id) {
                current.insert(id, (name.clone(), revision));
            }
            match decoder.decode(name.clone(), &record.put.definition) {
                Ok(job) => {
                    if is_of_file {
                        files.push((source, record.put.source_mark, name));
                    }
                    if job.policy.skip_if_successful {
                        successes_of.push(id);
                    }
                    let removed_at = record.removed_at;
                    jobs.push(RestoredJob { id, job, revision, removed_at, state: record.state });
                }
                Err(error) => {
                    let job = from_file(&source).filter(|job| is_of_file && job.name == name);
                    tell_unread(problems, &name, &source, &error, job.is_some(), record.removed_at.is_some());
                    match job {
                        Some(job) => {
                            // Without its mark, so that the folder reads it again and this version's definition is kept.
                            files.push((source, "".into(), name));
                            let removed_at = record.removed_at;
                            jobs.push(RestoredJob { id, job, revision, removed_at, state: record.state });
                        }
                        None => restored.unread.push((id, name, revision)),
                    }
                }
            }
        }
        engine.restore_jobs(jobs, now);
        from = next;
    }
    restored.trigger_keys = store.trigger_keys(now.wall.saturating_sub(TRIGGER_KEY_MS)).await?;
    restored.successes = store.last_successes(&successes_of).await?;
    for record in open {
        let job = match current.get(&record.promise.job) {
            Some((name, revision)) if *revision != record.promise.revision => {
                older(store, &mut decoder, record.promise.job, name, record.promise.revision).await?
            }
            _ => None,
        };
        restored.runs.push(RestoredRun { record, job });
    }
    engine.restore(restored, now);
    Ok(files)
}

/// Says that a stored definition cannot be read, and what became of the job.
fn tell_unread(
    problems: &Problems,
    name: &JobName,
    source: &str,
    error: &DecodeError,
    is_kept: bool,
    is_removed: bool,
) {
    if is_removed {
        tracing::warn!(job = %name, %error, "the stored definition of a removed job cannot be read");
        return;
    }
    if is_kept {
        tracing::warn!(job = %name, %error, file = source, "the job was taken from its file instead");
        let message = format!("{error}; the job was taken from its file instead");
        let help = "nothing needs to be done, unless the file uses what only the newer version knows";
        problems.add(None, source, "warning", "stored_definition", message, help);
        return;
    }
    tracing::error!(job = %name, %error, "the job is not in force: its stored definition cannot be read");
    let message = format!(
        "the job {name} is not in force: {error}, and no file gives it in a form that this version reads"
    );
    let help = "start the version that wrote it, or write its job file so that this version reads it";
    problems.add(Some(name.clone()), source, "error", "stored_definition", message, help);
}

async fn older(
    store: &Store,
    decoder: &mut Decoder,
    job: JobId,
    name: &JobName,
    revision: u32,
) -> Result<Option<Job>, StoreError> {
    let definition = store.definition(job, revision).await?;
    Ok(definition.and_then(|text| decoder.decode(name.clone(), &text).ok()))
}

/// Reads an ended run back when a retry asks for it.
pub fn recaller(store: Store, loop_handle: LoopHandle, runtime: Handle) -> Recall {
    Arc::new(move |token: Token, run: RunId, share: Option<u32>| {
        let (store, loop_handle) = (store.clone(), loop_handle.clone());
        runtime.spawn(async move {
            let message = match recall(&store, run).await {
                Ok(Some(restored)) => Message::Event(Event::Recalled(token, Box::new(restored), share)),
                Ok(None) => Message::Refused(token, Refusal::NoSuchRun(run)),
                Err(error) => {
                    tracing::error!(%run, %error, "could not read the run back");
                    Message::Refused(
                        token,
                        Refusal::Busy("the store cannot be read at the moment; try again later"),
                    )
                }
            };
            loop_handle.inbox.put(message);
        });
    })
}

async fn recall(store: &Store, run: RunId) -> Result<Option<RestoredRun>, StoreError> {
    let Some(view) = store.run(run).await? else { return Ok(None) };
    let promise = &view.record.promise;
    let job = older(store, &mut Decoder::default(), promise.job, &view.job_name, promise.revision).await?;
    Ok(Some(RestoredRun { record: view.record, job }))
}
