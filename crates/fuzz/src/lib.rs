//! What becomes of every commit: is it built, is it fuzzed, and what was found?
//!
//! A target's state is three small files in a [`Bucket`] that several machines share: which commit was looked at last,
//! which ones wait for a build, which ones are fuzzed how often. Every change of them is one conditional put.
//!
//! It knows nothing of the rest of Cadran: manager, builder, fuzzer and coverage mapper are commands that any
//! scheduler may run.
#![forbid(unsafe_code)]

mod bucket;
mod claim;
mod cleanup;
mod error;
mod events;
mod files;
mod hash;
mod history;
mod keeper;
mod ledger;
mod manager;
mod pipeline;
pub mod rules;
mod status;
mod swap;
mod target;

pub use bucket::{Bucket, BucketOptions, Condition, LISTED_MAX, Listed, Object, Put, Transfer, Version};
pub use claim::{Claim, Work};
pub use cleanup::CleanUp;
pub use error::{Failure, FuzzError};
pub use events::{Event, Place};
pub use files::{BinaryKind, BuildQueue, Checked, Entry, FileName, Keys, Schedule, StateFile};
pub use hash::CommitHash;
pub use history::{Commit, Files, History, HistoryError, Resolved, Since};
pub use keeper::Keeper;
pub use manager::Pass;
pub use pipeline::{BuildOutcome, Clock, FuzzOutcome, NextBuild, Pipeline, Scheduled};
pub use rules::build::Enqueued;
pub use status::{ClaimView, Status};
pub use target::{Budgets, Commands, FileFilter, Limits, Overload, Retention, Target, TargetName, Walk};
