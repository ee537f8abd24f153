//! Reserving for all that was drained at once: which keys do several want?
//!
//! Most keys are wanted once, and such a key decides nothing. So the wants of all footprints are hashed and scattered into
//! parts that fit the nearer caches. Part by part most are left out by counting hashes, twice and by other bits of them. Equal
//! ones are found among the rest, and only keys that are wanted again get a number and a stamp. The footprints are then asked
//! in their order, about those keys alone.
//!
//! Wants are told apart by a part of their hashes. The first footprint that is asked about a number says which key it stands
//! for; that another only looks alike is found out when it is asked about, and then it is kept in an ordered map.

use std::collections::BTreeMap;

use crate::asked::{Asked, Group};
use crate::parts::Parts;
use crate::stamps::KeyUse;
use crate::wanted::Want;

/// Wants in a part: what they are counted by fits the nearer caches.
const PART: usize = 1 << 13;

/// As many parts as are scattered into at no cost: what is written to at once fits the nearest cache.
const PARTS: usize = 1 << 8;

/// Wants in a part from which on more parts are worth their cost.
const PART_MAX: usize = 1 << 15;

/// Parts at most: the pages of what is written to at once must fit what the processor knows of pages.
const PARTS_MAX: usize = 1 << 9;

/// Counters for each want of a part, at least: of fair hashes, one in eight is taken.
const COUNTERS_PART: usize = 8;

/// Counters for each want that is left, when they are counted again.
const COUNTERS_AGAIN: usize = 4;

/// So many wants at most are left out by counting all of them at once, without scattering them: their counters fit the nearer
/// caches as they are.
const WHOLE_MAX: usize = 1 << 15;

/// Counters for each want then, at least.
const COUNTERS_EACH: usize = 4;

/// Places in the table for each want of a part, at least.
const PLACES: usize = 2;

/// Places looked at for one key. Fair hashes need one or two; beyond this they were chosen to collide, and an ordered map is
/// asked.
const LOOKS_MAX: usize = 64;

/// Bits of a want's number.
const NUMBER_BITS: u32 = 28;
const WRITES_SHIFT: u32 = NUMBER_BITS + 2;
const HASH_SHIFT: u32 = WRITES_SHIFT + 1;

/// How many wants are sifted at most.
pub(crate) const WANTS_MAX: usize = (1 << NUMBER_BITS) - 1;

/// A want, packed: 33 bits of its hash, whether it writes, its class, and its number, counted from one. The bits of a use
/// stand side by side as they do here.
#[derive(Clone, Copy)]
struct Sought(u64);

impl Sought {
    /// Nothing is sought: the place is vacant.
    const VACANT: Sought = Sought(0);

    #[inline]
    fn new(want: &Want, number: u64) -> Sought {
        let hash = want.hash() >> HASH_SHIFT << HASH_SHIFT;
        Sought(hash | u64::from(want.used().bits()) << NUMBER_BITS | number)
    }

    #[inline]
    fn number(self) -> usize {
        (self.0 & WANTS_MAX as u64) as usize - 1
    }

    #[inline]
    fn writes(self) -> u8 {
        (self.0 >> WRITES_SHIFT) as u8 & 1
    }

    /// How it uses the key of this number.
    #[inline]
    fn used(self, number: u32) -> KeyUse {
        KeyUse::new(number, self.writes())
    }

    /// Its part, by the first bits of its hash.
    #[inline]
    fn part(self, bits: u32) -> usize {
        // Of no bits at all, none; a shift by all of them would be none as well.
        (self.0 >> 1 >> (63 - bits)) as usize
    }

    /// The last bits that are kept of its hash, as a number below a power of two. The first ones say its part and where it is
    /// looked for.
    #[inline]
    fn last(self, end: usize) -> usize {
        (self.0 >> HASH_SHIFT) as usize & (end - 1)
    }

    /// Whether these may be of the same key.
    #[inline]
    fn may_be(self, other: Sought) -> bool {
        (self.0 ^ other.0) & !(1 << WRITES_SHIFT) < 1 << NUMBER_BITS
    }
}

/// Finds out what is wanted by several, and admits. Its lists are used again and again.
#[derive(Default)]
pub(crate) struct Sieve {
    /// What is sought by all.
    parts: Parts<Sought>,
    part: Part,
    /// Of each want the use of a key that several want, or of [nothing](NOTHING).
    uses: Vec<KeyUse>,
    shared: Shared,
}

