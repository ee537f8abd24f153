//! What is marked on one key: how many use it in which way, packed so that a check is one `and`.

use crate::Mode;
use crate::chains::NONE;

/// Bits of a counter: three of them, and one bit for the one that has a key alone.
const COUNT_BITS: u32 = 21;

/// Owners at once, whatever the limits say: the counters of a key end there.
pub const OWNERS_MAX: usize = (1 << COUNT_BITS) - 1;

/// The line of a key that is forgotten.
pub(crate) const FORGOTTEN: u32 = NONE - 1;

const READ_BELOW: u64 = 1;
const WRITE_BELOW: u64 = 1 << COUNT_BITS;
const READ: u64 = 1 << (2 * COUNT_BITS);
pub(crate) const ALONE: u64 = 1 << (3 * COUNT_BITS);

/// All ways to use a key, in the order of their numbers.
pub(crate) const MODES: [Mode; 7] = [
    Mode::ReadBelow,
    Mode::WriteBelow,
    Mode::Read,
    Mode::ReadWriteBelow,
    Mode::Write,
    Mode::Claim,
    Mode::Units,
];

/// What one user adds to the counters, by mode. Units are counted otherwise.
pub(crate) const ONE: [u64; 7] = [READ_BELOW, WRITE_BELOW, READ, READ | WRITE_BELOW, ALONE, ALONE, 0];

/// The counters that one user of a mode adds to, whole.
pub(crate) const COUNTERS: [u64; 7] = {
    let all = OWNERS_MAX as u64;
    let (below, write_below, read) = (READ_BELOW * all, WRITE_BELOW * all, READ * all);
    [below, write_below, read, read | write_below, ALONE, ALONE, 0]
};

/// Which counters must be zero, by mode: those of the modes it excludes.
pub(crate) const FORBIDS: [u64; 7] = forbids();

const fn forbids() -> [u64; 7] {
    // A joined use excludes what either excludes, so the simple ones say all.
    let simple = [Mode::ReadBelow, Mode::WriteBelow, Mode::Read, Mode::Write];
    let mut forbids = [0; 7];
    let mut mode = 0;
    while mode < 7 {
        let mut other = 0;
        while other < 4 {
            if MODES[mode].excludes(simple[other]) {
                forbids[mode] |= COUNTERS[simple[other] as usize];
            }
            other += 1;
        }
        mode += 1;
    }
    forbids
}

/// What is marked on one key. Sixteen bytes, four to a cache line.
#[derive(Clone, Copy)]
pub(crate) struct Cell {
    /// Users by mode; of a pool, units taken.
    pub(crate) held: u64,
    /// The first of the ring of entries that hold it. Those that only use something below stand last, so the first is in
    /// the way of whoever is stopped by any.
    pub(crate) head: u32,
    /// Where its waiters are noted, and the capacity of a pool.
    pub(crate) line: u32,
}

impl Cell {
    pub(crate) const FREE: Cell = Cell { held: 0, head: NONE, line: NONE };
    pub(crate) const GONE: Cell = Cell { held: 0, head: NONE, line: FORGOTTEN };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_is_the_conflict_rule() {
        for (number, mode) in MODES.into_iter().enumerate() {
            assert_eq!(mode as usize, number);
            for other in MODES {
                let both = ONE[other as usize] & FORBIDS[mode as usize] != 0;
                assert_eq!(both, mode.excludes(other), "{mode:?} {other:?}");
                let many = ONE[other as usize].wrapping_mul(OWNERS_MAX as u64);
                assert!(many & FORBIDS[mode as usize] != 0 || !mode.excludes(other), "{mode:?} {other:?}");
            }
        }
        assert_eq!(size_of::<Cell>(), 16);
    }
}
