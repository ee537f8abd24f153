//! When? Which runs does a tick promise?
//!
//! The [`Planner`] keeps, for every job, the latest due that is recorded (its watermark), and turns a tick into a
//! [`Plan`]: runs to promise, and stretches of dues that do not run, each with its reason. [`catch_up`] holds the one
//! function that judges lateness. The [`index`] holds the dues of the whole fleet for the look-ahead. The [`Ring`]
//! holds promised runs until their millisecond.
//!
//! ```
//! use std::sync::Arc;
//! use cadran_core::{JobId, Policy, ScheduleAction, ScheduleEntry};
//! use cadran_cron::{Dialect, Schedule, Zone};
//! use cadran_plan::{Plan, Planner, Policies};
//!
//! struct Defaults;
//! impl Policies for Defaults {
//!     fn policy(&self, _: JobId) -> Policy {
//!         Policy::DEFAULT
//!     }
//! }
//!
//! let schedule = Arc::new(Schedule::parse("*/2 * * * * *", &Zone::utc(), Dialect::Cadran)?);
//! let mut planner = Planner::default();
//! planner.add(JobId(0), &[ScheduleEntry { schedule, action: ScheduleAction::Start }], 60_000);
//!
//! // A tick takes what is due within the next five seconds, and takes it once.
//! let mut plan = Plan::default();
//! planner.tick(60_000, &Defaults, &mut plan);
//! assert!(plan.promises.iter().map(|run| run.due).eq([62_000, 64_000]));
//! planner.tick(61_000, &Defaults, &mut plan);
//! assert!(plan.promises.iter().map(|run| run.due).eq([62_000, 64_000, 66_000]));
//! # Ok::<(), cadran_cron::Error>(())
//! ```
//!
//! This crate does not know what is running, where anything runs, what a job does, or what time it is: it is told.
//!
//! Invariants:
//! - Watermarks only rise; a due at or before a job's watermark is never planned again.
//! - Every due after it ends in exactly one promise or one skip.
//! - The index is an optimisation, never a filter: what it does not cover is computed from the schedules.
#![forbid(unsafe_code)]

pub mod catch_up;
mod dues;
pub mod index;
mod outlook;
mod pause;
mod planner;
mod ring;

pub use outlook::Outlook;
pub use planner::{
    Build, LOOKAHEAD_MS, LateRuns, PRE_READ_MS, Plan, PlannedRun, PlannedSkip, Planner, Policies,
};
pub use ring::Ring;

/// The examples of the README are compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
