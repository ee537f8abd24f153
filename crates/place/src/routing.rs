//! Where an attempt goes: which kind of executor, which of them, and which share each has. Settled here, once; what sends
//! the order only looks at the answer.

use std::borrow::Cow;

use cadran_core::{
    Address, Ask, Body, Dialect, Executor, ExecutorKind, JobId, JobName, LogNumbers, Now, Placement, Refusal,
    Route, Seat, SeatRecord, SeatStatus, Seats, Step, Target, Work,
};

use crate::{Choice, MEMBERS_MAX, Needs, Roster, Router};

/// The executors that are there, what routes remember of them, and the numbers of the logs they keep.
pub struct Routing {
    /// Who is there.
    pub roster: Roster,
    router: Router,
    logs: LogNumbers,
}

/// An attempt of a step that runs on a group of executors.
pub struct AttemptRequest<'a> {
    /// The job, for routes that remember what it had before.
    pub job: JobId,
    /// The step.
    pub step: &'a Step,
    /// Its group and route.
    pub target: &'a Target,
    /// The executors it may go to; empty for all of the group.
    pub addresses: &'a [Address],
    /// Shares of the step's attempts before this one.
    pub earlier: &'a [SeatRecord],
    /// Any number that a replay repeats.
    pub chance: u64,
}

impl Routing {
    /// With nobody there. Log numbers are those of this server, above the last that was given.
    pub fn new(server: u16, last_log: u64) -> Routing {
        Routing {
            roster: Roster::default(),
            router: Router::default(),
            logs: LogNumbers::new(server, last_log),
        }
    }

    /// Log numbers go on above this one, which an earlier life of the server gave last.
    pub fn restore_logs(&mut self, server: u16, last_log: u64) {
        self.logs = LogNumbers::new(server, last_log);
    }

    /// Chooses the executors of an attempt.
    pub fn assign(&mut self, attempt: &AttemptRequest<'_>, now: Now) -> Placement {
        let AttemptRequest { target, step, .. } = *attempt;
        let list = among(self.roster.fit(&target.group, needs(step, target)), attempt.addresses);
        let mut log = || self.logs.next(now.wall);
        let seats = match self.router.choose(target.route, attempt.job, &list, attempt.chance, now.wall) {
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
            Choice::Asked(ask) => Seats::Asked { ask, executors: list.to_vec(), log: log() },
            Choice::All => Seats::Chosen(broadcast_shares(attempt.earlier, &list, log)),
        };
        // Of those that fit either all are workers or none is. Where nobody is there, whoever could do the work says so.
        let is_worker = match list.first() {
            Some(first) => first.dialect == Dialect::Worker,
            None => matches!(needs(step, target), Needs::Command(_)),
        };
        let kind = if is_worker { ExecutorKind::Worker } else { ExecutorKind::XxlJob };
        Placement { group: target.group.clone(), kind, at: now.wall, seats }
    }

    /// Whether a job can go to the executors that were named for it: each of them is there, and each step finds one. An
    /// address that nobody registered or typed in is never spoken to.
    pub fn check_addresses(&self, job: &JobName, body: &Body, addresses: &[Address]) -> Result<(), Refusal> {
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
            if among(self.roster.fit(&target.group, needs(step, target)), addresses).is_empty() {
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
fn among<'a>(list: Cow<'a, [Executor]>, addresses: &[Address]) -> Cow<'a, [Executor]> {
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
        _ => Needs::Command(&target.labels),
    }
}

/// The shares of a broadcast. A further attempt repeats those that were asked for again, or else those of the attempt
/// before that did not succeed, with the old total; a share whose executor is gone goes to the first.
fn broadcast_shares(earlier: &[SeatRecord], list: &[Executor], mut log: impl FnMut() -> u64) -> Vec<Seat> {
    let latest = earlier.iter().map(|seat| seat.attempt).max().unwrap_or_default();
    let open = |seat: &&SeatRecord| seat.status != SeatStatus::Succeeded;
    let share = |seat: &SeatRecord| (seat.index, seat.total);
    let asked: Vec<(u32, u32)> = earlier.iter().filter(|seat| seat.again).map(share).collect();
    let failed: Vec<(u32, u32)> =
        earlier.iter().filter(open).filter(|seat| seat.attempt == latest).map(share).collect();
    let left: Vec<(u32, u32)> = earlier.iter().filter(open).map(share).collect();
    let all = (0..list.len() as u32).map(|index| (index, list.len() as u32)).collect();
    let shares = [asked, failed, left].into_iter().find(|some| !some.is_empty()).unwrap_or(all);
    let seat = |(index, total): (u32, u32)| {
        let executor = list.get(index as usize).unwrap_or(&list[0]).clone();
        Seat { index, total, executor, log: log() }
    };
    shares.into_iter().map(seat).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(routing: &mut Routing, work: Work) -> (ExecutorKind, bool) {
        let step = Step { work, ..Step::default() };
        let target = Target::new("g".parse().expect("a name"));
        let (job, addresses, earlier) = (JobId(0), &[][..], &[][..]);
        let request = AttemptRequest { job, step: &step, target: &target, addresses, earlier, chance: 0 };
        let placement = routing.assign(&request, Now::at(0));
        (placement.kind, placement.seats == Seats::Nobody)
    }

    #[test]
    fn the_kind_of_executor_is_settled_also_where_nobody_is() {
        let mut routing = Routing::new(0, 0);
        let command = || Work::Shell("true".into());
        let handler = || Work::Handler("settle".into());
        assert_eq!(placed(&mut routing, command()), (ExecutorKind::Worker, true));
        assert_eq!(placed(&mut routing, handler()), (ExecutorKind::XxlJob, true));
        for (address, dialect) in [("http://h", Dialect::Two), ("worker:one", Dialect::Worker)] {
            let executor = Executor { address: address.parse().expect("an address"), dialect };
            let _ = routing.roster.seen(&"g".parse().expect("a name"), executor, 0, 0);
            // A command goes to an XXL-JOB executor as long as no worker is there.
            let expected = if dialect == Dialect::Two { ExecutorKind::XxlJob } else { ExecutorKind::Worker };
            assert_eq!(placed(&mut routing, command()), (expected, false));
            assert_eq!(placed(&mut routing, handler()), (ExecutorKind::XxlJob, false));
        }
    }
}
