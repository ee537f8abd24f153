//! Reserving for many footprints, in blocks.
//!
//! What the table holds when a block begins is found out for the first keys of all its footprints before anything is
//! decided, without a jump that depends on it: what must be fetched from memory is fetched at the same time, and no guess
//! can be wrong. Who is stopped then is stopped in any case. The others, nearly all of which are admitted, are asked once
//! more in their order, since those before them in the block have left marks meanwhile.
//!
//! Each pass is short, so that many of its rounds are under way at once.

use std::sync::Arc;

use crate::marks::{Mark, Marks, Slot};
use crate::wanted::{Span, Want, Wanted};

/// Footprints in a block: a word of bits.
const BLOCK: usize = 64;

/// Keys of each footprint that are looked for with the block: some where most are refused, since those that follow are then
/// not needed, else so many that most footprints have no more.
const FIRST_MIN: usize = 2;
const FIRST_MAX: usize = 16;

/// Keys in a block: what is noted of them fits the first cache.
const KEYS: usize = BLOCK * FIRST_MAX;

/// From here on a table is in memory rather than in the nearer caches.
const LARGE: usize = 1 << 17;

/// What is noted of the footprints of a block, and of their first keys.
pub(crate) struct Block {
    /// How many keys of a footprint are looked for, and how many there are in all.
    first: usize,
    len: usize,
    /// How much further on the keys of each footprint stand among all wants, and whose a key is.
    offsets: [u32; BLOCK],
    whose: [u8; KEYS],
    /// Where each key belongs if it is not in the table, and the mark that is to stand there.
    places: [u32; KEYS],
    marks: [u32; KEYS],
    /// What stands at the first two places of each.
    seen: [[u32; KEYS]; 2],
    /// One for each key that may be in the table, or whose place is not one of the first.
    doubts: [u8; KEYS],
    /// Places and marks of keys that are not looked for with the block.
    further: Vec<(u32, Mark)>,
}

impl Default for Block {
    fn default() -> Block {
        Block {
            first: FIRST_MAX,
            len: 0,
            offsets: [0; BLOCK],
            whose: [0; KEYS],
            places: [0; KEYS],
            marks: [0; KEYS],
            seen: [[0; KEYS]; 2],
            doubts: [0; KEYS],
            further: Vec::new(),
        }
    }
}

impl Marks {
    /// Asks for all wants in order. Tells `told` of one block after another how many it has, and by a bit for each who was
    /// admitted.
    pub(crate) fn reserve_all(&mut self, wanted: &Arc<Wanted>, mut told: impl FnMut(usize, u64)) {
        let base = self.known.share(wanted);
        let mut block = std::mem::take(&mut self.block);
        for spans in wanted.in_order().chunks(BLOCK) {
            self.make_room(spans.iter().map(|span| span.len as usize).sum());
            let Some(base) = base.filter(|_| !self.is_overfull) else {
                let closely = |at: usize| u64::from(self.admit_closely(wanted, spans[at], base)) << at;
                told(spans.len(), (0..spans.len()).map(closely).sum());
                continue;
            };
            block.hash(wanted, spans, self.now(), self.shift);
            block.see(&self.slots);
            block.doubt(self.now());
            let stopped = block.settle(self, wanted.all(), base);
            let free = !stopped & u64::MAX >> (BLOCK - spans.len());
            told(spans.len(), block.admit(self, wanted, spans, free, base));
            block.first = if stopped.count_ones() as usize * 2 > spans.len() { FIRST_MIN } else { FIRST_MAX };
        }
        self.block = block;
    }

    /// Asks for one footprint, key by key. There is room for all of its block.
    #[inline(never)]
    fn admit_closely(&mut self, wanted: &Wanted, span: Span, base: Option<u32>) -> bool {
        let first = base.map(|base| base + span.start);
        self.reserve_in_room(wanted.get(span), first).is_none()
    }
}

impl Block {
    /// Hashes the first keys of all footprints.
    #[inline(never)]
    fn hash(&mut self, wanted: &Wanted, spans: &[Span], now: Mark, shift: u32) {
        let (mut len, first) = (0, self.first as u32);
        for (at, &span) in spans.iter().enumerate().take(BLOCK) {
            self.offsets[at] = span.start.wrapping_sub(len as u32);
            for want in wanted.get(span.first(first)) {
                let hash = want.key.hash();
                let number = len % KEYS;
                self.places[number] = (hash >> shift) as u32;
                self.marks[number] = Mark::new(now, want.used, hash).0;
                self.whose[number] = at as u8;
                len += 1;
            }
        }
        self.len = len.min(KEYS);
    }

    /// Fetches what stands where the keys belong.
    #[inline(never)]
    fn see(&mut self, slots: &[Slot]) {
        let [first, second] = &mut self.seen;
        for ((&at, first), second) in self.places[..self.len].iter().zip(first).zip(second) {
            let Some([one, two]) = slots.get(at as usize..).and_then(|from| from.first_chunk()) else {
                return;
            };
            (*first, *second) = (one.mark().0, two.mark().0);
        }
    }

