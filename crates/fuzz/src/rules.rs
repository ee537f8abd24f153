//! What is decided, without a store, a clock or a repository: state and facts in, changed state and events out.
//!
//! The numbers in the names of tests are those of the documented rules, `hNN` those of the holes they leave.

pub mod build;
pub mod detect;
pub mod forecast;
pub mod replay;
pub mod schedule;
