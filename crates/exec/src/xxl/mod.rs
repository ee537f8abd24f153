//! The XXL-JOB protocol, as the side that gives orders.
//!
//! [`Remote`] takes orders for steps on executors of a group, sends them out by two lanes, takes results in, ends what
//! is to be stopped, and finds what was lost. What is out stands in a ledger, so that a restart of the server waits for
//! it instead of doubling it.

mod client;
mod departure;
mod exchange;
pub mod form;
mod lane;
pub(crate) mod ledger;
mod options;
mod order;
mod params;
mod pull;
mod remote;
mod result;
mod rush;
mod stop;
pub(crate) mod table;
#[cfg(test)]
mod tests;
mod watch;
pub mod wire;

pub use options::{KnownToken, RemoteOptions, Tokens};
pub use order::sendable;
pub use pull::RemoteLog;
pub use remote::{LaneCounts, Remote, RemoteCounts};
