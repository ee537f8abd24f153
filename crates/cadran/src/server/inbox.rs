//! What waits for the loop's next turn.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A mailbox with many senders and one reader, which takes everything at once.
///
/// A condition variable waits on a high-resolution timer of the kernel, so a due wakes the loop to some tens of
/// microseconds; the timers of the async runtime have a grid of a millisecond.
#[derive(Debug)]
pub struct Inbox<T> {
    mail: Mutex<Mail<T>>,
    arrived: Condvar,
    len_max: usize,
}

#[derive(Debug)]
struct Mail<T> {
    items: Vec<T>,
    closed: bool,
}

/// The mail box is full, or nobody reads it any more; the item comes back.
#[derive(Debug)]
pub struct Full<T>(pub T);

impl<T> Inbox<T> {
    /// A box for at most `len_max` items from outside.
    pub fn new(len_max: usize) -> Inbox<T> {
        Inbox {
            mail: Mutex::new(Mail { items: Vec::new(), closed: false }),
            arrived: Condvar::new(),
            len_max,
        }
    }

    /// Puts in what comes from outside. Refused when the box is full: whoever asks may ask again.
    pub fn offer(&self, item: T) -> Result<(), Full<T>> {
        let mut mail = self.lock();
        if mail.closed || mail.items.len() >= self.len_max {
            return Err(Full(item));
        }
        mail.items.push(item);
        drop(mail);
        self.arrived.notify_one();
        Ok(())
    }

    /// Puts in what must not be refused, and whose number is bounded elsewhere: reports of live attempts, finished
    /// commits, changes of files.
    pub fn put(&self, item: T) {
        self.lock().items.push(item);
        self.arrived.notify_one();
    }

    /// Takes everything, waiting for it up to `patience` (for ever without one).
    pub fn take(&self, patience: Option<Duration>, into: &mut Vec<T>) {
        let mut mail = self.lock();
        if mail.items.is_empty() {
            mail = match patience {
                Some(Duration::ZERO) => mail,
                Some(patience) => {
                    let waited = self.arrived.wait_timeout(mail, patience);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.arrived.wait(mail).unwrap_or_else(PoisonError::into_inner),
            };
        }
        into.append(&mut mail.items);
    }

    /// From now on every offer is refused. What is inside is given back.
    pub fn close(&self) -> Vec<T> {
        let mut mail = self.lock();
        mail.closed = true;
        std::mem::take(&mut mail.items)
    }

    fn lock(&self) -> MutexGuard<'_, Mail<T>> {
        // A sender that panicked cannot have left a half-pushed item.
        self.mail.lock().unwrap_or_else(PoisonError::into_inner)
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