/// The part at hand.
#[derive(Default)]
struct Part {
    /// How many want what, by a part of the hash, where all wants are one part.
    counters: Vec<u8>,
    /// Those that seem to be wanted by several come first; what stands behind them is of another time.
    several: Vec<Sought>,
    /// The first that sought each key, and the number of the key if it was not the only one.
    firsts: Vec<Sought>,
    numbers: Vec<u32>,
}

/// Keys that several want.
#[derive(Default)]
struct Shared {
    /// Their numbers end here.
    end: u32,
    /// Each such key, as the first who was asked about it says, and how it is used.
    keys: Vec<Want>,
    stamps: Vec<u8>,
    /// The same of keys that only look like one of those, or found no place. Keys that were chosen to collide end here.
    others: BTreeMap<Want, u8>,
}

/// The stamps of keys: nobody was asked about it yet, nobody admitted uses it, it is read. One more is written. With one
/// added for who wants to write, more than [`READ`] is a conflict.
const UNASKED: u8 = 0;
const FREE: u8 = 1;
const READ: u8 = 2;

/// What nobody else wants: free for everybody.
const NOTHING: KeyUse = KeyUse::read(0);

/// The number of keys that found no place.
const PLACELESS: u32 = 1;

impl Sieve {
    /// Asks for all wants in order, from the beginning. Says by words of bits who was admitted.
    pub(crate) fn reserve_all(&mut self, asked: &Asked, admitted: &mut Vec<u64>) {
        self.reserve_by(asked, admitted, asked.wants().len() <= WHOLE_MAX);
    }

    /// As [`reserve_all`](Sieve::reserve_all), as a whole or in parts.
    fn reserve_by(&mut self, asked: &Asked, admitted: &mut Vec<u64>, as_a_whole: bool) {
        let wants = asked.wants();
        self.uses.clear();
        self.uses.resize(wants.len(), NOTHING);
        self.shared.begin();
        if as_a_whole {
            let several = self.part.thin_out_whole(wants);
            self.part.sift(several, 0, &mut self.shared, &mut self.uses);
        } else {
            self.sift_parts(wants);
        }
        self.shared.make_room();
        admitted.clear();
        let Sieve { uses, shared, .. } = self;
        admitted.extend(asked.groups().map(|group| {
            let uses = &uses[group.range()];
            // Short footprints of one length are so usual that they have ways of their own.
            match asked.each() {
                Some(1) => shared.admit_equal::<1>(group, uses),
                Some(4) => shared.admit_equal::<4>(group, uses),
                _ => {
                    group.fetch();
                    shared.admit_all(group.split(uses).zip(group.footprints()))
                }
            }
        }));
    }

    /// Finds out part by part which keys several want.
    fn sift_parts(&mut self, wants: &[Want]) {
        let parts = (wants.len() / PART).min(PARTS).max(wants.len() / PART_MAX).clamp(1, PARTS_MAX);
        let parts = parts.next_power_of_two();
        let bits = parts.ilog2();
        let all = wants.iter().enumerate().map(|(at, want)| Sought::new(want, at as u64 + 1));
        self.parts.scatter(parts, Sought::VACANT, all, |sought| sought.part(bits));
        for part in self.parts.iter() {
            let left = self.part.thin_out(part, bits);
            let several = self.part.thin_again(left);
            self.part.sift(several, bits, &mut self.shared, &mut self.uses);
        }
    }
}

impl Part {
    /// As [`thin_out`](Part::thin_out), of all wants.
    #[inline(never)]
    fn thin_out_whole(&mut self, wants: &[Want]) -> usize {
        let counters = counters(&mut self.counters, wants.len() * COUNTERS_EACH);
        if self.several.len() < wants.len() {
            self.several.resize(wants.len(), Sought::VACANT);
        }
        for ((want, number), place) in wants.iter().zip(1..).zip(&mut self.several) {
            *place = Sought::new(want, number);
            count(counters, place.last(counters.len()));
        }
        self.keep_several(wants.len())
    }

