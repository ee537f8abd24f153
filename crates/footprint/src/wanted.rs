//! What many rewrites want, one after another.

use std::ops::Range;

use crate::asked::Asked;
use crate::chains::Chains;
use crate::footprint::{ClassUse, Footprint, MixedUse};
use crate::pending::PendingFull;
use crate::{ResourceKey, mix};

/// A key that is wanted, and how it is to be used.
///
/// Twelve bytes: long lists of them are read from one end to the other, and what counts is how many bytes that are. There
/// are few instances, so they have numbers; ids within them are many, and are hashed when they are asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(C, packed(4))]
pub(crate) struct Want {
    local: u64,
    /// The number of the instance, and in the last bits the use.
    of: u32,
}

/// Bits of a use.
const USE_BITS: u32 = 3;

/// The bit of a use that says whether the key is written.
const WRITES: u32 = 1 << (USE_BITS - 1);

/// Instances that can be told apart.
const INSTANCES_MAX: usize = 1 << (u32::BITS - USE_BITS);

impl Want {
    /// Nothing is wanted. There is no instance of this number.
    pub(crate) const NOTHING: Want = Want { local: 0, of: 0 };

    #[inline(always)]
    fn new(instance: u32, local: u64, used: ClassUse) -> Want {
        Want { local, of: instance << USE_BITS | u32::from(used.bits()) }
    }

    /// The hash of its key.
    #[inline(always)]
    pub(crate) fn hash(self) -> u64 {
        mix::pair(u64::from(self.of & !WRITES), self.local)
    }

    #[inline(always)]
    pub(crate) fn used(self) -> ClassUse {
        ClassUse::from_bits(self.of as u8)
    }

    /// Whether both are of the same key, however they use it.
    #[inline(always)]
    pub(crate) fn is_of_key(self, other: Want) -> bool {
        (self.local == other.local) & ((self.of ^ other.of) & !WRITES == 0)
    }

    /// Whether both exclude one another, if they are of the same key.
    #[inline(always)]
    pub(crate) fn excludes(self, other: Want) -> bool {
        (self.of | other.of) & WRITES != 0
    }

    /// The same key, read.
    #[inline(always)]
    pub(crate) fn read(self) -> Want {
        Want { of: self.of & !WRITES, ..self }
    }

    /// The same key, used in both ways.
    #[inline(always)]
    pub(crate) fn with_use_of(self, other: Want) -> Want {
        Want { of: self.of | other.of & WRITES, ..self }
    }
}

/// What rewrites want, as they come, and then in their order.
#[derive(Default)]
pub(crate) struct Wanted {
    /// What is wanted, and which of it is whose, by the number of the rewrite.
    wants: Vec<Want>,
    spans: Vec<Span>,
    instances: Instances,
    asked: Asked,
}

#[derive(Clone, Copy, Default)]
pub(crate) struct Span {
    start: u32,
    len: u32,
}

impl Span {
    #[inline]
    fn range(self) -> Range<usize> {
        self.start as usize..self.start as usize + self.len as usize
    }
}

impl Wanted {
    /// Adds what a footprint wants, to be [given](Wanted::give) to a rewrite.
    #[inline]
    pub(crate) fn add(&mut self, footprint: &Footprint) -> Result<Span, PendingFull> {
        let start = self.wants.len();
        // Each key may be of an instance that is new.
        if start + footprint.len() > u32::MAX as usize
            || self.instances.end() + footprint.len() > INSTANCES_MAX
        {
            return Err(PendingFull);
        }
        let Wanted { wants, instances, .. } = self;
        wants.reserve(footprint.len());
        footprint.uses().for_each(|(used, keys)| {
            let want = |key: &ResourceKey| Want::new(instances.number(key.instance), key.local, used);
            wants.extend(keys.iter().map(want));
        });
        Ok(Span { start: start as u32, len: footprint.len() as u32 })
    }

    /// Says whose wants these are. What a rewrite was given before is not looked at again.
    #[inline]
    pub(crate) fn give(&mut self, number: u32, span: Span) {
        if self.spans.len() <= number as usize {
            self.spans.resize(number as usize + 1, Span::default());
        }
        self.spans[number as usize] = span;
    }

