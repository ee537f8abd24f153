//! The loop: reads the clock, feeds the engine, commits what it asks for, sends its orders.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use cadran_core::{Command, JobName, Order, Refusal, Reply, RunId};
use cadran_engine::{Effects, Engine, Event, Token};
use cadran_plan::Build;
use tokio::sync::{mpsc, oneshot};

use crate::defaults::LOOP;

use super::clock::Clock;
use super::fault;
use super::health::HealthMonitor;
use super::inbox::Inbox;
use super::metrics::Metrics;
use super::recorder::Recording;
use super::run_log::RunLog;
use cadran_http::{EventLog, LiveChange};

/// What arrives at the loop.
pub enum Message {
    /// Something the engine is told as it is.
    Event(Event),
    /// A command, and where its answer goes.
    Command(Command, oneshot::Sender<Result<Reply, Refusal>>),
    /// A command that could not be carried out after all.
    Refused(Token, Refusal),
    /// A question to the engine, between two iterations.
    Query(Box<dyn FnOnce(&Engine) + Send>),
    /// End the loop after this iteration.
    End,
}

/// Takes orders.
pub type Orders = Arc<dyn Fn(Vec<Order>) + Send + Sync>;

/// Reads ended runs back for a retry.
pub type Recall = Arc<dyn Fn(Token, RunId, Option<u32>) + Send + Sync>;

/// Everything the loop touches.
pub struct EventLoop {
    /// Decides.
    pub engine: Engine,
    /// Tells the time.
    pub clock: Clock,
    /// Brings what happened.
    pub inbox: Arc<Inbox<Message>>,
    /// Takes batches to the store, each with what whoever watches is told once it is there.
    pub batches: mpsc::UnboundedSender<Recording>,
    /// Takes orders to the executor.
    pub orders: Orders,
    /// Reads ended runs back.
    pub recall: Recall,
    /// Builds indexes.
    pub builds: Sender<Build>,
    /// Tells whoever watches of changes that nothing is written for.
    pub events: Arc<EventLog>,
    /// Counts.
    pub metrics: Metrics,
    /// Is told of every iteration and every batch.
    pub health: HealthMonitor,
    /// Writes a line for what ended badly.
    pub run_log: RunLog,
}

impl EventLoop {
    /// Iterates until told to end.
    pub fn run(mut self) {
        // The kernel rounds waits up by 50 µs unless told otherwise.
        let _ = nix::sys::prctl::set_timerslack(1);
        let mut answers: BTreeMap<Token, oneshot::Sender<Result<Reply, Refusal>>> = BTreeMap::new();
        let mut tokens = 0;
        let mut messages = Vec::new();
        let mut ended = false;
        // Jobs that were paused or resumed in this iteration.
        let mut switched: Vec<JobName> = Vec::new();
        while !ended {
            self.inbox.take(Some(self.wait_timeout()), &mut messages);
            let now = self.clock.now();
            self.health.loop_iterated(now.mono);
            fault::point("loop");
            for item in messages.drain(..) {
                match item {
                    Message::Event(event) => self.engine.handle(event, now),
                    Message::Command(_, answer) if answers.len() >= LOOP.pending_replies_max => {
                        let busy = "too many commands wait for the store already; try again later";
                        let _ = answer.send(Err(Refusal::Busy(busy)));
                    }
                    Message::Command(command, answer) => {
                        tokens += 1;
                        if let Command::Pause { job } | Command::Resume { job } = &command {
                            switched.push(job.clone());
                        }
                        answers.insert(Token(tokens), answer);
                        self.engine.handle(Event::Command(Token(tokens), command), now);
                    }
                    Message::Refused(token, refusal) => {
                        if let Some(answer) = answers.remove(&token) {
                            // Whoever asked may be gone.
                            let _ = answer.send(Err(refusal));
                        }
                    }
                    Message::Query(query) => query(&self.engine),
                    Message::End => ended = true,
                }
            }
            self.engine.handle(Event::Time, now);
            let effects = self.engine.take_effects();
            self.metrics.observe(&self.engine, &effects, now);
            self.run_log.observe(&self.engine, &effects);
            let changes = self.changes(&effects, &mut switched);
            self.carry_out(effects, changes, &mut answers);
            if let Some(build) = self.engine.build_index(now) {
                // The builder lives as long as the loop; without it the planner does without an index.
                let _ = self.builds.send(build);
            }
        }
    }

    /// How long nothing is to be done, unless a message comes.
    fn wait_timeout(&self) -> Duration {
        let wake = self.engine.wake();
        let wall = wake.wall.map(|at| self.clock.until_wall(at));
        let mono = wake.mono.map(|at| self.clock.until_mono(at));
        wall.into_iter()
            .chain(mono)
            .min()
            .unwrap_or(LOOP.iteration_interval_max)
            .min(LOOP.iteration_interval_max)
    }

    /// What watchers of live events are told of an iteration.
    fn changes(&self, effects: &Effects, switched: &mut Vec<JobName>) -> Vec<LiveChange> {
        let name = |job| self.engine.catalog().name(job).cloned();
        let jobs = effects.batch.jobs.iter().map(|put| put.name.clone());
        let removed = effects.batch.removed.iter().filter_map(|removed| name(removed.job));
        let jobs = switched.drain(..).chain(jobs).chain(removed).map(|job| LiveChange::Job { job });
        let runs = effects.changes.iter().filter_map(|change| {
            Some(LiveChange::Run { run: change.run, job: name(change.job)?, status: change.status })
        });
        let skips = effects.batch.skips.iter().filter_map(|skip| {
            Some(LiveChange::Skip { job: name(skip.job)?, count: skip.count, reason: skip.reason })
        });
        jobs.chain(runs).chain(skips).collect()
    }

    fn carry_out(
        &mut self,
        effects: Effects,
        changes: Vec<LiveChange>,
        answers: &mut BTreeMap<Token, oneshot::Sender<Result<Reply, Refusal>>>,
    ) {
        // Orders first: those that must wait for a commit are still held back by the engine.
        if !effects.orders.is_empty() {
            (self.orders)(effects.orders);
        }
        if effects.seq == 0 {
            self.events.push(changes);
        } else {
            self.health.batch_sent(self.clock.now().mono);
            let recording = Recording { seq: effects.seq, batch: effects.batch, changes };
            if self.batches.send(recording).is_err() {
                tracing::error!("the recorder has ended; nothing more can be made durable");
            }
        }
        for (token, reply) in effects.replies {
            if let Some(answer) = answers.remove(&token) {
                let _ = answer.send(reply);
            }
        }
        for (token, run, share) in effects.recalls {
            (self.recall)(token, run, share);
        }
    }
}
