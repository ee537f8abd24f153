//! Footprints: what must not run together?
//!
//! Work declares the keys it reads, writes and claims. [`held::Reservations`] holds such footprints for as long as the
//! work runs: all keys or none, readers together, writers alone, waiters woken when their key is free.
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
//! assert!(matches!(held.wait(3, 0, &write)?, Standing::Waits(_)));
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

#![forbid(unsafe_code)]

pub mod held;
mod mix;
mod mode;

pub use mode::Mode;
