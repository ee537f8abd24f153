//! Chance that repeats: one number decides everything.

/// Draws numbers from a seed (SplitMix64).
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    /// Dice for one thing of its own, named by some numbers: what happens to it does not depend on what else happens,
    /// so that a script with an act less is otherwise the same.
    pub(crate) fn of(parts: &[u64]) -> Dice {
        let mut dice = Dice(0x5eed);
        for part in parts {
            dice.0 ^= *part;
            dice.0 = dice.draw();
        }
        dice
    }

    pub(crate) fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// 0 up to `sides`, without it.
    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        ((u128::from(self.draw()) * u128::from(sides)) >> 64) as u64
    }

    /// From `low` up to `high`, both included.
    pub(crate) fn between(&mut self, low: i64, high: i64) -> i64 {
        low + self.roll((high - low + 1) as u64) as i64
    }

    /// True in so many of a hundred cases.
    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.roll(100) < percent
    }

    pub(crate) fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.roll(items.len() as u64) as usize]
    }
}