    /// Puts the wants of rewrites in their order.
    pub(crate) fn arrange(&mut self, order: &[u32]) {
        let Wanted { wants, spans, asked, .. } = self;
        let footprint = |&number: &u32| &wants[spans[number as usize].range()];
        let footprints = order.iter().map(footprint);
        let all_want = |keys| footprints.clone().all(|wants| wants.len() == keys);
        match footprints.clone().next().map(<[Want]>::len) {
            Some(1) if all_want(1) => asked.set::<1>(footprints),
            Some(4) if all_want(4) => asked.set::<4>(footprints),
            _ => footprints.for_each(|wants| asked.push(wants)),
        }
    }

    /// What they want, in the order of [`arrange`](Wanted::arrange).
    #[inline]
    pub(crate) fn asked(&self) -> &Asked {
        &self.asked
    }

    /// What the one at a place in the order wants, each with its whole key.
    #[inline]
    pub(crate) fn mixed(&self, at: usize) -> impl Iterator<Item = MixedUse> {
        self.asked.get(at).iter().map(|want| {
            let instance = self.instances.all[(want.of >> USE_BITS) as usize];
            MixedUse::new(want.used(), ResourceKey::new(instance, want.local))
        })
    }

    /// Forgets everything and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.wants.clear();
        self.spans.clear();
        self.instances.clear();
        self.asked.clear();
    }
}

/// Instances that were met, by number. Numbers begin with one.
struct Instances {
    all: Vec<u64>,
    found: Chains<u64>,
    /// Those that were met lately, by their last bits, and their numbers: mostly there are few, and their ids are small.
    recent: Vec<(u64, u32)>,
}

/// Instances that are remembered.
const RECENT: usize = 256;

impl Default for Instances {
    fn default() -> Instances {
        Instances { all: vec![0], found: Chains::default(), recent: vec![(0, 0); RECENT] }
    }
}

impl Instances {
    /// The number that comes next.
    fn end(&self) -> usize {
        self.all.len()
    }

    #[inline(always)]
    fn number(&mut self, instance: u64) -> u32 {
        match self.recent.get(instance as usize % RECENT) {
            Some(&(known, number)) if known == instance && number != 0 => number,
            _ => self.find(instance),
        }
    }

    #[inline(never)]
    fn find(&mut self, instance: u64) -> u32 {
        let (all, hash) = (&mut self.all, mix::number(instance));
        let found = self.found.find(hash, |number| all[number as usize] == instance, || instance);
        let number = found.unwrap_or_else(|| {
            let number = all.len() as u32;
            all.push(instance);
            self.found.insert(hash, number, || instance, |number| mix::number(all[number as usize]));
            number
        });
        self.recent[instance as usize % RECENT] = (instance, number);
        number
    }

