//! Reserving for all that was drained at once: has one before taken what this one wants?
//!
//! One table of eight bytes a place, filled by those that were admitted and by nobody else. Half of a place are bits, one for
//! each hash in 32, and whoever wants a key whose bit is not set is not stopped by it: that is one look and a jump that is
//! nearly always guessed right, whether others share the place or not. The other half leads to the last key that was put
//! there, says how it is used, and by it leads to those before.
//!
//! Each footprint stops at the first of its keys that is taken. Only then a jump is guessed wrong; where keys have to look
//! for a place among others, one is at every place that happens to be taken.

use std::collections::BTreeMap;

use crate::asked::Group;
use crate::wanted::Want;

/// Keys that are linked to one another when their bit was set before. With a fair hash so many are never seen; what goes
/// beyond was chosen to collide, and is kept in an ordered map. Keys whose bit was not set are no more than there are bits.
const LINKED_MAX: usize = 16;

/// The smallest table.
const PLACES_MIN: usize = 64;

/// How many places a key gets while there are no more than so many: the fewer share one, the fewer jumps are guessed wrong,
/// as long as the table stays within the nearer caches.
const PLACES: [(usize, usize); 2] = [(4, 1 << 13), (2, 1 << 15)];

/// Keys for each place, at most: then there are made more places.
const LOAD_MAX: usize = 2;

/// What was taken by those that were admitted.
#[derive(Default)]
pub(crate) struct Taken {
    /// A power of two, by the last bits of hashes.
    places: Vec<Place>,
    /// The keys, by number, from one to the end; there is room for more.
    keys: Vec<Want>,
    end: usize,
    /// What stands before each key at its place, by number.
    before: Vec<Link>,
    crowd: Crowd,
    /// Memory for more places.
    spare: Vec<Place>,
}

/// Keys that are not linked, since too many were before them, and how they are used.
type Crowd = BTreeMap<Want, Want>;

/// The number of a key.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Link(u32);

impl Link {
    /// To no key: the one of this number is nothing.
    const NONE: Link = Link(0);

    #[inline(always)]
    fn number(self) -> usize {
        self.0 as usize
    }
}

/// A bit for each hash in 32 that may stand here, by its first bits, and the last key that was put here.
#[derive(Clone, Copy)]
struct Place(u64);

impl Place {
    const VACANT: Place = Place(0);

    /// Whether a key of this hash may stand here.
    #[inline(always)]
    fn may_have(self, hash: u64) -> bool {
        (self.0 as u32).wrapping_shr((hash >> 59) as u32) & 1 != 0
    }

    #[inline(always)]
    fn last(self) -> Link {
        Link((self.0 >> 32) as u32)
    }

    /// With one more key of this hash, which stands elsewhere.
    #[inline(always)]
    fn with_bit(self, hash: u64) -> Place {
        Place(self.0 | 1 << (hash >> 59))
    }

    /// With one more key of this hash.
    #[inline(always)]
    fn with(self, hash: u64, link: Link) -> Place {
        Place(self.with_bit(hash).0 & u64::from(u32::MAX) | u64::from(link.0) << 32)
    }
}

impl Taken {
    /// Forgets everything, and makes room for so many keys.
    pub(crate) fn begin(&mut self, keys: usize) {
        self.places.clear();
        self.crowd.clear();
        self.end = 1;
        self.widen(places(keys));
    }

    /// Says that so many keys will be taken, more or less.
    pub(crate) fn expect(&mut self, keys: usize) {
        if places(keys) > self.places.len() {
            self.widen(places(keys));
        }
    }

    /// Asks for some, in order, each of whom wants so many keys, where that is known, and is told whether most will be
    /// refused. Says by bits who was admitted.
    pub(crate) fn admit(&mut self, group: Group, each: Option<usize>, most_are_refused: bool) -> u64 {
        let open = self.open(group.wants.len());
        // Short footprints of one length are so usual that they have ways of their own, in functions of their own.
        let (admitted, end) = match each {
            Some(1) => open.admit_ones(group.wants.iter()),
            Some(4) if most_are_refused => open.admit_few_fours(group),
            Some(4) => open.admit_fours(group),
            _ => open.admit_any(group),
        };
        self.end = end;
        admitted
    }

