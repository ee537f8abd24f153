//! Which executors get an order, and what is remembered of that.

use std::borrow::Cow;
use std::sync::Arc;

use cadran_core::{
    Address, Ask, Body, Dialect, Executor, JobName, Now, Order, Placement, Refusal, Route, RunId, Seat,
    Seats, Step, StepNo, Target, Work,
};
use cadran_place::{Choice, MEMBERS_MAX, Needs, mixed};

use crate::effects::ExecutorChange;
use crate::engine::Engine;
use crate::shares::shares;

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
        let list = chosen(self.roster.fit(&target.group, needs(wants, target)), &context.addresses);
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

impl Engine {
    /// Whether a job can go to the executors that were named for it: each of them is there, and each step finds one. An
    /// address that nobody registered or typed in is never spoken to.
    pub(crate) fn check_addresses(
        &self,
        job: &JobName,
        body: &Body,
        addresses: &[Address],
    ) -> Result<(), Refusal> {
        if addresses.is_empty() {
            return Ok(());
        }
        if addresses.len() > MEMBERS_MAX {
            return Err(Refusal::Addresses(format!("at most {MEMBERS_MAX} executors can be named")));
        }
        let targets = || body.steps.iter().filter_map(|step| Some((step, step.target.as_deref()?)));
        if targets().next().is_none() {
            return Err(Refusal::Addresses(format!(
                "job {job} runs on the server itself; no executor can be named"
            )));
        }
        let is_there = |address: &Address| {
            targets().any(|(_, target)| {
                self.roster.list(&target.group).iter().any(|there| there.address.is_at(address))
            })
        };
        if let Some(unknown) = addresses.iter().find(|address| !is_there(address)) {
            return Err(Refusal::Addresses(format!(
                "{unknown} is no executor of a group that job {job} runs on"
            )));
        }
        for (step, target) in targets() {
            if chosen(self.roster.fit(&target.group, needs(step, target)), addresses).is_empty() {
                return Err(Refusal::Addresses(format!(
                    "none of these executors can do step {} of job {job}, which goes to group {}",
                    step.name, target.group
                )));
            }
        }
        Ok(())
    }
}

/// Those that were named, in that order; all where none was.
fn chosen<'a>(list: Cow<'a, [Executor]>, addresses: &[Address]) -> Cow<'a, [Executor]> {
    if addresses.is_empty() {
        return list;
    }
    let mut named: Vec<Executor> = Vec::new();
    for address in addresses {
        let there = list.iter().find(|executor| executor.address.is_at(address));
        named.extend(there.filter(|there| !named.contains(there)).cloned());
    }
    named.into()
}

fn needs<'a>(step: &Step, target: &'a Target) -> Needs<'a> {
    match step.work {
        Work::Handler(_) | Work::Glue(..) => Needs::Handler,
        Work::Shell(_) | Work::Program(_) | Work::Script(_) => Needs::Command(&target.labels),
    }
}
