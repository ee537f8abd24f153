//! How is an attempt of a step run on this machine, and what did it print?
//!
//! [`Local`] is the executor inside the server, [`Remote`] gives the orders for XXL-JOB executors elsewhere, [`Hub`] those
//! for our own, which are a [`Worker`] around a [`Local`]: orders go in by [`Local::submit`], reports come out of a sink,
//! in batches. [`InProcess`] runs nothing and reports as if it had, for benchmarks and simulations. [`LogDir`] reads
//! what attempts printed. [`Guard`] runs single commands in the foreground, with a budget on their whole tree.
//!
//! ```no_run
//! # async fn example(start: cadran_core::Start) -> Result<(), cadran_exec::ExecError> {
//! use std::sync::Arc;
//! use std::time::Duration;
//! use cadran_core::Order;
//! use cadran_exec::{Local, LocalOptions};
//!
//! let options = LocalOptions::new("data");
//! let (local, found) = Local::open(options, || 0, Arc::new(|reports| println!("{reports:?}"))).await?;
//! println!("{} attempts of the previous life", found.len());
//! local.submit(vec![Order::Start(start)]);
//! local.drain(Duration::from_secs(10)).await;
//! # Ok(()) }
//! ```
//!
//! It knows nothing of schedules, flows or records: it does not ask why an attempt should run, or what follows.
//!
//! While a [`Local`] is open, this process adopts every descendant that loses its parent, and ends those whose attempt
//! is over. Children that other parts of the program start are left alone as long as they stay in the program's own
//! process group, which is the default.
//!
//! Invariants:
//! - a (run, step, attempt) is started at most once, also across a restart, until its run is closed;
//! - its start is in the journal before its process exists, its end before its end is reported;
//! - a report of a start comes before the report of its end, and every start that was taken ends with one report;
//! - nothing of an attempt is alive shortly after its end, its stop, or the death of the server;
//! - parameters, outputs and variables are data: they reach a process as environment and arguments, and no text of
//!   theirs is ever read by a shell on our behalf.
#![forbid(unsafe_code)]

mod append_log;
mod attempt;
mod cgroup;
mod command;
mod container;
mod desk;
mod dotenv;
mod embedded;
mod environment;
mod error;
mod family;
mod guard;
mod http_order;
mod in_process;
mod journal;
mod json_path;
mod keeper;
mod local;
mod log;
mod logs;
mod options;
mod order_wire;
mod outbox;
mod precondition;
mod process;
mod procfs;
#[cfg(test)]
mod sample;
mod sweep;
mod taps;
pub mod worker;
pub mod xxl;

pub use append_log::Damage;
pub use embedded::{
    Embedded, EmbeddedOptions, ExecutorStatus, LeftRunning, ServiceOptions, serve, status as executor_status,
    stop as stop_executor,
};
pub use error::ExecError;
pub use guard::{Allowance, Ending, Guard};
pub use http_order::HttpOrder;
pub use in_process::InProcess;
pub use keeper::keeper_main;
pub use local::Local;
pub use logs::{LogChunk, LogDir, LogFile};
pub use options::{LocalOptions, Sink};
pub use process::EXIT_OUTPUT_TOO_LARGE;
pub use worker::{Hub, HubOptions, Worker, WorkerOptions};
pub use xxl::{Remote, RemoteOptions, Tokens, sendable};
