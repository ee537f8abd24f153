//! Who used which resource this time, by keys that are hashed when they are used?

use std::sync::Arc;

use crate::Phase;
use crate::footprint::Footprint;
use crate::sieve::{Sieve, WANTS_MAX};
use crate::table::{Open, Place, Table};
use crate::wanted::{Span, Want, Wanted};

/// Footprints that are asked one by one before it is known how many are refused.
const SAMPLE: usize = 1 << 8;

/// From so many wants on all are [sifted](Sieve) at once: when hardly any of the sample are refused, and when many are. Where
/// most are, it is cheaper to stop each at the first key that is taken.
const FEW_REFUSED: usize = 1 << 13;
const MANY_REFUSED: usize = 1 << 18;

/// Footprints for which room is made at once.
const TOGETHER: usize = 64;

/// What was admitted this time.
#[derive(Default)]
pub(crate) struct Marks {
    table: Table,
    sieve: Sieve,
    /// Whom the sieve admitted, and who was asked. The table is told when somebody else comes, which mostly nobody does.
    sifted: Option<Arc<Wanted>>,
    admitted: Vec<u64>,
    /// What the footprint at hand wants, and where its keys belong.
    wants: Vec<Want>,
    places: Vec<Place>,
}

impl Marks {
    /// Forgets all reservations.
    pub(crate) fn begin(&mut self) {
        self.table.begin();
        self.sifted = None;
    }

    /// Admits a footprint if nothing that was admitted conflicts with it; else says at which key something does.
    pub(crate) fn reserve(&mut self, footprint: &Footprint) -> Option<usize> {
        self.settle();
        let mut wants = std::mem::take(&mut self.wants);
        wants.clear();
        footprint.add_wants(&mut wants);
        if self.places.len() < wants.len() {
            self.places.resize(wants.len(), Place::NONE);
        }
        let stopped = admit(&mut self.table.open(wants.len()), &mut self.places, &wants);
        self.wants = wants;
        stopped
    }

    /// Asks for all wants in order and notes what comes of it. Says how many were admitted.
    pub(crate) fn reserve_all(&mut self, wanted: &Arc<Wanted>, phases: &mut [Phase]) -> usize {
        self.settle();
        let (spans, len) = (wanted.in_order(), wanted.all().len());
        let may_sift = self.table.is_empty() && (FEW_REFUSED..=WANTS_MAX).contains(&len);
        let sample = spans.len().min(if may_sift { SAMPLE } else { usize::MAX });
        let admitted = self.admit_all(wanted, &spans[..sample], phases);
        if may_sift && len >= sift_min(admitted, sample) {
            self.table.begin();
            self.sifted = Some(Arc::clone(wanted));
            self.sieve.reserve_all(wanted, &mut self.admitted);
            return note(&self.admitted, phases);
        }
        admitted + self.admit_all(wanted, &spans[sample..], &mut phases[sample..])
    }

    fn admit_all(&mut self, wanted: &Wanted, spans: &[Span], phases: &mut [Phase]) -> usize {
        let (least, most) = wanted.lens();
        if self.places.len() < most as usize {
            self.places.resize(most as usize, Place::NONE);
        }
        let places = &mut self.places;
        // Short footprints of one length are so usual that they are worth a way of their own. There, another length does not
        // occur, and to refuse it would be the safe answer.
        match (least, most) {
            (1, 1) => admit_those(&mut self.table, wanted, spans, phases, |table, wants| match wants {
                [want] => admit_one(table, want),
                _ => false,
            }),
            (4, 4) => admit_those(&mut self.table, wanted, spans, phases, |table, wants| match wants {
                [a, b, c, d] => admit_four(table, [a, b, c, d]),
                _ => false,
            }),
            _ => admit_those(&mut self.table, wanted, spans, phases, |table, wants| {
                admit(table, places, wants).is_none()
            }),
        }
    }

    /// Tells the table whom the sieve admitted.
    #[inline]
    fn settle(&mut self) {
        if let Some(wanted) = self.sifted.take() {
            self.mark_sifted(&wanted);
        }
    }

    #[cold]
    fn mark_sifted(&mut self, wanted: &Wanted) {
        for (at, &span) in wanted.in_order().iter().enumerate() {
            if self.admitted[at / 64] >> (at % 64) & 1 == 1 {
                wanted.get(span).iter().for_each(|want| self.table.mark(want));
            }
        }
    }
}

/// Asks for all in order and notes what comes of it. Says how many were admitted.
#[inline(always)]
fn admit_those(
    table: &mut Table,
    wanted: &Wanted,
    spans: &[Span],
    phases: &mut [Phase],
    mut admit: impl FnMut(&mut Open, &[Want]) -> bool,
) -> usize {
    let mut admitted = 0;
    for (spans, phases) in spans.chunks(TOGETHER).zip(phases.chunks_mut(TOGETHER)) {
        let mut table = table.open(spans.iter().map(|span| span.len as usize).sum());
        for (&span, phase) in spans.iter().zip(phases) {
            if admit(&mut table, wanted.get(span)) {
                *phase = Phase::Reserved;
                admitted += 1;
            } else {
                *phase = Phase::Aborted;
            }
        }
    }
    admitted
}

/// Admits who wants one key.
#[inline(always)]
fn admit_one(table: &mut Open, want: &Want) -> bool {
    let Some(place) = table.find(want) else { return false };
    table.take(want, place);
    true
}

/// Admits who wants four. Checks everything, then marks everything.
#[inline(always)]
fn admit_four(table: &mut Open, wants: [&Want; 4]) -> bool {
    let mut places = [Place::NONE; 4];
    for (want, place) in wants.into_iter().zip(&mut places) {
        let Some(found) = table.find_in_two(want) else { return false };
        *place = found;
    }
    wants.into_iter().zip(places).for_each(|(want, place)| table.take(want, place));
    true
}

/// Admits one if nothing stops it; else says which. Checks everything, then marks everything.
#[inline(always)]
fn admit(table: &mut Open, places: &mut [Place], wants: &[Want]) -> Option<usize> {
    for (at, (want, place)) in wants.iter().zip(&mut *places).enumerate() {
        match table.find(want) {
            Some(found) => *place = found,
            None => return Some(at),
        }
    }
    wants.iter().zip(places).for_each(|(want, place)| table.take(want, *place));
    None
}

/// From how many wants on it pays to sift, after a sample.
fn sift_min(admitted: usize, asked: usize) -> usize {
    match admitted * 4 {
        most if most >= asked * 3 => FEW_REFUSED,
        some if some >= asked => MANY_REFUSED,
        _ => usize::MAX,
    }
}

/// Notes who was admitted, by words of bits, and says how many.
fn note(admitted: &[u64], phases: &mut [Phase]) -> usize {
    for (&bits, phases) in admitted.iter().zip(phases.chunks_mut(64)) {
        for (at, phase) in phases.iter_mut().enumerate() {
            *phase = if bits >> at & 1 == 1 { Phase::Reserved } else { Phase::Aborted };
        }
    }
    admitted.iter().map(|bits| bits.count_ones() as usize).sum()
}

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
