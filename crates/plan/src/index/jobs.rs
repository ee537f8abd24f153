//! Jobs that follow one another in a segment: usually one slice, several where the segment was patched.

use std::iter::FusedIterator;

/// Jobs in the order of the index, borrowed from it. One slice in an index as it was built; where jobs were changed
/// since, what they leave between them. Getting hold of one copies nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Jobs<'a> {
    /// What stands where: see [`Strip`]. Without strips all of `base`.
    strips: &'a [Strip],
    base: &'a [u32],
    own: &'a [u32],
    /// These of all the segment's jobs; the first strip holds the first of them.
    from: usize,
    to: usize,
}

impl<'a> Jobs<'a> {
    /// A segment's jobs that stand in one list.
    #[inline]
    pub(super) fn whole(list: &'a [u32]) -> Jobs<'a> {
        Jobs { strips: &[], base: list, own: &[], from: 0, to: list.len() }
    }

    /// A patched segment's jobs, `len` of them.
    pub(super) fn patched(strips: &'a [Strip], base: &'a [u32], own: &'a [u32], len: usize) -> Jobs<'a> {
        Jobs { strips, base, own, from: 0, to: len }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.to - self.from
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.from == self.to
    }

    /// All of them, if they stand in one piece.
    #[inline]
    pub fn as_slice(&self) -> Option<&'a [u32]> {
        let mut slices = self.slices();
        let first = slices.next().unwrap_or_default();
        slices.0.is_empty().then_some(first)
    }

    /// All of them, as few slices as there are.
    #[inline]
    pub fn slices(&self) -> Slices<'a> {
        Slices(*self)
    }

    /// One by one.
    pub fn iter(&self) -> impl Iterator<Item = u32> + use<'a> {
        self.slices().flatten().copied()
    }

    /// Those from one place up to another, counted as `from` and `to` are.
    #[inline]
    pub(super) fn between(&self, from: usize, to: usize) -> Jobs<'a> {
        let strips = match self.strips {
            [] => &[],
            strips => {
                &strips[strips.partition_point(|strip| strip.rank as usize <= from).saturating_sub(1)..]
            }
        };
        Jobs { strips, from, to, ..*self }
    }

    /// As [`between`](Jobs::between); drops what lies before, so that a walk need not search.
    pub(super) fn take_between(&mut self, from: usize, to: usize) -> Jobs<'a> {
        while let [_, rest @ ..] = self.strips
            && rest.first().is_some_and(|strip| strip.rank as usize <= from)
        {
            self.strips = rest;
        }
        Jobs { from, to, ..*self }
    }

    /// Where a job stands among these, which rise, or where it would: counted as `from` and `to` are.
    pub(super) fn search(&self, job: u32) -> Result<usize, usize> {
        let here = self.strips.partition_point(|strip| (strip.rank as usize) < self.to);
        let later = self.strips[..here].get(1..).unwrap_or_default();
        // The last slice that does not start above the job.
        let skip = later.partition_point(|strip| strip.jobs(self.base, self.own).first() <= Some(&job));
        let from = skip.checked_sub(1).map_or(self.from, |last| later[last].rank as usize);
        let strips = self.strips.get(skip..).unwrap_or_default();
        let slice = Slices(Jobs { strips, from, ..*self }).next().unwrap_or_default();
        slice.binary_search(&job).map(|place| from + place).map_err(|place| from + place)
    }

    /// The strips from the first on, with what they are made of.
    pub(super) fn strips(&self) -> impl Iterator<Item = (bool, usize, &'a [u32])> + use<'a> {
        let mut slices = self.slices();
        std::iter::from_fn(move || {
            let (from, strip) = (slices.0.from, slices.0.strips.first().copied());
            let slice = slices.next()?;
            let (own, place) = strip.map_or((false, from), |strip| {
                (strip.is_own(), strip.place() + (from - strip.rank as usize))
            });
            Some((own, place, slice))
        })
    }
}

/// See [`Jobs::slices`].
#[derive(Clone, Debug, Default)]
pub struct Slices<'a>(Jobs<'a>);

impl<'a> Iterator for Slices<'a> {
    type Item = &'a [u32];

    #[inline]
    fn next(&mut self) -> Option<&'a [u32]> {
        let Jobs { strips, base, own, from, to } = self.0;
        if from >= to {
            return None;
        }
        let [strip, rest @ ..] = strips else {
            self.0.from = to;
            return Some(&base[from..to]);
        };
        let end = rest.first().map_or(to, |next| to.min(next.rank as usize));
        let jobs = &strip.jobs(base, own)[from - strip.rank as usize..end - strip.rank as usize];
        (self.0.from, self.0.strips) = (end, rest);
        Some(jobs)
    }
}

impl FusedIterator for Slices<'_> {}

/// From this rank on, up to the rank of the next strip, the jobs of a patched segment stand in one piece: in the list
/// of the segment it was made from, or, with the high bit, in its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Strip {
    rank: u32,
    place: u32,
}

impl Strip {
    const OWN: u32 = 1 << 31;

    /// The most jobs a list may have for strips to tell its places.
    pub(super) const PLACES_MAX: usize = Strip::OWN as usize;

    pub(super) fn new(rank: usize, own: bool, place: usize) -> Strip {
        debug_assert!(place < Strip::PLACES_MAX);
        Strip { rank: rank as u32, place: place as u32 | if own { Strip::OWN } else { 0 } }
    }

    fn is_own(self) -> bool {
        self.place & Strip::OWN != 0
    }

    fn place(self) -> usize {
        (self.place & !Strip::OWN) as usize
    }

    /// Its jobs, and what follows them.
    fn jobs<'a>(self, base: &'a [u32], own: &'a [u32]) -> &'a [u32] {
        &(if self.is_own() { own } else { base })[self.place()..]
    }
}
