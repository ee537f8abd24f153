//! The pace of the store: when a batch is durable, and when the loop hears of it.

use std::collections::BTreeSet;

use cadran_core::{Batch, JobId, RunId, Trigger};
use cadran_engine::Event;

use super::{Sending, World};
use crate::children;
use crate::law::{Violation, broken};
use crate::life::Mark;
use crate::record::Record;
use crate::sabotage::Sabotage;

impl<R: Record> World<'_, R> {
    /// The store takes what has gathered, and makes it durable.
    pub(super) fn store_works(&mut self) -> Result<(), Violation> {
        if self.script.sabotage == Some(Sabotage::BatchDropped) && self.store_away_until > self.mono {
            for (seq, _) in std::mem::take(&mut self.queue) {
                self.engine.handle(Event::Committed { seq, refused: Vec::new() }, self.now());
                self.carry_out()?;
            }
        }
        if self.sending.is_none() && !self.queue.is_empty() && self.store_away_until <= self.mono {
            let mut dice = self.luck(3);
            let usual = match dice.roll(50) {
                0 if !self.hands.quiet => 250,
                1..=5 => 7,
                _ => 1,
            };
            let each = if self.store_slow.1 > self.mono { self.store_slow.0 } else { usual };
            let (mut seqs, batches): (Vec<u64>, Vec<Batch>) = self.queue.drain(..).unzip();
            let durable_at = self.mono + dice.between(0, each);
            let answer_at = durable_at + dice.between(0, each);
            if self.script.sabotage == Some(Sabotage::AnswerBeforeCommit) {
                for seq in std::mem::take(&mut seqs) {
                    self.engine.handle(Event::Committed { seq, refused: Vec::new() }, self.now());
                    self.carry_out()?;
                }
            }
            self.sending = Some(Sending { seqs, batches, durable_at, answer_at, refused: None });
            if self.dies() {
                return Ok(());
            }
        }
        let due = |sending: &&mut Sending| sending.durable_at <= self.mono && sending.refused.is_none();
        if let Some(sending) = self.sending.as_mut().filter(due) {
            let batches = std::mem::take(&mut sending.batches);
            let refused = self.commit(batches)?;
            if let Some(sending) = &mut self.sending {
                sending.refused = Some(refused);
            }
            self.dies();
        }
        Ok(())
    }

    pub(super) fn commit(&mut self, batches: Vec<Batch>) -> Result<Vec<RunId>, Violation> {
        let mut group = Batch::default();
        for batch in &batches {
            group.append(batch.clone());
        }
        let taken = self.taken_by_others(&mut group);
        let written =
            |record: &mut R| record.commit(&group).or_else(|why| broken("the store takes every batch", why));
        let mut refused = written(&mut self.record)?;
        if self.luck(4).percent(4) && written(&mut self.record)? != refused {
            // The answer was lost, and the same batch was given again.
            return broken("writing a batch twice is writing it once", format!("{group:?}"));
        }
        refused.extend(taken);
        for batch in &batches {
            let open = (!self.script.files.is_empty()).then(|| self.law.open.clone());
            self.law.observe(batch, &refused)?;
            let wall = self.now().wall;
            self.deeds.check(batch, &self.law.jobs, wall)?;
            if let Some(open) = open {
                children::check(&self.law, &open, batch)?;
            }
        }
        Ok(refused)
    }

    /// Now and then somebody else has a due already: the store refuses the promise, and the due has its run elsewhere.
    fn taken_by_others(&mut self, group: &mut Batch) -> Vec<RunId> {
        if self.script.files.is_empty() {
            return Vec::new();
        }
        let mut dice = self.luck(6);
        let mut taken = Vec::new();
        let edited: BTreeSet<JobId> = group.jobs.iter().map(|put| put.job).collect();
        let lives = &mut self.law.jobs;
        group.promised.retain(|promise| {
            // What an edit promises at once lies outside of the spans that dues are judged by.
            let edited = edited.contains(&promise.job);
            let is_taken = promise.trigger == Trigger::Schedule && !edited && dice.percent(1);
            if is_taken && let Some(life) = lives.get_mut(&promise.job) {
                life.marks.push(Mark { due: promise.due, spare: false });
                taken.push(promise.run);
                return false;
            }
            true
        });
        taken
    }

    /// The loop hears that its batches are durable.
    pub(super) fn answered(&mut self) -> Result<(), Violation> {
        let due = |sending: &mut Sending| sending.answer_at <= self.mono && sending.refused.is_some();
        let Some(sending) = self.sending.take_if(due) else { return Ok(()) };
        let mut refused = sending.refused.unwrap_or_default();
        if let Some(sabotage) = self.script.sabotage {
            refused = sabotage.refused(refused);
        }
        for seq in sending.seqs {
            self.engine.handle(Event::Committed { seq, refused: refused.clone() }, self.now());
            self.carry_out()?;
            if !self.is_up() {
                return Ok(());
            }
        }
        if self.dies() {
            return Ok(());
        }
        self.wake_at = self.mono;
        Ok(())
    }
}
