//! Footprints: what must not run together?
//!
//! Work declares the keys it reads, writes and claims. Two parts answer:
//!
//! - [`Scheduler`] decides about many pieces of work at once, as within one tick: [`PendingRewrite`]s are drained in one
//!   order whatever order they came in, and [`reserve`](Scheduler::reserve) admits each that is independent of those
//!   before it. Footprints that are asked about again and again can be [`Interned`]; then [`Stamps`] answer in
//!   a few nanoseconds a key.
//! - [`held::Reservations`] holds footprints for as long as the work runs: all keys or none, readers together, writers
//!   alone, waiters woken when their key is free.
//!
//! ```
//! use cadran_footprint::held::{Limits, Need, Reservations, Standing};
//!
//! let mut held = Reservations::new(Limits::default());
//! let orders = held.key(["table:orders"])?;
//! let read = held.request(&[Need::Read(orders)])?;
//! let write = held.request(&[Need::Write(orders)])?;
//!
//! assert!(held.acquire(1, &read).is_ok());
//! assert!(held.acquire(2, &read).is_ok()); // Readers share.
//! assert_eq!(held.wait(3, 0, &write)?, Standing::Waits);
//! assert_eq!(held.why(3).unwrap().blocked.key, orders);
//!
//! let mut granted = Vec::new();
//! held.release(1, &mut granted);
//! assert_eq!(granted, []); // One reader is left.
//! held.release(2, &mut granted);
//! assert_eq!(granted, [3]); // Now it holds what it asked for.
//! # Ok::<(), cadran_footprint::held::Error>(())
//! ```
//!
//! It knows nothing of jobs, runs, clocks and files: owners are numbers, keys are numbers with a path, and whoever calls
//! says when a wait has been long enough.
//!
//! # Invariants
//!
//! - Everything is checked before anything is marked; a refusal leaves no trace.
//! - There is one conflict rule, [`Mode::excludes`], for admission, explanation and comparison.
//! - The same calls give the same answers. Nothing depends on the order of a hash table.
//! - Duplicate and overlapping keys in one footprint are harmless: the strongest use counts.
//! - Of several rewrites with the same scope hash and rule, the last that came is drained.
//! - Tables keyed by what callers choose are bounded by their shape, not by hope: a crowd that shares a place is kept in
//!   an ordered map (`adversarial` in the benchmark).

#![forbid(unsafe_code)]

mod asked;
mod chains;
mod footprint;
pub mod held;
mod interned;
mod marks;
mod mix;
mod mode;
mod ones;
mod order;
mod parts;
mod pending;
mod rewrite;
mod scheduler;
mod sieve;
mod stamps;
mod table;
mod taken;
mod wanted;

pub use footprint::{AttachmentKey, Class, Conflict, EdgeKey, Footprint, NodeKey, PortKey, ResourceKey, Set};
pub use interned::{Interned, InternedFull};
pub use mode::Mode;
pub use pending::{Drained, InOrder, PENDING_MAX, Pending, PendingFull};
pub use rewrite::{PendingRewrite, Phase, Rewrite, RuleId, ScopeHash, TxId};
pub use scheduler::{Rewrites, Scheduler, SchedulerKind};
pub use stamps::{INTERNED_MAX, KeyUse, Stamps};

/// The examples of the README are compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
