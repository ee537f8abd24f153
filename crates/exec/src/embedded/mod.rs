//! The executor of this machine, in a process of its own beside the server, so that work outlives the server.
//!
//! [`serve`] is that process: around a [`Local`](crate::Local) it is parent and subreaper of every attempt, keeps the
//! journal, and listens on a Unix socket in the data directory. [`Embedded`] is the server's end: it finds the executor
//! by its socket or starts one, sends orders and hears reports.
//!
//! ```text
//! server ── Embedded ══ Unix socket, frames of JSON ══ serve ── Local ── processes of steps
//! ```
//!
//! Invariants:
//! - an attempt goes on when the server is gone, and its end is in the journal until its run is closed. The next server
//!   is told of it before it decides anything;
//! - one server at a time works with an executor, and what the one before had sent is taken before the next is answered;
//! - orders are repeated after a broken connection and numbered, starts are known by (run, step, attempt): none is lost
//!   and none is done twice;
//! - when the executor is gone its processes are ended by the next one, which the server starts at once. What was on
//!   is lost then; what waited in line starts;
//! - both ends accept only their own user on the other end.

mod client;
mod launch;
mod service;
mod socket;
mod wire;

pub use client::{Embedded, EmbeddedOptions, LeftRunning};
pub use launch::{ExecutorStatus, status, stop};
pub use service::{ServiceOptions, serve};
