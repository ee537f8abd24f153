//! What waits for the loop's next iteration.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A mailbox with many senders and one reader, which takes everything at once.
///
/// A condition variable waits on a high-resolution timer of the kernel, so a due wakes the loop to some tens of
/// microseconds; the timers of the async runtime have a grid of a millisecond.
#[derive(Debug)]
pub struct Inbox<T> {
    queue: Mutex<Queue<T>>,
    arrived: Condvar,
    len_max: usize,
}

#[derive(Debug)]
struct Queue<T> {
    items: Vec<T>,
    closed: bool,
}

/// The inbox is full, or nobody reads it any more; the item comes back.
#[derive(Debug)]
pub struct Full<T>(pub T);

impl<T> Inbox<T> {
    /// A box for at most `len_max` items from outside.
    pub fn new(len_max: usize) -> Inbox<T> {
        Inbox {
            queue: Mutex::new(Queue { items: Vec::new(), closed: false }),
            arrived: Condvar::new(),
            len_max,
        }
    }

    /// Puts in what comes from outside. Refused when the box is full: whoever asks may ask again.
    pub fn offer(&self, item: T) -> Result<(), Full<T>> {
        let mut queue = self.lock();
        if queue.closed || queue.items.len() >= self.len_max {
            return Err(Full(item));
        }
        queue.items.push(item);
        drop(queue);
        self.arrived.notify_one();
        Ok(())
    }

    /// Puts in what must not be refused, and whose number is bounded elsewhere: reports of live attempts, finished
    /// commits, changes of files.
    pub fn put(&self, item: T) {
        self.lock().items.push(item);
        self.arrived.notify_one();
    }

    /// Takes everything, waiting for it up to `timeout` (for ever without one).
    pub fn take(&self, timeout: Option<Duration>, into: &mut Vec<T>) {
        let mut queue = self.lock();
        if queue.items.is_empty() {
            queue = match timeout {
                Some(Duration::ZERO) => queue,
                Some(timeout) => {
                    let waited = self.arrived.wait_timeout(queue, timeout);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.arrived.wait(queue).unwrap_or_else(PoisonError::into_inner),
            };
        }
        into.append(&mut queue.items);
    }

    /// From now on every offer is refused. What is inside is given back.
    pub fn close(&self) -> Vec<T> {
        let mut queue = self.lock();
        queue.closed = true;
        std::mem::take(&mut queue.items)
    }

    fn lock(&self) -> MutexGuard<'_, Queue<T>> {
        // A sender that panicked cannot have left a half-pushed item.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_box_refuses_what_comes_from_outside_only() {
        let inbox = Inbox::new(2);
        assert!(inbox.offer(1).is_ok() && inbox.offer(2).is_ok());
        assert!(matches!(inbox.offer(3), Err(Full(3))));
        inbox.put(4);
        let mut taken = Vec::new();
        inbox.take(None, &mut taken);
        assert_eq!(taken, [1, 2, 4]);
        assert!(inbox.close().is_empty());
        assert!(inbox.offer(5).is_err());
    }
}
