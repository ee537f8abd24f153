//! Orders on their way out: into the ledger, to whom a route asks first, by a lane, and over the wire.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cadran_core::{
    Ask, Block, Executor, Order, Outcome, ReportKind, RunId, SeatRecord, SeatStatus, Seats, Start,
};
use futures::StreamExt as _;
use futures::future::{OptionFuture, join_all};
use futures::stream::FuturesUnordered;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::client::{Call, CallError, Draft};
use super::lane::{Lane, Ticket};
use super::order::{is_first_away, sendable, target_of, timeout_secs, words};
use super::remote::{Errand, Shared, State, json};
use super::result::Answered;
use super::table::{Entry, Halt, Share};
use super::wire::{Answer, OfJob, start_verb};
use crate::journal::Key;

/// An order whose request is on its way.
pub(super) struct Sent {
    lane: Lane,
    ticket: Ticket<Errand>,
    call: Call,
    /// It takes the place of what the executor has of the same step.
    covers: bool,
    began: Instant,
}

/// An order that may leave, and by which lane.
type Departing = (Lane, Ticket<Errand>);

/// Orders that go into the ledger with one write.
const ORDERS_AT_ONCE_MAX: usize = 256;

/// From so many on orders leave by two threads.
const SHARED_MIN: usize = 64;

/// Executors asked at once for one order.
const ASKED_AT_ONCE_MAX: usize = 32;

impl Shared {
    pub(super) async fn take_orders(self: Arc<Shared>, mut orders: mpsc::UnboundedReceiver<Vec<Order>>) {
        while let Some(batch) = orders.recv().await {
            let mut batch = batch.into_iter().peekable();
            let mut rush = (!self.lanes().is_full()).then(|| self.rush.begin());
            let mut taken = 0;
            while batch.peek().is_some() {
                self.take_some(batch.by_ref().take(ORDERS_AT_ONCE_MAX));
                taken += ORDERS_AT_ONCE_MAX;
                if taken >= self.options.fast.0 {
                    // What follows waits for answers.
                    rush = None;
                }
                // The first of a burst leave while the last are still being written down.
                tokio::task::yield_now().await;
            }
            drop(rush);
        }
    }

    fn take_some(self: &Arc<Shared>, orders: impl Iterator<Item = Order>) {
        let (mut tickets, mut asked) = (Vec::new(), Vec::new());
        for order in orders {
            match order {
                Order::Start(start) => self.begin(start, &mut tickets, &mut asked),
                Order::Stop { run, step, attempt } => self.halt(Key { run, step, attempt }, Halt::Stop),
                Order::StopShare { run, step, attempt, share } => {
                    self.halt_share((Key { run, step, attempt }, share));
                }
                Order::Close { run } => self.close(run),
                Order::Gone { address } => self.gone(&address),
            }
        }
        // In the ledger before anything leaves.
        self.state().ledger.write();
        {
            let mut lanes = self.lanes();
            tickets.into_iter().for_each(|ticket| lanes.line_up(ticket));
        }
        self.pump();
        for key in asked {
            tokio::spawn(Arc::clone(self).ask(key));
        }
    }

    fn close(&self, run: RunId) {
        let mut state = self.state();
        for entry in state.ledger.close(run) {
            for share in entry.shares {
                state.by_log.remove(&share.seat.log);
            }
        }
    }

