//! What was done to the server, as those know it who did it: when it was told of a file, of its removal, of a pause. Rows
//! that speak of these have to agree.

use std::collections::{BTreeMap, BTreeSet};

use cadran_core::{Batch, Command, JobId, Millis, SkipReason};
use cadran_engine::{Event, JobChange, Token};

use crate::law::{Violation, broken};
use crate::life::{Life, PRE_READ_MS};

/// A pause, by the wall clock of the server.
struct Pause {
    asked: Token,
    from: Millis,
    /// The latest that the clock showed while it lasted.
    to: Millis,
    is_open: bool,
}

/// Everything that was done, by the name of the job.
#[derive(Default)]
pub(crate) struct Deeds {
    put: BTreeMap<String, Vec<Millis>>,
    removed: BTreeMap<String, Vec<Millis>>,
    pauses: BTreeMap<String, Vec<Pause>>,
    /// Who asked for an end of a pause and has no answer yet.
    resumes: BTreeMap<Token, String>,
    known: BTreeSet<JobId>,
}

impl Deeds {
    /// The server is told something at this moment of its clock.
    pub(crate) fn told(&mut self, event: &Event, wall: Millis) {
        self.pauses_go_on(wall);
        match event {
            Event::Jobs(changes) => {
                for change in changes {
                    match change {
                        JobChange::Put { job, .. } => {
                            self.put.entry(job.name.to_string()).or_default().push(wall)
                        }
                        JobChange::Remove { name } => {
                            self.removed.entry(name.to_string()).or_default().push(wall)
                        }
                    }
                }
            }
            Event::Command(token, Command::Pause { job }) => {
                let pauses = self.pauses.entry(job.to_string()).or_default();
                pauses.push(Pause { asked: *token, from: wall, to: wall, is_open: true });
            }
            Event::Command(token, Command::Resume { job }) => {
                self.resumes.insert(*token, job.to_string());
            }
            _ => {}
        }
    }

    /// The server answers: only now a pause is certainly over. Where it refused, as for a job whose file is gone, nothing
    /// was done.
    pub(crate) fn answered(&mut self, token: Token, done: bool, wall: Millis) {
        let resumed = self.resumes.remove(&token);
        if !done {
            self.pauses.values_mut().for_each(|pauses| pauses.retain(|pause| pause.asked != token));
            return;
        }
        let Some(job) = resumed else { return };
        let pauses = self.pauses.entry(job).or_default().iter_mut();
        for pause in pauses.filter(|pause| pause.is_open && pause.asked < token) {
            pause.to = pause.to.max(wall);
            pause.is_open = false;
        }
    }

    /// Also where the clock is set back before the store answers.
    fn pauses_go_on(&mut self, wall: Millis) {
        for pause in self.pauses.values_mut().flatten().filter(|pause| pause.is_open) {
            pause.to = pause.to.max(wall);
        }
    }

    /// Holds rows that became durable to what was done.
    pub(crate) fn check(
        &mut self,
        batch: &Batch,
        lives: &BTreeMap<JobId, Life>,
        wall: Millis,
    ) -> Result<(), Violation> {
        self.pauses_go_on(wall);
        let name_of = |job: JobId| lives.get(&job).map(|life| life.name.clone()).unwrap_or_default();
        for put in &batch.jobs {
            let state = batch.states.iter().rfind(|state| state.job == put.job);
            let watermark = state.and_then(|state| state.watermark);
            let told = self.put.get(put.name.as_str());
            if self.known.insert(put.job)
                && !told.is_some_and(|told| told.iter().any(|at| Some(*at) == watermark))
            {
                return broken(
                    "a new job counts from the moment its file was read",
                    format!("{}: watermark {watermark:?}, told at {told:?}", put.name),
                );
            }
        }
        for removed in &batch.removed {
            let name = name_of(removed.job);
            if !self.removed.get(&name).is_some_and(|told| told.contains(&removed.at)) {
                return broken("a job is removed when its file is", format!("{name}: {removed:?}"));
            }
        }
        for state in &batch.states {
            let name = name_of(state.job);
            let pauses = self.pauses.get(&name).map_or(&[][..], Vec::as_slice);
            if let Some(at) = state.paused_at
                // An edit meanwhile records what was paused so far, and the pause goes on from there; where the clock was
                // set back, that is how far the job is planned.
                && !pauses.iter().any(|pause| {
                    (pause.from..=pause.to).contains(&at) || state.watermark == Some(at) && at > pause.from
                })
            {
                return broken("a job is paused when somebody asks", format!("{name}: {state:?}"));
            }
        }
        for skip in batch.skips.iter().filter(|skip| skip.reason == SkipReason::Paused) {
            let name = name_of(skip.job);
            let pauses = self.pauses.get(&name).map_or(&[][..], Vec::as_slice);
            let inside =
                |pause: &Pause| pause.from < skip.first_due && skip.last_due <= pause.to + PRE_READ_MS;
            if !pauses.iter().any(inside) {
                return broken("dues are skipped as paused only in a pause", format!("{name}: {skip:?}"));
            }
        }
        Ok(())
    }
}
