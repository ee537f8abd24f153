//! The pace of the store: when a batch is durable, and when the loop hears of it.

use cadran_core::{Batch, RunId};
use cadran_engine::Event;

use super::{Sending, World};
use crate::children;
use crate::law::{Violation, broken};
use crate::record::Record;

impl<R: Record> World<'_, R> {
    /// The store takes what has gathered, and makes it durable.
    pub(super) fn store_works(&mut self) -> Result<(), Violation> {
        if self.sending.is_none() && !self.queue.is_empty() && self.store_away_until <= self.mono {
            let mut dice = self.luck(3);
            let usual = match dice.roll(50) {
                0 if !self.hands.quiet => 250,
                1..=5 => 7,
                _ => 1,
            };
            let each = if self.store_slow.1 > self.mono { self.store_slow.0 } else { usual };
            let (seqs, batches) = self.queue.drain(..).unzip();
            let durable_at = self.mono + dice.between(0, each);
            let answer_at = durable_at + dice.between(0, each);
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
        let written =
            |record: &mut R| record.commit(&group).or_else(|why| broken("the store takes every batch", why));
        let refused = written(&mut self.record)?;
        if self.luck(4).percent(4) && written(&mut self.record)? != refused {
            // The answer was lost, and the same batch was given again.
            return broken("writing a batch twice is writing it once", format!("{group:?}"));
        }
        for batch in &batches {
            let open = (!self.script.files.is_empty()).then(|| self.law.open.clone());
            self.law.observe(batch, &refused)?;
            if let Some(open) = open {
                children::check(&self.law, &open, batch)?;
            }
        }
        Ok(refused)
    }

    /// The loop hears that its batches are durable.
    pub(super) fn answered(&mut self) -> Result<(), Violation> {
        let due = |sending: &mut Sending| sending.answer_at <= self.mono && sending.refused.is_some();
        let Some(sending) = self.sending.take_if(due) else { return Ok(()) };
        let refused = sending.refused.unwrap_or_default();
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
