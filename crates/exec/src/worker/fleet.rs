//! Who is there and what they have: the server's side of the line to workers, as a state that events change.
//!
//! Time is an argument. What was sent to whom stands in a ledger, which the caller writes out.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use cadran_core::{
    Address, Ask, Executor, GroupName, Now, Outcome, ReportKind, RunId, SeatRecord, SeatStatus, Seats, Start,
    Step, StepNo, Work,
};
use rustc_hash::FxHashMap;

use super::hub::{Presence, Refused};
use super::lease;
use super::wire::{
    HELD_MAX, Hello, LABELS_MAX, ORDERS_MAX, Orders, Poll, SLOTS_MAX, Sender, Welcome, WireOrder, WireReport,
    WireStart, described,
};
use crate::journal::Key;
use crate::xxl::ledger::Ledger;
use crate::xxl::table::{Entry, Halt, Share};

/// Everything the hub knows.
pub(super) struct Fleet {
    pub(super) ledger: Ledger,
    members: BTreeMap<Address, Member>,
    /// Orders until it is known that they arrived.
    starts: FxHashMap<Key, Start>,
    /// Names this life of the server.
    server: Box<str>,
    lease: Duration,
    /// What happened and is not told yet.
    pub(super) told: Vec<(Key, ReportKind)>,
    pub(super) presence: Vec<Presence>,
    /// Attempts given up.
    pub(super) lost: u64,
}

/// One worker.
struct Member {
    group: GroupName,
    /// The process that said hello; empty until one does in this life of the server.
    life: Box<str>,
    slots: u32,
    labels: Vec<(String, String)>,
    is_draining: bool,
    /// When it was last heard of, by the monotonic clock. One that is not back yet counts from our own start.
    heard: i64,
    line: VecDeque<(u64, Item)>,
    /// The number of the latest order, and the latest that went out.
    last: u64,
    handed: u64,
}

enum Item {
    /// An attempt, and which share of it.
    Start(Key, u32),
    Stop(Key, u32),
    Close(RunId),
}

/// Where the log of a share goes.
pub(super) struct LogOf {
    pub(super) attempt: Key,
    pub(super) step_name: Box<str>,
    /// The share, when there are several.
    pub(super) share: Option<u32>,
}

/// Longest name and longest value of a label.
const LABEL_BYTES_MAX: usize = 128;

impl Fleet {
    /// Takes up what was out: whoever has some of it gets a whole lease to come back.
    pub(super) fn new(ledger: Ledger, server: Box<str>, lease: Duration, now: Now) -> Fleet {
        let mut fleet = Fleet {
            ledger,
            members: BTreeMap::new(),
            starts: FxHashMap::default(),
            server,
            lease,
            told: Vec::new(),
            presence: Vec::new(),
            lost: 0,
        };
        let mut owners: Vec<(Address, GroupName)> = Vec::new();
        for entry in fleet.ledger.kept.entries.values_mut() {
            // Workers say again what they started: it may not be on record.
            entry.is_up = false;
            for share in entry.shares.iter_mut().filter(|share| share.end.is_none()) {
                share.seat.status = SeatStatus::Sent;
                // Whether it was is said by its worker.
                share.sight.accepted = true;
                owners.push((share.seat.address.clone(), entry.group.clone()));
            }
        }
        for (address, group) in owners {
            fleet.member(&address, &group, now);
        }
        fleet
    }

    fn member(&mut self, address: &Address, group: &GroupName, now: Now) -> &mut Member {
        self.members.entry(address.clone()).or_insert_with(|| Member::absent(group.clone(), now))
    }

    /// Workers that are there, and shares that are out.
    pub(super) fn counts(&self) -> (usize, usize) {
        let here = self.members.values().filter(|member| member.is_here()).count();
        (here, self.ledger.kept.entries.values().map(|entry| entry.open().count()).sum())
    }

