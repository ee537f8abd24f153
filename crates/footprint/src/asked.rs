//! What footprints want that are asked for one after another.

use std::hint::black_box;
use std::ops::Range;

use crate::wanted::Want;

/// Footprints in a [`Group`]: as many as have a bit in a word.
pub(crate) const TOGETHER: usize = 64;

/// Bytes that come into a cache together.
const LINE: usize = 64;

/// What footprints want, in the order in which they are asked for. Flat: whoever asks for all of them follows no pointers, and
/// reads from one end to the other.
#[derive(Default)]
pub(crate) struct Asked {
    wants: Vec<Want>,
    /// Where the wants of each footprint end.
    ends: Vec<u32>,
    /// How many keys each wants, where all want as many.
    each: Option<usize>,
}

impl Asked {
    /// Adds a footprint. All together want fewer than 2^32 keys.
    #[inline]
    pub(crate) fn push(&mut self, wants: &[Want]) {
        self.each = if self.ends.is_empty() {
            Some(wants.len())
        } else {
            self.each.filter(|each| *each == wants.len())
        };
        self.wants.extend_from_slice(wants);
        self.ends.push(self.wants.len() as u32);
    }

    /// Adds footprints of which each wants so many keys, where none was before.
    pub(crate) fn set<'a, const EACH: usize>(
        &mut self,
        footprints: impl ExactSizeIterator<Item = &'a [Want]>,
    ) {
        self.each = Some(EACH);
        self.wants.resize(footprints.len() * EACH, Want::NOTHING);
        self.ends.extend((1..=footprints.len()).map(|at| (at * EACH) as u32));
        // Of a length that is known, they are copied without a call.
        for (to, from) in self.wants.as_chunks_mut::<EACH>().0.iter_mut().zip(footprints) {
            if let Some(from) = from.as_array() {
                *to = *from;
            }
        }
    }

    /// How many footprints there are.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// What all of them want.
    #[inline]
    pub(crate) fn wants(&self) -> &[Want] {
        &self.wants
    }

    /// How many keys each wants, where all want as many.
    #[inline]
    pub(crate) fn each(&self) -> Option<usize> {
        self.each
    }

    /// How many keys the first so many want.
    #[inline]
    pub(crate) fn count(&self, first: usize) -> usize {
        self.ends[..first].last().map_or(0, |end| *end as usize)
    }

    /// What one of them wants.
    #[inline]
    pub(crate) fn get(&self, at: usize) -> &[Want] {
        &self.wants[self.count(at)..self.count(at + 1)]
    }

    /// All of them, some at a time.
    #[inline]
    pub(crate) fn groups(&self) -> impl Iterator<Item = Group<'_>> {
        let (mut rest, mut start) = (&self.wants[..], 0);
        self.ends.chunks(TOGETHER).map(move |ends| {
            let end = ends.last().copied().unwrap_or(start);
            let (wants, others) = rest.split_at((end - start) as usize);
            rest = others;
            Group { wants, start: std::mem::replace(&mut start, end), ends }
        })
    }

    /// Forgets everything and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.wants.clear();
        self.ends.clear();
        self.each = None;
    }
}

/// What some footprints want that stand side by side.
#[derive(Clone, Copy)]
pub(crate) struct Group<'a> {
    /// The wants of all of them.
    pub(crate) wants: &'a [Want],
    /// Where these begin among those of all, and where the wants of each end there.
    start: u32,
    ends: &'a [u32],
}

impl<'a> Group<'a> {
    /// How many footprints they are.
    #[cfg(test)]
    pub(crate) fn len(self) -> usize {
        self.ends.len()
    }

    /// Reads along the wants, so that they come into the nearer caches in one go. Whoever needs one here and there would wait for
    /// each.
    #[inline]
    pub(crate) fn fetch(self) {
        let along = self.wants.iter().step_by(LINE / size_of::<Want>());
        black_box(along.fold(0, |all, want| all ^ want.used().bits()));
    }

    /// Where their wants stand among those of all.
    #[inline]
    pub(crate) fn range(self) -> Range<usize> {
        self.start as usize..self.start as usize + self.wants.len()
    }

    /// The wants of each.
    #[inline]
    pub(crate) fn footprints(self) -> impl Iterator<Item = &'a [Want]> {
        self.split(self.wants)
    }

    /// Of things that stand as the wants do, those of each.
    #[inline]
    pub(crate) fn split<T>(self, mut rest: &'a [T]) -> impl Iterator<Item = &'a [T]> {
        let mut start = self.start;
        self.ends.iter().map(move |&end| {
            let (of_one, others) = rest.split_at((end - start) as usize);
            (rest, start) = (others, end);
            of_one
        })
    }
}
