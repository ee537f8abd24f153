//! How long a worker may work without hearing from its server.

use std::time::Duration;

use cadran_core::Millis;

/// How long a worker that is silent is believed to be at work. Long enough for a restart of the server or a short cut of
/// the network, short enough for work to go on elsewhere soon.
pub const LEASE: Duration = Duration::from_secs(30);

/// An order waits no longer than this part of a lease for an answer to a poll: while one poll is open, the lease counts
/// from the poll before, so two of them must be well below the point where a worker begins to stop.
const POLL_PART: u32 = 6;

/// The part of the lease after which a worker stops what it runs, in sixths: processes get their signal.
const SOFT_SIXTHS: Millis = 4;

/// The part of the lease after which it kills what is left, in sixths. What remains is for the killing itself.
const HARD_SIXTHS: Millis = 5;

/// How long a poll may stay open.
pub(crate) fn poll_time(lease: Duration) -> Duration {
    lease / POLL_PART
}

/// The worker's side of a lease, by its monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    /// When the last request that was answered was sent.
    from: Millis,
    ms: Millis,
}

/// What a lease allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Allows {
    /// To work.
    Work,
    /// To end what is on.
    Stop,
    /// Nothing: what is left is killed at once.
    Nothing,
}

impl Lease {
    pub(crate) fn new(from: Millis, ms: Millis) -> Lease {
        Lease { from, ms }
    }

    /// A request that was sent then has been answered. Answers may come out of order.
    pub(crate) fn renew(&mut self, sent: Millis) {
        self.from = self.from.max(sent);
    }

    pub(crate) fn look(&self, now: Millis) -> Allows {
        let spent = now.saturating_sub(self.from).saturating_mul(6);
        match spent {
            _ if spent >= self.ms.saturating_mul(HARD_SIXTHS) => Allows::Nothing,
            _ if spent >= self.ms.saturating_mul(SOFT_SIXTHS) => Allows::Stop,
            _ => Allows::Work,
        }
    }

    /// How long until the hard end, for whoever watches over this process.
    pub(crate) fn until_hard(&self, now: Millis) -> Duration {
        let end = self.from.saturating_add(self.ms / 6 * HARD_SIXTHS);
        Duration::from_millis(end.saturating_sub(now).max(0) as u64)
    }
}

/// Whether a server may give up what a worker had: it heard from it last at `heard`.
pub(crate) fn is_over(heard: Millis, now: Millis, lease: Duration) -> bool {
    now.saturating_sub(heard) > lease.as_millis() as Millis
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_done_before_its_server_gives_up() {
        let lease = Duration::from_secs(30);
        let rows = [
            (0, Allows::Work),
            (19_999, Allows::Work),
            (20_000, Allows::Stop),
            (24_999, Allows::Stop),
            (25_000, Allows::Nothing),
            (30_000, Allows::Nothing),
            (i64::MAX, Allows::Nothing),
        ];
        for (spent, allows) in rows {
            let mine = Lease::new(1_000, 30_000);
            let now = 1_000i64.saturating_add(spent);
            assert_eq!(mine.look(now), allows, "{spent}");
            // The request took a while to arrive: the server's count begins later.
            if is_over(1_000 + 3, now, lease) {
                assert_eq!(mine.look(now), Allows::Nothing, "{spent}");
            }
        }
        assert!(!is_over(0, 30_000, lease) && is_over(0, 30_001, lease));
    }

    #[test]
    fn two_open_polls_never_come_near_the_end() {
        for lease in [Duration::from_secs(30), Duration::from_millis(1_500)] {
            let mine = Lease::new(0, lease.as_millis() as Millis);
            let two = 2 * poll_time(lease).as_millis() as Millis;
            assert_eq!(mine.look(two + lease.as_millis() as Millis / 4), Allows::Work);
        }
    }

    #[test]
    fn an_old_answer_does_not_shorten_it() {
        let mut lease = Lease::new(100, 600);
        lease.renew(300);
        lease.renew(200);
        assert_eq!(lease, Lease::new(300, 600));
        assert_eq!(lease.until_hard(300), Duration::from_millis(500));
        assert_eq!(lease.until_hard(10_000), Duration::ZERO);
    }
}
