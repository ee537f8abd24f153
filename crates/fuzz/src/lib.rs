//! What becomes of every commit: is it built, is it fuzzed, and what was found?
//!
//! A target's state is three small files in a [`Bucket`] that several machines share: which commit was looked at last,
//! which ones wait for a build, which ones are fuzzed how often. A [`Pipeline`] is the handle on it.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! use std::sync::Arc;
//! use cadran_fuzz::{
//!     Bucket, BucketOptions, BuildOutcome, CommitHash, NextBuild, Pipeline, Target, TargetName,
//! };
//!
//! # let dir = tempfile::tempdir().unwrap();
//! # let url = format!("file://{}", dir.path().display());
//! let bucket = Bucket::open(&url, &BucketOptions::default()).await?; // file:///dir or s3://bucket/prefix
//! let target = Target::new(TargetName::new("parser").unwrap(), "https://example.org/parser.git", "main");
//! let clock = Arc::new(|| 1_794_787_200_000);
//! let pipeline = Pipeline::open(bucket, target, clock, "builder@here").await?;
//!
//! let commit = CommitHash::full("0123456789abcdef0123456789abcdef01234567").unwrap();
//! pipeline.enqueue(&commit, false).await?;
//! let NextBuild::Build(claim) = pipeline.next_build().await? else { panic!("nothing to build") };
//! assert_eq!(claim.hash, commit);
//! pipeline.finish_build(&claim, BuildOutcome::Failed("main.cpp:3: error".into())).await?;
//! assert_eq!(pipeline.status().await?.failed[0].0, commit.as_str());
//! # Ok::<(), cadran_fuzz::FuzzError>(())
//! # }).unwrap();
//! ```
//!
//! [`Pipeline`] has the rules: what is built and fuzzed next, and what becomes of it. [`PassRunner`] does the work: git,
//! builds, fuzz runs, crashes, corpus and coverage, each command with a budget on its whole process tree. [`Config`] is
//! what `fuzz.yaml` says about both.
//!
//! It knows nothing of jobs, runs and servers: manager, builder, fuzzer and coverage mapper are commands that any
//! scheduler may run.
//!
//! Invariants: every change of a state file is one conditional put; whoever works on a commit has its claim, and a
//! result without the newest token is refused; a crash between two puts is repeated by the next pass, to the same
//! result; a file that cannot be read is never taken as empty; a store that cannot be asked says nothing about any
//! object; [`rules`] decide without a store, a clock or chance.
#![forbid(unsafe_code)]

mod bucket;
mod claim;
mod claim_renewal;
mod cleanup;
mod config;
mod error;
mod events;
mod files;
mod hash;
mod history;
mod keys;
mod ledger;
mod manager;
mod manual;
mod pipeline;
pub mod rules;
mod settle;
mod state_file;
mod status;
mod target;
mod work;

pub use bucket::{Bucket, BucketOptions, Condition, LISTED_MAX, Listed, Object, Put, Transfer, Version};
pub use claim::{Claim, Work};
pub use claim_renewal::ClaimRenewal;
pub use cleanup::CleanUp;
pub use config::{AfterCrash, CONFIG_SHAPES, Config, InitOptions, JobFile, Tools, job_files, template};
pub use error::{Failure, FuzzError};
pub use events::{CommitState, Event};
pub use files::{BuildQueue, Checked, Entry, Schedule, StateFile};
pub use hash::CommitHash;
pub use history::{Commit, Files, History, HistoryError, Resolved, Since};
pub use keys::{BinaryKind, FileName, Keys, Layout, Part};
pub use manager::Pass;
pub use manual::Scheduled;
pub use pipeline::{BuildOutcome, Clock, FuzzOutcome, NextBuild, Pipeline};
pub use rules::build::Enqueued;
pub use status::{ClaimView, Status};
pub use target::{Budgets, Commands, FileFilter, Limits, Overload, Retention, Target, TargetName, Walk};
pub use work::{
    BisectReport, Boundary, BuildPass, Crash, CrashSignature, CrashStatus, Frame, FuzzPass, FuzzReport,
    FuzzerStats, Fuzzing, GitLimits, Halt, MapPass, MapReport, PassRunner, Project, Question, Repository,
    TriedCommit, Watcher, Why, check_address,
};
