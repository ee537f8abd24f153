//! What is recorded?
//!
//! A [`Store`] keeps jobs, their planning state, runs and skips, durably, behind one handle: SQLite in a file,
//! PostgreSQL by URL, or memory. Whatever one turn of the loop decided arrives as one [`cadran_core::Batch`] and is
//! written in one transaction; at start [`Store::load`] hands everything back.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! use cadran_core::{Batch, JobId, JobState};
//! use cadran_store::Store;
//!
//! let store = Store::open("memory:").await?;
//! let state = JobState { job: JobId(0), watermark: Some(1_000), paused_at: None, holes: Vec::new() };
//! let committed = store.commit(&Batch { states: vec![state], ..Batch::default() }).await?;
//! assert!(committed.refused.is_empty());
//! # Ok::<(), cadran_store::StoreError>(())
//! # }).unwrap();
//! ```
//!
//! It knows nothing of deciding: not what a due is, not what a definition says, not which change of a run is
//! allowed. It reads no clock.
//!
//! Invariants: a batch is written whole or not at all, and writing it again changes nothing; what
//! [`Store::commit`] has answered survives a kill and, on SQLite, a power cut; among scheduled runs (job, due) is
//! unique; the three backends answer alike, and one conformance suite says so.
#![forbid(unsafe_code)]

mod claim;
mod code;
mod error;
mod fold;
mod heads;
mod keys;
mod memory;
mod migrations;
mod packed;
mod postgres;
mod program;
mod prune;
mod query;
mod read;
mod servers;
mod source;
mod sqlite;
mod store;
mod text;
mod usage;

pub use claim::Claim;
pub use error::{Failure, StoreError};
pub use heads::{HEADS_MAX, RunHead};
pub use prune::{PrunePass, Pruned, Retention};
pub use query::{
    Committed, Counts, JobQuery, JobRecord, JobView, LIMIT_MAX, LastRun, Loaded, RunQuery, RunView,
    SkipQuery, SkipView,
};
pub use store::Store;
pub use usage::Usage;