    fn clear(&mut self) {
        if self.all.len() > 1 {
            self.all.truncate(1);
            self.found.clear();
            self.recent.fill((0, 0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Set;

    impl Want {
        /// The write of a node of the first instance that was met.
        pub(crate) fn of_node(local: u64) -> Want {
            Want::new(1, local, ClassUse::new(0, 1))
        }

        /// Of a key, used in one of eight ways. The hashes of those that are chosen differ by their class alone.
        pub(crate) fn chosen(key: u64, is_chosen: bool, used: u64) -> Want {
            let used = ClassUse::from_bits(used as u8);
            if is_chosen {
                Want::new(key as u32, 0xd1b5_4a32_d192_ed03, used)
            } else {
                Want::new(1, key, used)
            }
        }
    }

    #[test]
    fn a_want_is_twelve_bytes() {
        assert_eq!(size_of::<[Want; 5]>(), 5 * 12);
    }

    #[test]
    fn a_want_gives_its_whole_key_back() {
        // Instances by chance, and such whose hashes begin alike, found by trying: more than one chain of them.
        let fair = (0..300).map(|at| mix::number(at) >> (at % 60));
        let chosen = (0..)
            .filter(|&instance| mix::number(instance) >> 52 == 0 && mix::number(instance).is_multiple_of(16));
        let instances: Vec<u64> = fair.chain(chosen.take(60)).chain([0, u64::MAX]).collect();
        let mut wanted = Wanted::default();
        // The second time with what the first one left behind.
        for again in 0..2u64 {
            wanted.clear();
            let mut expected = Vec::new();
            for (&instance, number) in instances.iter().chain(&instances).zip(0..) {
                let set = Set::ALL[(u64::from(number) + again) as usize % 8];
                let footprint = Footprint::new().with(set, ResourceKey::new(instance, number.into()));
                let span = wanted.add(&footprint).unwrap();
                wanted.give(number, span);
                let (used, keys) = footprint.uses().next().unwrap();
                expected.push(MixedUse::new(used, keys[0]));
            }
            let order: Vec<u32> = (0..expected.len() as u32).rev().collect();
            wanted.arrange(&order);
            for (at, &number) in order.iter().enumerate() {
                let (mixed, expected) = (wanted.mixed(at).next().unwrap(), &expected[number as usize]);
                assert_eq!((mixed.key, mixed.used), (expected.key, expected.used), "{number}");
            }
            let mut distinct = instances.clone();
            distinct.sort_unstable();
            distinct.dedup();
            assert_eq!(wanted.instances.end(), 1 + distinct.len());
        }
    }

    #[test]
    fn wants_stand_in_the_order_of_their_rewrites() {
        // All want one key, four, none, or as many as it happens; some were replaced, and one more group is not full.
        let lens: [fn(u64) -> u64; 4] = [|_| 1, |_| 4, |_| 0, |number| number * 7 % 5];
        for len in lens {
            let mut wanted = Wanted::default();
            for number in (0..200).chain([3, 70]) {
                let keys = (0..len(number)).map(|at| ResourceKey::new(1, number << 8 | at));
                let footprint = keys.fold(Footprint::new(), |all, key| all.with(Set::NodeReads, key));
                let span = wanted.add(&footprint).unwrap();
                wanted.give(number as u32, span);
            }
            let order: Vec<u32> = (0..200).map(|at| at * 77 % 200).collect();
            wanted.arrange(&order);
            let asked = wanted.asked();
            assert_eq!((asked.len(), asked.count(200)), (200, asked.wants().len()));
            assert_eq!(asked.each(), Some(len(0) as usize).filter(|_| len(0) == len(1)));
            let (mut order, mut end) = (order.into_iter(), 0);
            for group in asked.groups() {
                assert_eq!(&asked.wants()[group.range()], group.wants);
                for wants in group.footprints() {
                    let number = u64::from(order.next().unwrap());
                    let expected = (0..len(number)).map(|at| number << 8 | at);
                    assert!(wants.iter().map(|want| want.local).eq(expected), "{number}");
                    end += wants.len();
                }
            }
            assert_eq!((order.next(), end), (None, asked.wants().len()));
        }
    }

    #[test]
    fn wants_of_one_key_are_told_from_others() {
        let mut wanted = Wanted::default();
        let key = |instance, local| ResourceKey::new(instance, local);
        let mut want = |set, key| {
            let span = wanted.add(&Footprint::new().with(set, key)).unwrap();
            wanted.wants[span.range()][0]
        };
        let write = want(Set::NodeWrites, key(1, 7));
        // Who else, whether it is of the same key, and whether both may not be admitted then.
        for (set, other, is_of_key, excludes) in [
            (Set::NodeWrites, key(1, 7), true, true),
            (Set::NodeReads, key(1, 7), true, true),
            (Set::EdgeWrites, key(1, 7), false, true),
            (Set::NodeWrites, key(2, 7), false, true),
            (Set::NodeWrites, key(1, 8), false, true),
        ] {
            let other = want(set, other);
            assert_eq!((write.is_of_key(other), write.excludes(other)), (is_of_key, excludes));
            assert_eq!(write.hash() == other.hash(), is_of_key);
            assert!(!Want::NOTHING.is_of_key(other));
        }
        let read = want(Set::NodeReads, key(1, 7));
        assert!(!read.excludes(read) && read == write.read() && write == read.with_use_of(write));
    }
}
