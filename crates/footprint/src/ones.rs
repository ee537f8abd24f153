//! Reserving for very many that want one key each.
//!
//! Whether such a one is admitted depends on those that want the same key and on nobody else. So the wants are scattered by
//! their hashes, and each part is asked on its own, beside a table that fits the nearer caches.

use crate::asked::TOGETHER;
use crate::parts::Parts;
use crate::taken::Taken;
use crate::wanted::Want;

/// Wants in a part: what they take fits the nearer caches.
const PART: usize = 1 << 12;

/// Parts at most: what is written to at once must fit the nearest cache.
const PARTS_MAX: usize = 1 << 8;

/// Asks for all, part by part. Its lists are used again and again.
#[derive(Default)]
pub(crate) struct Ones {
    parts: Parts<One>,
}

/// A want, and whose it is.
#[derive(Clone, Copy)]
struct One {
    want: Want,
    number: u32,
}

impl One {
    const NOBODY: One = One { want: Want::NOTHING, number: 0 };
}

impl Ones {
    /// Asks for all wants in order, of whom nobody was asked before and about so many will be admitted. Says by words of bits
    /// who was.
    pub(crate) fn reserve_all(
        &mut self,
        wants: &[Want],
        taken: &mut Taken,
        expected: usize,
        admitted: &mut Vec<u64>,
    ) {
        let parts = (wants.len() / PART).clamp(1, PARTS_MAX).next_power_of_two();
        let ones = wants.iter().enumerate().map(|(at, &want)| One { want, number: at as u32 });
        // By other bits than those by which they are looked for in the part.
        self.parts.scatter(parts, One::NOBODY, ones, |one| (one.want.hash() >> 40) as usize & (parts - 1));
        admitted.clear();
        admitted.resize(wants.len().div_ceil(TOGETHER), 0);
        for part in self.parts.iter() {
            taken.begin(expected / parts);
            for group in part.chunks(TOGETHER) {
                note(group, taken.admit_ones(group.iter().map(|one| &one.want)), admitted);
            }
        }
    }
}

/// Notes of those whose bits are set that they were admitted.
#[inline(always)]
fn note(group: &[One], bits: u64, admitted: &mut [u64]) {
    for (one, at) in group.iter().zip(0..) {
        if let Some(word) = admitted.get_mut(one.number as usize / TOGETHER) {
            *word |= (bits >> at & 1) << (one.number as usize % TOGETHER);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn each_part_is_asked_on_its_own() {
        let (mut ones, mut taken, mut admitted) = (Ones::default(), Taken::default(), Vec::new());
        // How many, how many keys there are, and of a hundred how many want the same.
        for (count, known, hot) in
            [(0, 1, 0), (1, 1, 0), (100, 60, 0), (30_000, 20_000, 0), (30_000, 900, 0), (30_011, 1 << 40, 60)]
        {
            for is_chosen in [false, true] {
                let wants: Vec<Want> = (0..count)
                    .map(|at| {
                        let chance = crate::mix::number(at);
                        let key = if chance % 100 < hot { 0 } else { (chance >> 20) % known };
                        Want::chosen(key, is_chosen && key % 2 == 0, chance >> 8 & 7)
                    })
                    .collect();
                // Who uses a key that somebody before uses is refused, unless both only read.
                let mut used: BTreeMap<Want, Want> = BTreeMap::new();
                let expected: Vec<bool> = wants
                    .iter()
                    .map(|want| match used.get(&want.read()) {
                        Some(before) if before.excludes(*want) => false,
                        _ => {
                            used.insert(want.read(), *want);
                            true
                        }
                    })
                    .collect();
                ones.reserve_all(&wants, &mut taken, used.len() / 2, &mut admitted);
                assert_eq!(admitted.len(), wants.len().div_ceil(64));
                for (at, expected) in expected.into_iter().enumerate() {
                    let is_admitted = admitted[at / 64] >> (at % 64) & 1 == 1;
                    assert_eq!(is_admitted, expected, "{at} of {count}, {known} keys, {hot}, {is_chosen}");
                }
            }
        }
    }
}