    /// An attempt is to be started.
    pub(super) fn begin(&mut self, start: Start, now: Now) {
        let key = Key { run: start.run, step: start.step, attempt: start.attempt };
        if self.ledger.kept.entries.contains_key(&key) {
            return;
        }
        let context = start.context.clone();
        let (Some(step), Some(placement)) = (context.body.step(start.step), start.placement.clone()) else {
            return;
        };
        if !matches!(step.work, Work::Shell(_) | Work::Program(_) | Work::Script(_)) {
            let why = "a worker runs commands; handlers and scripts of XXL-JOB need one of its executors, and requests \
                       and containers the server itself";
            return self.refuse(key, why.to_owned());
        }
        let number = match start.step {
            StepNo(0) => context.job.executor_number(),
            step => self.ledger.number(context.job, step),
        };
        let seats: Vec<(u32, u32, Executor, u64)> = match &placement.seats {
            Seats::Chosen(seats) => {
                seats.iter().map(|seat| (seat.index, seat.total, seat.executor.clone(), seat.log)).collect()
            }
            Seats::Nobody => return self.refuse(key, nobody(step, &placement.group, "there")),
            Seats::Asked { ask, executors, log } => match self.pick(*ask, executors, number) {
                Some(executor) => vec![(0, 1, executor, *log)],
                None => return self.refuse(key, nobody(step, &placement.group, "idle")),
            },
        };
        let share = |(index, total, executor, log): (u32, u32, Executor, u64)| {
            let Executor { address, dialect } = executor;
            let (at, status) = (placement.at, SeatStatus::Sent);
            let (attempt, ended_at, message, again) = (key.attempt, None, None, false);
            let seat =
                SeatRecord { index, total, address, log, attempt, at, ended_at, status, message, again };
            Share::new(seat, dialect)
        };
        let shares: Vec<Share> = seats.into_iter().map(share).collect();
        if let (Seats::Asked { .. }, [share]) = (&placement.seats, &shares[..]) {
            self.told.push((key, ReportKind::Seat(Box::new(share.seat.clone()))));
        }
        let entry = Entry {
            number,
            group: placement.group.clone(),
            step_name: step.name.as_str().into(),
            at: placement.at,
            timeout_secs: 0,
            halt: None,
            shares: shares.clone(),
            is_up: false,
            is_over: false,
        };
        self.ledger.begin(key, entry);
        self.starts.insert(key, start);
        for Share { seat, .. } in shares {
            self.member(&seat.address, &placement.group, now);
            self.next_turn(key, &seat.address);
        }
    }

    /// Puts the next share of an attempt in line for its worker, unless one is on there: a worker has one at a time, so
    /// that neither `block` nor the shares themselves get in each other's way.
    fn next_turn(&mut self, key: Key, address: &Address) {
        let Some(entry) = self.ledger.kept.entries.get_mut(&key).filter(|entry| entry.halt.is_none()) else {
            return;
        };
        let Some(share) = entry.first_open_at(address).filter(|share| !share.sight.accepted) else { return };
        share.sight.accepted = true;
        let index = share.seat.index;
        self.push(address, Item::Start(key, index));
    }

    fn refuse(&mut self, key: Key, why: String) {
        let outcome = Outcome::NotStarted(why.into());
        self.told.push((key, ReportKind::Ended { outcome, output: None }));
    }

    /// The first that answers well, by what is known here. Right after a start nobody has said hello yet: then the first
    /// of the list gets the order, and a lease to come for it.
    fn pick(&self, ask: Ask, executors: &[Executor], number: u32) -> Option<Executor> {
        let here = |executor: &&Executor| {
            self.members.get(&executor.address).is_some_and(|member| member.is_here() && !member.is_draining)
        };
        let present: Vec<&Executor> = executors.iter().filter(here).collect();
        let candidates = if present.is_empty() { executors.iter().collect() } else { present };
        let chosen = match ask {
            Ask::Alive => candidates.first(),
            Ask::Idle => candidates.iter().find(|executor| self.out(&executor.address, Some(number)) == 0),
            Ask::Free => {
                // All that have a free slot are alike, and the first of them has it.
                let load = |executor: &&&Executor| {
                    let slots =
                        self.members.get(&executor.address).map_or(1, |member| i64::from(member.slots));
                    (self.out(&executor.address, None) as i64 - slots).max(-1)
                };
                candidates.iter().min_by_key(load)
            }
        };
        chosen.map(|executor| (*executor).clone())
    }

