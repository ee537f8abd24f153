//! What becomes of every commit: is it built, is it fuzzed, and what was found?
//!
//! A target's state is three small files in a [`Bucket`] that several machines share: which commit was looked at last,
//! which ones wait for a build, which ones are fuzzed how often. Every change of them is one conditional put.
//!
//! It knows nothing of the rest of Cadran: manager, builder, fuzzer and coverage mapper are commands that any
//! scheduler may run.
#![forbid(unsafe_code)]

mod bucket;
mod error;
mod files;
mod hash;
mod history;
mod target;

pub use bucket::{Bucket, BucketOptions, Condition, LISTED_MAX, Listed, Object, Put, Transfer, Version};
pub use error::{Failure, FuzzError};
pub use files::{BinaryKind, BuildQueue, Checked, Entry, FileName, Keys, Schedule, StateFile};
pub use hash::CommitHash;
pub use history::{Commit, Files, History, HistoryError, Resolved, Since};
pub use target::{Budgets, Commands, FileFilter, Limits, Overload, Retention, Target, TargetName, Walk};
