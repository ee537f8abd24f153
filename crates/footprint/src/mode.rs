/// How a key is used. The order is that of strength, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Mode {
    /// Something below this key is read.
    ReadBelow,
    /// Something below this key is written or claimed.
    WriteBelow,
    /// The key and everything below it is read.
    Read,
    /// The key and everything below it is written.
    Write,
    /// The key is taken for one alone, as a port is. Excludes what a write excludes.
    Claim,
    /// Some units of a pool are taken. Whether they are there is a matter of counting, not of this rule.
    Units,
}

impl Mode {
    /// Whether two owners may not use one key in these ways at the same time. It is the one conflict rule.
    pub const fn excludes(self, other: Mode) -> bool {
        use Mode::*;
        match (self, other) {
            (Units, _) | (_, Units) => false,
            (Write | Claim, _) | (_, Write | Claim) => true,
            (Read, WriteBelow) | (WriteBelow, Read) => true,
            (ReadBelow | WriteBelow | Read, ReadBelow | WriteBelow | Read) => false,
        }
    }

    /// What the use of a key means for the keys above it.
    pub const fn above(self) -> Option<Mode> {
        match self {
            Mode::ReadBelow | Mode::Read => Some(Mode::ReadBelow),
            Mode::WriteBelow | Mode::Write | Mode::Claim => Some(Mode::WriteBelow),
            Mode::Units => None,
        }
    }

    /// Whether whoever has this needs no other besides it.
    pub(crate) const fn covers(self, other: Mode) -> bool {
        use Mode::*;
        matches!(
            (self, other),
            (ReadBelow, ReadBelow)
                | (WriteBelow, ReadBelow | WriteBelow)
                | (Read, ReadBelow | Read)
                | (Write, ReadBelow | WriteBelow | Read | Write)
                | (Claim, ReadBelow | WriteBelow | Read | Write | Claim)
                | (Units, Units)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::Mode::{self, *};

    const ALL: [Mode; 6] = [ReadBelow, WriteBelow, Read, Write, Claim, Units];

    #[test]
    fn each_pair_excludes_or_not() {
        // Rows and columns in the order of ALL.
        let table = ["000110", "001110", "010110", "111110", "111110", "000000"];
        for (a, row) in ALL.into_iter().zip(table) {
            for (b, cell) in ALL.into_iter().zip(row.chars()) {
                assert_eq!(a.excludes(b), cell == '1', "{a:?} {b:?}");
                assert_eq!(a.excludes(b), b.excludes(a), "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn what_covers_excludes_at_least_as_much() {
        for a in ALL {
            for b in ALL.into_iter().filter(|b| a.covers(*b)) {
                assert!(ALL.into_iter().all(|other| !b.excludes(other) || a.excludes(other)), "{a:?} {b:?}");
                assert!(b.above().is_none_or(|b| a.above().is_some_and(|a| a.covers(b))), "{a:?} {b:?}");
            }
        }
    }
}