    /// What a worker has, of one step or in all.
    fn out(&self, address: &Address, number: Option<u32>) -> usize {
        let entries = self.ledger.kept.entries.values();
        let entries = entries.filter(|entry| number.is_none_or(|number| entry.number == number));
        entries.flat_map(Entry::open).filter(|share| share.seat.address == *address).count()
    }

    /// An attempt is to be stopped.
    pub(super) fn stop(&mut self, key: Key, now: Now) {
        if !self.ledger.halt(key, Halt::Stop) {
            return;
        }
        for (index, address) in self.open_of(key) {
            self.stop_at(key, index, &address, now);
        }
    }

    /// One share of an attempt is to be stopped.
    pub(super) fn stop_share(&mut self, key: Key, index: u32, now: Now) {
        if !self.ledger.halt_share(key, index) {
            return;
        }
        let found = self.open_of(key).into_iter().find(|(open, _)| *open == index);
        if let Some((index, address)) = found {
            self.stop_at(key, index, &address, now);
        }
    }

    fn stop_at(&mut self, key: Key, index: u32, address: &Address, now: Now) {
        let Some(member) = self.members.get_mut(address) else { return };
        let handed = member.handed;
        let is_it = |item: &Item| matches!(item, Item::Start(of, share) if (*of, *share) == (key, index));
        let unsent = |(no, item): &(u64, Item)| *no > handed && is_it(item);
        let entry = self.ledger.kept.entries.get(&key);
        let share = entry.and_then(|entry| entry.shares.iter().find(|share| share.seat.index == index));
        let is_held_back = share.is_some_and(|share| !share.sight.accepted);
        if is_held_back || member.line.iter().any(unsent) {
            member.line.retain(|queued| !unsent(queued));
            self.end(key, index, Outcome::Stopped, None, now);
        } else {
            member.push(Item::Stop(key, index));
        }
    }

    /// A run is over.
    pub(super) fn close(&mut self, run: RunId) {
        for key in self.starts.keys().filter(|key| key.run == run).copied().collect::<Vec<_>>() {
            self.starts.remove(&key);
        }
        let entries = self.ledger.close(run);
        let owners: BTreeSet<Address> =
            entries.into_iter().flat_map(|entry| entry.shares).map(|share| share.seat.address).collect();
        for address in owners {
            if let Some(member) = self.members.get_mut(&address).filter(|member| member.is_here()) {
                member.push(Item::Close(run));
            }
        }
    }

    /// A worker is there.
    pub(super) fn hello(&mut self, group: GroupName, hello: Hello, now: Now) -> Result<Welcome, Refused> {
        let address = self.checked(&hello)?;
        let moved = self.members.get(&address).filter(|member| member.group != group);
        if let Some(before) = moved.map(|member| member.group.clone()) {
            self.presence.push(Presence::Gone(before, address.clone()));
        }
        let mut labels = hello.labels;
        labels.sort();
        let member = Member {
            life: hello.life.into(),
            slots: hello.slots,
            labels,
            is_draining: hello.draining,
            ..Member::absent(group, now)
        };
        self.members.insert(address.clone(), member);
        self.announce(&address);
        let held: BTreeMap<Key, bool> =
            hello.held.iter().filter_map(|held| Some((held.attempt.key()?, held.ended))).collect();
        let out: Vec<(Key, u32)> = self.open_at(&address);
        let names: Vec<Key> = out.iter().map(|&(key, index)| self.name(key, index)).collect();
        for (&(key, index), name) in out.iter().zip(&names) {
            let is_held = held.contains_key(name);
            let Some(entry) = self.ledger.kept.entries.get_mut(&key) else { continue };
            let is_stopped = entry.halt.is_some();
            let Some(share) = entry.shares.iter_mut().find(|share| share.seat.index == index) else {
                continue;
            };
            share.sight.accepted = is_held;
            let is_stopped = is_stopped || share.halted;
            match (is_held, self.starts.contains_key(&key)) {
                (true, _) if is_stopped => self.push(&address, Item::Stop(key, index)),
                (true, _) => {}
                // It never arrived, and is still known here.
                (false, _) if is_stopped => self.end(key, index, Outcome::Stopped, None, now),
                (false, true) => self.next_turn(key, &address),
                (false, false) => self.end(key, index, Outcome::Lost, None, now),
            }
        }
        let mut known = |name: &Key| {
            let (key, turn) = name.and_turn();
            let entry = self.ledger.kept.entries.get_mut(&key);
            entry.is_some_and(|entry| entry.share_at(&address, turn).is_some())
        };
        let forget = held.keys().filter(|name| !known(name)).map(|name| (*name).into()).collect();
        let is_out = |name: &Key| names.contains(name);
        let want = held.iter().filter(|(key, ended)| **ended && is_out(key)).map(|(key, _)| (*key).into());
        Ok(Welcome {
            server: self.server.to_string(),
            lease_ms: self.lease.as_millis() as u64,
            forget,
            want: want.collect(),
        })
    }

