//! A growable array that is cheap to copy: the copy shares its chunks until one side writes to them.

use std::sync::Arc;

/// Items in one chunk. A write after a copy duplicates one chunk; a copy takes a step per chunk. A little below a power
/// of two: with its two counters a chunk then fits the allocator's size class instead of starting the next one.
const CHUNK_LEN: usize = 1016;

/// An array over all of `u32`, blank where nothing was set. Blank stretches share one chunk.
#[derive(Clone, Debug)]
pub(super) struct Chunked<T> {
    chunks: Vec<Arc<[T; CHUNK_LEN]>>,
    blank: Arc<[T; CHUNK_LEN]>,
}

impl<T: Clone> Chunked<T> {
    pub(super) fn new(blank: T) -> Chunked<T> {
        Chunked { chunks: Vec::new(), blank: Arc::new(std::array::from_fn(|_| blank.clone())) }
    }

    pub(super) fn get(&self, place: u32) -> &T {
        let chunk = self.chunks.get(place as usize / CHUNK_LEN).unwrap_or(&self.blank);
        &chunk[place as usize % CHUNK_LEN]
    }

    pub(super) fn get_mut(&mut self, place: u32) -> &mut T {
        let number = place as usize / CHUNK_LEN;
        if number >= self.chunks.len() {
            self.chunks.resize(number + 1, self.blank.clone());
        }
        &mut Arc::make_mut(&mut self.chunks[number])[place as usize % CHUNK_LEN]
    }

    /// Every place up to the end of the last chunk, with what is there; blank stretches are passed over.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let chunks = self.chunks.iter().enumerate().filter(|(_, chunk)| !Arc::ptr_eq(chunk, &self.blank));
        chunks.flat_map(|(number, chunk)| {
            let first = (number * CHUNK_LEN) as u32;
            chunk.iter().enumerate().map(move |(n, item)| (first + n as u32, item))
        })
    }

    /// One more than the last place that may hold something.
    pub(super) fn end(&self) -> usize {
        self.chunks.len() * CHUNK_LEN
    }

    /// Bytes in chunks of its own and in the list of chunks.
    pub(super) fn bytes(&self) -> usize {
        let own = self.chunks.iter().filter(|chunk| !Arc::ptr_eq(chunk, &self.blank)).count() + 1;
        own * (size_of::<[T; CHUNK_LEN]>() + 16) + self.chunks.capacity() * size_of::<Arc<[T; CHUNK_LEN]>>()
    }
}
