//! Finding what was lost: accepted runs whose executor vanished, was started anew, or never says how they ended.

use std::collections::BTreeMap;
use std::sync::Arc;

use cadran_core::{Executor, GroupName, Outcome};
use tokio::time::{Instant, sleep};

use super::client::CallError;
use super::remote::{Errand, Shared, json};
use super::table::{Halt, Sight};
use super::wire::{Answer, OfJob};
use crate::journal::Key;

/// Executors asked at once.
const LOOKS_AT_ONCE_MAX: usize = 64;

/// Executors remembered for knowing when a job is on. Those that were forgotten show it again.
const KNOWING_MAX: usize = 10_000;

/// What an executor said when it was asked about a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    Busy,
    Idle,
    /// Something answers that does not know the question.
    Odd,
    Silent,
}

impl Shared {
    pub(super) async fn keep_watch(self: Arc<Shared>) {
        loop {
            sleep(self.options.look_every).await;
            self.client.sweep();
            self.end_overdue();
            self.look().await;
        }
    }

    /// Ends what passed its time limit although its executor should have, and what was covered by a later order.
    fn end_overdue(self: &Arc<Shared>) {
        let now = Instant::now();
        let mut late: Vec<(Key, Halt)> = Vec::new();
        let (mut covered, mut halted): (Vec<Errand>, Vec<Errand>) = (Vec::new(), Vec::new());
        {
            let state = self.state();
            // Of several under one number the eldest is on, and the others wait behind it at the executor.
            let mut eldest: BTreeMap<(u32, &str), (Instant, Key)> = BTreeMap::new();
            for (key, entry) in &state.ledger.kept.entries {
                for share in entry.open() {
                    if share.halted {
                        // As below, for a share that was stopped alone.
                        halted.push((*key, share.seat.index));
                    }
                    if share.sight.covered_at.is_some_and(|at| now - at > self.options.timeout_margin) {
                        covered.push((*key, share.seat.index));
                    }
                    let Some(since) = share.sight.since else { continue };
                    let slot =
                        eldest.entry((entry.number, share.seat.address.as_str())).or_insert((since, *key));
                    *slot = (*slot).min((since, *key));
                }
                if let Some(halt) = entry.halt.filter(|_| !entry.is_over && entry.open().next().is_some()) {
                    // Told to end in an earlier life, or by a task that is at it: ending twice does no harm.
                    late.push((*key, halt));
                }
            }
            for (since, key) in eldest.into_values() {
                let Some(entry) = state.ledger.kept.entries.get(&key) else { continue };
                let limit =
                    std::time::Duration::from_secs(entry.timeout_secs.into()) + self.options.timeout_margin;
                if entry.timeout_secs > 0 && entry.halt.is_none() && now - since > limit {
                    late.push((key, Halt::TimedOut));
                }
            }
        }
        for errand in covered {
            self.end_share(
                errand,
                Outcome::Reported(500, "a later run of the job took its place".into()),
                None,
            );
        }
        for (key, halt) in late {
            self.halt(key, halt);
        }
        for errand in halted {
            self.halt_share(errand);
        }
    }

    /// Asks every executor that has something for long about each job it has.
    async fn look(self: &Arc<Shared>) {
        let now = Instant::now();
        let mut questions: BTreeMap<(Executor, u32), (GroupName, Vec<Errand>)> = BTreeMap::new();
        {
            let state = self.state();
            for (key, entry) in &state.ledger.kept.entries {
                let long = |sight: &Sight| sight.since.is_some_and(|at| now - at >= self.options.look_every);
                for share in entry.open().filter(|share| long(&share.sight)) {
                    let question = questions.entry((share.executor(), entry.number));
                    let (_, errands) = question.or_insert_with(|| (entry.group.clone(), Vec::new()));
                    errands.push((*key, share.seat.index));
                }
            }
        }
        let questions: Vec<_> = questions.into_iter().collect();
        for some in questions.chunks(LOOKS_AT_ONCE_MAX) {
            let calls = some.iter().map(|((executor, number), (group, _))| {
                self.client.call(group, executor, "idleBeat", json(&OfJob { job_id: *number }))
            });
            let answers = futures::future::join_all(calls).await;
            for (((executor, _), (_, errands)), answer) in some.iter().zip(answers) {
                let seen = seen(&answer);
                if seen == Seen::Busy {
                    let knowing = &mut self.state().knowing;
                    if knowing.len() >= KNOWING_MAX {
                        knowing.clear();
                    }
                    knowing.insert(executor.address.clone());
                }
                for errand in errands {
                    self.judge(*errand, seen);
                }
            }
        }
    }

    fn judge(&self, errand: Errand, seen: Seen) {
        let now = Instant::now();
        let options = &self.options;
        let lost = {
            let mut state = self.state();
            let Some(share) = state.share(errand) else { return };
            let address = share.seat.address.clone();
            let sight = &mut share.sight;
            match seen {
                Seen::Odd if sight.gone => {
                    sight.silent_since.get_or_insert(now);
                }
                Seen::Busy | Seen::Odd => (sight.idle_since, sight.silent_since) = (None, None),
                Seen::Idle => {
                    sight.silent_since = None;
                    sight.idle_since.get_or_insert(now);
                }
                Seen::Silent => {
                    sight.idle_since = None;
                    sight.silent_since.get_or_insert(now);
                }
            }
            let sight = *sight;
            let trusted = sight.trusted || state.knowing.contains(&address);
            let idle_max = if trusted { options.idle_time_max } else { options.doubtful_time_max };
            // An order that was never answered is given up sooner.
            let silent_max = match (sight.accepted, sight.gone) {
                (true, false) => options.silent_time_max,
                // It was silent for long before it left the roster.
                (true, true) => options.idle_time_max,
                (false, _) => options.silent_time_max / 3,
            };
            sight.idle_since.is_some_and(|at| now - at >= idle_max)
                || sight.silent_since.is_some_and(|at| now - at >= silent_max)
        };
        if lost {
            self.end_share(errand, Outcome::Lost, None);
        }
    }
}

/// An executor that does not know the question is there, at least.
fn seen(answer: &Result<Answer, CallError>) -> Seen {
    match answer {
        Ok(answer) if answer.is_ok() => Seen::Idle,
        Ok(_) => Seen::Busy,
        Err(CallError::Nonsense(_)) => Seen::Odd,
        Err(CallError::NotSent(_) | CallError::NoAnswer(_)) => Seen::Silent,
    }
}
