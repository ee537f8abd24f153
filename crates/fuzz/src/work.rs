//! What the pipeline runs: git, builds, fuzz runs, crashes, corpus and coverage.
//!
//! [`PassRunner`] has the passes. Whatever they run has a budget that holds for its whole process tree.

mod archive;
mod bisect;
mod builder;
mod corpus;
mod crash;
mod crash_signature;
mod environment;
mod fuzzer;
mod fuzzer_stats;
mod git;
mod mapper;
mod pass_runner;
mod reproduction;
mod transcript;

pub use bisect::{BisectReport, Question, TriedCommit};
pub use builder::BuildPass;
pub use crash::{Boundary, Crash, CrashStatus};
pub use crash_signature::{CrashSignature, Frame, Project};
pub use fuzzer::{FuzzPass, FuzzReport};
pub use fuzzer_stats::FuzzerStats;
pub use git::{GitLimits, Repository, check_address};
pub use mapper::{MapPass, MapReport};
pub use pass_runner::{Fuzzing, Halt, PassRunner, Watcher, Why};
