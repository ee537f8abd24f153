use crate::Mode;

/// How many owners use one key in each way: four 32-bit counters in one word, so that a check is one `and`. Of a pool, the
/// word is the number of units taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts(u128);

const READ_BELOW: u128 = 1;
const WRITE_BELOW: u128 = 1 << 32;
const READ: u128 = 1 << 64;
const ALONE: u128 = 1 << 96;

/// The ways of use that have a counter each. The others are made of these.
const COUNTED: [(Mode, u128); 4] = [
    (Mode::ReadBelow, READ_BELOW),
    (Mode::WriteBelow, WRITE_BELOW),
    (Mode::Read, READ),
    (Mode::Write, ALONE),
];

/// What one user adds to the counters, by mode. Units are counted as a number.
const ONE: [u128; 7] = [READ_BELOW, WRITE_BELOW, READ, READ | WRITE_BELOW, ALONE, ALONE, 0];

/// Which counters must be zero for a user of each mode.
const FORBIDDEN: [u128; 7] = {
    use Mode::*;
    let modes = [ReadBelow, WriteBelow, Read, ReadWriteBelow, Write, Claim, Units];
    let mut forbidden = [0; 7];
    let mut at = 0;
    while at < 7 {
        let mut counter = 0;
        while counter < 4 {
            let (mode, one) = COUNTED[counter];
            if modes[at].excludes(mode) {
                forbidden[at] |= one * u32::MAX as u128;
            }
            counter += 1;
        }
        at += 1;
    }
    forbidden
};

impl Counts {
    pub(super) const ZERO: Counts = Counts(0);

    pub(super) fn is_zero(self) -> bool {
        self.0 == 0
    }

    pub(super) fn add(&mut self, mode: Mode, units: u32) {
        self.0 += ONE[mode as usize] + u128::from(units);
    }

    pub(super) fn subtract(&mut self, mode: Mode, units: u32) {
        self.0 -= ONE[mode as usize] + u128::from(units);
    }

    /// Users of both counts. Each counter has room for all owners there can be.
    pub(super) fn and(self, other: Counts) -> Counts {
        Counts(self.0 + other.0)
    }

    /// Whether any user excludes a user of this mode.
    #[inline]
    pub(super) fn excludes(self, mode: Mode) -> bool {
        self.0 & FORBIDDEN[mode as usize] != 0
    }

    /// Whether these users exclude each of those others.
    pub(super) fn excludes_all(self, others: Counts) -> bool {
        let stopped =
            |(mode, one): &(Mode, u128)| others.0 & (one * u128::from(u32::MAX)) == 0 || self.excludes(*mode);
        COUNTED.iter().all(stopped)
    }

    /// Of a pool: whether so many units are lacking. Whoever finds a pool untouched may have what it asked for, even when
    /// the capacity was lowered since: otherwise it would wait for ever.
    pub(super) fn lacks(self, units: u32, capacity: u32) -> bool {
        self.0 > 0 && self.0 + u128::from(units) > u128::from(capacity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counting_is_the_conflict_rule() {
        use Mode::*;
        let modes = [ReadBelow, WriteBelow, Read, ReadWriteBelow, Write, Claim, Units];
        for (number, mode) in modes.into_iter().enumerate() {
            assert_eq!(mode as usize, number);
            for other in modes {
                let mut counts = Counts::default();
                for _ in 0..3 {
                    counts.add(other, 0);
                    assert_eq!(counts.excludes(mode), mode.excludes(other), "{mode:?} {other:?}");
                }
                (0..3).for_each(|_| counts.subtract(other, 0));
                assert!(counts.is_zero());
            }
        }
    }
}
