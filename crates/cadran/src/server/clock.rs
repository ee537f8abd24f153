//! The only file that reads the clocks.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use cadran_core::{Millis, Now};

/// Both clocks of this process.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    started: Instant,
}

impl Clock {
    /// Starts the monotonic clock at zero.
    #[allow(clippy::disallowed_methods)] // this is where the clock is read
    pub fn start() -> Clock {
        Clock { started: Instant::now() }
    }

    /// Both clocks now.
    pub fn now(&self) -> Now {
        Now { wall: wall(), mono: self.uptime().as_millis() as Millis }
    }

    /// Since [`Clock::start`].
    pub fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    /// How long until the wall clock shows `target`, to the nanosecond; zero when it has passed.
    pub fn until_wall(&self, target: Millis) -> Duration {
        let target = Duration::from_millis(target.max(0) as u64);
        target.saturating_sub(since_epoch())
    }

    /// How long until the monotonic clock shows `target`; zero when it has passed.
    pub fn until_mono(&self, target: Millis) -> Duration {
        Duration::from_millis(target.max(0) as u64).saturating_sub(self.uptime())
    }
}

/// The wall clock in milliseconds.
pub fn wall() -> Millis {
    since_epoch().as_millis() as Millis
}

#[allow(clippy::disallowed_methods)] // this is where the clock is read
fn since_epoch() -> Duration {
    // Before 1970 only with a broken clock: then everything is far in the future, and nothing fires.
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
