//! Chance that repeats: xorshift, from a seed that a failing test prints.

use std::time::Duration;

pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Chance {
        // Small seeds differ in a few bits only; zero would stay zero.
        Chance(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit.max(1)
    }

    /// True in so many of a hundred cases.
    pub fn percent(&mut self, share: u64) -> bool {
        self.below(100) < share
    }

    pub fn between(&mut self, from: Duration, to: Duration) -> Duration {
        from + Duration::from_millis(self.below((to - from).as_millis() as u64))
    }
}
