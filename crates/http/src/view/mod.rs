//! The shapes of answers. Records do not serialise themselves: what a program sees is written down here, and stays when
//! the inside changes. Every instant stands twice, as RFC 3339 text and as milliseconds (`_ms`).

mod history;
mod job;
mod run;
pub(crate) mod share;
pub(crate) mod whereabouts;

pub(crate) use history::{HistoryItem, SkipItem, merge};
pub(crate) use job::{JobDetail, JobItem, ProblemItem};
pub(crate) use run::{RunDetail, RunItem};
pub(crate) use share::ChildItem;
