//! Finding what was lost: accepted runs whose executor vanished, was started anew, or never says how they ended.

use std::collections::BTreeMap;
use std::sync::Arc;

use cadran_core::{Address, Executor, GroupName, Outcome};
use futures::StreamExt as _;
use tokio::time::{Instant, sleep};

use super::client::CallError;
use super::options::RemoteOptions;
use super::remote::{Errand, Shared, State, json};
use super::table::{Halt, Sight};
use super::wire::{Answer, OfJob};
use crate::journal::Key;

/// Executors asked at once.
const LOOKS_AT_ONCE_MAX: usize = 64;

/// Turns of the watch between two questions about the same share. What is overdue is noticed with the next turn, so that
/// the times in the documentation are kept to a tenth of the time between questions.
const TURNS_PER_LOOK: u32 = 10;

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
            for _ in 0..TURNS_PER_LOOK {
                sleep(self.options.look_every / TURNS_PER_LOOK).await;
                self.end_overdue();
                self.look().await;
            }
            self.client.sweep();
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

    /// Asks executors about each job that they have had for long, and about what is about to be given up.
    async fn look(self: &Arc<Shared>) {
        let now = Instant::now();
        let mut questions: BTreeMap<(Executor, u32), (GroupName, Vec<Errand>)> = BTreeMap::new();
        {
            let mut state = self.state();
            let State { ledger, knowing, .. } = &mut *state;
            for (key, entry) in &mut ledger.kept.entries {
                for share in entry.shares.iter_mut().filter(|share| share.end.is_none()) {
                    let knows = knowing.contains(&share.seat.address);
                    if self.options.next_look(&share.sight, knows).is_none_or(|at| at > now) {
                        continue;
                    }
                    share.sight.looked_at = Some(now);
                    let question = questions.entry((share.executor(), entry.number));
                    let (_, errands) = question.or_insert_with(|| (entry.group.clone(), Vec::new()));
                    errands.push((*key, share.seat.index));
                }
            }
        }
        let questions = questions.into_iter().map(|((executor, number), (group, errands))| async move {
            let body = json(&OfJob { job_id: number });
            let answer = self.client.call(&group, &executor, "idleBeat", body).await;
            (executor.address, errands, seen(&answer))
        });
        let mut answers = futures::stream::iter(questions).buffer_unordered(LOOKS_AT_ONCE_MAX);
        while let Some((address, errands, seen)) = answers.next().await {
            if seen == Seen::Busy {
                self.note_busy(address, &errands);
            }
            errands.into_iter().for_each(|errand| self.judge(errand, seen));
        }
    }

    /// An executor says that a job is on. It knows then when one is. Of an order that it never answered this is the first
    /// sign, unless it may mean another run of the same job.
    fn note_busy(&self, address: Address, errands: &[Errand]) {
        let mut state = self.state();
        let untaken = |state: &mut State, errand| state.share(errand).is_some_and(|share| share.is_untaken());
        let sign = match errands {
            [only] if untaken(&mut state, *only) => Some(*only),
            _ => None,
        };
        if state.knowing.len() >= KNOWING_MAX {
            state.knowing.clear();
        }
        state.knowing.insert(address);
        drop(state);
        if let Some(errand) = sign {
            self.taken(errand, false);
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
            let knows = state.knowing.contains(&address);
            options.given_up_at(&sight, knows).is_some_and(|at| at <= now)
        };
        if lost {
            self.end_share(errand, Outcome::Lost, None);
        }
    }
}

impl RemoteOptions {
    /// When a share is given up, if its executor goes on saying what it says. `knows` says that the executor was seen to
    /// know when a job is on.
    fn given_up_at(&self, sight: &Sight, knows: bool) -> Option<Instant> {
        let idle_max = if sight.trusted || knows { self.idle_time_max } else { self.doubtful_time_max };
        let silent_max = match (sight.accepted, sight.gone) {
            (true, false) => self.silent_time_max,
            // It was silent for long before it left the roster.
            (true, true) => self.idle_time_max,
            // An order that was never answered is given up sooner.
            (false, _) => self.silent_time_max / 3,
        };
        let idle = sight.idle_since.map(|at| at + idle_max);
        let silent = sight.silent_since.map(|at| at + silent_max);
        idle.into_iter().chain(silent).min()
    }

    /// When to ask about a share: regularly, and once more when it is about to be given up.
    fn next_look(&self, sight: &Sight, knows: bool) -> Option<Instant> {
        let regular = sight.looked_at.or(sight.since)? + self.look_every;
        Some(self.given_up_at(sight, knows).map_or(regular, |at| at.min(regular)))
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use cadran_core::{Dialect, SeatRecord, SeatStatus};

    use super::super::table::Share;
    use super::*;

    fn sight() -> Sight {
        let seat = SeatRecord {
            index: 0,
            total: 1,
            address: "http://h:1".parse().expect("an address"),
            log: 1,
            attempt: 1,
            at: 1,
            ended_at: None,
            status: SeatStatus::Sent,
            message: None,
            again: false,
        };
        Share::new(seat, Dialect::Two).sight
    }

    /// The table under "On executors" in docs/job-files.md.
    #[tokio::test]
    async fn work_is_given_up_after_the_documented_times() {
        let options = RemoteOptions::new("data");
        let start = Instant::now();
        let after = |secs: u64| start + Duration::from_secs(secs);
        let check = |what: &str, secs: u64, knows: bool, change: &dyn Fn(&mut Sight)| {
            let mut sight = Sight { since: Some(start), accepted: true, ..sight() };
            change(&mut sight);
            let seen = sight.idle_since.or(sight.silent_since).expect("something was seen");
            let given_up = options.given_up_at(&sight, knows).expect("it ends");
            assert_eq!((given_up - seen).as_secs(), secs, "{what}");
            // It is asked once more at that very moment, however lately it was asked.
            let lately = Sight { looked_at: Some(given_up - Duration::from_secs(1)), ..sight };
            assert_eq!(options.next_look(&lately, knows), Some(given_up), "{what}");
        };
        check("started anew", 45, true, &|sight| sight.idle_since = Some(after(20)));
        check("told to leave", 45, false, &|sight| {
            (sight.idle_since, sight.trusted) = (Some(after(20)), true)
        });
        check("always idle", 600, false, &|sight| sight.idle_since = Some(after(20)));
        check("out of reach", 90, false, &|sight| sight.silent_since = Some(after(20)));
        check("not registered", 45, false, &|sight| {
            (sight.silent_since, sight.gone, sight.trusted) = (Some(after(20)), true, true);
        });
        check("never answered", 30, false, &|sight| {
            (sight.silent_since, sight.accepted) = (Some(start), false)
        });
        let quiet = Sight { since: Some(start), accepted: true, ..sight() };
        assert_eq!(options.given_up_at(&quiet, false), None, "nothing speaks against it");
        assert_eq!(options.next_look(&quiet, false), Some(after(10)));
        assert_eq!(options.next_look(&Sight { looked_at: Some(after(30)), ..quiet }, false), Some(after(40)));
        assert_eq!(options.next_look(&sight(), false), None, "it has not left yet");
    }
}
