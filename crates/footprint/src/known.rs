//! The keys behind the numbers in a table.

use std::sync::Arc;

use crate::footprint::MixedKey;
use crate::wanted::Wanted;

/// In a number: it is one of the list of single keys.
const SINGLE: u32 = 1 << 31;

/// Lists that are shared at once. Whoever reserves for more of them in one transaction has their keys copied one by one.
const SHARED_MAX: usize = 4;

/// Keys by number: those of whole lists, which are shared with whoever has them, and single ones.
#[derive(Default)]
pub(crate) struct Known {
    shared: Vec<Shared>,
    single: Vec<MixedKey>,
}

struct Shared {
    /// The number of its first key.
    base: u32,
    wanted: Arc<Wanted>,
}

impl Known {
    /// Gives the keys of a list their numbers, and says the first. None when there are too many.
    pub(crate) fn share(&mut self, wanted: &Arc<Wanted>) -> Option<u32> {
        if let Some(shared) = self.shared.iter().find(|shared| Arc::ptr_eq(&shared.wanted, wanted)) {
            return Some(shared.base);
        }
        let base = self.shared.last().map_or(0, |last| last.base as usize + last.wanted.len());
        if self.shared.len() == SHARED_MAX || base + wanted.len() > SINGLE as usize {
            return None;
        }
        self.shared.push(Shared { base: base as u32, wanted: Arc::clone(wanted) });
        Some(base as u32)
    }

    /// Gives a key a number, unless there are too many.
    pub(crate) fn push(&mut self, key: MixedKey) -> Option<u32> {
        let number = self.single.len();
        (number < SINGLE as usize).then(|| {
            self.single.push(key);
            SINGLE | number as u32
        })
    }

    #[inline]
    pub(crate) fn get(&self, number: u32) -> MixedKey {
        match &self.shared[..] {
            [only] if number < SINGLE => only.wanted.key(number),
            _ => self.get_of_several(number),
        }
    }

    #[inline(never)]
    fn get_of_several(&self, number: u32) -> MixedKey {
        if number >= SINGLE {
            return self.single[(number - SINGLE) as usize];
        }
        let after = self.shared.partition_point(|shared| shared.base <= number);
        let shared = &self.shared[after - 1];
        shared.wanted.key(number - shared.base)
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.shared.clear();
        self.single.clear();
    }
}