    /// Notes of each key whether it is in doubt, and otherwise which of the first places is vacant.
    #[inline(never)]
    fn doubt(&mut self, now: Mark) {
        let [first, second] = &self.seen;
        let seen = first[..self.len].iter().zip(second).zip(&self.marks);
        let noted = self.doubts.iter_mut().zip(&mut self.places);
        for (((&first, &second), &mark), (doubt, place)) in seen.zip(noted) {
            let (taken, taken_too) = (first >= now.0, second >= now.0);
            let is_alike = (first ^ mark) & !Mark::WRITTEN == 0;
            *doubt = u8::from(taken & (is_alike | taken_too));
            *place += u32::from(taken);
        }
        // They are looked at by eight.
        self.doubts[self.len..self.len.next_multiple_of(8)].fill(0);
    }

    /// Looks closely at the keys that are in doubt. Gives a bit for each footprint that is stopped.
    #[inline(never)]
    fn settle(&mut self, marks: &Marks, wants: &[Want], base: u32) -> u64 {
        if marks.slots.len() >= LARGE {
            self.expect(&marks.slots, wants, base);
        }
        let mut stopped = 0u64;
        let (eights, _) = self.doubts[..self.len.next_multiple_of(8)].as_chunks::<8>();
        for (from, eight) in eights.iter().enumerate() {
            for at in bits(u64::from_le_bytes(*eight)) {
                let number = from * 8 + at / 8;
                let whose = self.whose[number] as usize % BLOCK;
                let want = &wants[self.offsets[whose].wrapping_add(number as u32) as usize];
                let slot = marks.slots[self.places[number] as usize - 1];
                let (mark, known) = (Mark(self.marks[number]), slot.number().wrapping_sub(base));
                let stops = mark.is_stopped_by(slot.mark())
                    && wants.get(known as usize).is_some_and(|known| known.key == want.key);
                if !stops {
                    let (place, stamp) = marks.find(want.key.hash(), want.used, want.key);
                    if !marks.generation.stops(stamp, want.used.writes()) {
                        self.places[number] = place;
                        continue;
                    }
                }
                stopped |= 1 << whose;
            }
        }
        stopped
    }

    /// Has the keys that those in doubt may be on their way from memory. It changes nothing.
    #[inline(never)]
    fn expect(&self, slots: &[Slot], wants: &[Want], base: u32) {
        let mut seen = 0;
        for (&place, _) in self.places[..self.len].iter().zip(&self.doubts).filter(|(_, doubt)| **doubt != 0)
        {
            let number = slots[place as usize - 1].number().wrapping_sub(base);
            seen ^= wants.get(number as usize).map_or(0, |want| want.used.bits());
        }
        // What was seen is of no use; that it was fetched is.
        std::hint::black_box(seen);
    }

    /// Asks those that were not stopped in their order, and gives a bit for each that is admitted.
    #[inline(never)]
    fn admit(&mut self, marks: &mut Marks, wanted: &Wanted, spans: &[Span], free: u64, base: u32) -> u64 {
        let now = marks.now();
        let mut admitted = free;
        for at in bits(free) {
            let span = spans[at];
            let start = span.start.wrapping_sub(self.offsets[at]) as usize;
            let range = start..start + self.first.min(span.len as usize);
            let places = &self.places[range.clone()];
            let is_vacant =
                |place: &u32| marks.slots.get(*place as usize).is_some_and(|slot| slot.mark() < now);
            if !places.iter().all(is_vacant) {
                // By the same key, used in a way that allows it, or by another of this block.
                admitted ^= u64::from(!marks.admit_closely(wanted, span, Some(base))) << at;
                continue;
            }
            let has_further = places.len() < span.len as usize;
            if has_further && !look_further(&mut self.further, marks, &wanted.get(span)[places.len()..]) {
                admitted ^= 1 << at;
                continue;
            }
            marks.len += span.len as usize;
            let (mut lost, mut number) = (false, base + span.start);
            for (&place, &mark) in places.iter().zip(&self.marks[range]) {
                lost |= !marks.take(place, Mark(mark), number, now);
                number += 1;
            }
            if has_further {
                for &(place, mark) in &self.further {
                    lost |= !marks.take(place, mark, number, now);
                    number += 1;
                }
            }
            if lost {
                mark_again(marks, wanted, span, base);
            }
        }
        admitted
    }
}

/// Looks for keys that were not looked for with the block. Says whether nothing stops them.
#[inline(never)]
fn look_further(places: &mut Vec<(u32, Mark)>, marks: &Marks, wants: &[Want]) -> bool {
    let now = marks.now();
    places.clear();
    for &Want { key, used } in wants {
        let hash = key.hash();
        let (home, mark) = ((hash >> marks.shift) as usize, Mark::new(now, used, hash));
        let [first, second] = [marks.slots[home].mark(), marks.slots[home + 1].mark()];
        let taken = first >= now;
        let mut place = home as u32 + u32::from(taken);
        if taken & (first.may_be(mark) | (second >= now)) {
            let (found, stamp) = marks.find(hash, used, key);
            if marks.generation.stops(stamp, used.writes()) {
                return false;
            }
            place = found;
        }
        places.push((place, mark));
    }
    true
}

/// Marks all keys of a footprint, some of which are marked already: one is used by others as well, or lost its place to
/// another of the same footprint.
#[inline(never)]
fn mark_again(marks: &mut Marks, wanted: &Wanted, span: Span, base: u32) {
    for (&want, number) in wanted.get(span).iter().zip(base + span.start..) {
        marks.mark(want, Some(number));
    }
}

/// The numbers of the bits that are set.
#[inline]
fn bits(mut word: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let at = (word != 0).then(|| word.trailing_zeros() as usize);
        word &= word.wrapping_sub(1);
        at
    })
}
