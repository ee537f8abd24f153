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
    /// The key and everything below it is read, and something below it is written or claimed.
    ReadWriteBelow,
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
            (ReadBelow, _) | (_, ReadBelow) => false,
            (ReadWriteBelow, _) | (_, ReadWriteBelow) => true,
            (Read, WriteBelow) | (WriteBelow, Read) => true,
            (Read, Read) | (WriteBelow, WriteBelow) => false,
        }
    }

    /// What the use of a key means for the keys above it.
    pub const fn above(self) -> Option<Mode> {
        match self {
            Mode::ReadBelow | Mode::Read => Some(Mode::ReadBelow),
            Mode::WriteBelow | Mode::ReadWriteBelow | Mode::Write | Mode::Claim => Some(Mode::WriteBelow),
            Mode::Units => None,
        }
    }

    /// The use of one owner that uses a key in both ways.
    pub const fn joined(self, other: Mode) -> Mode {
        match (self, other) {
            (Mode::Read, Mode::WriteBelow) | (Mode::WriteBelow, Mode::Read) => Mode::ReadWriteBelow,
            (one, other) if (one as u8) < (other as u8) => other,
            (one, _) => one,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Mode::{self, *};

    const ALL: [Mode; 7] = [ReadBelow, WriteBelow, Read, ReadWriteBelow, Write, Claim, Units];

    #[test]
    fn each_pair_excludes_or_not() {
        // Rows and columns in the order of ALL.
        let table = ["0000110", "0011110", "0101110", "0111110", "1111110", "1111110", "0000000"];
        for (a, row) in ALL.into_iter().zip(table) {
            for (b, cell) in ALL.into_iter().zip(row.chars()) {
                assert_eq!(a.excludes(b), cell == '1', "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn a_joined_use_excludes_what_either_excludes() {
        let uses = &ALL[..6];
        for &a in uses {
            for &b in uses {
                let both = a.joined(b);
                assert_eq!(both, b.joined(a));
                for &other in uses {
                    let either = a.excludes(other) || b.excludes(other);
                    assert_eq!(both.excludes(other), either, "{a:?} {b:?} {other:?}");
                }
            }
        }
    }
}