    fn checked(&self, hello: &Hello) -> Result<Address, Refused> {
        let bad = |why: &str| Refused::Bad(why.to_owned());
        let address: Address =
            format!("worker:{}", hello.worker).parse().map_err(|_| bad("the worker has no proper id"))?;
        let long = |text: &str| text.is_empty() || text.len() > LABEL_BYTES_MAX;
        match () {
            () if hello.life.is_empty() || hello.life.len() > LABEL_BYTES_MAX => Err(bad("no proper life")),
            () if hello.slots == 0 || hello.slots > SLOTS_MAX => Err(bad("a worker has 1 to 10000 slots")),
            () if hello.labels.len() > LABELS_MAX => Err(bad("a worker has at most 64 labels")),
            () if hello.labels.iter().any(|(name, value)| long(name) || value.len() > LABEL_BYTES_MAX) => {
                Err(bad("a label has a name, and at most 128 bytes on either side"))
            }
            () if hello.held.len() > HELD_MAX => Err(bad("the worker has too many attempts")),
            () => Ok(address),
        }
    }

    /// The worker that speaks, if it is the one that said hello. It was heard of.
    pub(super) fn heard(&mut self, group: &GroupName, from: &Sender, now: Now) -> Result<Address, Refused> {
        let address: Address =
            format!("worker:{}", from.worker).parse().map_err(|_| Refused::Bad("no proper id".to_owned()))?;
        let server = from.server == *self.server;
        match self.members.get_mut(&address) {
            Some(member) if *member.life == *from.life && member.group == *group && server => {
                member.heard = now.mono;
                Ok(address)
            }
            Some(member) if server && member.is_here() && member.group == *group => Err(Refused::Superseded),
            _ => Err(Refused::Hello),
        }
    }

    /// The orders a worker has not got yet.
    pub(super) fn orders(&mut self, group: &GroupName, poll: &Poll, now: Now) -> Result<Orders, Refused> {
        let address = self.heard(group, &poll.from, now)?;
        self.draining(&address, poll.draining);
        if !poll.draining {
            self.announce(&address);
        }
        self.waiting(&address, &poll.from.life, poll.have)
    }

    /// Whether a worker takes new work.
    pub(super) fn draining(&mut self, address: &Address, draining: bool) {
        let Some(member) = self.members.get_mut(address) else { return };
        if std::mem::replace(&mut member.is_draining, draining) != draining {
            self.announce(address);
        }
    }