    /// As [`admit`](Taken::admit), where all want one key.
    #[inline]
    pub(crate) fn admit_ones<'a>(&mut self, wants: impl ExactSizeIterator<Item = &'a Want>) -> u64 {
        let (admitted, end) = self.open(wants.len()).admit_ones(wants);
        self.end = end;
        admitted
    }

    /// The table with room for so many keys more.
    #[inline]
    fn open(&mut self, more: usize) -> Open<'_> {
        self.make_room(more);
        Open {
            mask: self.places.len() - 1,
            places: &mut self.places,
            keys: &mut self.keys,
            before: &mut self.before,
            crowd: &mut self.crowd,
            end: self.end,
        }
    }

    /// Makes room for so many keys more.
    #[inline]
    fn make_room(&mut self, more: usize) {
        let end = self.end + more;
        if end > self.keys.len() {
            let room = end.next_power_of_two();
            self.keys.resize(room, Want::NOTHING);
            self.before.resize(room, Link::NONE);
        }
        if end > self.places.len() * LOAD_MAX {
            self.widen(places(end));
        }
    }

    /// Gives the keys so many places.
    #[cold]
    fn widen(&mut self, places: usize) {
        std::mem::swap(&mut self.places, &mut self.spare);
        self.places.clear();
        self.places.resize(places, Place::VACANT);
        let mask = places - 1;
        for old in self.spare.drain(..) {
            let mut link = old.last();
            while link != Link::NONE {
                let number = link.number();
                let hash = self.keys[number].hash();
                let place = &mut self.places[hash as usize & mask];
                let before = std::mem::replace(&mut self.before[number], place.last());
                *place = place.with(hash, link);
                link = before;
            }
        }
        // Those of the crowd stay there, and are asked after as before.
        for key in self.crowd.keys() {
            let place = &mut self.places[key.hash() as usize & mask];
            *place = place.with_bit(key.hash());
        }
    }
}

/// How many places so many keys get.
fn places(keys: usize) -> usize {
    let roomy = PLACES.iter().map(|&(each, most)| ((each * keys).next_power_of_two(), most));
    let roomy = roomy.filter(|(places, most)| places <= most).map(|(places, _)| places).next();
    roomy.unwrap_or_else(|| keys.next_power_of_two()).max(PLACES_MIN)
}

/// The table while it has room for all who are asked: nothing in it moves, and it is at hand.
struct Open<'a> {
    places: &'a mut [Place],
    mask: usize,
    keys: &'a mut [Want],
    before: &'a mut [Link],
    crowd: &'a mut Crowd,
    end: usize,
}

impl Open<'_> {
    /// Asks for some, whatever they want. Says by bits who was admitted, and where the keys end.
    #[inline(never)]
    fn admit_any(self, group: Group) -> (u64, usize) {
        self.admit_each(group.footprints(), |open, wants| {
            let is_stopped = wants.iter().any(|want| open.stops(want.hash(), want));
            if !is_stopped {
                wants.iter().for_each(|want| open.take(want.hash(), want));
            }
            !is_stopped
        })
    }

    /// As [`admit_any`](Open::admit_any), where all want one key.
    #[inline(never)]
    fn admit_ones<'a>(self, wants: impl Iterator<Item = &'a Want>) -> (u64, usize) {
        self.admit_each(wants, |open, want| {
            let hash = want.hash();
            let place = open.place(hash);
            if !place.may_have(hash) {
                open.link(hash, place, want);
                return true;
            }
            let is_free = !open.excludes(place.last(), want);
            if is_free {
                open.take(hash, want);
            }
            is_free
        })
    }

    /// As [`admit_any`](Open::admit_any), where all want four: their hashes are kept.
    #[inline(never)]
    fn admit_fours(self, group: Group) -> (u64, usize) {
        self.admit_each(group.wants.as_chunks().0, |open, wants| {
            let [a, b, c, d] = wants;
            let hash_a = a.hash();
            if open.stops(hash_a, a) {
                return false;
            }
            let hash_b = b.hash();
            if open.stops(hash_b, b) {
                return false;
            }
            let hash_c = c.hash();
            if open.stops(hash_c, c) {
                return false;
            }
            let hash_d = d.hash();
            if open.stops(hash_d, d) {
                return false;
            }
            wants.iter().zip([hash_a, hash_b, hash_c, hash_d]).for_each(|(want, hash)| open.take(hash, want));
            true
        })
    }

    /// As [`admit_any`](Open::admit_any), where all want four and most are refused: no jump before all four were looked at.
    #[inline(never)]
    fn admit_few_fours(self, group: Group) -> (u64, usize) {
        self.admit_each(group.wants.as_chunks().0, |open, wants| {
            let is_stopped = open.stops_four(wants);
            if !is_stopped {
                open.take_all(wants);
            }
            !is_stopped
        })
    }

    #[inline(always)]
    fn admit_each<T>(
        self,
        footprints: impl IntoIterator<Item = T>,
        admit: impl Fn(&mut Open, T) -> bool,
    ) -> (u64, usize) {
        // Field by field it comes into registers.
        let Open { places, mask, keys, before, crowd, end } = self;
        let mut open = Open { places, mask, keys, before, crowd, end };
        let mut admitted = 0;
        for (wants, at) in footprints.into_iter().zip(0..64) {
            if admit(&mut open, wants) {
                admitted |= 1 << at;
            }
        }
        (admitted, open.end)
    }

    /// Whether somebody took what excludes this use.
    #[inline(always)]
    fn stops(&self, hash: u64, want: &Want) -> bool {
        let place = self.place(hash);
        place.may_have(hash) && self.excludes(place.last(), want)
    }

    /// The last key at the place of a want, and whether the want may be one of those there.
    #[inline(always)]
    fn look(&self, want: &Want) -> (Link, bool) {
        let hash = want.hash();
        let place = self.place(hash);
        (place.last(), place.may_have(hash))
    }

    /// As [`stops`](Open::stops), of any of four.
    #[inline(always)]
    fn stops_four(&self, wants: &[Want; 4]) -> bool {
        let [a, b, c, d] = wants;
        let looks = [self.look(a), self.look(b), self.look(c), self.look(d)];
        let [a, b, c, d] = looks.map(|(_, may_have)| u32::from(may_have));
        let mut met = a | b << 1 | c << 2 | d << 3;
        while met != 0 {
            let at = met.trailing_zeros() as usize % 4;
            if self.excludes(looks[at].0, &wants[at]) {
                return true;
            }
            met &= met - 1;
        }
        false
    }

    /// Takes keys, where that is so rare that it is better out of the way.
    #[inline(never)]
    fn take_all(&mut self, wants: &[Want]) {
        wants.iter().for_each(|want| self.take(want.hash(), want));
    }

    /// Takes a key.
    #[inline(always)]
    fn take(&mut self, hash: u64, want: &Want) {
        let place = self.place(hash);
        if !place.may_have(hash) || is_new(self.keys, self.before, self.crowd, place.last(), want) {
            self.link(hash, place, want);
        }
    }

    #[inline(always)]
    fn place(&self, hash: u64) -> Place {
        self.places.get(hash as usize & self.mask).copied().unwrap_or(Place::VACANT)
    }

    /// Whether a key that stands at a place, of which this is the last, excludes this use.
    #[inline(always)]
    fn excludes(&self, last: Link, want: &Want) -> bool {
        // Mostly the last is the one; who stands before it is asked elsewhere.
        self.keys.get(last.number()).is_some_and(|key| key.is_of_key(*want) & key.excludes(*want))
            || finds(self.keys, self.before, self.crowd, last, want, |key| key.excludes(*want))
    }

    /// Puts a key at its place. There is room for it.
    #[inline(always)]
    fn link(&mut self, hash: u64, place: Place, want: &Want) {
        let (key, before) = (self.keys.get_mut(self.end), self.before.get_mut(self.end));
        if let (Some(key), Some(before), Some(at)) =
            (key, before, self.places.get_mut(hash as usize & self.mask))
        {
            (*key, *before) = (*want, place.last());
            *at = place.with(hash, Link(self.end as u32));
            self.end += 1;
        }
    }
}

