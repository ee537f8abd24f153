//! What do our words mean?
//!
//! This crate is Cadran's vocabulary. Every other crate speaks in these types: a [`Job`] is a definition of
//! work, a due is an instant its schedules name, a [`RunId`] names one instance of it, an [`Order`] goes to an
//! executor, a [`Report`] comes back, and a [`Batch`] is what the store is asked to make durable.
//!
//! ```
//! use cadran_core::{RunId, RunStatus};
//!
//! let run = RunId::from_raw(42);
//! assert_eq!(run.to_string().parse::<RunId>().unwrap(), run);
//! assert!(RunStatus::Promised.may_become(RunStatus::Running));
//! assert!(!RunStatus::Succeeded.may_become(RunStatus::Promised));
//! ```
//!
//! It knows nothing of SQL, HTTP, YAML or async code, and no type here derives serialisation: files, rows and
//! API views each have a shape of their own and convert at the edge.
//!
//! Invariants: a [`JobName`] and a [`RunId`] read from text match a strict pattern, so neither can be a path or
//! carry a separator; a run's status moves only along [`RunStatus::may_become`].
#![forbid(unsafe_code)]

mod command;
mod executor;
pub mod footprint;
mod id;
mod job;
mod order;
mod policy;
mod record;
mod run;
mod share;
mod time;
mod waiting;
mod work;

pub use cadran_cron::{Dst, Millis, Schedule, Zone};
pub use command::{Command, IdempotencyKey, Refusal, Reply, TRIGGER_KEY_MS};
pub use executor::{
    Address, AddressError, Block, Dialect, Executor, GlueKind, GroupName, GroupNameError, Route, Target,
};
pub use footprint::{Access, Footprint, FootprintSpec, Key, KeyError, OnConflict, PoolShare};
pub use id::{JobId, JobName, LogNumbers, NameError, RunId, RunIdError, RunIds};
pub use job::{
    Body, ContinueOn, Dotenv, Handler, Handlers, History, Job, Param, Precondition, Retry, ScheduleAction,
    ScheduleEntry, Step, StepNo, Work,
};
pub use order::{
    Ask, ExecutorKind, Found, Order, Outcome, Placement, Report, ReportKind, RunContext, Seat, Seats, Start,
};
pub use policy::{Misfire, Overlap, Policy};
pub use record::{Batch, JobPut, JobRemoved, JobState, Promise, RunRecord, RunUpdate, Skip, TriggerKey};
pub use run::{CallRecord, RunStatus, SeatRecord, SeatStatus, SkipReason, StepRecord, StepStatus, Trigger};
pub use share::{RunName, RunNameError, ShareError, share_of};
pub use time::{Now, instant_text};
pub use waiting::{Holding, Waiting};
pub use work::{
    Container, ContainerCommand, ForEach, HttpBody, HttpRequest, Items, JobCall, JsonPart, JsonPath,
    JsonPathError,
};
