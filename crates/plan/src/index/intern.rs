//! Equal values get one number, kept as long as somebody uses it.

use std::hash::{Hash, Hasher};

use hashbrown::HashTable;
use rustc_hash::FxHasher;

use super::chunked::Chunked;

/// Numbered values, each once, with a count of users. The smallest free number is not sought; the last freed is reused.
#[derive(Clone, Debug)]
pub(super) struct Interner<T> {
    values: Chunked<Option<T>>,
    uses: Vec<u32>,
    free: Vec<u32>,
    numbers: HashTable<u32>,
}

impl<T: Clone + Eq + Hash> Interner<T> {
    pub(super) fn new() -> Interner<T> {
        Interner { values: Chunked::new(None), uses: Vec::new(), free: Vec::new(), numbers: HashTable::new() }
    }

    /// The number of `value`, with one more use of it. Also says whether it is new.
    pub(super) fn take(&mut self, value: &T) -> (u32, bool) {
        let hash = hash_of(value);
        if let Some(&number) = self.numbers.find(hash, |&n| self.values.get(n).as_ref() == Some(value)) {
            self.uses[number as usize] += 1;
            return (number, false);
        }
        let number = self.free.pop().unwrap_or(self.uses.len() as u32);
        if number as usize == self.uses.len() {
            self.uses.push(0);
        }
        self.uses[number as usize] = 1;
        *self.values.get_mut(number) = Some(value.clone());
        let values = &self.values;
        self.numbers.insert_unique(hash, number, |&n| values.get(n).as_ref().map_or(0, hash_of));
        (number, true)
    }

    /// One use less. Returns the value when that was the last.
    pub(super) fn give_back(&mut self, number: u32) -> Option<T> {
        let uses = &mut self.uses[number as usize];
        *uses -= 1;
        if *uses > 0 {
            return None;
        }
        let value = self.values.get_mut(number).take()?;
        if let Ok(entry) = self.numbers.find_entry(hash_of(&value), |&n| n == number) {
            entry.remove();
        }
        self.free.push(number);
        Some(value)
    }

    /// How many values there are.
    pub(super) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// The values by number.
    pub(super) fn values(&self) -> &Chunked<Option<T>> {
        &self.values
    }

    /// Bytes of the tables, the values' own heap left aside.
    pub(super) fn bytes(&self) -> usize {
        let lists = (self.uses.capacity() + self.free.capacity()) * 4;
        self.values.bytes() + lists + self.numbers.allocation_size()
    }
}

fn hash_of<T: Hash>(value: &T) -> u64 {
    let mut hasher = FxHasher::default();
    value.hash(&mut hasher);
    hasher.finish()
}
