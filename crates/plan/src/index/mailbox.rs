//! How a reader that reads all the time gets the newest: it has a mailbox, and looks into it before every read.
//!
//! What costs time while a writer is at work is not the work but the way of cache lines between the two cores. So a
//! mailbox is one line, and a look takes it over at once instead of reading first and writing then. The reader leaves
//! what it had for the writer to throw away: the counters of an index, too, are lines that both would write.
//!
//! The file is also compiled by a test with other cells (`super::sync`), which changes threads at every step.

use std::mem;
use std::sync::Arc;

use super::sync::AtomicCell;

/// One writer puts in at a time, one reader takes out. Neither ever waits.
#[repr(align(128))] // A line of its own, and not the neighbour of one that others write.
pub(super) struct Mailbox<T> {
    /// What the reader has not seen yet.
    newest: AtomicCell<Option<Arc<T>>>,
    /// What the reader has done with.
    done: AtomicCell<Option<Arc<T>>>,
}

impl<T> Mailbox<T> {
    /// An empty one.
    pub(super) fn new() -> Mailbox<T> {
        Mailbox { newest: AtomicCell::new(None), done: AtomicCell::new(None) }
    }

    /// Puts the next one in, and throws away what nobody will read any more.
    pub(super) fn put(&self, item: Arc<T>) {
        let unread = self.newest.swap(Some(item));
        let done = self.done.take();
        drop((unread, done));
    }

    /// Exchanges what the reader has for the newest, if there is a newer one.
    #[inline]
    pub(super) fn exchange(&self, had: &mut Arc<T>) {
        if let Some(newest) = self.newest.take() {
            // Empty, unless the writer has put in another one and not come to this yet.
            drop(self.done.swap(Some(mem::replace(had, newest))));
        }
    }
}
