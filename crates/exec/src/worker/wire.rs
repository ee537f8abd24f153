//! What a server and its workers say to each other: JSON over HTTP, `POST /worker/v1/{verb}`.
//!
//! Both ends use these shapes. Numbers of attempts and orders make every message safe to repeat.

use cadran_core::GroupName;
use serde::{Deserialize, Serialize};

pub(crate) use crate::order_wire::outcome_text;
pub use crate::order_wire::{Named, WireOrder, WireReport, WireStart};

/// The token, as `Bearer TOKEN`.
pub const TOKEN_HEADER: &str = "authorization";
/// The group the worker is of.
pub const GROUP_HEADER: &str = "cadran-group";
/// What every path begins with.
pub const PATH: &str = "/worker/v1/";

/// Largest body of a message. The largest is a hello of a worker that has [`HELD_MAX`] attempts.
pub const BODY_BYTES_MAX: usize = 32 << 20;
/// A call takes no further report when those in it have so many bytes of output. In JSON they may take six times as much.
pub const REPORT_BYTES_MAX: usize = 2 << 20;
/// Largest piece of a log.
pub const PIECE_BYTES_MAX: usize = 1 << 20;
/// Attempts a worker may have when it says hello.
pub const HELD_MAX: usize = 100_000;
/// Orders in one answer.
pub const ORDERS_MAX: usize = 100;
/// Reports in one call.
pub const REPORTS_MAX: usize = 100;
/// Labels of one worker.
pub const LABELS_MAX: usize = 64;
/// Most slots of one worker.
pub const SLOTS_MAX: u32 = 10_000;

/// Who speaks: every message but the first has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sender {
    /// The worker's id, the same for the life of its data directory.
    pub worker: String,
    /// This process of it.
    pub life: String,
    /// The life of the server that welcomed it.
    pub server: String,
}

/// A worker says that it is there, and what it has.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Hello {
    /// Its id.
    pub worker: String,
    /// This process of it.
    pub life: String,
    /// How many attempts it runs at once.
    pub slots: u32,
    /// What it says of itself, (name, value).
    #[serde(default)]
    pub labels: Vec<(String, String)>,
    /// It takes no new work.
    #[serde(default)]
    pub draining: bool,
    /// What it has, from now or before.
    pub held: Vec<HeldAttempt>,
}

/// An attempt that a worker has.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HeldAttempt {
    /// Which.
    pub attempt: Named,
    /// It is over, and its result can be asked for.
    pub ended: bool,
}

/// The answer to a hello.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Welcome {
    /// This life of the server.
    pub server: String,
    /// How long the worker may work after a request that was answered.
    pub lease_ms: u64,
    /// Attempts that are nobody's: they are ended and forgotten.
    pub forget: Vec<Named>,
    /// Ended attempts whose result is not known here.
    pub want: Vec<Named>,
}

/// A worker asks for orders. The answer waits until there are some, for a part of the lease at most.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Poll {
    /// Who.
    pub from: Sender,
    /// The number of the last order it has.
    pub have: u64,
    /// It takes no new work.
    #[serde(default)]
    pub draining: bool,
}

/// Orders, each with its number.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Orders {
    /// In order.
    pub orders: Vec<(u64, WireOrder)>,
}

/// Results, and that something started.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Reports {
    /// Who.
    pub from: Sender,
    /// It takes no new work: what it gives back goes to others.
    #[serde(default)]
    pub draining: bool,
    /// What.
    pub reports: Vec<WireReport>,
}

/// Which log a piece is of, and where it begins. The bytes are the body of the call.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Piece {
    /// The worker.
    pub worker: String,
    /// This process of it.
    pub life: String,
    /// The life of the server that welcomed it.
    pub server: String,
    /// The run.
    pub run: String,
    /// The step's number.
    pub step: u16,
    /// The attempt.
    pub attempt: u32,
    /// How many bytes stand before it.
    pub at: u64,
}

/// The answer to a piece of a log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PieceTaken {
    /// How much of the log is here: the next piece begins there.
    pub length: u64,
}

/// A worker goes, and has delivered everything.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Leave {
    /// Who.
    pub from: Sender,
}

/// The answer to what needs none.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Done {}

/// Why a call was refused, with an HTTP status that is not 200.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Refusal {
    /// For a person.
    pub error: String,
}

/// The word for a group in a message for people, with the labels that were asked for.
pub(crate) fn described(group: &GroupName, labels: &[(String, String)]) -> String {
    if labels.is_empty() {
        return format!("the group {group}");
    }
    let labels: Vec<String> = labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
    format!("the group {group} with {}", labels.join(", "))
}
