//! Footprints: what must not run together?
//!
//! Work declares the keys it reads, writes and claims. Two independent halves answer, with one conflict rule,
//! [`Mode::excludes`]:
//!
//! - [`held::Reservations`] holds footprints for as long as the work runs: all keys or none, readers together, writers
//!   alone, waiters woken when their key is free.
//! - [`batch::Scheduler`] decides about many pieces of work at once: [`batch::PendingRewrite`]s are drained in one order
//!   whatever order they came in, and [`reserve`](batch::Scheduler::reserve) admits each that is independent of those
//!   before it. Footprints that are checked again and again can be [`batch::Interned`].
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
//! The crate knows nothing of jobs, runs, clocks and files: owners are numbers, keys are numbers with a path, and the
//! caller says when a wait has been long enough.
//!
//! # Invariants
//!
//! - Everything is checked before anything is marked; a refusal leaves no trace.
//! - There is one conflict rule, [`Mode::excludes`], for admission, explanation and comparison.
//! - The same calls give the same answers. No hash table is ever iterated.
//! - Duplicate and overlapping keys in one footprint are harmless: the strongest use counts.

#![forbid(unsafe_code)]

pub mod batch;
pub mod held;
mod mode;

pub use mode::Mode;

/// The examples of the README are compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
