//! The scheme of the specification, written plainly: a footprint is eight ordered sets, and what is admitted stands in one
//! hash map of generations for each class and way of use.

use std::collections::BTreeSet;
use std::collections::hash_map::Entry;

use cadran_footprint::{Footprint, Phase, ResourceKey, RuleId, ScopeHash, Set};
use rustc_hash::FxHashMap;

type Generations = FxHashMap<ResourceKey, u32>;

/// An ordered set of keys.
pub(crate) trait OrderedSet: Default + FromIterator<ResourceKey> {
    fn keys(&self) -> impl Iterator<Item = &ResourceKey>;
}

/// What the standard library calls an ordered set.
pub(crate) type Tree = BTreeSet<ResourceKey>;

/// What a kinder reader of the specification might use: a sorted list for each set.
pub(crate) type List = Vec<ResourceKey>;

impl OrderedSet for Tree {
    fn keys(&self) -> impl Iterator<Item = &ResourceKey> {
        self.iter()
    }
}

impl OrderedSet for List {
    fn keys(&self) -> impl Iterator<Item = &ResourceKey> {
        self.iter()
    }
}

/// A pending rewrite, as the specification lists its parts.
#[derive(Clone, Default)]
pub(crate) struct PlainRewrite<S> {
    pub(crate) scope_hash: ScopeHash,
    pub(crate) compact_rule: RuleId,
    #[expect(dead_code, reason = "a part of it that reserving does not need")]
    pub(crate) scope: ResourceKey,
    pub(crate) footprint: PlainFootprint<S>,
    pub(crate) phase: Phase,
}

#[derive(Clone, Default)]
pub(crate) struct PlainFootprint<S> {
    n_read: S,
    n_write: S,
    e_read: S,
    e_write: S,
    a_read: S,
    a_write: S,
    b_in: S,
    b_out: S,
    #[expect(
        dead_code,
        reason = "generation sets are asked key by key; only comparing two footprints needs it"
    )]
    factor_mask: u64,
}

impl<S: OrderedSet> From<&Footprint> for PlainFootprint<S> {
    fn from(footprint: &Footprint) -> PlainFootprint<S> {
        let set = |set: Set| footprint.set(set).iter().copied().collect();
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
    pub(crate) fn reserve_all<S: OrderedSet>(&mut self, rewrites: &mut [PlainRewrite<S>]) -> usize {
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
    pub(crate) fn reserve<S: OrderedSet>(&mut self, footprint: &PlainFootprint<S>) -> bool {
        let now = self.generation;
        let has = |set: &Generations, key: &ResourceKey| set.get(key) == Some(&now);
        for key in footprint.n_write.keys() {
            if has(&self.n_write, key) || has(&self.n_read, key) {
                return false;
            }
        }
        for key in footprint.n_read.keys() {
            if has(&self.n_write, key) {
                return false;
            }
        }
        for key in footprint.e_write.keys() {
            if has(&self.e_write, key) || has(&self.e_read, key) {
                return false;
            }
        }
        for key in footprint.e_read.keys() {
            if has(&self.e_write, key) {
                return false;
            }
        }
        for key in footprint.a_write.keys() {
            if has(&self.a_write, key) || has(&self.a_read, key) {
                return false;
            }
        }
        for key in footprint.a_read.keys() {
            if has(&self.a_write, key) {
                return false;
            }
        }
        for key in footprint.b_in.keys().chain(footprint.b_out.keys()) {
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
fn mark<S: OrderedSet>(now: u32, set: &mut Generations, keys: &S) {
    for &key in keys.keys() {
        match set.entry(key) {
            Entry::Occupied(mut known) => *known.get_mut() = now,
            Entry::Vacant(vacant) => drop(vacant.insert(now)),
        }
    }
}

/// Plain rewrites with these footprints.
pub(crate) fn rewrites<S: OrderedSet>(footprints: &[Footprint]) -> Vec<PlainRewrite<S>> {
    let rewrite = |(footprint, at): (&Footprint, u64)| PlainRewrite {
        scope_hash: scope_hash(at),
        footprint: footprint.into(),
        ..PlainRewrite::default()
    };
    footprints.iter().zip(0..).map(rewrite).collect()
}

/// A scope hash that sorts as its number.
pub(crate) fn scope_hash(at: u64) -> ScopeHash {
    let mut scope_hash = [0; 32];
    scope_hash[..8].copy_from_slice(&at.to_be_bytes());
    scope_hash
}
