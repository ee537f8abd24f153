use std::fmt;

use super::{DEPTH_MAX, ENTRIES_MAX, Key, Owner};
use crate::Mode;

/// Where an owner stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It has all it asked for.
    Holds,
    /// It waits. [`Reservations::why`](super::Reservations::why) says for what.
    Waits,
}

/// What stops an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// The key at fault. It may lie above the one that was asked for.
    pub key: Key,
    /// How it was to be used.
    pub wanted: Mode,
    /// How the holder uses it.
    pub mode: Mode,
    /// One of those in the way.
    pub holder: Owner,
    /// That one does not run yet: it has a ticket, and is before this one.
    pub in_line: bool,
}

/// Why an owner waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Why {
    /// What stops it now.
    pub blocked: Blocked,
    /// Whether it has a ticket.
    pub ticket: bool,
    /// How many of its kind wait before it for this key, counted up to [`PLACE_MAX`].
    pub place: u32,
    /// Tries it lost.
    pub tries: u32,
}

/// Places in line are counted up to here: beyond, the exact number helps nobody and takes time.
pub const PLACE_MAX: u32 = 1_000;

/// Why something cannot be done at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// A path without segments, or with an empty one.
    EmptySegment,
    /// A path of more than [`DEPTH_MAX`] segments.
    TooDeep,
    /// More than [`ENTRIES_MAX`] keys in one request.
    TooManyKeys,
    /// No room for another key or another owner.
    Full,
    /// The key was forgotten, or is of another place.
    Forgotten(Key),
    /// Units of something that has no capacity.
    NoPool(Key),
    /// A pool is counted: it is neither read nor written, and nothing lies below it.
    Pool,
    /// More units than there are, ever.
    BeyondCapacity {
        /// The pool.
        pool: Key,
        /// What was asked for.
        units: u32,
        /// What there is.
        capacity: u32,
    },
    /// The owner holds or waits already.
    OwnerKnown(Owner),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::EmptySegment => write!(f, "a key needs a name: no part of its path may be empty"),
            Error::TooDeep => write!(f, "a path has at most {DEPTH_MAX} parts"),
            Error::TooManyKeys => {
                write!(f, "a request has at most {ENTRIES_MAX} keys, those above them included")
            }
            Error::Full => write!(f, "there is no room for more; try again when others have ended"),
            Error::Forgotten(key) => write!(f, "key {} is not known any more; ask for its path again", key.0),
            Error::NoPool(key) => write!(f, "key {} has no capacity; declare it before taking units", key.0),
            Error::Pool => write!(f, "a pool is counted: take units of it, do not read, write or divide it"),
            Error::BeyondCapacity { units, capacity, .. } => {
                write!(f, "{units} units can never be had of a capacity of {capacity}; ask for less")
            }
            Error::OwnerKnown(owner) => write!(f, "owner {owner} holds or waits already; release it first"),
        }
    }
}

impl std::error::Error for Error {}

/// Why an owner did not get its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Somebody is in the way; later it may be different.
    Blocked(Blocked),
    /// It cannot be done.
    Error(Error),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        Refusal::Error(error)
    }
}
