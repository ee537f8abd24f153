//! Which jobs are due when? The dues of the whole fleet for the look-ahead, flat, sorted, read without locks.
//!
//! ```
//! use cadran_plan::index::{Buffers, Index, IndexCell, Run, Window};
//!
//! let runs = [Run { due: 60_000, job: 7 }, Run { due: 60_000, job: 3 }, Run { due: 250, job: 7 }];
//! let index = Index::from_runs(&runs, Window::new(0, 3_600_000), &mut Buffers::default());
//! assert_eq!(index.peek(), Some((250, 7)));
//! assert_eq!(index.second(60_000).as_slice(), Some(&[3, 7][..]));
//!
//! let cell = IndexCell::new(index);
//! let index = cell.read();
//! assert_eq!(index.query(0, 60_001).iter().collect::<Vec<_>>(), [(250, 7), (60_000, 3), (60_000, 7)]);
//! ```
//!
//! Usually the runs are not listed but generated: a [`Fleet`] knows the schedules of every job, and [`build`] makes the
//! index of a window from it, on whichever thread the caller likes.
//!
//! ```
//! use std::sync::Arc;
//! use cadran_cron::{Dialect, Schedule, Zone};
//! use cadran_plan::index::{Buffers, Fleet, Window, build};
//!
//! let mut fleet = Fleet::new();
//! fleet.set(7, &[Arc::new(Schedule::parse("*/15 * * * *", &Zone::utc(), Dialect::Cadran)?)]);
//! let mut buffers = Buffers::default();
//! let index = build(&fleet.snapshot(), Window::new(0, 3_600_000), &mut buffers);
//! assert_eq!(index.len(), 4);
//!
//! // A job comes in: only it is computed. Time goes by: only what is new is computed.
//! fleet.set(8, &[Arc::new(Schedule::parse("0 * * * *", &Zone::utc(), Dialect::Cadran)?)]);
//! let index = index.with_changed(&fleet.snapshot(), &[8], &mut buffers);
//! let index = index.advance(&fleet.snapshot(), Window::new(900_000, 4_500_000), &mut buffers);
//! assert!(index.second(3_600_000).iter().eq([7, 8]));
//! # Ok::<(), cadran_cron::Error>(())
//! ```
//!
//! An [`Index`] is an immutable snapshot of one [`Window`], made of segments of ten minutes. A segment holds job
//! numbers sorted by (second, job) and where each second starts: four bytes a run. Dues between seconds stand in a
//! list of their own, eight bytes a run, and are merged when read. Segments are shared: a window that rolls forward
//! drops some and adds some. A changed job makes new ones of those it is or was due in, and these leave the jobs where
//! they stand: they say which strips of the old list are theirs, and keep what came in. When the strips of a segment
//! become many, it is written anew.
//!
//! It does not know what a job is, whether a due was planned already, what time it is, or on which thread it is built.
//!
//! Invariants:
//! - Runs are ordered by (due, job) and none occurs twice.
//! - An index answers for its window and says so. It is never the last word on what lies outside: the planner takes
//!   that from the fleet itself.
//! - An index never changes. Readers of an [`IndexCell`] take no lock and wait for nobody.

mod buffers;
mod build;
mod cell;
mod chunked;
mod directory;
mod expand;
mod fleet;
mod gather;
mod intern;
mod jobs;
mod list;
mod mailbox;
mod patch;
mod runs;
mod segment;
mod sort;

use std::sync::Arc;

use cadran_cron::Millis;

pub use buffers::Buffers;
pub use build::build;
pub use cell::{IndexCell, IndexGuard, IndexReader};
pub use fleet::{Fleet, FleetSnapshot};
pub use jobs::{Jobs, Slices};
pub use runs::{Iter, Runs};
use segment::{SPAN_MS, Segment, number_of};

/// The cells of [`mailbox`], under a name that its test can give to others.
mod sync {
    pub(super) use crossbeam_utils::atomic::AtomicCell;
}

/// A job's due. Ordered by due, then job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Run {
    /// When.
    pub due: Millis,
    /// The job's number.
    pub job: u32,
}

/// The instants from `from` up to, and without, `to`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    from: Millis,
    to: Millis,
}

impl Window {
    /// The longest window, in milliseconds: 400 days. It bounds the list of segments; more of the future is a
    /// question for one calendar, not for the fleet's index.
    pub const SPAN_MS_MAX: Millis = 400 * 86_400_000;

    /// Instants further than this from the epoch (some 140,000 years) are drawn in to it, so that sums cannot overflow.
    const INSTANT_MAX: Millis = 1 << 52;

