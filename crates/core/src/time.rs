use crate::Millis;

/// One reading of both clocks, taken together at the edge.
///
/// Dues and records use `wall`. Waits (retry intervals, time limits) use `mono`, so that a stepped wall clock
/// neither kills a healthy run nor keeps a sick one alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Milliseconds since the epoch, UTC. May jump either way.
    pub wall: Millis,
    /// Milliseconds since some fixed moment of this process. Never goes back.
    pub mono: Millis,
}

impl Now {
    /// A reading where both clocks agree: handy in tests and simulations.
    pub const fn at(millis: Millis) -> Now {
        Now { wall: millis, mono: millis }
    }
}
