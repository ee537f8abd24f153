//! Which executors get an order, and what is remembered of that.

use std::sync::Arc;

use cadran_core::{
    Ask, Dialect, Executor, Found, Now, Order, Placement, Route, RunId, RunUpdate, Seat, SeatRecord,
    SeatStatus, Seats, Step, StepNo, StepRecord, Target, Work,
};
use cadran_place::{Choice, Needs, mixed};

use crate::effects::ExecutorChange;
use crate::engine::Engine;
use crate::running::LiveRun;

/// The shares of the latest attempt of each step that runs on executors.
pub(crate) type SeatsOf = Vec<(StepNo, Vec<SeatRecord>)>;

impl Engine {
    pub(crate) fn change_executors(&mut self, changes: Vec<ExecutorChange>, now: Now) {
        for change in changes {
            self.out.executors_changed |= match change {
                ExecutorChange::Typed(group, executors) => {
                    self.roster.type_in(group, executors);
                    true
                }
                // A full roster was refused where the executor asked; nothing more is to be done here.
                ExecutorChange::Seen(group, executor) => {
                    self.roster.seen(&group, executor, now.wall, now.mono).unwrap_or(false)
                }
                ExecutorChange::Labels(group, address, labels) => {
                    self.roster.label(&group, &address, labels);
                    true
                }
                ExecutorChange::Gone(group, address) => self.roster.gone(&group, &address),
            };
        }
    }

    pub(crate) fn let_go_of_silent(&mut self, now: Now) {
        let gone = self.roster.expire(now.mono, self.options.silent_ms_max);
        self.out.executors_changed |= !gone.is_empty();
        for (_, address) in gone {
            if !self.roster.knows(&address) {
                self.out.orders.push(Order::Gone { address });
            }
        }
    }

    /// Chooses executors for an attempt of a step. What was chosen is remembered with the run.
    pub(crate) fn place_attempt(
        &mut self,
        run: RunId,
        step: StepNo,
        attempt: u32,
        now: Now,
    ) -> Option<Arc<Placement>> {
        let live = self.runs.get_mut(&run)?;
        let context = live.context.clone();
        let wants = context.body.step(step)?;
        let target: &Target = wants.target.as_deref()?;
        let list = self.roster.fit(&target.group, needs(wants, target));
        let chance = mixed(run.raw(), u64::from(step.0) << 32 | u64::from(attempt));
        let mut log = || self.logs.next(now.wall);
        let seats = match self.router.choose(target.route, context.job, &list, chance, now.wall) {
            Choice::Nobody => Seats::Nobody,
            // Going round, whoever has a free slot comes before those that have none. What each of our own has to do is
            // known where the orders leave.
            Choice::One(at) if target.route == Route::Round && list[at].dialect == Dialect::Worker => {
                let executors = list.iter().cycle().skip(at).take(list.len()).cloned().collect();
                Seats::Asked { ask: Ask::Free, executors, log: log() }
            }
            Choice::One(at) => {
                Seats::Chosen(vec![Seat { index: 0, total: 1, executor: list[at].clone(), log: log() }])
            }
            Choice::Asked(ask) => Seats::Asked { ask, executors: list.into_owned(), log: log() },
            Choice::All => Seats::Chosen(shares(live.seats_of(step), &list, log)),
        };
        if let Seats::Chosen(chosen) = &seats {
            live.seat(step, attempt, chosen, now);
        }
        Some(Arc::new(Placement { group: target.group.clone(), at: now.wall, seats }))
    }
}

fn needs<'a>(step: &Step, target: &'a Target) -> Needs<'a> {
    match step.work {
        Work::Handler(_) | Work::Glue(..) => Needs::Handler,
        Work::Shell(_) | Work::Program(_) | Work::Script(_) => Needs::Command(&target.labels),
    }
}

/// The shares of a broadcast. A further attempt repeats those that did not succeed, with the old total; a share whose
/// executor is gone goes to the first.
fn shares(before: &[SeatRecord], list: &[Executor], mut log: impl FnMut() -> u64) -> Vec<Seat> {
    let failed: Vec<(u32, u32)> = before
        .iter()
        .filter(|seat| seat.status != SeatStatus::Succeeded)
        .map(|seat| (seat.index, seat.total))
        .collect();
    let all = || (0..list.len() as u32).map(|index| (index, list.len() as u32)).collect();
    let shares: Vec<(u32, u32)> = if failed.is_empty() { all() } else { failed };
    let seat = |(index, total): (u32, u32)| {
        let executor = list.get(index as usize).unwrap_or(&list[0]).clone();
        Seat { index, total, executor, log: log() }
    };
    shares.into_iter().map(seat).collect()
}

impl LiveRun {
    pub(crate) fn seats_of(&self, step: StepNo) -> &[SeatRecord] {
        self.seats.iter().find(|(no, _)| *no == step).map_or(&[], |(_, seats)| seats)
    }

    fn seats_mut(&mut self, step: StepNo) -> &mut Vec<SeatRecord> {
        let at = match self.seats.iter().position(|(no, _)| *no == step) {
            Some(at) => at,
            None => {
                self.seats.push((step, Vec::new()));
                self.seats.len() - 1
            }
        };
        &mut self.seats[at].1
    }

    /// A share that is given out again takes the place of the one before.
    fn seat(&mut self, step: StepNo, attempt: u32, chosen: &[Seat], now: Now) {
        for seat in chosen {
            self.take_seat(
                step,
                SeatRecord {
                    index: seat.index,
                    total: seat.total,
                    address: seat.executor.address.clone(),
                    log: seat.log,
                    attempt,
                    at: now.wall,
                    ended_at: None,
                    status: SeatStatus::Sent,
                    message: None,
                },
            );
        }
    }

    /// Remembers what became of a share.
    pub(crate) fn take_seat(&mut self, step: StepNo, seat: SeatRecord) {
        let seats = self.seats_mut(step);
        if seats.first().is_some_and(|first| first.total != seat.total) {
            seats.clear();
        }
        match seats.iter_mut().find(|known| known.index == seat.index) {
            Some(known) => *known = seat,
            None => seats.push(seat),
        }
    }

    /// Whether a step of it is shared out.
    pub(crate) fn is_broadcast(&self) -> bool {
        self.seats.iter().any(|(_, seats)| seats.first().is_some_and(|seat| seat.total > 1))
    }

    /// Takes up what the record and executors know of shares.
    pub(crate) fn recall_seats(&mut self, state: &RunUpdate, found: &[Found]) {
        let body = self.context.body.clone();
        let steps = body.steps.iter().enumerate().filter(|(_, step)| step.target.is_some());
        for (at, step) in steps {
            let records = state.steps.iter().flatten().filter(|record| *record.name == *step.name);
            let seats: Vec<SeatRecord> = records.flat_map(|record| record.seats.iter().cloned()).collect();
            seats.into_iter().for_each(|seat| self.take_seat(StepNo(at as u16), seat));
        }
        for found in found {
            found.seats.iter().for_each(|seat| self.take_seat(found.step, seat.clone()));
        }
    }

    /// Puts the shares into the records of their steps. Handlers stand behind the steps, as far as they were reached.
    pub(crate) fn with_seats(&self, mut records: Vec<StepRecord>) -> Vec<StepRecord> {
        for (no, seats) in &self.seats {
            let name = self.context.body.step(*no).map_or("", |step| step.name.as_str());
            if let Some(record) = records.iter_mut().find(|record| *record.name == *name) {
                record.seats.clone_from(seats);
            }
        }
        records
    }
}
