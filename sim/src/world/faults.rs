//! What goes wrong: clocks, the store, the server killed, and how it comes back.

use std::collections::BTreeMap;

use cadran_core::{Batch, JobId, Millis};
use cadran_engine::{Engine, Event, JobChange, Restored, RestoredJob, RestoredRun};

use super::World;
use crate::law::Violation;
use crate::record::Record;
use crate::sabotage::Sabotage;

impl<R: Record> World<'_, R> {
    pub(crate) fn set_clock(&mut self, by: Millis) {
        self.offset += by;
        if let Some((_, shows, _)) = &mut self.frozen {
            *shows += by;
        }
    }

    pub(crate) fn freeze(&mut self, long: Millis, leaps: bool) {
        if self.frozen.is_none() {
            self.frozen = Some((self.mono + long, self.mono + self.offset, leaps));
        }
    }

    pub(crate) fn thaw(&mut self) {
        if let Some((_, shows, leaps)) = self.frozen.take()
            && !leaps
        {
            self.offset = shows - self.mono;
        }
    }

    pub(crate) fn stall(&mut self, long: Millis) {
        self.stalled_until = self.stalled_until.max(self.mono + long);
    }

    pub(crate) fn store_away(&mut self, long: Millis) {
        self.store_away_until = self.store_away_until.max(self.mono + long);
        if let Some(sending) = &mut self.sending {
            sending.durable_at = sending.durable_at.max(self.mono + long);
            sending.answer_at = sending.answer_at.max(self.mono + long + 1);
        }
    }

    /// Everything is well again.
    pub(crate) fn calm(&mut self) {
        self.thaw();
        self.stalled_until = 0;
        self.store_away_until = 0;
        self.store_slow = (0, 0);
        self.storm_until = 0;
        self.crash_after = None;
        self.next_act = self.script.acts.len();
        let mono = self.mono;
        self.down_until = self.down_until.map(|at| at.min(mono));
        if let Some(sending) = &mut self.sending {
            sending.durable_at = sending.durable_at.min(mono);
            sending.answer_at = sending.answer_at.min(mono);
        }
    }

    pub(crate) fn lose_attempts(&mut self, silent: bool) {
        let mut reports = Vec::new();
        self.hands.lose(silent, self.now(), &mut reports);
        self.send_reports(reports);
    }

    /// The server is killed.
    pub(crate) fn crash(&mut self, down: Millis) {
        self.crash_after = None;
        self.queue.clear();
        self.sending = None;
        self.built = None;
        self.mail.clear();
        self.asked.clear();
        self.paused.clear();
        // Most reports die with the server; a few come from so far away that they arrive at the next one.
        let mut dice = self.luck(1);
        self.reports.retain(|_, _| dice.percent(30));
        // Its processes go with it, at once; what the journal says of them is asked for at the next start.
        self.found = self.hands.die();
        self.down_until = Some(self.mono + down);
    }

    /// The server ends in good order: attempts are stopped, what is left is made durable.
    pub(crate) fn end_in_order(&mut self, down: Millis) -> Result<(), Violation> {
        let now = self.now();
        self.engine.handle(Event::Stopping, now);
        self.carry_out()?;
        let mut reports = Vec::new();
        self.hands.stop_all(now, &mut reports);
        self.engine.handle(Event::Reports(reports), now);
        self.carry_out()?;
        if self.mono >= self.store_away_until {
            let mut rest: Vec<Batch> = Vec::new();
            if let Some(sending) = self.sending.take().filter(|sending| sending.refused.is_none()) {
                rest.extend(sending.batches);
            }
            rest.extend(self.queue.drain(..).map(|(_, batch)| batch));
            self.commit(rest)?;
        }
        self.crash(down);
        Ok(())
    }

    /// Counts an effect. True when the server died of it.
    pub(super) fn dies(&mut self) -> bool {
        let Some((left, down)) = &mut self.crash_after else { return false };
        if *left > 0 {
            *left -= 1;
            return false;
        }
        let down = *down;
        self.crash(down);
        true
    }

    /// Starts the server again from what is durable.
    pub(super) fn restart(&mut self) -> Result<(), Violation> {
        self.down_until = None;
        let now = self.now();
        let mut found = std::mem::take(&mut self.found);
        let loaded = self.record.load();
        let (last_id, mut last_log) = (loaded.last_id, self.hands.last_log());
        if let Some(sabotage) = self.script.sabotage {
            found = sabotage.found(found);
            last_log = if sabotage == Sabotage::LogNumberReused { 0 } else { last_log };
        }
        let mut restored = Restored { found, last_id, last_log, ..Restored::default() };
        let mut current: BTreeMap<JobId, u32> = BTreeMap::new();
        let mut successes_of = Vec::new();
        let mut changes = Vec::new();
        let mut known: BTreeMap<u64, usize> = BTreeMap::new();
        for row in loaded.jobs {
            let no = self.law.definition(&row.put.definition);
            let job = self.script.definition(no);
            current.insert(row.put.job, row.put.revision);
            if job.policy.skip_if_successful {
                successes_of.push(row.put.job);
            }
            let name: u64 = row.put.name.as_str()[1..].parse().unwrap_or(u64::MAX);
            if row.removed_at.is_none() {
                known.insert(name, no);
                if !self.files.contains_key(&name) {
                    changes.push(JobChange::Remove { name: row.put.name.clone() });
                }
            }
            let (id, revision) = (row.put.job, row.put.revision);
            restored.jobs.push(RestoredJob {
                id,
                job,
                revision,
                removed_at: row.removed_at,
                state: row.state,
            });
        }
        restored.successes = self.record.successes(&successes_of);
        for record in loaded.open {
            let promise = &record.promise;
            let older = current.get(&promise.job) != Some(&promise.revision);
            let job = older.then(|| self.older(promise.job, promise.revision)).flatten();
            restored.runs.push(RestoredRun { record, job });
        }
        self.busy.clear();
        let open = &self.law.open;
        self.touch.keep(|run| open.contains_key(&run));
        for (run, open) in self.law.open.iter().filter(|(_, open)| open.started) {
            self.busy.entry(open.job).or_default().insert(*run);
        }
        self.engine = Engine::new(self.options.clone());
        self.engine.restore(restored, now);
        self.engine.handle(Event::Executors(self.script.executors()), now);
        self.carry_out()?;
        // The watcher tells what the record does not know of the files.
        let files = self.files.iter().filter(|(name, no)| known.get(name) != Some(no));
        changes.extend(files.map(|(_, no)| self.change(*no)));
        if self.is_up() && !changes.is_empty() {
            self.mail.push(Event::Jobs(changes));
        }
        self.wake_at = self.mono;
        Ok(())
    }
}
