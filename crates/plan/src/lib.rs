//! When? Which runs does a tick promise?
//!
//! The [`Planner`] keeps, for every job, the latest due that is recorded (its watermark), and turns a tick into a
//! [`Plan`]: runs to promise, and stretches of dues that do not run, each with its reason. [`catch_up`] holds the one
//! function that judges lateness. The [`index`] holds the dues of the whole fleet for the look-ahead. The [`Ring`]
//! holds promised runs until their millisecond.
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
mod pause;
mod planner;
mod ring;

pub use planner::{Build, PRE_READ_MS, Plan, PlannedRun, PlannedSkip, Planner, Policies};
pub use ring::Ring;