/// Whether a key was taken in some way of use; the last one at its place is known.
#[inline(never)]
fn finds(
    keys: &[Want],
    before: &[Link],
    crowd: &Crowd,
    last: Link,
    want: &Want,
    is: impl Fn(&Want) -> bool,
) -> bool {
    links(before, last).map(|link| &keys[link.number()]).any(|key| key.is_of_key(*want) && is(key))
        || crowd.get(&want.read()).is_some_and(is)
}

/// Whether a key that may have been taken before is to be linked; the last one at its place is known.
#[inline(never)]
fn is_new(keys: &[Want], before: &[Link], crowd: &mut Crowd, last: Link, want: &Want) -> bool {
    if finds(keys, before, crowd, last, want, |key| key.with_use_of(*want) == *key) {
        return false;
    }
    let is_crowded = links(before, last).count() >= LINKED_MAX;
    if is_crowded {
        let known = crowd.entry(want.read()).or_insert(*want);
        *known = known.with_use_of(*want);
    }
    !is_crowded
}

/// The keys at a place, from the last on.
fn links(before: &[Link], last: Link) -> impl Iterator<Item = Link> {
    let is_one = |link: Link| (link != Link::NONE).then_some(link);
    std::iter::successors(is_one(last), move |link| is_one(before[link.number()]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wanted::Wanted;
    use crate::{Footprint, ResourceKey, Set};

    /// Numbers that look random.
    fn chance(state: &mut u64) -> usize {
        *state = state.wrapping_add(1);
        crate::mix::number(*state) as usize >> 1
    }

    /// Who is admitted, in the order in which they stand, from a table that is made for so many keys and then told of more.
    fn admit(taken: &mut Taken, footprints: &[Footprint], keys: usize, most_are_refused: bool) -> Vec<bool> {
        let mut wanted = Wanted::default();
        for (footprint, number) in footprints.iter().zip(0..) {
            let span = wanted.add(footprint).unwrap();
            wanted.give(number, span);
        }
        wanted.arrange(&(0..footprints.len() as u32).collect::<Vec<u32>>());
        let asked = wanted.asked();
        taken.begin(keys);
        let mut admitted = Vec::new();
        for (at, group) in asked.groups().enumerate() {
            if at == 1 {
                taken.expect(8 * keys);
            }
            let bits = taken.admit(group, asked.each(), most_are_refused);
            admitted.extend((0..group.len()).map(|at| bits >> at & 1 == 1));
        }
        admitted
    }

    /// What comparing each with all that were admitted says.
    fn plainly(footprints: &[Footprint]) -> Vec<bool> {
        let mut admitted: Vec<&Footprint> = Vec::new();
        let admits = |footprint| {
            let is_free = admitted.iter().all(|before: &&Footprint| before.conflict(footprint).is_none());
            if is_free {
                admitted.push(footprint);
            }
            is_free
        };
        footprints.iter().map(admits).collect()
    }

    #[test]
    fn asking_at_once_is_asking_one_after_another() {
        let mut taken = Taken::default();
        for seed in 0..900u64 {
            let mut state = seed << 32;
            let known = [6, 60, 5_000][seed as usize % 3];
            // Some keys of the second kind have the same hash, whatever their instance: they meet the ordered map.
            let is_chosen = seed / 3 % 2 == 1;
            // All of one length, and of any.
            let len = [Some(1), Some(4), None][seed as usize / 6 % 3];
            let footprints: Vec<Footprint> = (0..1 + chance(&mut state) % 300)
                .map(|_| {
                    let mut footprint = Footprint::new();
                    let keys = len.unwrap_or_else(|| chance(&mut state) % 7);
                    while footprint.len() < keys {
                        let (one, other) = (chance(&mut state) % 2, chance(&mut state) % known);
                        let key = if is_chosen && one == 1 {
                            ResourceKey::new(other as u64, 0xd1b5_4a32_d192_ed03)
                        } else {
                            ResourceKey::new(one as u64, other as u64)
                        };
                        footprint.insert(Set::ALL[chance(&mut state) % 8], key);
                    }
                    footprint
                })
                .collect();
            let expected = plainly(&footprints);
            for most_are_refused in [false, true] {
                for keys in [0, 40] {
                    let admitted = admit(&mut taken, &footprints, keys, most_are_refused);
                    assert_eq!(admitted, expected, "seed {seed}, {most_are_refused}, {keys}");
                }
            }
        }
    }

    #[test]
    fn a_place_without_a_key_stops_nobody() {
        // Keys of one place and bit, found by trying, of which the last is in the crowd; when there are more places, it has one
        // for itself, where its bit stands and no key.
        let hash = |key: &ResourceKey| Want::of_node(key.local).hash();
        let keys = || (0..).map(|local| ResourceKey::new(9, local));
        let crowd = keys().filter(|key| hash(key) >> 59 == 0 && hash(key).trailing_zeros() >= 6);
        let crowd = crowd.filter(|key| hash(key).trailing_zeros() < 10).take(2 * LINKED_MAX);
        let last = keys().find(|key| hash(key) >> 59 == 0 && hash(key).trailing_zeros() >= 10);
        let others = keys().filter(|key| hash(key).trailing_zeros() < 6).take(200);
        let all = crowd.chain(last).chain(others);
        let footprints: Vec<Footprint> = all.map(|key| Footprint::new().with(Set::NodeWrites, key)).collect();
        let mut taken = Taken::default();
        assert!(admit(&mut taken, &footprints, 0, false).iter().all(|&admitted| admitted));
        assert!(taken.places.len() >= 1 << 10 && !taken.crowd.is_empty());
    }

    #[test]
    fn a_place_that_many_were_chosen_for_stays_short() {
        // Keys of one place, whatever their bit, found by trying; each is written by one and wanted again by another.
        let keys = (0..).map(|local| ResourceKey::new(9, local));
        let at_one_place = |key: &ResourceKey| Want::of_node(key.local).hash().trailing_zeros() >= 12;
        let keys: Vec<ResourceKey> = keys.filter(at_one_place).take(300).collect();
        let writes = keys.iter().map(|&key| Footprint::new().with(Set::NodeWrites, key));
        let reads = keys.iter().map(|&key| Footprint::new().with(Set::NodeReads, key));
        let footprints: Vec<Footprint> = writes.chain(reads).collect();
        let mut taken = Taken::default();
        let admitted = admit(&mut taken, &footprints, 1 << 10, true);
        assert_eq!(admitted.iter().filter(|&&admitted| admitted).count(), 300);
        assert!(admitted[..300].iter().all(|&admitted| admitted));
        let longest = taken.places.iter().map(|place| links(&taken.before, place.last()).count()).max();
        assert!(longest <= Some(LINKED_MAX + 32), "{longest:?}");
        assert!(!taken.crowd.is_empty());
    }
}
