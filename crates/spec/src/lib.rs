//! What does this job file say, and what is wrong with it?
//!
//! [`read_job`] turns the text of a job file into a [`Job`](cadran_core::Job), or into [`Diagnostic`]s that point at
//! line and column. [`Folder`] does that for a directory tree and says what changed in it, and [`watch`] keeps looking.
//! [`encode`] and [`Decoder`] are the way of a job into the store and back. [`read_settings`] reads other YAML files of
//! Cadran with the same care.
//!
//! ```
//! use cadran_spec::{Decoder, ReadOptions, read_job};
//!
//! let text = "schedule: every 10s\nrun: echo hello\n";
//! let parsed = read_job(text.as_bytes(), "hello", &ReadOptions::default()).unwrap();
//! assert_eq!(parsed.job.name.as_str(), "hello");
//! assert_eq!(parsed.job.body.steps.len(), 1);
//!
//! let stored = Decoder::default().decode(parsed.job.name.clone(), &parsed.definition).unwrap();
//! assert_eq!(stored.body, parsed.job.body);
//! ```
//!
//! It knows nothing of the engine, of runs and of the store's tables. It starts no job and executes no text: what
//! stands in a file is data.
//!
//! Invariants:
//!
//! - Any bytes give a job or at least one error, in bounded time and memory; nothing panics.
//! - A bad file never takes another job with it, and never the last good job of its own.
//! - `decode(encode(job))` is the job, and the same job always gives the same text.
//! - Jobs read by one [`Reader`], [`Folder`] or [`Decoder`] share equal schedules and bodies.
//! - No event of the file system is needed for correctness: a look compares the whole tree with what is known.
#![forbid(unsafe_code)]

mod dagu;
mod diagnostic;
mod folder;
mod read;
mod stored;
mod suggest;
mod tree;

pub use dagu::{DaguOptions, FileDialect, Rewritten};
pub use diagnostic::{Code, Diagnostic, Severity};
pub use folder::{
    Caller, Change, FILES_MAX, FileDiagnostics, Folder, Scan, WatchHandle, WatchOptions, call_problems,
    missing_child, read_file, watch,
};
pub use read::{ExecutorsFile, GroupEntry, read_executors};
pub use read::{
    HERE, JOB_FILE, Key, KeyTable, MAX_ACTIVE_STEPS_DEFAULT, OTHER_FILES, Parsed, RESOURCES_FILE,
    ReadOptions, Reader, Resources, Rewriting, Section, Shape, key, key_words, keys, read_job, read_job_in,
    read_settings, rewrite_dagu,
};
pub use stored::{DecodeError, Decoder, ScheduleText, encode, stored_schedules};
pub use tree::FILE_BYTES_MAX;
