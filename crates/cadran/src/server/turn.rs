//! The loop: reads the clock, feeds the engine, commits what it asks for, sends its orders.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use cadran_core::{Batch, Command, Order, Refusal, Reply, RunId};
use cadran_engine::{Effects, Engine, Event, Token};
use cadran_plan::Build;
use tokio::sync::{broadcast, mpsc, oneshot};

use super::clock::Clock;
use super::inbox::Inbox;
use super::metrics::Metrics;
use cadran_http::LiveEvent;

/// What arrives at the loop.
pub enum Mail {
    /// Something the engine is told as it is.
    Event(Event),
    /// A command, and where its answer goes.
    Command(Command, oneshot::Sender<Result<Reply, Refusal>>),
    /// A command that could not be carried out after all.
    Refused(Token, Refusal),
    /// A look at the engine, between two turns.
    Look(Box<dyn FnOnce(&Engine) + Send>),
    /// End the loop after this turn.
    End,
}

/// Takes orders.
pub type Orders = Arc<dyn Fn(Vec<Order>) + Send + Sync>;

/// Reads ended runs back for a retry.
pub type Recall = Arc<dyn Fn(Token, RunId, Option<u32>) + Send + Sync>;

/// Everything the loop touches.
pub struct Turn {
    /// Decides.
    pub engine: Engine,
    /// Tells the time.
    pub clock: Clock,
    /// Brings what happened.
    pub inbox: Arc<Inbox<Mail>>,
    /// Takes batches to the store.
    pub batches: mpsc::UnboundedSender<(u64, Batch)>,
    /// Takes orders to the executor.
    pub orders: Orders,
    /// Reads ended runs back.
    pub recall: Recall,
    /// Builds indexes.
    pub builds: Sender<Build>,
    /// Tells whoever watches.
    pub events: broadcast::Sender<LiveEvent>,
    /// Counts.
    pub metrics: Metrics,
}

impl Turn {
    /// Turns until told to end.
    pub fn run(mut self) {
        // The kernel rounds waits up by 50 µs unless told otherwise.
        let _ = nix::sys::prctl::set_timerslack(1);
        let mut answers: BTreeMap<Token, oneshot::Sender<Result<Reply, Refusal>>> = BTreeMap::new();
        let mut tokens = 0;
        let mut mail = Vec::new();
        let mut ended = false;
        while !ended {
            self.inbox.take(self.patience(), &mut mail);
            let now = self.clock.now();
            for item in mail.drain(..) {
                match item {
                    Mail::Event(event) => self.engine.handle(event, now),
                    Mail::Command(command, answer) => {
                        tokens += 1;
                        answers.insert(Token(tokens), answer);
                        self.engine.handle(Event::Command(Token(tokens), command), now);
                    }
                    Mail::Refused(token, refusal) => {
                        if let Some(answer) = answers.remove(&token) {
                            // Whoever asked may be gone.
                            let _ = answer.send(Err(refusal));
                        }
                    }
                    Mail::Look(look) => look(&self.engine),
                    Mail::End => ended = true,
                }
            }
            let planned_tick = self.engine.wake().wall;
            self.engine.handle(Event::Time, now);
            let effects = self.engine.take_effects();
            self.metrics.turn(&self.engine, &effects, planned_tick, now);
            self.carry_out(effects, &mut answers);
            if let Some(build) = self.engine.build_index(now) {
                // The builder lives as long as the loop; without it the planner does without an index.
                let _ = self.builds.send(build);
            }
        }
    }

    /// How long nothing is to be done, unless mail comes.
    fn patience(&self) -> Option<Duration> {
        let wake = self.engine.wake();
        let wall = wake.wall.map(|at| self.clock.until_wall(at));
        let mono = wake.mono.map(|at| self.clock.until_mono(at));
        wall.into_iter().chain(mono).min()
    }

    fn carry_out(
        &mut self,
        effects: Effects,
        answers: &mut BTreeMap<Token, oneshot::Sender<Result<Reply, Refusal>>>,
    ) {
        // Orders first: those that must wait for a commit are still held back by the engine.
        if !effects.orders.is_empty() {
            (self.orders)(effects.orders);
        }
        if effects.seq > 0 && self.batches.send((effects.seq, effects.batch)).is_err() {
            tracing::error!("the recorder has ended; nothing more can be made durable");
        }
        for (token, reply) in effects.replies {
            if let Some(answer) = answers.remove(&token) {
                let _ = answer.send(reply);
            }
        }
        for (token, run, share) in effects.recalls {
            (self.recall)(token, run, share);
        }
        for change in effects.changes {
            // Without receivers nobody watches.
            let _ = self.events.send(LiveEvent { run: change.run, status: change.status });
        }
    }
}
