//! The hands of the pipeline: git, builds, fuzz runs, crashes, corpus and coverage.
//!
//! [`Workshop`] has the passes. Whatever they run has a budget that holds for its whole process tree.

mod archive;
mod bisect;
mod builder;
mod corpus;
mod crash;
mod environment;
mod fuzzer;
mod git;
mod mapper;
mod pulse;
mod sighting;
mod transcript;
mod trial;
mod workshop;

pub use bisect::{BisectReport, Question, TriedCommit};
pub use builder::BuildPass;
pub use crash::{Boundary, Crash, CrashStatus};
pub use fuzzer::{FuzzPass, FuzzReport};
pub use git::{GitLimits, Repository, check_address};
pub use mapper::{MapPass, MapReport};
pub use pulse::Pulse;
pub use sighting::{Frame, Project, Sighting};
pub use workshop::{Fuzzing, Halt, Watcher, Why, Workshop};
