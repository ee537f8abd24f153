//! Many pieces of work decided at once, as within one transaction.
//!
//! [`Scheduler`] collects [`PendingRewrite`]s, drains them in the order of (scope hash, rule), and admits each whose
//! [`Footprint`] is independent of all that were admitted before it. [`Interned`] does the checking for footprints that
//! are asked about again and again: their keys become small numbers once, and [`Stamps`] answer in a few nanoseconds.
//!
//! Keys are hashed with a fast hash that an attacker could choose collisions for, as the specification does: they are
//! identifiers of the caller's own.

mod active;
mod footprint;
mod interned;
mod pending;
mod rewrite;
mod scheduler;
mod stamps;

pub use footprint::{AttachmentKey, Class, Conflict, EdgeKey, Footprint, NodeKey, PortKey, ResourceKey, Set};
pub use interned::{Interned, InternedFull};
pub use pending::{DrainKey, PENDING_MAX, Pending, PendingFull};
pub use rewrite::{PendingRewrite, Phase, RuleId, ScopeHash, TxId};
pub use scheduler::{Scheduler, SchedulerKind};
pub use stamps::{INTERNED_MAX, KeyUse, Stamps};