    fn begin(&self, start: Start, tickets: &mut Vec<Ticket<Errand>>, asked: &mut Vec<Key>) {
        let key = Key { run: start.run, step: start.step, attempt: start.attempt };
        let mut state = self.state();
        if state.ledger.kept.entries.contains_key(&key) {
            return;
        }
        let context = start.context.clone();
        let (Some(step), Some(placement)) = (context.body.step(start.step), start.placement.clone()) else {
            return;
        };
        let number = match is_first_away(&start) {
            true => context.job.executor_number(),
            false => state.ledger.number(context.job, start.step),
        };
        let share = |index, total, executor: &Executor, log| {
            let (address, status) = (executor.address.clone(), SeatStatus::Sent);
            let (attempt, at) = (start.attempt, placement.at);
            let (ended_at, message, again) = (None, None, false);
            let seat =
                SeatRecord { index, total, address, log, attempt, at, ended_at, status, message, again };
            Share::new(seat, executor.dialect)
        };
        let shares = match &placement.seats {
            Seats::Chosen(seats) => {
                seats.iter().map(|seat| share(seat.index, seat.total, &seat.executor, seat.log)).collect()
            }
            Seats::Asked { .. } => Vec::new(),
            Seats::Nobody => {
                drop(state);
                let text = format!("no XXL-JOB executor of the group {} is there", placement.group);
                return self.refuse(key, text);
            }
        };
        if let Err(why) = sendable(&context.body, step) {
            drop(state);
            return self.refuse(key, why.to_owned());
        }
        if shares.is_empty() {
            asked.push(key);
        }
        for share in &shares {
            let Share { seat, .. } = share;
            state.by_log.insert(seat.log, (key, seat.index));
            tickets.push(Ticket { what: (key, seat.index), job: context.job, address: seat.address.clone() });
        }
        let entry = Entry {
            number,
            group: placement.group.clone(),
            step_name: step.name.as_str().into(),
            at: placement.at,
            timeout_secs: timeout_secs(&start),
            halt: None,
            shares,
            is_up: false,
            is_over: false,
        };
        state.ledger.begin(key, entry);
        state.starts.insert(key, start);
    }

    /// Nothing was sent and nothing will be.
    fn refuse(&self, key: Key, why: String) {
        self.counts.refused.fetch_add(1, Ordering::Relaxed);
        let end = ReportKind::Ended { outcome: Outcome::NotStarted(why.into()), output: None };
        self.tell(vec![(key, end)]);
    }

    /// Asks executors until one answers well, and sends the order there.
    async fn ask(self: Arc<Shared>, key: Key) {
        let (start, number) = {
            let mut state = self.state();
            let number = state.entry(key).map(|entry| entry.number);
            let (Some(start), Some(number)) = (state.starts.get(&key).cloned(), number) else { return };
            (start, number)
        };
        let Some(placement) = start.placement.clone() else { return };
        let Seats::Asked { ask, executors, log } = &placement.seats else { return };
        let mut why = String::new();
        // In the order of the list, but many at once: the first of the list that answers well has it.
        for some in executors.chunks(ASKED_AT_ONCE_MAX) {
            let calls = some.iter().map(|executor| {
                let (verb, body) = match ask {
                    Ask::Alive | Ask::Free => ("beat", b"{}".to_vec()),
                    Ask::Idle => ("idleBeat", json(&OfJob { job_id: number })),
                };
                self.client.call(&placement.group, executor, verb, body)
            });
            let answers = join_all(calls).await;
            let well = |answer: &Result<Answer, CallError>| answer.as_ref().is_ok_and(Answer::is_ok);
            if let Some(at) = answers.iter().position(well) {
                return self.place(key, &start, &some[at], *log);
            }
            if let Some(Err(error)) = answers.first() {
                why = format!("; {}", error.text());
            }
        }
        let word = match ask {
            Ask::Alive | Ask::Free => "answers",
            Ask::Idle => "is idle",
        };
        let text = format!("no executor of the group {} {word}{why}", placement.group);
        if self.forget(key) {
            self.refuse(key, text);
        }
    }

    /// Lets go of an attempt that nobody has. False when somebody else did.
    pub(super) fn forget(&self, key: Key) -> bool {
        let mut state = self.state();
        state.starts.remove(&key);
        state.ledger.kept.entries.remove(&key).is_some()
    }

    fn place(self: &Arc<Shared>, key: Key, start: &Start, executor: &Executor, log: u64) {
        let at = start.placement.as_ref().map_or(0, |placement| placement.at);
        let seat = SeatRecord {
            index: 0,
            total: 1,
            address: executor.address.clone(),
            log,
            attempt: key.attempt,
            at,
            ended_at: None,
            status: SeatStatus::Sent,
            message: None,
            again: false,
        };
        {
            let mut state = self.state();
            if state.entry(key).is_none() {
                // Stopped meanwhile, and told so.
                return;
            }
            state.by_log.insert(log, (key, 0));
            state.ledger.place(key, Share::new(seat.clone(), executor.dialect));
            state.ledger.write();
        }
        self.tell(vec![(key, ReportKind::Seat(Box::new(seat)))]);
        let ticket = Ticket { what: (key, 0), job: start.context.job, address: executor.address.clone() };
        self.lanes().line_up(ticket);
        self.pump();
    }

