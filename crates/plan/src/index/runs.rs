//! What a query answers: a borrowed view of the index, read as slices or run by run.

use std::iter::FusedIterator;
use std::slice;
use std::sync::Arc;

use cadran_cron::Millis;

use super::jobs::{Jobs, Slices};
use super::segment::{SPAN_MS, Seconds, Segment, fine_at, fine_job, number_of};

/// The runs of one window of an index, in the order (due, job). Making one costs the same whatever it holds.
#[derive(Clone, Copy, Debug)]
pub struct Runs<'a> {
    /// Segments the window touches; the first one starts at `base`.
    segments: &'a [Arc<Segment>],
    base: Millis,
    start: Millis,
    end: Millis,
}

impl<'a> Runs<'a> {
    /// `segments` begin with segment number `first`; the window lies inside them or is empty.
    #[inline]
    pub(super) fn new(segments: &'a [Arc<Segment>], first: i64, start: Millis, end: Millis) -> Runs<'a> {
        if start >= end || segments.is_empty() {
            return Runs { segments: &[], base: start, start, end: start };
        }
        let (lo, hi) = (number_of(start), number_of(end - 1));
        let segments = &segments[(lo - first) as usize..=(hi - first) as usize];
        Runs { segments, base: lo * SPAN_MS, start, end }
    }

    /// How many runs there are. Takes a step per ten minutes, not per run.
    pub fn len(&self) -> usize {
        self.pieces().map(|piece| piece.segment.rank(piece.hi) - piece.segment.rank(piece.lo)).sum()
    }

    /// Whether there is no run at all.
    pub fn is_empty(&self) -> bool {
        self.pieces().all(|piece| piece.segment.rank(piece.hi) == piece.segment.rank(piece.lo))
    }

    /// The earliest run.
    pub fn first(&self) -> Option<(Millis, u32)> {
        self.iter().next()
    }

    /// Every run, one by one.
    pub fn iter(&self) -> Iter<'a> {
        Iter {
            pieces: self.pieces(),
            base: self.start,
            seconds: None,
            group: None,
            fine: [].iter(),
            due: 0,
            slices: Slices::default(),
            jobs: [].iter(),
        }
    }

    /// All jobs as one slice, in the order (due, job): there when the window lies within one segment (ten minutes,
    /// aligned), every due is on a whole second and no job changed there since the index was built. Otherwise
    /// [`slices`](Runs::slices) and [`fine`](Runs::fine).
    #[inline]
    pub fn as_slice(&self) -> Option<&'a [u32]> {
        let mut pieces = self.pieces();
        let Some(piece) = pieces.next() else { return Some(&[]) };
        let whole = pieces.next().is_none() && piece.segment.fine_in(piece.lo, piece.hi).is_empty();
        if whole { piece.segment.jobs_in(piece.lo, piece.hi).as_slice() } else { None }
    }

    /// The jobs due on whole seconds: one slice for each ten minutes, and one more for each change since.
    #[inline]
    pub fn slices(&self) -> impl Iterator<Item = &'a [u32]> + use<'a> {
        self.pieces().flat_map(|piece| piece.segment.jobs_in(piece.lo, piece.hi).slices())
    }

    /// The whole seconds that have jobs, with those jobs.
    pub fn seconds(&self) -> impl Iterator<Item = (Millis, Jobs<'a>)> + use<'a> {
        self.pieces().flat_map(|piece| {
            let base = piece.base;
            piece.segment.seconds_in(piece.lo, piece.hi).map(move |(at, jobs)| (base + at, jobs))
        })
    }

    /// The runs due between whole seconds.
    pub fn fine(&self) -> impl Iterator<Item = (Millis, u32)> + use<'a> {
        self.pieces().flat_map(|piece| {
            let base = piece.base;
            piece
                .segment
                .fine_in(piece.lo, piece.hi)
                .iter()
                .map(move |&run| (base + fine_at(run), fine_job(run)))
        })
    }

    #[inline]
    fn pieces(&self) -> Pieces<'a> {
        Pieces { segments: self.segments.iter(), base: self.base, start: self.start, end: self.end }
    }
}

impl<'a> IntoIterator for Runs<'a> {
    type Item = (Millis, u32);
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// The part of a window that falls into one segment; `lo` and `hi` are relative to `base`, its start.
#[derive(Clone, Debug)]
struct Piece<'a> {
    segment: &'a Segment,
    base: Millis,
    lo: Millis,
    hi: Millis,
}

#[derive(Clone, Debug)]
struct Pieces<'a> {
    segments: slice::Iter<'a, Arc<Segment>>,
    base: Millis,
    start: Millis,
    end: Millis,
}

impl<'a> Iterator for Pieces<'a> {
    type Item = Piece<'a>;

    #[inline]
    fn next(&mut self) -> Option<Piece<'a>> {
        let segment = self.segments.next()?;
        let base = self.base;
        self.base += SPAN_MS;
        Some(Piece { segment, base, lo: (self.start - base).max(0), hi: (self.end - base).min(SPAN_MS) })
    }
}

/// Runs one by one, second-grain and finer ones merged.
///
/// A run between seconds never shares its due with one on a second, so merging is by group: a second's jobs, then
/// whatever falls before the next second that has any.
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    pieces: Pieces<'a>,
    /// Start of the current segment.
    base: Millis,
    seconds: Option<Seconds<'a>>,
    /// The next second's jobs, waiting for finer runs before them.
    group: Option<(Millis, Jobs<'a>)>,
    fine: slice::Iter<'a, u64>,
    /// The second being read.
    due: Millis,
    slices: Slices<'a>,
    jobs: slice::Iter<'a, u32>,
}

impl Iterator for Iter<'_> {
    type Item = (Millis, u32);

    #[inline]
    fn next(&mut self) -> Option<(Millis, u32)> {
        match self.jobs.next() {
            Some(&job) => Some((self.due, job)),
            None => self.next_group(),
        }
    }
}

impl FusedIterator for Iter<'_> {}

impl Iter<'_> {
    fn next_group(&mut self) -> Option<(Millis, u32)> {
        loop {
            // A second's jobs may stand in several slices.
            if let Some(slice) = self.slices.next() {
                self.jobs = slice.iter();
                return self.jobs.next().map(|&job| (self.due, job));
            }
            if self.group.is_none() {
                self.group = self.seconds.as_mut().and_then(Iterator::next);
            }
            let finer = self.fine.as_slice().first().copied();
            match (self.group, finer) {
                (group, Some(run)) if group.is_none_or(|(at, _)| fine_at(run) < at) => {
                    self.fine.next();
                    return Some((self.base + fine_at(run), fine_job(run)));
                }
                (Some((at, jobs)), _) => {
                    self.group = None;
                    self.due = self.base + at;
                    self.slices = jobs.slices();
                }
                _ => {
                    let piece = self.pieces.next()?;
                    self.base = piece.base;
                    self.fine = piece.segment.fine_in(piece.lo, piece.hi).iter();
                    self.seconds = Some(piece.segment.seconds_in(piece.lo, piece.hi));
                }
            }
        }
    }
}
