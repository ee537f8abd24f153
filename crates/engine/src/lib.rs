//! One front door: an event in, effects out.
//!
//! The [`Engine`] owns the catalog of jobs and every live run. It is told what happened ([`Event`]) and when
//! ([`Now`](cadran_core::Now)), and answers with [`Effects`]: rows to make durable, orders to send, commands to
//! answer. It asks `cadran-plan` when, `cadran-place` whether it may now, and `cadran-flow` what comes next inside a
//! run. The same events at the same times give the same effects.
//!
//! ```
//! use cadran_core::Now;
//! use cadran_engine::{Engine, Event, Options};
//!
//! let mut engine = Engine::new(Options::default());
//! engine.handle(Event::Time, Now::at(1_700_000_000_000));
//! assert!(engine.take_effects().batch.is_empty());
//! ```
//!
//! It knows nothing of sockets, databases, files, threads or clocks.
//!
//! Invariants:
//! - A run enters the ring only after its promise is durable, so nothing starts that a crash could forget.
//! - While a plan is not durable yet, no further tick is planned: when the store comes back, what passed meanwhile is
//!   judged by its lateness like any other delay.
//! - A command is answered only after what it changed is durable.
//! - Under `retry: never` an order leaves only after the start is recorded.
#![forbid(unsafe_code)]

mod catalog;
mod commands;
mod commit_queue;
mod effects;
mod engine;
mod firing;
mod job_table;
mod jobs;
mod json_text;
mod placing;
mod restore;
mod run_table;
mod running;
mod shares;
mod sub_jobs;
mod timers;
mod trigger_keys;
mod unanswered;
mod variables;
mod waiting;

pub use catalog::Catalog;
pub use effects::{Effects, Event, ExecutorChange, JobChange, RunChange, Token};
pub use engine::{Engine, Options};
pub use restore::{Restored, RestoredJob, RestoredRun};
pub use timers::{TICK_PHASE_MS, Wake};
