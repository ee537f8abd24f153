//! What many rewrites want, one after another.

use std::ops::Range;

use crate::footprint::{ClassUse, Footprint, MixedKey};
use crate::pending::PendingFull;

/// A key that is wanted, and how it is to be used.
///
/// Packed: long lists of them are read from one end to the other, and what counts is how many bytes that are.
#[derive(Clone, Copy, Debug)]
#[repr(C, packed)]
pub(crate) struct Want {
    pub(crate) key: MixedKey,
    pub(crate) used: ClassUse,
}

impl Want {
    #[inline(always)]
    pub(crate) fn key(&self) -> MixedKey {
        self.key
    }

    #[inline(always)]
    pub(crate) fn used(&self) -> ClassUse {
        self.used
    }
}

/// What many rewrites want, flat: whoever reserves for all of them follows no pointers.
#[derive(Default)]
pub(crate) struct Wanted {
    wants: Vec<Want>,
    /// Which of them are whose, by the number of the rewrite.
    spans: Vec<Span>,
    /// The same in the order in which they were drained.
    in_order: Vec<Span>,
    /// How many keys each of these wants, where all want as many.
    each: Option<u32>,
}

#[derive(Clone, Copy, Default)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) len: u32,
}

impl Span {
    #[inline]
    pub(crate) fn range(self) -> Range<usize> {
        self.start as usize..self.start as usize + self.len as usize
    }
}

impl Wanted {
    /// Adds what a footprint wants, to be [given](Wanted::give) to a rewrite.
    #[inline]
    pub(crate) fn add(&mut self, footprint: &Footprint) -> Result<Span, PendingFull> {
        let start = self.wants.len();
        if start + footprint.len() > u32::MAX as usize {
            return Err(PendingFull);
        }
        footprint.add_wants(&mut self.wants);
        Ok(Span { start: start as u32, len: footprint.len() as u32 })
    }

    /// Says whose wants these are. What a rewrite was given before is not looked at again.
    #[inline]
    pub(crate) fn give(&mut self, number: u32, span: Span) {
        if self.spans.len() <= number as usize {
            self.spans.resize(number as usize + 1, Span::default());
        }
        self.spans[number as usize] = span;
    }

    /// Puts the wants of rewrites in their order.
    pub(crate) fn arrange(&mut self, order: &[u32]) {
        self.in_order.extend(order.iter().map(|&number| self.spans[number as usize]));
        let first = self.in_order.first().map(|span| span.len);
        self.each = first.filter(|&len| self.in_order.iter().all(|span| span.len == len));
    }

    /// Whose wants are which, in the order of [`arrange`](Wanted::arrange).
    pub(crate) fn in_order(&self) -> &[Span] {
        &self.in_order
    }

    /// How many keys each of those in order wants, where all want as many.
    #[inline]
    pub(crate) fn each(&self) -> Option<u32> {
        self.each
    }

    /// How many keys some of those in order want.
    #[inline]
    pub(crate) fn count(&self, spans: &[Span]) -> usize {
        match self.each {
            Some(each) => each as usize * spans.len(),
            None => spans.iter().map(|span| span.len as usize).sum(),
        }
    }

    /// All wants.
    #[inline]
    pub(crate) fn all(&self) -> &[Want] {
        &self.wants
    }

    #[inline]
    pub(crate) fn get(&self, span: Span) -> &[Want] {
        &self.wants[span.range()]
    }

    /// Forgets everything and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.wants.clear();
        self.spans.clear();
        self.in_order.clear();
    }
}
