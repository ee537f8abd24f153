//! How do people and programs speak with the server?
//!
//! [`router`] makes the REST API under `/api/v1`, with `/health` and `/metrics` beside it, out of an [`ApiState`]: records
//! are read from the store, logs from their files, and everything else is asked of the running server through the
//! [`Server`] trait. [`executor_router`] and [`worker_router`] are the door for executors, on a listener of its own. [`serve`] puts it on a listener, with bounds on connections, heads, bodies, times and the stop.
//!
//! ```no_run
//! # async fn example(server: std::sync::Arc<dyn cadran_http::Server>, store: cadran_store::Store, logs: cadran_exec::LogDir)
//! # -> Result<(), Box<dyn std::error::Error>> {
//! use cadran_http::{ApiState, Limits, router, serve, token};
//!
//! let token = token::load_or_create("data/token".as_ref())?;
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:7788").await?;
//! let stop = async { tokio::signal::ctrl_c().await.unwrap_or_default() };
//! serve(listener, router(ApiState::new(server, store, logs, token.hash())), stop, Limits::default()).await;
//! # Ok(())
//! # }
//! ```
//!
//! It knows nothing of deciding and of SQL text: it carries commands in and records out.
//!
//! The page for browsers is built into the binary: its source is in `page/`, and what is sent is in `page/dist`.
//!
//! Invariants: every path but `/health`, `/health/live`, `/health/ready`, the page's own files and signing in needs the token or a session, also those
//! that do not exist, and what a request may do is decided in one function (`access::decide`); a name or an id from outside is
//! parsed into its strict type before anything looks for it, and a step's name is only compared with names that are
//! there; unknown fields are refused; every error has one shape, made in one file; the OpenAPI document lists every
//! endpoint, since both come from one table.
#![forbid(unsafe_code)]

mod access;
mod admin;
mod endpoint;
mod error;
mod events;
mod guard;
pub mod instant;
mod job_file;
mod layout;
mod lines;
mod listen;
mod lists;
mod meaning;
mod page;
mod range;
mod request;
mod server;
mod session;
mod state;
pub mod token;
mod view;
mod worker;

pub use admin::{ExecutorApi, ExecutorCallCounts, JobCall, executor_router};
pub use endpoint::{etag, openapi, router};
pub use events::{EventLog, LiveChange};
pub use job_file::{ExpectedFile, JobFileRefusal, JobFileSaved};
pub use listen::{Limits, Peer, serve};
pub use lists::Lists;
pub use server::{DiskUse, ExecutorGroup, ExecutorLine, FileProblem, Health, JobConflict, LiveEvent, Server};
pub use session::Sessions;
pub use state::ApiState;
pub use token::{Token, TokenHash};
pub use worker::worker_router;