    /// Lets go what may leave. Requests leave here, in order and one after the other, or two at a time when they are many;
    /// their answers are waited for by [`hear`](Shared::hear).
    pub(super) fn pump(self: &Arc<Shared>) {
        loop {
            let mut leaving = self.lanes().leave().into_iter();
            let is_freed = if leaving.len() < SHARED_MIN {
                self.depart(|| leaving.next())
            } else {
                self.depart_by_two(leaving)
            };
            if !is_freed {
                return;
            }
        }
    }

    /// Lets many go, with the help of another thread that has time. Says whether a place in a lane is free again.
    fn depart_by_two(self: &Arc<Shared>, leaving: impl Iterator<Item = Departing> + Send + 'static) -> bool {
        let leaving = Arc::new(Mutex::new(leaving));
        let next = move || leaving.lock().unwrap_or_else(PoisonError::into_inner).next();
        let (helper, next_of_helper, rush) = (Arc::clone(self), next.clone(), self.rush.begin());
        tokio::spawn(async move {
            let is_freed = helper.depart(next_of_helper);
            drop(rush);
            if is_freed {
                helper.pump();
            }
        });
        self.depart(next)
    }

    /// Sends one after the other. Says whether a place in a lane is free again, because nobody wanted an order any more.
    fn depart(&self, mut next: impl FnMut() -> Option<Departing>) -> bool {
        let mut is_freed = false;
        let mut draft = Draft::default();
        while let Some((lane, ticket)) = next() {
            let began = Instant::now();
            match self.send(ticket.what, began, &mut draft) {
                Some((call, covers)) => self.await_answer(Sent { lane, ticket, call, covers, began }),
                None => {
                    let Ticket { job, address, .. } = &ticket;
                    self.lanes().arrived(lane, *job, address, Duration::ZERO, began);
                    is_freed = true;
                }
            }
        }
        is_freed
    }

    /// Waits for answers, of all orders that one of its kind was given. One task for many: a task for each would cost as
    /// much as writing its order. While a burst leaves they are not looked at: see [`Rush`](super::rush::Rush).
    pub(super) async fn hear(self: Arc<Shared>, mut sent: mpsc::UnboundedReceiver<Sent>) {
        let mut open = FuturesUnordered::new();
        loop {
            let over = self.rush.over();
            let is_calm = over.is_none();
            tokio::select! {
                one = sent.recv() => match one {
                    Some(one) => open.push(self.finish(one)),
                    None => return,
                },
                Some(()) = open.next(), if is_calm => {}
                Some(()) = OptionFuture::from(over) => {}
            }
        }
    }

    async fn finish(self: &Arc<Shared>, sent: Sent) {
        let Sent { mut lane, ticket: Ticket { what, job, address }, call, covers, began } = sent;
        let is_slow = || {
            lane = self.lanes().overdue(lane, &address);
            self.pump();
        };
        let answer = self.client.finish(call, is_slow).await;
        self.lanes().arrived(lane, job, &address, began.elapsed(), Instant::now());
        // Who waits for the place leaves before anybody looks at the answer.
        self.pump();
        self.note_answer(Answered { what, address, answer, covers });
    }

    /// Writes an order and lets it go, unless nobody wants it any more.
    fn send(&self, errand: Errand, now: Instant, draft: &mut Draft) -> Option<(Call, bool)> {
        let (key, index) = errand;
        let mut state = self.state();
        let State { ledger, starts, .. } = &mut *state;
        let entry = ledger.kept.entries.get_mut(&key).filter(|entry| entry.halt.is_none())?;
        let is_last =
            entry.shares.iter().all(|share| share.seat.index == index || share.sight.since.is_some());
        let share = entry.shares.iter_mut().find(|share| share.seat.index == index && !share.halted)?;
        let start = if is_last { starts.remove(&key) } else { starts.get(&key).cloned() }?;
        share.sight.since = Some(now);
        let (seat, executor) = (share.seat.clone(), share.executor());
        let (group, number, timeout_secs) = (entry.group.clone(), entry.number, entry.timeout_secs);
        drop(state);
        draft.body.clear();
        match words(&mut draft.body, &start, &seat, executor.dialect, number, timeout_secs) {
            Ok(()) => {
                let covers = target_of(&start).is_some_and(|target| target.block == Block::Cover);
                Some((self.client.begin(&group, &executor, start_verb(executor.dialect), draft), covers))
            }
            Err(why) => {
                self.end_share(errand, Outcome::NotStarted(why.into()), None);
                None
            }
        }
    }
}
