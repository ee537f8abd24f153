//! The scheme of the specification, written plainly: a footprint is eight ordered sets, and what is admitted stands in one
//! hash map of generations for each class and way of use.

use std::collections::BTreeSet;
use std::collections::hash_map::Entry;

use cadran_footprint::batch::{Footprint, Phase, ResourceKey, RuleId, ScopeHash, Set};
use rustc_hash::FxHashMap;

type Generations = FxHashMap<ResourceKey, u32>;

/// A pending rewrite, as the specification lists its parts.
#[derive(Clone, Default)]
pub(crate) struct PlainRewrite {
    footprint: PlainFootprint,
    phase: Phase,
    #[expect(dead_code, reason = "the parts that reserving does not need take their place in memory")]
    rest: (ScopeHash, RuleId, ResourceKey),
}

#[derive(Clone, Default)]
pub(crate) struct PlainFootprint {
    n_read: BTreeSet<ResourceKey>,
    n_write: BTreeSet<ResourceKey>,
    e_read: BTreeSet<ResourceKey>,
    e_write: BTreeSet<ResourceKey>,
    a_read: BTreeSet<ResourceKey>,
    a_write: BTreeSet<ResourceKey>,
    b_in: BTreeSet<ResourceKey>,
    b_out: BTreeSet<ResourceKey>,
    #[expect(
        dead_code,
        reason = "generation sets are asked key by key; only comparing two footprints needs it"
    )]
    factor_mask: u64,
}

impl From<&Footprint> for PlainFootprint {
    fn from(footprint: &Footprint) -> PlainFootprint {
        let set = |set: Set| footprint.set(set).collect();
        PlainFootprint {
            n_read: set(Set::NodeReads),
            n_write: set(Set::NodeWrites),
            e_read: set(Set::EdgeReads),
            e_write: set(Set::EdgeWrites),
            a_read: set(Set::AttachmentReads),
            a_write: set(Set::AttachmentWrites),
            b_in: set(Set::PortsIn),
            b_out: set(Set::PortsOut),
            factor_mask: footprint.factor_mask(),
        }
    }
}

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

    /// Reserves for all rewrites from the beginning, and says how many were admitted.
    pub(crate) fn reserve_all(&mut self, rewrites: &mut [PlainRewrite]) -> usize {
        self.begin();
        let mut admitted = 0;
        for rewrite in rewrites {
            let free = self.reserve(&rewrite.footprint);
            rewrite.phase = if free { Phase::Reserved } else { Phase::Aborted };
            admitted += usize::from(free);
        }
        admitted
    }

    #[inline(always)]
    pub(crate) fn reserve(&mut self, footprint: &PlainFootprint) -> bool {
        let now = self.generation;
        let has = |set: &Generations, key: &ResourceKey| set.get(key) == Some(&now);
        for key in &footprint.n_write {
            if has(&self.n_write, key) || has(&self.n_read, key) {
                return false;
            }
        }
        for key in &footprint.n_read {
            if has(&self.n_write, key) {
                return false;
            }
        }
        for key in &footprint.e_write {
            if has(&self.e_write, key) || has(&self.e_read, key) {
                return false;
            }
        }
        for key in &footprint.e_read {
            if has(&self.e_write, key) {
                return false;
            }
        }
        for key in &footprint.a_write {
            if has(&self.a_write, key) || has(&self.a_read, key) {
                return false;
            }
        }
        for key in &footprint.a_read {
            if has(&self.a_write, key) {
                return false;
            }
        }
        for key in footprint.b_in.iter().chain(&footprint.b_out) {
            if has(&self.ports, key) {
                return false;
            }
        }
        mark(now, &mut self.n_write, &footprint.n_write);
        mark(now, &mut self.n_read, &footprint.n_read);
        mark(now, &mut self.e_write, &footprint.e_write);
        mark(now, &mut self.e_read, &footprint.e_read);
        mark(now, &mut self.a_write, &footprint.a_write);
        mark(now, &mut self.a_read, &footprint.a_read);
        mark(now, &mut self.ports, &footprint.b_in);
        mark(now, &mut self.ports, &footprint.b_out);
        true
    }
}

/// Not a closure, since whether those are inlined is the compiler's choice, and decides about a third of the time.
#[inline(always)]
fn mark(now: u32, set: &mut Generations, keys: &BTreeSet<ResourceKey>) {
    for &key in keys {
        match set.entry(key) {
            Entry::Occupied(mut known) => *known.get_mut() = now,
            Entry::Vacant(vacant) => drop(vacant.insert(now)),
        }
    }
}

/// Plain rewrites with these footprints.
pub(crate) fn rewrites(footprints: &[Footprint]) -> Vec<PlainRewrite> {
    let rewrite = |footprint: &Footprint| PlainRewrite { footprint: footprint.into(), ..Default::default() };
    footprints.iter().map(rewrite).collect()
}
