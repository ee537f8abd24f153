//! Who waits, for what, and in whose way it stands: recorded in words, and answered when somebody asks.

use cadran_core::{Holding, Now, RunId, RunStatus, RunUpdate, SkipReason, Waiting, instant_text};
use cadran_place::{Blocker, Freed, WaitReason, Wanted};

use crate::engine::Engine;

impl Engine {
    /// Why a run waits. `None` for one that does not, or is not open.
    pub fn why(&self, run: RunId) -> Option<Waiting> {
        let live = self.runs.get(run)?;
        let why = self.place.why(run)?;
        let mut waiting = Waiting {
            sentence: self.sentence(why.reason, why.blocker.as_ref()),
            kind: "slot",
            key: None,
            wanted: None,
            holder: None,
            holder_job: None,
            held_since: None,
            in_line: false,
            since: live.since,
            before: why.before,
            ticket: why.ticket,
            tries: why.tries,
        };
        let holder = match (why.reason, why.blocker) {
            (WaitReason::Slot, _) | (WaitReason::Footprint, None) => return Some(waiting),
            (WaitReason::Job(holder), _) => {
                waiting.kind = "job";
                waiting.key = Some(format!("job:{}", live.context.job_name));
                holder
            }
            (WaitReason::Footprint, Some(blocker)) => {
                let (kind, key, wanted) = match blocker.wanted {
                    Wanted::Key(access, key) => ("key", key, access.word().to_owned()),
                    Wanted::Units(units, pool) => ("pool", pool, units.to_string()),
                };
                (waiting.kind, waiting.key, waiting.wanted) = (kind, Some(key.into()), Some(wanted));
                waiting.in_line = blocker.in_line;
                blocker.holder
            }
        };
        let held_by = self.runs.get(holder);
        waiting.holder = Some(holder);
        waiting.holder_job = held_by.map(|live| live.context.job_name.to_string());
        waiting.held_since = held_by.and_then(|live| live.since);
        Some(waiting)
    }

    /// What a run holds. `None` for one that is not running.
    pub fn holding(&self, run: RunId) -> Option<Holding> {
        let live = self.runs.get(run).filter(|live| live.status == RunStatus::Running)?;
        let mut list = vec![format!("write of job:{}", live.context.job_name)];
        if let Some(footprint) = &live.footprint {
            list.extend(footprint.keys.iter().map(|(key, access)| format!("{} of {key}", access.word())));
            list.extend(
                footprint.pools.iter().map(|share| format!("{} of pool {}", share.units, share.pool)),
            );
        }
        Some(Holding { list, since: live.since })
    }

    /// A run is over or withdrawn: what follows for others.
    pub(crate) fn give_up_place(&mut self, run: RunId, now: Now) {
        let freed = self.place.release(run);
        self.take_freed(freed, now);
    }

    pub(crate) fn take_freed(&mut self, freed: Freed, now: Now) {
        self.runs.starts.runs.extend(freed.starts);
        for (run, reason, blocker) in freed.waits {
            self.wait_run(run, reason, blocker.as_deref(), now);
        }
        for (run, reason, blocker) in freed.skips {
            self.skip_blocked(run, reason, blocker.as_deref(), now);
        }
    }

    /// Skips a run, and says what was in its way.
    pub(crate) fn skip_blocked(
        &mut self,
        run: RunId,
        reason: SkipReason,
        blocker: Option<&Blocker>,
        now: Now,
    ) {
        let message = blocker.map(|blocker| self.wanted(blocker).into());
        self.end_run(run, RunStatus::Skipped, Some(reason), message, now);
    }

    pub(crate) fn wait_run(&mut self, run: RunId, reason: WaitReason, blocker: Option<&Blocker>, now: Now) {
        let message = self.sentence(reason, blocker);
        let Some(live) = self.runs.get_mut(run) else { return };
        live.status = RunStatus::Waiting;
        live.since.get_or_insert(now.wall);
        let job = live.context.job;
        let update = RunUpdate { message: Some(message.into()), ..live.update(run) };
        self.effects.batch.runs.push(update);
        self.note_change(run, job, RunStatus::Waiting, None);
    }

    fn sentence(&self, reason: WaitReason, blocker: Option<&Blocker>) -> String {
        match (reason, blocker) {
            (WaitReason::Job(blocker), _) => format!("waiting for run {blocker} of the same job"),
            (WaitReason::Footprint, Some(blocker)) => format!("waiting for {}", self.wanted(blocker)),
            (WaitReason::Slot, _) | (WaitReason::Footprint, None) => {
                "waiting for a free slot of this server".to_owned()
            }
        }
    }

    /// `write of table:orders held by run X of job Y since …`.
    fn wanted(&self, blocker: &Blocker) -> String {
        let mut text = match &blocker.wanted {
            Wanted::Key(access, key) => format!("{} of {key}", access.word()),
            Wanted::Units(units, pool) => format!("{units} of pool {pool}"),
        };
        text.push_str(match (blocker.in_line, blocker.in_part) {
            (true, _) => " behind",
            (false, true) => " held in part by",
            (false, false) => " held by",
        });
        text.push_str(&format!(" run {}", blocker.holder));
        if let Some(holder) = self.runs.get(blocker.holder) {
            text.push_str(&format!(" of job {}", holder.context.job_name));
            if blocker.in_line {
                text.push_str(", which waits");
            }
            if let Some(since) = holder.since {
                text.push_str(&format!(" since {}", instant_text(since)));
            }
        }
        text
    }
}
