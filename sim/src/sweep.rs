//! Is there exactly one record for every due? One sweep over sorted lists with a heap of open stretches.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use cadran_core::Millis;

/// A recorded stretch of dues that did not run: so many, between two instants, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stretch {
    pub(crate) first: Millis,
    pub(crate) last: Millis,
    pub(crate) count: u64,
}

/// What is wrong with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// Nothing is recorded of this due.
    Lost(Millis),
    /// More than one run is recorded of this due.
    Twice(Millis),
    /// A skip that counts more than there was.
    Empty(Stretch),
}

/// Compares dues with what is recorded of them. All lists are sorted.
///
/// A due with a mark of its own is that mark's. One without takes its place in the stretch that closes first: stretches
/// may overlap, and what closes later can still serve a later due, so this finds an assignment whenever there is one.
/// `spare` marks (runs of restart schedules) stand for a due that has nothing else. Marks that belong to no due are
/// handed out.
pub(crate) fn sweep(
    dues: &[Millis],
    marks: &[Millis],
    spare: &[Millis],
    stretches: &[Stretch],
    extra: &mut Vec<Millis>,
) -> Result<(), Wrong> {
    let mut open: BinaryHeap<Reverse<(Millis, usize)>> = BinaryHeap::new();
    let mut left: Vec<u64> = stretches.iter().map(|stretch| stretch.count).collect();
    let (mut mark, mut next) = (0, 0);
    for stretch in stretches {
        let ends = [stretch.first, stretch.last].iter().all(|end| dues.binary_search(end).is_ok());
        if !ends || stretch.count == 0 {
            return Err(Wrong::Empty(*stretch));
        }
    }
    for &due in dues {
        while next < stretches.len() && stretches[next].first <= due {
            open.push(Reverse((stretches[next].last, next)));
            next += 1;
        }
        while let Some(&Reverse((last, at))) = open.peek()
            && last < due
        {
            open.pop();
            if left[at] > 0 {
                return Err(Wrong::Empty(stretches[at]));
            }
        }
        while mark < marks.len() && marks[mark] < due {
            extra.push(marks[mark]);
            mark += 1;
        }
        if marks.get(mark) == Some(&due) {
            mark += 1;
            if marks.get(mark) == Some(&due) {
                return Err(Wrong::Twice(due));
            }
            continue;
        }
        match open.peek() {
            Some(&Reverse((_, at))) => {
                left[at] -= 1;
                if left[at] == 0 {
                    open.pop();
                }
            }
            None if spare.binary_search(&due).is_ok() => {}
            None => return Err(Wrong::Lost(due)),
        }
    }
    extra.extend(&marks[mark..]);
    match left.iter().position(|&left| left > 0) {
        Some(at) => Err(Wrong::Empty(stretches[at])),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_due_needs_one_record_of_its_own() {
        let check = |dues: &[Millis],
                     marks: &[Millis],
                     stretches: &[(Millis, Millis, u64)],
                     expected: Result<&[Millis], Wrong>| {
            let stretches: Vec<Stretch> =
                stretches.iter().map(|&(first, last, count)| Stretch { first, last, count }).collect();
            let mut extra = Vec::new();
            let found = sweep(dues, marks, &[], &stretches, &mut extra).map(|()| extra.as_slice());
            assert_eq!(found, expected, "{dues:?} {marks:?} {stretches:?}");
        };
        check(&[], &[], &[], Ok(&[]));
        check(&[1, 2], &[1, 2], &[], Ok(&[]));
        check(&[1, 2], &[1], &[], Err(Wrong::Lost(2)));
        check(&[1, 2], &[1, 1, 2], &[], Err(Wrong::Twice(1)));
        check(&[1, 3], &[1, 2, 3, 4], &[], Ok(&[2, 4]));
        check(&[1, 2, 3], &[2], &[(1, 3, 2)], Ok(&[]));
        check(&[1, 2, 3], &[2], &[(1, 3, 1)], Err(Wrong::Lost(3)));
        check(&[1, 2, 3], &[2], &[(1, 3, 3)], Err(Wrong::Empty(Stretch { first: 1, last: 3, count: 3 })));
        // Two stretches one inside the other, in either order of closing.
        check(&[1, 2, 3, 4], &[], &[(1, 4, 2), (2, 3, 2)], Ok(&[]));
        check(&[1, 2, 3, 4], &[], &[(1, 3, 2), (2, 4, 2)], Ok(&[]));
        check(&[1, 2, 3, 4], &[], &[(1, 2, 1), (2, 4, 2)], Err(Wrong::Lost(4)));
        // A stretch that begins or ends where nothing is due.
        check(&[1, 3], &[1], &[(2, 3, 1)], Err(Wrong::Empty(Stretch { first: 2, last: 3, count: 1 })));
    }

    #[test]
    fn a_spare_mark_stands_in() {
        let mut extra = Vec::new();
        assert_eq!(sweep(&[1, 2], &[1], &[2, 9], &[], &mut extra), Ok(()));
        assert!(extra.is_empty(), "{extra:?}");
    }
}
