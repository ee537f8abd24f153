use super::{RuleId, ScopeHash};

/// What decides an item's place when it is drained.
pub trait DrainKey {
    /// The hash of its scope.
    fn scope_hash(&self) -> &ScopeHash;
    /// Its rule.
    fn rule(&self) -> RuleId;
}

/// Items in one queue: their numbers are 32 bits.
pub const PENDING_MAX: usize = u32::MAX as usize - 1;

/// More than [`PENDING_MAX`] items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingFull;

impl std::fmt::Display for PendingFull {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "more than {PENDING_MAX} rewrites are pending; drain them first")
    }
}

impl std::error::Error for PendingFull {}

/// A queue that is filled in any order and drained by (scope hash, rule).
///
/// Of several items with the same scope hash and rule **the last wins**: who matched again knows more. The order of
/// arrival, the nonce of the specification, decides which one stays and nothing else.
pub struct Pending<T> {
    /// Always present; an `Option` so that draining can move items out in any order.
    items: Vec<Option<T>>,
    /// The first eight bytes of each item's hash, as a number that sorts as they do.
    prefixes: Vec<u64>,
}

impl<T> Default for Pending<T> {
    fn default() -> Pending<T> {
        Pending { items: Vec::new(), prefixes: Vec::new() }
    }
}

impl<T: DrainKey> Pending<T> {
    /// An empty queue.
    pub fn new() -> Pending<T> {
        Pending::default()
    }

    /// Adds an item, which replaces one with the same scope hash and rule.
    #[inline]
    pub fn enqueue(&mut self, item: T) -> Result<(), PendingFull> {
        if self.items.len() >= PENDING_MAX {
            return Err(PendingFull);
        }
        let [prefix, ..] = item.scope_hash().as_chunks::<8>().0 else { return Err(PendingFull) };
        self.prefixes.push(u64::from_be_bytes(*prefix));
        self.items.push(Some(item));
        Ok(())
    }

    /// How many items came, including those that a later one replaces.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether nothing is pending.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Takes everything out, in order, each (scope hash, rule) once.
    pub fn drain(&mut self) -> Vec<T> {
        let order = self.order();
        let drained = order.iter().filter_map(|&at| self.items[at as u32 as usize].take()).collect();
        self.items.clear();
        self.prefixes.clear();
        drained
    }

    /// The numbers of the items that stay, in order, in the low halves.
    fn order(&self) -> Vec<u64> {
        let Some(&first) = self.prefixes.first() else { return Vec::new() };
        // The 32 leading bits in which any two prefixes differ, and the item's number: sorting plain integers is several
        // times faster than comparing hashes, and settles nearly every pair of fair hashes.
        let shift = self.prefixes.iter().fold(0, |differ, prefix| differ | (prefix ^ first)).leading_zeros();
        let leading = |prefix: u64| prefix.checked_shl(shift).unwrap_or(0) >> 32 << 32;
        let mut order: Vec<u64> =
            self.prefixes.iter().zip(0u64..).map(|(&prefix, number)| leading(prefix) | number).collect();
        order.sort_unstable();
        if order.windows(2).all(|pair| pair[0] >> 32 != pair[1] >> 32) {
            return order;
        }
        let key = |at: u64| {
            let item = self.items[at as u32 as usize].as_ref();
            item.map(|item| (item.scope_hash(), item.rule()))
        };
        for alike in order.chunk_by_mut(|a, b| a >> 32 == b >> 32) {
            alike.sort_unstable_by(|&a, &b| key(a).cmp(&key(b)).then(a.cmp(&b)));
        }
        // `dedup_by` keeps the first of equals, and the last is wanted.
        order.reverse();
        order.dedup_by(|earlier, last| *earlier >> 32 == *last >> 32 && key(*earlier) == key(*last));
        order.reverse();
        order
    }
}
