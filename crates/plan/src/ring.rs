//! Promised runs waiting for their millisecond.

use std::collections::BTreeMap;

use cadran_core::Millis;

/// Holds what was promised and gives it back, in order, once its instant has come.
///
/// The pre-read window keeps at most a few thousand distinct instants here, however many runs share them, so a
/// sorted map from instant to runs is both smaller and faster to take from than a slot for every second of a
/// minute: a burst of 100,000 runs due together is one entry and leaves as one list.
#[derive(Debug)]
pub struct Ring<T> {
    by_due: BTreeMap<Millis, Vec<T>>,
    len: usize,
}

impl<T> Default for Ring<T> {
    fn default() -> Ring<T> {
        Ring { by_due: BTreeMap::new(), len: 0 }
    }
}

impl<T> Ring<T> {
    /// Puts one in. An instant that has passed already is allowed: it leaves at the next [`Ring::take_due`].
    pub fn push(&mut self, due: Millis, item: T) {
        self.by_due.entry(due).or_default().push(item);
        self.len += 1;
    }

    /// Takes out what waits for an instant and is not wanted any more.
    pub fn remove(&mut self, due: Millis, is_it: impl Fn(&T) -> bool) {
        let Some(items) = self.by_due.get_mut(&due) else { return };
        let before = items.len();
        items.retain(|item| !is_it(item));
        self.len -= before - items.len();
        if items.is_empty() {
            self.by_due.remove(&due);
        }
    }

    /// When the next one leaves.
    pub fn next_due(&self) -> Option<Millis> {
        self.by_due.first_key_value().map(|(&due, _)| due)
    }

    /// Takes the items of the earliest instant, if it has come by `now`, in the order they were put in.
    pub fn take_due(&mut self, now: Millis) -> Option<(Millis, Vec<T>)> {
        let entry = self.by_due.first_entry()?;
        if *entry.key() > now {
            return None;
        }
        let (due, items) = entry.remove_entry();
        self.len -= items.len();
        Some((due, items))
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_leave_at_their_instant_in_order() {
        let mut ring = Ring::default();
        for (due, item) in [(2000, "c"), (1000, "a"), (1000, "b"), (1250, "x")] {
            ring.push(due, item);
        }
        assert_eq!(ring.next_due(), Some(1000));
        assert_eq!(ring.take_due(999), None);
        assert_eq!(ring.take_due(1000), Some((1000, vec!["a", "b"])));
        assert_eq!(ring.take_due(1100), None);
        assert_eq!(ring.take_due(5000), Some((1250, vec!["x"])));
        assert_eq!(ring.len(), 1);
        assert_eq!(ring.take_due(5000), Some((2000, vec!["c"])));
        assert!(ring.is_empty() && ring.next_due().is_none());
    }
}
