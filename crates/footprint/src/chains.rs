use std::collections::BTreeMap;

/// No slot.
pub(crate) const NONE: u32 = u32::MAX;

/// Members of one chain. With a fair hash, eight are rare among millions; what goes beyond was chosen to collide.
const CHAIN_MAX: usize = 16;

/// Buckets in a cache line.
pub(crate) const LINE: usize = 16;

/// Finds slots of a list by the hash of what stands in them.
///
/// Slots that share a bucket are chained, up to [`CHAIN_MAX`]; a crowd beyond that goes to an ordered map, so that chosen
/// keys cost a logarithm and not a walk.
pub(crate) struct Chains<K> {
    /// The first slot of each bucket; a power of two, or none at all.
    heads: Vec<u32>,
    /// The next slot in the chain, by slot.
    next: Vec<u32>,
    crowd: BTreeMap<K, u32>,
    chained: usize,
}

impl<K> Default for Chains<K> {
    fn default() -> Chains<K> {
        Chains { heads: Vec::new(), next: Vec::new(), crowd: BTreeMap::new(), chained: 0 }
    }
}

impl<K: Ord> Chains<K> {
    /// The slot that `is` accepts. `key` is asked for only when there is a crowd.
    #[inline]
    pub(crate) fn find(&self, hash: u64, is: impl Fn(u32) -> bool, key: impl FnOnce() -> K) -> Option<u32> {
        let mut at = self.heads.get(self.bucket(hash)).copied().unwrap_or(NONE);
        while at != NONE {
            if is(at) {
                return Some(at);
            }
            at = self.next[at as usize];
        }
        if self.crowd.is_empty() { None } else { self.crowd.get(&key()).copied() }
    }

    /// Adds a slot that is not in yet. `hash_of` says the hash of the others when there must be more buckets.
    pub(crate) fn insert(
        &mut self,
        hash: u64,
        slot: u32,
        key: impl FnOnce() -> K,
        hash_of: impl Fn(u32) -> u64,
    ) {
        if self.chained >= self.heads.len() {
            self.grow(hash_of);
        }
        if self.next.len() <= slot as usize {
            self.next.resize(slot as usize + 1, NONE);
        }
        let bucket = self.bucket(hash);
        let (mut at, mut members) = (self.heads[bucket], 0);
        while at != NONE && members < CHAIN_MAX {
            at = self.next[at as usize];
            members += 1;
        }
        if members == CHAIN_MAX {
            self.crowd.insert(key(), slot);
            return;
        }
        self.next[slot as usize] = self.heads[bucket];
        self.heads[bucket] = slot;
        self.chained += 1;
    }

    /// Takes a slot out.
    pub(crate) fn remove(&mut self, hash: u64, slot: u32, key: impl FnOnce() -> K) {
        let bucket = self.bucket(hash);
        let (mut before, mut at) = (NONE, self.heads.get(bucket).copied().unwrap_or(NONE));
        while at != NONE && at != slot {
            (before, at) = (at, self.next[at as usize]);
        }
        if at == NONE {
            self.crowd.remove(&key());
            return;
        }
        let next = self.next[slot as usize];
        match before {
            NONE => self.heads[bucket] = next,
            before => self.next[before as usize] = next,
        }
        self.chained -= 1;
    }

    /// Takes all slots out.
    pub(crate) fn clear(&mut self) {
        // What once held many is not emptied again and again for few.
        self.heads.truncate(self.chained.next_power_of_two().max(LINE));
        self.heads.fill(NONE);
        self.crowd.clear();
        self.chained = 0;
    }

    fn bucket(&self, hash: u64) -> usize {
        // The upper half chooses a cache line of buckets, the last bits one of them. No bucket at all gives a number that
        // is not there.
        let line = ((hash >> 32) * (self.heads.len() / LINE) as u64) >> 32;
        line as usize * LINE + hash as usize % LINE
    }

    /// Doubles the buckets. Each chain divides into two, so none becomes longer.
    fn grow(&mut self, hash_of: impl Fn(u32) -> u64) {
        let buckets = (self.heads.len() * 2).max(LINE);
        let old = std::mem::replace(&mut self.heads, vec![NONE; buckets]);
        for mut at in old {
            while at != NONE {
                let next = self.next[at as usize];
                let bucket = self.bucket(hash_of(at));
                self.next[at as usize] = self.heads[bucket];
                self.heads[bucket] = at;
                at = next;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_is_in_whether_it_collides_or_not() {
        // The hash of a number under each mixer; the last two are what an attacker wishes for.
        for mix in [crate::mix::number, |value: u64| value << 40, |_| 0] {
            let mut chains: Chains<u64> = Chains::default();
            let values: Vec<u64> = (0..500).map(|at| at * 7).collect();
            let mut inside = vec![false; values.len()];
            let find = |chains: &Chains<u64>, value: u64| {
                chains.find(mix(value), |slot| values[slot as usize] == value, || value)
            };
            for step in 0..3_000usize {
                let slot = step * 131 % values.len();
                let value = values[slot];
                assert_eq!(find(&chains, value), inside[slot].then_some(slot as u32));
                if inside[slot] {
                    chains.remove(mix(value), slot as u32, || value);
                } else {
                    chains.insert(mix(value), slot as u32, || value, |slot| mix(values[slot as usize]));
                }
                inside[slot] = !inside[slot];
            }
            assert_eq!(find(&chains, 3), None);
            let crowd = chains.crowd.len();
            assert_eq!(crowd + chains.chained, inside.iter().filter(|inside| **inside).count());
        }
    }
}
