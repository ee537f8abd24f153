use super::Owner;
use crate::chains::{Chains, LINE, NONE};
use crate::mix;

/// One that holds or waits.
#[derive(Clone, Copy)]
pub(crate) struct Record {
    pub(crate) owner: Owner,
    /// Its block of entries.
    pub(crate) start: u32,
    pub(crate) len: u32,
    /// Its record as a waiter, while it waits.
    pub(crate) waiter: u32,
    /// Entries that are still in line, when it has a ticket.
    pub(crate) in_line: u32,
}

impl Record {
    /// The numbers of its entries.
    pub(crate) fn entries(&self) -> std::ops::Range<u32> {
        self.start..self.start + self.len
    }
}

/// Owners by slot, found by their number.
#[derive(Default)]
pub(crate) struct Owners {
    records: Vec<Record>,
    vacant: Vec<u32>,
    chains: Chains<Owner>,
}

impl Owners {
    #[inline]
    pub(crate) fn find(&self, owner: Owner) -> Option<u32> {
        self.find_hashed(hash(owner), owner)
    }

    /// As [`find`](Owners::find), with the hash at hand.
    #[inline]
    pub(crate) fn find_hashed(&self, hash: u64, owner: Owner) -> Option<u32> {
        self.chains.find(hash, |slot| self.records[slot as usize].owner == owner, || owner)
    }

    /// The slot that [`insert`](Owners::insert) will use next.
    #[inline]
    pub(crate) fn next(&self) -> u32 {
        self.vacant.last().copied().unwrap_or(self.records.len() as u32)
    }

    #[inline]
    pub(crate) fn insert(&mut self, hash: u64, record: Record) -> u32 {
        let slot = match self.vacant.pop() {
            Some(slot) => {
                self.records[slot as usize] = record;
                slot
            }
            None => {
                self.records.push(record);
                (self.records.len() - 1) as u32
            }
        };
        let (owner, records) = (record.owner, &self.records);
        let hash_of = |slot: u32| self::hash(records[slot as usize].owner);
        self.chains.insert(hash, slot, || owner, hash_of);
        slot
    }

    #[inline]
    pub(crate) fn remove(&mut self, hash: u64, slot: u32) {
        let owner = self.records[slot as usize].owner;
        self.chains.remove(hash, slot, || owner);
        self.vacant.push(slot);
    }

    /// Nobody is left.
    pub(crate) fn begin_again(&mut self) {
        self.records.clear();
        self.vacant.clear();
    }

    #[inline]
    pub(crate) fn get(&self, slot: u32) -> &Record {
        &self.records[slot as usize]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, slot: u32) -> &mut Record {
        &mut self.records[slot as usize]
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.records.len() - self.vacant.len()
    }

    /// The waiter of an owner, if it waits.
    #[inline]
    pub(crate) fn waiter(&self, slot: u32) -> Option<u32> {
        Some(self.get(slot).waiter).filter(|&waiter| waiter != NONE)
    }
}

/// Owners that follow one another, as runs of one moment do, share a cache line of buckets, in an order that differs from
/// line to line.
#[inline]
pub(crate) fn hash(owner: Owner) -> u64 {
    let line = mix::number(owner / LINE as u64);
    let bucket = (owner ^ line >> 8) % LINE as u64;
    line - line % LINE as u64 + bucket
}
