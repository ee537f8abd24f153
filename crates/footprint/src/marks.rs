//! Who used which resource this time, by keys that are hashed when they are used?

use std::sync::Arc;

use crate::Phase;
use crate::asked::{Asked, TOGETHER};
use crate::footprint::{Footprint, MixedUse};
use crate::ones::Ones;
use crate::sieve::{Sieve, WANTS_MAX};
use crate::table::{Place, Table};
use crate::taken::Taken;
use crate::wanted::Wanted;

/// Footprints that are asked before it is known how many are refused.
const SAMPLE: usize = 1 << 8;

/// From so many wants on all are [sifted](Sieve) at once, when hardly any of the sample are refused.
const FEW_REFUSED: usize = 1 << 13;

/// Taken keys that the nearer caches hold. Where many are refused, it is cheaper to stop each at the first key that is taken,
/// as long as no more than these will be: beyond, every look waits for farther memory, and all are sifted.
const NEAR: usize = 1 << 18;

/// The same of footprints of one key each, which can be asked [part by part](Ones).
const NEAR_ONES: usize = 1 << 16;

/// What was admitted this time.
#[derive(Default)]
pub(crate) struct Marks {
    table: Table,
    taken: Taken,
    ones: Ones,
    sieve: Sieve,
    /// Who was asked at once, and who of them was admitted. The table is told when somebody else comes, which mostly nobody
    /// does.
    together: Option<Arc<Wanted>>,
    admitted: Vec<u64>,
    /// What the footprint at hand wants, and where its keys belong.
    wants: Vec<MixedUse>,
    places: Vec<Place>,
}

impl Marks {
    /// Forgets all reservations.
    pub(crate) fn begin(&mut self) {
        self.table.begin();
        self.together = None;
    }

    /// Admits a footprint if nothing that was admitted conflicts with it; else says at which key something does.
    pub(crate) fn reserve(&mut self, footprint: &Footprint) -> Option<usize> {
        self.settle();
        self.wants.clear();
        for (used, keys) in footprint.uses() {
            self.wants.extend(keys.iter().map(|&key| MixedUse::new(used, key)));
        }
        self.admit()
    }

    /// Asks for all wants in order and notes what comes of it. Says how many were admitted.
    pub(crate) fn reserve_all(&mut self, wanted: &Arc<Wanted>, phases: &mut [Phase]) -> usize {
        self.settle();
        self.admitted.clear();
        let asked = wanted.asked();
        if self.table.is_empty() && asked.wants().len() <= WANTS_MAX {
            self.admit_together(asked);
            self.together = Some(Arc::clone(wanted));
        } else {
            self.admitted.resize(asked.len().div_ceil(TOGETHER), 0);
            for at in 0..asked.len() {
                self.wants.clear();
                self.wants.extend(wanted.mixed(at));
                self.admitted[at / TOGETHER] |= u64::from(self.admit().is_none()) << (at % TOGETHER);
            }
        }
        note(&self.admitted, phases)
    }

    /// Asks for all, of whom nobody was asked before.
    fn admit_together(&mut self, asked: &Asked) {
        let (sample, wants, each) = (asked.len().min(SAMPLE), asked.wants().len(), asked.each());
        let mut groups = asked.groups();
        self.taken.begin(asked.count(sample));
        let first = groups.by_ref().take(SAMPLE / TOGETHER);
        self.admitted.extend(first.map(|group| self.taken.admit(group, each, false)));
        if asked.len() == sample {
            return;
        }
        let admitted: usize = self.admitted.iter().map(|bits| bits.count_ones() as usize).sum();
        let few_are_refused = admitted * 4 >= sample * 3;
        let keys = wants / sample * admitted;
        if each == Some(1) && keys > NEAR_ONES && !few_are_refused {
            return self.ones.reserve_all(asked.wants(), &mut self.taken, keys, &mut self.admitted);
        }
        if keys > NEAR || (few_are_refused && wants >= FEW_REFUSED) {
            return self.sieve.reserve_all(asked, &mut self.admitted);
        }
        let most_are_refused = admitted * 4 < sample;
        // Who wants one key looks at one place, which may be a farther one if fewer share it.
        let roomy = if each == Some(1) { 2 } else { 1 };
        self.taken.expect(keys * roomy);
        self.admitted.extend(groups.map(|group| self.taken.admit(group, each, most_are_refused)));
    }

