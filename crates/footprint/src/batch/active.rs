use rustc_hash::FxHashMap;

use super::{Class, Conflict, Footprint, ResourceKey};
use crate::Mode;

/// Entries of earlier generations that are kept for their memory. Beyond this many, an ended generation clears the table.
const KEPT_MAX: usize = 1 << 20;

/// The keys that the admitted rewrites of one transaction use: a generation-stamped set.
///
/// Forgetting everything is counting the generation up, so that ending a transaction costs nothing.
#[derive(Default)]
pub(super) struct ActiveSet {
    /// The generation in which a key was last used, times two, plus one when it was written or claimed, by class.
    stamps: [FxHashMap<ResourceKey, u64>; Class::COUNT],
    generation: u64,
}

impl ActiveSet {
    /// Forgets all reservations.
    pub(super) fn clear(&mut self) {
        self.generation += 1;
        for stamps in self.stamps.iter_mut().filter(|stamps| stamps.len() > KEPT_MAX) {
            stamps.clear();
        }
    }

    /// Admits a footprint if it is independent of all that were admitted: checks every key, then marks every key.
    pub(super) fn reserve(&mut self, footprint: &Footprint) -> Result<(), Conflict> {
        // Stamps start at generation 0, which must not look like a use.
        let read = (self.generation + 1) * 2;
        for &(set, key) in footprint.uses() {
            // A reader is stopped by a write of this generation, a writer by any use.
            let limit = if set.mode() == Mode::Read { read + 1 } else { read };
            if self.stamps[set.class() as usize].get(&key).is_some_and(|&stamp| stamp >= limit) {
                return Err(Conflict { set, key });
            }
        }
        for &(set, key) in footprint.uses() {
            let stamp = if set.mode() == Mode::Read { read } else { read + 1 };
            let known = self.stamps[set.class() as usize].entry(key).or_default();
            *known = stamp.max(*known);
        }
        Ok(())
    }
}
