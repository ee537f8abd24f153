use std::cmp::Ordering;

use super::{Error, Key, key::Keys};
use crate::Mode;

/// Keys in one request, those above them included: a check walks them all.
pub const ENTRIES_MAX: usize = 1 << 14;

/// One thing that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// To read a key and what lies below it.
    Read(Key),
    /// To write a key and what lies below it.
    Write(Key),
    /// To have a key alone.
    Claim(Key),
    /// To have so many units of a pool.
    Units(Key, u32),
}

/// One key of a request and how it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Use {
    /// The key.
    pub key: Key,
    /// How it is used.
    pub mode: Mode,
    /// Units of a pool, else 0.
    pub units: u32,
}

/// A set of uses: sorted, without duplicates, with what they mean for the keys above. Made by
/// [`Reservations::request`](super::Reservations::request).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    uses: Vec<Use>,
}

impl Request {
    pub(super) fn new(needs: &[Need], keys: &Keys) -> Result<Request, Error> {
        let mut uses: Vec<Use> = Vec::with_capacity(needs.len());
        for need in needs {
            let (key, mode, units) = match *need {
                Need::Read(key) => (key, Mode::Read, 0),
                Need::Write(key) => (key, Mode::Write, 0),
                Need::Claim(key) => (key, Mode::Claim, 0),
                Need::Units(key, units) => (key, Mode::Units, units),
            };
            let node = keys.node(key).ok_or(Error::Forgotten(key))?;
            match (mode, node.capacity) {
                (Mode::Units, None) => return Err(Error::NoPool(key)),
                (Mode::Units, Some(capacity)) if units > capacity => {
                    return Err(Error::BeyondCapacity { pool: key, units, capacity });
                }
                (Mode::Units, Some(_)) if units == 0 => continue,
                (Mode::Units, Some(_)) | (_, None) => {}
                (_, Some(_)) => return Err(Error::Pool),
            }
            uses.push(Use { key, mode, units });
            let (mut at, above) = (node.parent, mode.above());
            while let (Some(key), Some(mode)) = (at, above) {
                uses.push(Use { key, mode, units: 0 });
                at = keys.node(key).ok_or(Error::Forgotten(key))?.parent;
            }
            if uses.len() > 2 * ENTRIES_MAX {
                compact(&mut uses);
            }
        }
        compact(&mut uses);
        if uses.len() > ENTRIES_MAX { Err(Error::TooManyKeys) } else { Ok(Request { uses }) }
    }

    /// Its uses, each key once, in the order of their numbers.
    pub fn uses(&self) -> &[Use] {
        &self.uses
    }

    /// Whether two owners may not have these at the same time: the first key at fault, how this one and the other
    /// would use it. Pools are judged by [`Reservations::conflict`](super::Reservations::conflict).
    pub(super) fn conflict(
        &self,
        other: &Request,
        capacity: impl Fn(Key) -> u32,
    ) -> Option<(Key, Mode, Mode)> {
        let (mut left, mut right) = (self.uses.iter().peekable(), other.uses.iter().peekable());
        while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
            let units = u64::from(a.units) + u64::from(b.units);
            match a.key.cmp(&b.key) {
                Ordering::Less => drop(left.next()),
                Ordering::Greater => drop(right.next()),
                Ordering::Equal if a.mode.excludes(b.mode) || units > u64::from(capacity(a.key)) => {
                    return Some((a.key, a.mode, b.mode));
                }
                Ordering::Equal => drop((left.next(), right.next())),
            }
        }
        None
    }
}

/// Every key once, with its uses joined and its most units.
fn compact(uses: &mut Vec<Use>) {
    uses.sort_unstable();
    uses.dedup_by(|next, kept| {
        let same = next.key == kept.key;
        if same {
            kept.mode = kept.mode.joined(next.mode);
            kept.units = kept.units.max(next.units);
        }
        same
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicates_and_overlaps_leave_the_strongest() {
        use Mode::*;
        let mut keys = Keys::default();
        let a = keys.intern(["a"]).unwrap();
        let ab = keys.intern(["a", "b"]).unwrap();
        let pool = keys.intern(["gpu"]).unwrap();
        keys.node_mut(pool).unwrap().capacity = Some(4);
        let check = |needs: &[Need], expected: &[(Key, Mode)]| {
            let request = Request::new(needs, &keys).unwrap();
            let uses: Vec<_> = request.uses().iter().map(|at| (at.key, at.mode)).collect();
            assert_eq!(uses, expected, "{needs:?}");
        };
        check(&[Need::Read(a), Need::Read(a)], &[(a, Read)]);
        check(&[Need::Read(a), Need::Write(a), Need::Claim(a)], &[(a, Claim)]);
        check(&[Need::Write(ab)], &[(a, WriteBelow), (ab, Write)]);
        check(&[Need::Read(a), Need::Write(ab)], &[(a, ReadWriteBelow), (ab, Write)]);
        check(&[Need::Write(ab), Need::Write(a)], &[(a, Write), (ab, Write)]);
        check(&[Need::Units(pool, 1), Need::Units(pool, 3), Need::Units(pool, 2)], &[(pool, Units)]);
        check(&[Need::Units(pool, 0)], &[]);
        check(&[], &[]);
        let request = Request::new(&[Need::Units(pool, 1), Need::Units(pool, 3)], &keys).unwrap();
        assert_eq!(request.uses()[0].units, 3);
        assert_eq!(Request::new(&[Need::Read(pool)], &keys), Err(Error::Pool));
        assert_eq!(Request::new(&[Need::Units(a, 1)], &keys), Err(Error::NoPool(a)));
        assert_eq!(Request::new(&[Need::Read(Key(99))], &keys), Err(Error::Forgotten(Key(99))));
        assert_eq!(
            Request::new(&[Need::Units(pool, 5)], &keys),
            Err(Error::BeyondCapacity { pool, units: 5, capacity: 4 })
        );
    }
}
