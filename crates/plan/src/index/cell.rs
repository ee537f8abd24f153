//! The place where the current index hangs: readers take it without a lock, a writer replaces it whole.

use std::fmt;
use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};

use super::Index;

/// Holds the current [`Index`]. Reading never waits, not even while it is replaced, and what was read stays valid for
/// as long as the reader keeps it.
///
/// What a read costs while a writer swaps without pause is the way of a few cache lines from its core to the reader's.
/// Cells of our own, with a pin for each reader and memory given back in batches, were measured beside `arc-swap`: on
/// cores that share a cache all read within a few times the quiet median, on distant ones all took about as long, so
/// this is the one without unsafe code.
pub struct IndexCell(ArcSwap<Index>);

impl IndexCell {
    /// A cell that starts with `index`.
    pub fn new(index: Index) -> IndexCell {
        IndexCell(ArcSwap::from_pointee(index))
    }

    /// The current index, for a short look: the cheapest way to read. Keep [`snapshot`](IndexCell::snapshot) instead
    /// when the look may last.
    pub fn read(&self) -> IndexGuard {
        IndexGuard(self.0.load())
    }

    /// The current index, to keep.
    pub fn snapshot(&self) -> Arc<Index> {
        self.0.load_full()
    }

    /// Puts `next` in place and returns what hung there. Readers that hold the old one are not disturbed.
    pub fn swap(&self, next: impl Into<Arc<Index>>) -> Arc<Index> {
        self.0.swap(next.into())
    }
}

impl Default for IndexCell {
    fn default() -> IndexCell {
        IndexCell::new(Index::default())
    }
}

impl fmt::Debug for IndexCell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("IndexCell").field(&*self.read()).finish()
    }
}

/// A look at the index of an [`IndexCell`].
pub struct IndexGuard(Guard<Arc<Index>>);

impl std::ops::Deref for IndexGuard {
    type Target = Index;

    fn deref(&self) -> &Index {
        &self.0
    }
}
