//! The scheme of the specification, written plainly: one hash map of generations for each class.

use std::collections::hash_map::Entry;

use cadran_footprint::{Footprint, ResourceKey, Set};
use rustc_hash::FxHashMap;

type Generations = FxHashMap<ResourceKey, u32>;

/// Sets that are emptied by counting a generation up.
#[derive(Default)]
pub(crate) struct PlainSets {
    n_read: Generations,
    n_write: Generations,
    e_read: Generations,
    e_write: Generations,
    a_read: Generations,
    a_write: Generations,
    ports: Generations,
    generation: u32,
}

impl PlainSets {
    pub(crate) fn begin(&mut self) {
        self.generation += 1;
    }

    pub(crate) fn reserve(&mut self, footprint: &Footprint) -> bool {
        let now = self.generation;
        let has = |set: &Generations, key: &ResourceKey| set.get(key) == Some(&now);
        for key in footprint.set(Set::NodeWrites) {
            if has(&self.n_write, key) || has(&self.n_read, key) {
                return false;
            }
        }
        for key in footprint.set(Set::NodeReads) {
            if has(&self.n_write, key) {
                return false;
            }
        }
        for key in footprint.set(Set::EdgeWrites) {
            if has(&self.e_write, key) || has(&self.e_read, key) {
                return false;
            }
        }
        for key in footprint.set(Set::EdgeReads) {
            if has(&self.e_write, key) {
                return false;
            }
        }
        for key in footprint.set(Set::AttachmentWrites) {
            if has(&self.a_write, key) || has(&self.a_read, key) {
                return false;
            }
        }
        for key in footprint.set(Set::AttachmentReads) {
            if has(&self.a_write, key) {
                return false;
            }
        }
        for key in footprint.set(Set::PortsIn).iter().chain(footprint.set(Set::PortsOut)) {
            if has(&self.ports, key) {
                return false;
            }
        }
        let mark = |set: &mut Generations, keys: &[ResourceKey]| {
            for &key in keys {
                match set.entry(key) {
                    Entry::Occupied(mut known) => *known.get_mut() = now,
                    Entry::Vacant(vacant) => drop(vacant.insert(now)),
                }
            }
        };
        mark(&mut self.n_write, footprint.set(Set::NodeWrites));
        mark(&mut self.n_read, footprint.set(Set::NodeReads));
        mark(&mut self.e_write, footprint.set(Set::EdgeWrites));
        mark(&mut self.e_read, footprint.set(Set::EdgeReads));
        mark(&mut self.a_write, footprint.set(Set::AttachmentWrites));
        mark(&mut self.a_read, footprint.set(Set::AttachmentReads));
        mark(&mut self.ports, footprint.set(Set::PortsIn));
        mark(&mut self.ports, footprint.set(Set::PortsOut));
        true
    }
}
