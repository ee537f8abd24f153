//! Waiting work, drained in one order whatever order it came in.

use crate::order::Sorter;
use crate::{RuleId, ScopeHash};

/// Work that has a place in the order.
pub trait InOrder {
    /// The hash of its scope.
    fn scope_hash(&self) -> &ScopeHash;
    /// Its rule.
    fn rule(&self) -> RuleId;
}

impl InOrder for (ScopeHash, RuleId) {
    #[inline]
    fn scope_hash(&self) -> &ScopeHash {
        &self.0
    }

    #[inline]
    fn rule(&self) -> RuleId {
        self.1
    }
}

/// Work in one transaction: numbers of items are 32 bits.
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

/// Recent items remembered by their hash, so that a repeated one replaces the earlier at once: what half of the first
/// cache holds.
const RECENT: usize = 2048;

/// So many items are looked for among the recent ones to see whether that pays; where fewer than one in eight is found, so
/// many times as many come unlooked for before it is tried again.
const LOOKED: u32 = 128;
const UNLOOKED: u32 = 31 * LOOKED;

/// A queue that is filled in any order and drained by (scope hash, rule).
///
/// Of several items with the same scope hash and rule **the last wins**: who matched again knows more. The order of
/// coming, the nonce of the specification, therefore decides which one stays, and then nothing more.
///
/// Draining is linear: one scatter by the leading bits of the hashes that differ, then a walk that puts neighbours right.
/// Hashes that were chosen to share a bucket are scattered again by the bits that follow, never compared all with all.
pub struct Pending<T> {
    items: Vec<T>,
    /// The first eight bytes of each item's hash.
    heads: Vec<u64>,
    /// Items that came lately, by the first bits of their heads: half of the head, and the number. They are hints, and may
    /// be of a time before; where the item of a hint is the same and looks go back to it, no later one is.
    recent: Box<[u64; RECENT]>,
    looks: Looks,
    sorter: Sorter,
}

/// Whether items are looked for among the recent ones.
#[derive(Default)]
struct Looks {
    /// The number of the first item since which all were.
    from: u32,
    /// How many were, and found, since it was last judged.
    looked: u32,
    found: u32,
    /// How many more come unlooked for.
    left_out: u32,
}

impl Looks {
    /// One was looked for, of this number if it is new, and found or not.
    #[inline]
    fn note(&mut self, found: bool, number: u32) {
        self.looked += 1;
        self.found += u32::from(found);
        if self.looked == LOOKED {
            if self.found < LOOKED / 8 {
                self.from = number.saturating_add(1 + UNLOOKED);
                self.left_out = UNLOOKED;
            }
            (self.looked, self.found) = (0, 0);
        }
    }
}

impl<T> Default for Pending<T> {
    fn default() -> Pending<T> {
        let recent = Box::new([u64::MAX; RECENT]);
        Pending {
            items: Vec::new(),
            heads: Vec::new(),
            recent,
            looks: Looks::default(),
            sorter: Sorter::default(),
        }
    }
}

impl<T: InOrder> Pending<T> {
    /// With nothing in it.
    pub fn new() -> Pending<T> {
        Pending::default()
    }

    /// Adds an item, or replaces the one with the same scope hash and rule.
    #[inline]
    pub fn enqueue(&mut self, item: T) -> Result<(), PendingFull> {
        self.put(item).map(drop)
    }

    /// As [`enqueue`](Pending::enqueue), and says the number of the item among all that came.
    #[inline]
    pub(crate) fn put(&mut self, item: T) -> Result<u32, PendingFull> {
        let head = head(item.scope_hash());
        if self.looks.left_out == 0 {
            return self.put_looked_for(item, head);
        }
        self.looks.left_out -= 1;
        self.push(item, head)
    }

    /// Adds an item, unless one with the same scope hash and rule came lately: then it takes its place.
    #[inline(never)]
    fn put_looked_for(&mut self, item: T, head: u64) -> Result<u32, PendingFull> {
        let number = self.items.len() as u32;
        let recent = &mut self.recent[(head >> 53) as usize % RECENT];
        let hint = *recent as u32;
        if (*recent >> 32) as u32 == head as u32
            && hint >= self.looks.from
            && let Some(known) = self.items.get_mut(hint as usize)
            && known.rule() == item.rule()
            && known.scope_hash() == item.scope_hash()
        {
            *known = item;
            self.looks.note(true, number);
            return Ok(hint);
        }
        *recent = head << 32 | u64::from(number);
        self.looks.note(false, number);
        self.push(item, head)
    }

    #[inline]
    fn push(&mut self, item: T, head: u64) -> Result<u32, PendingFull> {
        if self.items.len() >= PENDING_MAX {
            return Err(PendingFull);
        }
        self.items.push(item);
        self.heads.push(head);
        Ok(self.items.len() as u32 - 1)
    }

    /// How many came, some of them perhaps to be replaced.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether nothing is pending.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Takes everything out, in order. Items are not moved: the order is a list of their numbers.
    pub fn drain(&mut self) -> Drained<T> {
        let mut order = std::mem::take(&mut self.sorter.order);
        self.sorter.sort(&self.items, &self.heads, &mut order);
        self.heads.clear();
        self.looks = Looks::default();
        Drained { items: std::mem::take(&mut self.items), order }
    }

    /// Gives the memory of what was drained back, to be used again.
    pub fn recycle(&mut self, mut drained: Drained<T>) {
        drained.items.clear();
        drained.order.clear();
        if self.items.is_empty() && self.items.capacity() < drained.items.capacity() {
            self.items = drained.items;
        }
        if self.sorter.order.capacity() < drained.order.capacity() {
            self.sorter.order = drained.order;
        }
    }
}

/// What was drained: by (scope hash, rule), each pair once.
#[derive(Debug)]
pub struct Drained<T> {
    items: Vec<T>,
    order: Vec<u32>,
}

impl<T> Drained<T> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// The item at a place in the order.
    #[inline]
    pub fn get(&self, place: usize) -> Option<&T> {
        self.order.get(place).map(|&at| &self.items[at as usize])
    }

    /// The item at a place in the order.
    #[inline]
    pub fn get_mut(&mut self, place: usize) -> Option<&mut T> {
        self.order.get(place).map(|&at| &mut self.items[at as usize])
    }

    /// The items in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &T> {
        self.order.iter().map(|&at| &self.items[at as usize])
    }

    /// When each one came among all that came, in order: the numbers behind [`iter`](Drained::iter).
    pub fn order(&self) -> &[u32] {
        &self.order
    }
}

/// The first eight bytes, as a number that sorts as they do.
#[inline]
pub(crate) fn head(hash: &ScopeHash) -> u64 {
    word(hash, 0)
}

/// Eight of the bytes, as a number that sorts as they do.
#[inline]
pub(crate) fn word(hash: &ScopeHash, word: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&hash[word * 8..word * 8 + 8]);
    u64::from_be_bytes(bytes)
}
