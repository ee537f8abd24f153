//! A burst of orders on its way out. When it arrives matters more than what comes back of it, so answers wait for its end:
//! read in between, they would cost each order behind them as much time as an order takes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Who is sending a burst.
#[derive(Default)]
pub(super) struct Rush {
    senders: AtomicUsize,
    over: Notify,
}

/// Somebody is sending, until this is dropped.
pub(super) struct Sending(Arc<Rush>);

impl Rush {
    /// Somebody begins to send.
    pub(super) fn begin(self: &Arc<Rush>) -> Sending {
        self.senders.fetch_add(1, Ordering::AcqRel);
        Sending(Arc::clone(self))
    }

    /// What resolves when those who are sending have done so; nothing when nobody is.
    pub(super) fn over(&self) -> Option<impl Future<Output = ()>> {
        // Made before it is asked who sends: so the end is not missed if it comes in between.
        let over = self.over.notified();
        (self.senders.load(Ordering::Acquire) > 0).then_some(over)
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        if self.0.senders.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.over.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;

    #[test]
    fn a_rush_is_over_when_the_last_has_sent() {
        let rush = Arc::new(Rush::default());
        assert!(rush.over().is_none());
        let (one, two) = (rush.begin(), rush.begin());
        let mut over = std::pin::pin!(rush.over().expect("two send"));
        drop(one);
        assert!(over.as_mut().now_or_never().is_none(), "one still sends");
        drop(two);
        assert!(rush.over().is_none());
        assert!(over.now_or_never().is_some());
    }

    #[test]
    fn who_asked_before_the_end_is_told_even_if_it_waits_later() {
        let rush = Arc::new(Rush::default());
        let sending = rush.begin();
        let over = rush.over().expect("somebody sends");
        drop(sending);
        assert!(over.now_or_never().is_some());
    }
}
