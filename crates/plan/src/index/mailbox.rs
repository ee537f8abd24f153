//! How a reader that reads all the time gets the newest: it has a mailbox, and looks into it before every read.
//!
//! What costs time while a writer is at work is not the work but the way of cache lines between the two cores. So a
//! mailbox is one line: when nothing came, looking is one load from it; when something came, one exchange. The reader
//! leaves what it had in the mailbox's place, and the writer throws it away: a reader never frees, and never counts.
//!
//! The file is also compiled by a test with other locks (`super::sync`), which changes threads at every step.

use std::mem;
use std::sync::Arc;

use super::sync::{AtomicU64, Mutex, Ordering};

/// How often a reader looks again when a writer was in the place it looked at. Each time, the writer has put in two
/// more since the reader's look a few instructions before; after that many the reader is content with what it has.
const LOOKS_MAX: usize = 8;

/// Something and its number; numbers rise.
pub(super) type Numbered<T> = (u64, Arc<T>);

/// One writer puts in at a time, one reader takes out.
#[repr(align(128))] // A line of its own, and not the neighbour of one that others write.
pub(super) struct Mailbox<T> {
    /// The number of the last that was put in whole.
    last: AtomicU64,
    /// Odd and even numbers take turns, so that a writer is hardly ever where the reader looks.
    places: [Mutex<Numbered<T>>; 2],
}

impl<T> Mailbox<T> {
    /// For a reader that has `first`, number 0.
    pub(super) fn new(first: &Arc<T>) -> Mailbox<T> {
        let place = || Mutex::new((0, first.clone()));
        Mailbox { last: AtomicU64::new(0), places: [place(), place()] }
    }

    /// Puts the next one in. Only one writer may be here at a time. It waits when the reader is in the middle of an
    /// exchange.
    pub(super) fn put(&self, item: Arc<T>) {
        let number = self.last.load(Ordering::Relaxed) + 1;
        let gone = {
            let mut place = match self.places[place_of(number)].lock() {
                Ok(place) => place,
                Err(poisoned) => poisoned.into_inner(),
            };
            mem::replace(&mut *place, (number, item))
        };
        self.last.store(number, Ordering::Release);
        drop(gone);
    }

    /// Exchanges what the reader has for the newest, if there is a newer one. Never waits.
    #[inline]
    pub(super) fn exchange(&self, had: &mut Numbered<T>) {
        for _ in 0..LOOKS_MAX {
            let last = self.last.load(Ordering::Acquire);
            if last <= had.0 {
                return;
            }
            // A writer is there: it is two ahead, so there is a newer one by now.
            let Ok(mut place) = self.places[place_of(last)].try_lock() else { continue };
            // At least number `last`, which only this reader could have taken: newer than what it has.
            return mem::swap(&mut *place, had);
        }
    }
}

fn place_of(number: u64) -> usize {
    (number % 2) as usize
}