    /// The same for one that asked a while ago: its lease runs from then.
    pub(super) fn waiting(&mut self, address: &Address, life: &str, have: u64) -> Result<Orders, Refused> {
        let Fleet { members, starts, ledger, .. } = self;
        let Some(member) = members.get_mut(address) else { return Err(Refused::Hello) };
        if *member.life != *life {
            return Err(Refused::Superseded);
        }
        member.line.retain(|(no, _)| *no > have);
        let mut orders = Vec::new();
        for (no, item) in member.line.iter().take(ORDERS_MAX) {
            let order = match item {
                Item::Stop(key, index) => {
                    let turn = ledger.kept.entries.get(key).map_or(0, |entry| entry.turn(*index));
                    Some(WireOrder::Stop(key.at_turn(turn).into()))
                }
                Item::Close(run) => Some(WireOrder::Close(run.to_string())),
                Item::Start(key, index) => starts.get(key).and_then(|start| {
                    let entry = ledger.kept.entries.get(key)?;
                    let total = entry.shares.first()?.seat.total;
                    let mut order = WireStart::of(start, entry.number, (*index, total))?;
                    order.attempt = key.at_turn(entry.turn(*index)).into();
                    Some(WireOrder::Start(Box::new(order)))
                }),
            };
            member.handed = member.handed.max(*no);
            orders.extend(order.map(|order| (*no, order)));
        }
        Ok(Orders { orders })
    }

    /// Reports of a worker. What is not its own, or over, changes nothing.
    pub(super) fn report(&mut self, address: &Address, reports: &[WireReport], now: Now) {
        for report in reports {
            let (Some(name), Some(outcome)) = (report.attempt.key(), report.outcome()) else { continue };
            let (key, turn) = name.and_turn();
            let Some(entry) = self.ledger.kept.entries.get_mut(&key) else { continue };
            let halted = entry.halt.is_some();
            let share = entry.share_at(address, turn);
            let Some(share) = share.filter(|share| share.end.is_none()) else { continue };
            let (index, halted) = (share.seat.index, halted || share.halted);
            if share.seat.status == SeatStatus::Sent && started(outcome.as_ref()) {
                share.seat.status = SeatStatus::Running;
                let seat = share.seat.clone();
                self.told.push((key, ReportKind::Seat(Box::new(seat))));
                if !entry.is_up {
                    entry.is_up = true;
                    self.told.push((key, ReportKind::Started));
                }
                if entry.shares.iter().all(|share| share.seat.status != SeatStatus::Sent) {
                    self.starts.remove(&key);
                }
            }
            match outcome {
                None => {}
                // Nobody here asked for it: the worker was cut off, or told to go.
                Some(Outcome::Stopped) if !halted => self.end(key, index, Outcome::Lost, None, now),
                Some(outcome) => self.end(key, index, outcome, report.output.as_deref(), now),
            }
        }
    }

    /// A worker goes: what it still has will not be heard of again.
    pub(super) fn leave(&mut self, address: &Address, now: Now) {
        if let Some(member) = self.give_up(address, now) {
            self.presence.push(Presence::Gone(member.group, address.clone()));
        }
    }

    fn give_up(&mut self, address: &Address, now: Now) -> Option<Member> {
        for (key, index) in self.open_at(address) {
            self.end(key, index, Outcome::Lost, None, now);
        }
        self.members.remove(address)
    }

    /// Gives up what workers have that were silent for a whole lease. Where others of the group are there, the silent ones
    /// leave the list, so that nothing more waits for them; alone they stay on it for a while: a network that was cut comes
    /// back.
    pub(super) fn expire(&mut self, now: Now) {
        let over = |member: &Member| lease::is_over(member.heard, now.mono, self.lease);
        let silent: Vec<Address> = self
            .members
            .iter()
            .filter(|(_, member)| over(member))
            .map(|(address, _)| address.clone())
            .collect();
        for address in silent {
            tracing::warn!(%address, "a worker was silent for a whole lease; what it had is lost");
            let Some(member) = self.give_up(&address, now) else { continue };
            let colleague = |other: &&Member| {
                let is_silent = lease::is_over(other.heard, now.mono, self.lease);
                other.group == member.group && other.is_here() && !other.is_draining && !is_silent
            };
            if self.members.values().any(|other| colleague(&other)) {
                self.presence.push(Presence::Gone(member.group, address));
            }
        }
    }