    /// Leaves out what nobody else of the part can want, and says how many are left. `bits` of their hashes are all the same.
    #[inline(never)]
    fn thin_out(&mut self, part: &[Sought], bits: u32) -> usize {
        let counters = counters(&mut self.counters, part.len() * COUNTERS_PART);
        let shift = 64 - counters.len().ilog2();
        let counter = |sought: Sought| (sought.0 << bits >> shift) as usize;
        part.iter().for_each(|&sought| count(counters, counter(sought)));
        if self.several.len() < part.len() {
            self.several.resize(part.len(), Sought::VACANT);
        }
        let mut several = 0;
        for &sought in part {
            // Each is written where the next belongs, and stays if it is one of several: there is no jump to guess.
            if let Some(place) = self.several.get_mut(several) {
                *place = sought;
            }
            several += is_several(counters, counter(sought));
        }
        several
    }

    /// As [`thin_out`](Part::thin_out), of so many that it left, by the other end of their hashes. To look for one that nobody
    /// else wants would cost several times as much.
    #[inline(never)]
    fn thin_again(&mut self, left: usize) -> usize {
        let counters = counters(&mut self.counters, left * COUNTERS_AGAIN);
        self.several[..left].iter().for_each(|sought| count(counters, sought.last(counters.len())));
        self.keep_several(left)
    }

    /// Of so many that were counted by the last bits of their hashes, leaves out what nobody else can want. Says how many are
    /// left.
    #[inline(always)]
    fn keep_several(&mut self, counted: usize) -> usize {
        let (all, counters) = (&mut self.several[..counted], &self.counters[..]);
        let mut several = 0;
        for at in 0..all.len() {
            let sought = all[at];
            if let Some(place) = all.get_mut(several) {
                *place = sought;
            }
            several += is_several(counters, sought.last(counters.len()));
        }
        several
    }

    /// Finds those that look like one before them, among so many that are left of a part. Gives each key that is wanted again
    /// a number, and notes it of all who want it.
    #[inline(never)]
    fn sift(&mut self, several: usize, bits: u32, keys: &mut Shared, uses: &mut [KeyUse]) {
        let part = &self.several[..several];
        let places = (part.len() * PLACES).next_power_of_two().max(2);
        let shift = 64 - places.ilog2();
        self.firsts.clear();
        self.firsts.resize(places + LOOKS_MAX, Sought::VACANT);
        if self.numbers.len() < self.firsts.len() {
            self.numbers.resize(self.firsts.len(), 0);
        }
        for &sought in part {
            let home = (sought.0 << bits >> shift) as usize;
            let looks = self.firsts[home..home + LOOKS_MAX].iter_mut().zip(&mut self.numbers[home..]);
            let mut number = PLACELESS;
            for (first, of_first) in looks {
                if first.0 == 0 {
                    (*first, *of_first) = (sought, 0);
                    number = 0;
                    break;
                }
                if first.may_be(sought) {
                    if *of_first == 0 {
                        *of_first = keys.add();
                        uses[first.number()] = first.used(*of_first);
                    }
                    number = *of_first;
                    break;
                }
            }
            if number != 0 {
                uses[sought.number()] = sought.used(number);
            }
        }
    }
}

/// Counters at nothing, so many at least.
fn counters(counters: &mut Vec<u8>, least: usize) -> &mut [u8] {
    counters.clear();
    counters.resize(least.next_power_of_two().max(2), 0);
    counters
}

/// Counts one: none, one, several are 0, 1 and 3.
#[inline(always)]
fn count(counters: &mut [u8], at: usize) {
    if let Some(count) = counters.get_mut(at) {
        *count |= *count << 1 & 2 | 1;
    }
}

/// One where several were counted, else none.
#[inline(always)]
fn is_several(counters: &[u8], at: usize) -> usize {
    usize::from(counters.get(at).copied().unwrap_or(0) >> 1)
}

impl Shared {
    /// Forgets everything.
    fn begin(&mut self) {
        self.end = PLACELESS + 1;
        self.others.clear();
    }

    /// Gives a key that is wanted again a number.
    #[inline]
    fn add(&mut self) -> u32 {
        let number = self.end;
        self.end += 1;
        number
    }

    /// Makes room for all that were added. Nobody was asked about them yet.
    fn make_room(&mut self) {
        self.stamps.clear();
        self.stamps.resize(self.end as usize, UNASKED);
        if self.keys.len() < self.stamps.len() {
            self.keys.resize(self.stamps.len(), Want::NOTHING);
        }
    }

    /// Asks for a group of footprints of the same length.
    #[inline(never)]
    fn admit_equal<const EACH: usize>(&mut self, group: Group, uses: &[KeyUse]) -> u64 {
        self.admit_all(uses.as_chunks::<EACH>().0.iter().zip(group.wants.as_chunks::<EACH>().0))
    }

