//! How entries are linked: into the ring of those that hold a key, or into a list of those that wait for it.

use super::blocks::{Blocks, Entry};
use crate::chains::NONE;

/// Some that wait for the same, first to last. What stands before the first and after the last means nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct List {
    pub(crate) first: u32,
    pub(crate) last: u32,
}

impl List {
    pub(crate) const EMPTY: List = List { first: NONE, last: NONE };

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first == NONE
    }
}

impl Blocks {
    /// Links an entry, a ring of its own, into the ring that begins with `head`: in front, or last.
    pub(crate) fn link(&mut self, head: &mut u32, at: u32, in_front: bool) {
        if *head == NONE {
            *head = at;
            return;
        }
        let (next, last) = (*head, self.get(*head).prev);
        let entry = self.get_mut(at);
        (entry.next, entry.prev) = (next, last);
        self.get_mut(next).prev = at;
        self.get_mut(last).next = at;
        if in_front {
            *head = at;
        }
    }

    /// Takes an entry out of the ring that begins with `head`.
    pub(crate) fn unlink(&mut self, head: &mut u32, at: u32) {
        let Entry { next, prev, .. } = *self.get(at);
        if next == at {
            *head = NONE;
            return;
        }
        self.get_mut(next).prev = prev;
        self.get_mut(prev).next = next;
        if *head == at {
            *head = next;
        }
    }

    /// Puts an entry last in a list.
    #[inline]
    pub(crate) fn push(&mut self, list: &mut List, at: u32) {
        if list.is_empty() {
            list.first = at;
        } else {
            self.get_mut(list.last).next = at;
            self.get_mut(at).prev = list.last;
        }
        list.last = at;
    }

    /// Puts an entry into a list that is not empty: after another, or first.
    #[inline]
    pub(crate) fn insert(&mut self, list: &mut List, after: Option<u32>, at: u32) {
        match after {
            Some(last) if last == list.last => self.push(list, at),
            Some(before) => {
                let next = self.get(before).next;
                self.get_mut(before).next = at;
                self.get_mut(next).prev = at;
                let entry = self.get_mut(at);
                (entry.next, entry.prev) = (next, before);
            }
            None => {
                self.get_mut(list.first).prev = at;
                self.get_mut(at).next = list.first;
                list.first = at;
            }
        }
    }

    /// Takes an entry out of a list; it is a ring of its own.
    #[inline]
    pub(crate) fn remove(&mut self, list: &mut List, at: u32) {
        let entry = self.get_mut(at);
        let (next, prev) = (entry.next, entry.prev);
        (entry.next, entry.prev) = (at, at);
        match (list.first == at, list.last == at) {
            (true, true) => *list = List::EMPTY,
            (true, false) => list.first = next,
            (false, true) => list.last = prev,
            (false, false) => {
                self.get_mut(prev).next = next;
                self.get_mut(next).prev = prev;
            }
        }
    }

    /// A list from its first to its last.
    pub(crate) fn walk(&self, list: List) -> impl Iterator<Item = u32> {
        let after = move |&at: &u32| (at != list.last).then(|| self.get(at).next);
        std::iter::successors((!list.is_empty()).then_some(list.first), after)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Key, Request, Use};
    use super::*;
    use crate::Mode;

    #[test]
    fn lists_give_up_their_ends_and_their_middle() {
        for gone in 0..3 {
            let mut blocks = Blocks::default();
            let wanted = Use { key: Key(0), mode: Mode::Write, units: 0 };
            let slot = blocks.place(0, &Request::pack(&[wanted; 3]));
            let (mut list, entries) = (List::EMPTY, blocks.entries(slot));
            entries.clone().for_each(|entry| blocks.push(&mut list, entry));
            blocks.remove(&mut list, gone);
            assert!(blocks.walk(list).eq(entries.filter(|&entry| entry != gone)));
        }
    }
}