    /// Where the log of an attempt at this worker goes; `None` when nobody wants it any more.
    pub(super) fn log_of(&mut self, address: &Address, name: Key) -> Option<LogOf> {
        let (key, turn) = name.and_turn();
        let entry = self.ledger.kept.entries.get_mut(&key)?;
        let step_name = entry.step_name.clone();
        let share = entry.share_at(address, turn)?;
        let share = (share.seat.total > 1).then_some(share.seat.index);
        Some(LogOf { attempt: key, step_name, share })
    }

    /// What a worker calls a share.
    fn name(&self, key: Key, index: u32) -> Key {
        key.at_turn(self.ledger.kept.entries.get(&key).map_or(0, |entry| entry.turn(index)))
    }

    /// Shares that are out at a worker, the eldest run first.
    fn open_at(&self, address: &Address) -> Vec<(Key, u32)> {
        let entries = self.ledger.kept.entries.iter();
        let open = entries.flat_map(|(key, entry)| entry.open().map(|share| (*key, share)));
        open.filter(|(_, share)| share.seat.address == *address)
            .map(|(key, share)| (key, share.seat.index))
            .collect()
    }

    fn open_of(&self, key: Key) -> Vec<(u32, Address)> {
        let shares = self.ledger.kept.entries.get(&key).into_iter().flat_map(Entry::open);
        shares.map(|share| (share.seat.index, share.seat.address.clone())).collect()
    }

    fn push(&mut self, address: &Address, item: Item) {
        if let Some(member) = self.members.get_mut(address) {
            member.push(item);
        }
    }

    fn announce(&mut self, address: &Address) {
        let Some(member) = self.members.get(address) else { return };
        let group = member.group.clone();
        self.presence.push(match member.is_draining {
            true => Presence::Gone(group, address.clone()),
            false => Presence::Here(group, address.clone(), member.labels.clone()),
        });
    }

    /// A share is over; the first end counts.
    fn end(&mut self, key: Key, index: u32, outcome: Outcome, output: Option<&str>, now: Now) {
        let Some(entry) = self.ledger.kept.entries.get(&key) else { return };
        if entry.shares.iter().any(|share| share.seat.index == index && share.end.is_some()) {
            return;
        }
        let output = output.filter(|_| entry.shares.len() == 1);
        self.lost += u64::from(outcome == Outcome::Lost);
        self.ledger.end(key, index, now.wall, outcome, output);
        let Some(entry) = self.ledger.kept.entries.get_mut(&key) else { return };
        let share = entry.shares.iter().find(|share| share.seat.index == index);
        let address = share.map(|share| share.seat.address.clone());
        if let Some(share) = share {
            self.told.push((key, ReportKind::Seat(Box::new(share.seat.clone()))));
        }
        if let Some(outcome) = entry.outcome().filter(|_| !entry.is_over) {
            entry.is_over = true;
            let output = output.map(Into::into);
            self.told.push((key, ReportKind::Ended { outcome, output }));
            self.starts.remove(&key);
        } else if let Some(address) = address {
            self.next_turn(key, &address);
        }
    }
}

impl Member {
    /// One that is known by name only.
    fn absent(group: GroupName, now: Now) -> Member {
        Member {
            group,
            life: "".into(),
            slots: 1,
            labels: Vec::new(),
            is_draining: false,
            heard: now.mono,
            line: VecDeque::new(),
            last: 0,
            handed: 0,
        }
    }

    fn is_here(&self) -> bool {
        !self.life.is_empty()
    }

    fn push(&mut self, item: Item) {
        self.last += 1;
        self.line.push_back((self.last, item));
    }
}

/// Whether a report says that a process was there.
fn started(outcome: Option<&Outcome>) -> bool {
    match outcome {
        None | Some(Outcome::Exited(_) | Outcome::Signaled(_) | Outcome::TimedOut) => true,
        Some(_) => false,
    }
}

fn nobody(step: &Step, group: &GroupName, what: &str) -> String {
    let labels = step.target.as_ref().map_or(&[][..], |target| &target.labels);
    format!("no worker of {} is {what}; `cadran executors` shows who is there", described(group, labels))
}