    /// Admits the footprint at hand if nothing stops it; else says which of its wants is stopped. Checks everything, then
    /// marks everything.
    fn admit(&mut self) -> Option<usize> {
        let mut table = self.table.open(self.wants.len());
        self.places.clear();
        for (at, want) in self.wants.iter().enumerate() {
            match table.find(want) {
                Some(place) => self.places.push(place),
                None => return Some(at),
            }
        }
        self.wants.iter().zip(&self.places).for_each(|(want, place)| table.take(want, *place));
        None
    }

    /// Tells the table who of those that were asked at once was admitted.
    #[inline]
    fn settle(&mut self) {
        if let Some(wanted) = self.together.take() {
            self.mark_together(&wanted);
        }
    }

    #[cold]
    fn mark_together(&mut self, wanted: &Wanted) {
        for at in 0..wanted.asked().len() {
            if self.admitted[at / TOGETHER] >> (at % TOGETHER) & 1 == 1 {
                wanted.mixed(at).for_each(|want| self.table.mark(&want));
            }
        }
    }
}

/// Notes who was admitted, by words of bits, and says how many.
fn note(admitted: &[u64], phases: &mut [Phase]) -> usize {
    let (eights, rest) = phases.as_chunks_mut();
    let mut bytes = admitted.iter().flat_map(|bits| bits.to_le_bytes());
    for (phases, byte) in eights.iter_mut().zip(&mut bytes) {
        *phases = PHASES[usize::from(byte)];
    }
    if let Some(byte) = bytes.next() {
        rest.copy_from_slice(&PHASES[usize::from(byte)][..rest.len()]);
    }
    admitted.iter().map(|bits| bits.count_ones() as usize).sum()
}

/// The phases of eight rewrites, by the bits of those that were admitted.
static PHASES: [[Phase; 8]; 256] = {
    let mut all = [[Phase::Aborted; 8]; 256];
    let mut bits = 0;
    while bits < 8 * 256 {
        if (bits / 8) >> (bits % 8) & 1 == 1 {
            all[bits / 8][bits % 8] = Phase::Reserved;
        }
        bits += 1;
    }
    all
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::footprint::hash;
    use crate::{Class, ResourceKey, Set};

    impl Marks {
        fn admits(&mut self, footprint: &Footprint) -> bool {
            self.reserve(footprint).is_none()
        }
    }

    fn footprint(keys: std::ops::Range<u64>) -> Footprint {
        keys.fold(Footprint::new(), |all, local| {
            all.with(Set::ALL[local as usize % 8], ResourceKey::new(1, local))
        })
    }

    #[test]
    fn reserve_scaling_is_linear_in_footprint_size() {
        // Counted, not timed: each key is looked for once, however many were admitted before.
        for admitted in [0, 10, 1_000] {
            let mut marks = Marks::default();
            marks.table.make_room(20_000);
            for at in 0..admitted {
                assert!(marks.admits(&footprint(at * 8..at * 8 + 8)));
            }
            for size in [1, 10, 100] {
                let before = marks.table.looks.get();
                assert!(marks.admits(&footprint(size << 40..(size << 40) + size)));
                let again = marks.table.looks.get() - before - size;
                // A key that lost its place to another of the same footprint is looked for again.
                assert!(again <= size / 4 + 1, "{admitted} {size}: {again}");
            }
        }
    }

    #[test]
    fn chosen_keys_are_looked_for_in_bounded_places() {
        // Keys whose hashes agree in the bits that choose the place, found by trying.
        let mut marks = Marks::default();
        let colliding = (0..).map(|local| ResourceKey::new(9, local));
        let colliding = colliding.filter(|&key| hash(Class::Node, key) >> 56 == 0);
        let keys: Vec<ResourceKey> = colliding.take(200).collect();
        for &key in &keys {
            assert!(marks.admits(&Footprint::new().with(Set::NodeWrites, key)));
            assert!(!marks.admits(&Footprint::new().with(Set::NodeReads, key)));
        }
        for &key in &keys {
            assert!(!marks.admits(&Footprint::new().with(Set::NodeReads, key)));
            assert!(marks.admits(&Footprint::new().with(Set::EdgeReads, key)));
        }
        marks.begin();
        assert!(keys.iter().all(|&key| marks.admits(&Footprint::new().with(Set::NodeReads, key))));
    }

    #[test]
    fn what_is_not_used_any_more_makes_room() {
        let mut marks = Marks::default();
        for tick in 0..1_000 {
            assert!(marks.admits(&footprint(tick * 16..tick * 16 + 16)));
            assert!(!marks.admits(&footprint(tick * 16..tick * 16 + 16)));
            marks.begin();
        }
        assert_eq!(marks.table.places(), Table::default().places());
    }
}