    /// A window that ends before it starts is empty; one longer than [`SPAN_MS_MAX`](Window::SPAN_MS_MAX) ends there.
    pub fn new(from: Millis, to: Millis) -> Window {
        let from = from.clamp(-Window::INSTANT_MAX, Window::INSTANT_MAX);
        Window { from, to: to.clamp(from, from + Window::SPAN_MS_MAX) }
    }

    /// The first instant inside.
    pub fn from(self) -> Millis {
        self.from
    }

    /// The first instant after.
    pub fn to(self) -> Millis {
        self.to
    }

    /// Whether it holds no instant.
    pub fn is_empty(self) -> bool {
        self.from >= self.to
    }

    /// Whether `at` lies inside.
    pub fn contains(self, at: Millis) -> bool {
        self.from <= at && at < self.to
    }
}

/// All runs of a window, ordered by (due, job). See the [module](self).
// Aligned, so that the counters of an `Arc` around it, which writers change, stand in a cache line of their own.
#[derive(Clone, Debug, Default)]
#[repr(align(128))]
pub struct Index {
    window: Window,
    /// What the segments are complete for; at least the window. More than that when they were generated whole.
    held: Window,
    /// Number of the first segment.
    first: i64,
    segments: Vec<Arc<Segment>>,
    len: usize,
    earliest: Option<(Millis, u32)>,
}

impl Index {
    /// Builds from runs in any order; those outside the window are left out, those given twice are merged. Fastest
    /// when they come grouped by rising job number.
    pub fn from_runs(runs: &[Run], window: Window, buffers: &mut Buffers) -> Index {
        list::from_runs(runs, window, buffers)
    }

    fn empty(window: Window) -> Index {
        Index { window, held: window, ..Index::default() }
    }

    fn new(window: Window, held: Window, first: i64, segments: Vec<Arc<Segment>>) -> Index {
        let mut index = Index { window, held, first, segments, len: 0, earliest: None };
        (index.len, index.earliest) = (index.runs().len(), index.runs().first());
        index
    }

    fn into_segments(self) -> Vec<Arc<Segment>> {
        self.segments
    }

    /// The instants this index answers for. Outside them it answers nothing, which does not mean that nothing is due.
    pub fn window(&self) -> Window {
        self.window
    }

    /// How many runs there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no run.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The earliest run.
    pub fn peek(&self) -> Option<(Millis, u32)> {
        self.earliest
    }

    /// The earliest due.
    pub fn first_due(&self) -> Option<Millis> {
        self.peek().map(|(due, _)| due)
    }

    /// All runs.
    pub fn runs(&self) -> Runs<'_> {
        self.query(self.window.from, self.window.to)
    }

    /// The runs with `start ≤ due < end` that lie in the index's window. Nothing is copied or allocated.
    #[inline]
    pub fn query(&self, start: Millis, end: Millis) -> Runs<'_> {
        Runs::new(&self.segments, self.first, start.max(self.window.from), end.min(self.window.to))
    }

    /// The jobs due at the whole second `at` (milliseconds since the epoch), in order; none when `at` is no whole second.
    #[inline]
    pub fn second(&self, at: Millis) -> Jobs<'_> {
        let start = at.max(self.window.from);
        let segment = match usize::try_from(number_of(start) - self.first) {
            Ok(place) if self.window.contains(at) => self.segments.get(place),
            _ => None,
        };
        segment.map_or(Jobs::default(), |segment| {
            let lo = at.rem_euclid(SPAN_MS);
            segment.jobs_in(lo, lo + 1)
        })
    }

    /// How many runs fall into each of the `minutes` minutes that start at `from`. Minutes outside the window count
    /// nothing.
    pub fn counts_per_minute(&self, from: Millis, minutes: usize) -> Vec<u32> {
        let starts = (0..minutes as Millis).map(|n| from.saturating_add(n.saturating_mul(60_000)));
        starts.map(|start| self.query(start, start.saturating_add(60_000)).len() as u32).collect()
    }

    /// Bytes this index takes, segments it shares with others included.
    pub fn bytes(&self) -> usize {
        let segments = self.segments.iter().filter(|segment| !segment.is_empty());
        let heap: usize = segments.map(|segment| size_of::<Segment>() + 16 + segment.bytes()).sum();
        size_of::<Index>() + self.segments.capacity() * size_of::<Arc<Segment>>() + heap
    }
}

impl<'a> IntoIterator for &'a Index {
    type Item = (Millis, u32);
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.runs().iter()
    }
}