    /// Asks for footprints, of each the uses and the wants, in order. Says by bits who was admitted.
    #[inline(always)]
    fn admit_all<'a, U: AsRef<[KeyUse]> + ?Sized + 'a, W: AsRef<[Want]> + ?Sized + 'a>(
        &mut self,
        footprints: impl Iterator<Item = (&'a U, &'a W)>,
    ) -> u64 {
        let bits = footprints
            .zip(0..64)
            .map(|((uses, wants), at)| u64::from(self.admit(uses.as_ref(), wants.as_ref())) << at);
        bits.sum()
    }

    /// Admits one footprint unless somebody before it stops it.
    #[inline(always)]
    fn admit(&mut self, uses: &[KeyUse], wants: &[Want]) -> bool {
        // How many are shared, and where one is; the place of one alone is the sum of all places.
        let (mut shared, mut place) = (0u32, 0u32);
        for (&used, at) in uses.iter().zip(0u32..) {
            let is_shared = used != NOTHING;
            shared += u32::from(is_shared);
            place = place.wrapping_add(if is_shared { at } else { 0 });
        }
        if shared == 0 {
            return true;
        }
        let place = place as usize;
        if shared > 1 {
            return self.admit_shared(uses, wants);
        }
        let (at, want) = (uses[place], wants[place]);
        let number = at.key() as usize;
        let (stamp, key) = (&mut self.stamps[number], &mut self.keys[number]);
        let is_known = *stamp != UNASKED;
        if at.key() == PLACELESS || (is_known && !key.is_of_key(want)) {
            return self.admit_shared(uses, wants);
        }
        // Mostly it is one key, and whether it is free cannot be guessed: so it is decided without a jump.
        *key = want;
        let is_free = *stamp + at.writes() <= READ;
        *stamp = if is_free { READ + at.writes() } else { *stamp };
        is_free
    }

    /// As [`admit`](Shared::admit), whatever is shared. Checks everything, then marks everything.
    #[inline(never)]
    fn admit_shared(&mut self, uses: &[KeyUse], wants: &[Want]) -> bool {
        for (&at, want) in uses.iter().zip(wants) {
            if at != NOTHING && self.ask(at, want) + at.writes() > READ {
                return false;
            }
        }
        for (&at, want) in uses.iter().zip(wants) {
            if at != NOTHING {
                let stamp = self.ask(at, want).max(READ + at.writes());
                if self.is_key(at, want) {
                    self.stamps[at.key() as usize] = stamp;
                } else {
                    self.others.insert(want.read(), stamp);
                }
            }
        }
        true
    }

    /// How the key of a want was used, of which the number may be that of another.
    #[inline]
    fn ask(&mut self, at: KeyUse, want: &Want) -> u8 {
        let number = at.key() as usize;
        if self.stamps[number] == UNASKED && at.key() != PLACELESS {
            self.keys[number] = *want;
            self.stamps[number] = FREE;
            return FREE;
        }
        if self.is_key(at, want) {
            return self.stamps[number];
        }
        self.others.get(&want.read()).copied().unwrap_or(FREE)
    }

    #[inline]
    fn is_key(&self, at: KeyUse, want: &Want) -> bool {
        at.key() != PLACELESS && self.keys[at.key() as usize].is_of_key(*want)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wanted::Wanted;
    use crate::{Class, Footprint, Mode, ResourceKey, Set};

    /// Numbers that look random.
    fn chance(state: &mut u64) -> u64 {
        *state = state.wrapping_add(1);
        crate::mix::number(*state)
    }

    /// Compares the sieve with comparing each with all that were admitted.
    fn sift(footprints: &[Footprint], case: &str) {
        let mut wanted = Wanted::default();
        for (footprint, number) in footprints.iter().zip(0..) {
            let span = wanted.add(footprint).unwrap();
            wanted.give(number, span);
        }
        // In another order than they came in.
        let order: Vec<u32> = (0..footprints.len() as u32).rev().collect();
        wanted.arrange(&order);
        let (mut whole, mut parts) = (Vec::new(), Vec::new());
        let mut sieve = Sieve::default();
        sieve.reserve_by(wanted.asked(), &mut parts, false);
        sieve.reserve_by(wanted.asked(), &mut whole, true);
        let mut admitted: Vec<&Footprint> = Vec::new();
        for (at, &number) in order.iter().enumerate() {
            let footprint = &footprints[number as usize];
            let free = admitted.iter().all(|before| before.conflict(footprint).is_none());
            for (bits, way) in [(&whole, "as a whole"), (&parts, "in parts")] {
                assert_eq!(bits[at / 64] >> (at % 64) & 1 == 1, free, "{case}, {way}, {at}");
            }
            if free {
                admitted.push(footprint);
            }
        }
    }

    #[test]
    fn sifting_is_asking_one_after_another() {
        for seed in 0..400u64 {
            let mut state = seed << 32;
            let known = [5, 60, 5_000][seed as usize % 3];
            // Some keys of the second kind have the same hash, whatever their instance.
            let is_chosen = seed / 3 % 2 == 1;
            let footprints: Vec<Footprint> = (0..1 + chance(&mut state) % 300)
                .map(|_| {
                    (0..chance(&mut state) % 6).fold(Footprint::new(), |all, _| {
                        let one = chance(&mut state) % 2;
                        let set = Set::ALL[chance(&mut state) as usize % 8];
                        // One is wanted by very many.
                        let local =
                            if chance(&mut state).is_multiple_of(4) { 0 } else { chance(&mut state) % known };
                        if is_chosen && one == 1 {
                            all.with(set, ResourceKey::new(local, 0xd1b5_4a32_d192_ed03))
                        } else {
                            all.with(set, ResourceKey::new(one, local))
                        }
                    })
                })
                .collect();
            sift(&footprints, &format!("seed {seed}"));
        }
    }

    #[test]
    fn a_crowd_that_shares_a_place_is_sifted_as_well() {
        // Different hashes that begin alike, found by trying: more than are looked at in one place.
        let keys = (0..).map(|local| ResourceKey::new(9, local));
        let keys = keys.filter(|key| Want::of_node(key.local).hash() >> 54 == 0);
        let keys: Vec<ResourceKey> = keys.take(2 * LOOKS_MAX).collect();
        for seed in 0..40u64 {
            let mut state = seed << 32;
            let footprints: Vec<Footprint> = (0..300)
                .map(|_| {
                    (0..1 + chance(&mut state) % 2).fold(Footprint::new(), |all, _| {
                        let set = [Set::NodeReads, Set::NodeWrites][chance(&mut state) as usize % 2];
                        all.with(set, keys[chance(&mut state) as usize % keys.len()])
                    })
                })
                .collect();
            sift(&footprints, &format!("seed {seed}"));
        }
    }

    #[test]
    fn a_key_that_very_many_want_finds_room() {
        // Enough for several parts, of which the one of that key, the last or another, has no room for all who want it.
        for hot in 0..8 {
            let key = |at: u64| ResourceKey::new(1, if at.is_multiple_of(2) { hot } else { 100 + at / 3 });
            let set = |at: u64| if at.is_multiple_of(5) { Set::NodeWrites } else { Set::NodeReads };
            let footprints: Vec<Footprint> = (1..3 * PART as u64 / 2)
                .map(|at| Footprint::new().with(Set::NodeReads, key(2 * at)).with(set(at), key(2 * at + 1)))
                .chain([Footprint::new().with(Set::NodeWrites, key(0))])
                .collect();
            sift(&footprints, &format!("hot {hot}"));
        }
    }

    #[test]
    fn very_long_footprints_share_everything() {
        let long =
            |set| (0..100_000).fold(Footprint::new(), |all, local| all.with(set, ResourceKey::new(1, local)));
        sift(&[long(Set::NodeReads), long(Set::NodeReads), long(Set::NodeWrites)], "long");
    }

    #[test]
    fn what_was_sought_is_told_apart() {
        for set in Set::ALL {
            let footprint = Footprint::new().with(set, ResourceKey::new(3, 4));
            let mut wanted = Wanted::default();
            let span = wanted.add(&footprint).unwrap();
            wanted.give(0, span);
            wanted.arrange(&[0]);
            let sought = Sought::new(&wanted.asked().wants()[0], WANTS_MAX as u64);
            assert_eq!(sought.number(), WANTS_MAX - 1);
            assert_eq!(sought.writes() == 1, set.mode() != Mode::Read);
            let of_node = Sought(sought.0 & !(3 << NUMBER_BITS));
            assert_eq!(sought.may_be(of_node), set.class() == Class::Node);
        }
    }
}
