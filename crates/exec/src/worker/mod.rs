//! Our own executors elsewhere: both ends of the line between a server and its workers.
//!
//! A worker dials out and listens nowhere. It says [`wire::Hello`], asks for orders over and over, and sends back reports
//! and what its processes print. [`Hub`] is the server's end: it knows who is there, what was sent to whom and what came
//! back. [`Worker`] is the other end, around the same [`Local`](crate::Local) that runs processes inside the server.
//!
//! Invariants:
//! - a worker has the right to run something until its lease ends. It counts the lease from the moment it *sent* the last
//!   request that was answered, the server from the moment that request arrived: the worker is done first;
//! - an attempt is lost only after a whole lease without a word of its worker, also across a restart of the server;
//! - a result is in the worker's journal before the server hears of it, and stays there until the run is closed: a
//!   repeated report changes nothing, the first end counts;
//! - the log of an attempt is here in full before its end is.

mod courier;
mod event;
mod fleet;
mod held;
mod hub;
mod lease;
mod link;
mod slots;
#[cfg(test)]
mod tests;
mod turns;
pub mod wire;
mod work;

pub use event::WorkerEvent;
pub use hub::{Hub, HubCounts, HubOptions, Presence, Refused};
pub use lease::LEASE;
pub use link::{Call, Link, LinkError};
pub use work::{Worker, WorkerError, WorkerOptions};
