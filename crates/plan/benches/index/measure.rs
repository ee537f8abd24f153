//! Timing and counting: the better of several repetitions, and the bytes an allocation-happy body asks for.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cadran_dev::bench_table::Time;
use cadran_plan::index::{Buffers, Index};
use nix::time::{ClockId, clock_gettime};

/// Runs the body and says how many bytes it left allocated and how many more it needed meanwhile.
pub(crate) fn allocated<T>(body: impl FnOnce() -> T) -> (T, usize, usize) {
    let (value, memory) = cadran_dev::allocation::measure(body);
    (value, memory.left, memory.peak.saturating_sub(memory.left))
}

/// Time this thread has run.
pub(crate) fn processor_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("every Linux has this clock").into()
}

/// How often each measurement is repeated.
#[derive(Clone, Copy)]
pub(crate) struct Effort {
    pub(crate) budget: Duration,
    pub(crate) times_min: u32,
}

impl Effort {
    /// The processor time one call takes, so that a busy machine disturbs little. Preparation is not counted; neither is
    /// dropping the result.
    ///
    /// Of all repetitions that at the end of the first quarter counts. Not the shortest: on a virtual machine the time
    /// that others took is subtracted late, and then an interval looks far shorter than it was, or empty.
    #[allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
    pub(crate) fn best<P, T>(self, mut prepare: impl FnMut() -> P, mut body: impl FnMut(P) -> T) -> Time {
        let (began, mut times) = (Instant::now(), Vec::new());
        while times.len() < self.times_min as usize || began.elapsed() < self.budget {
            let prepared = prepare();
            let start = processor_time();
            let value = black_box(body(black_box(prepared)));
            times.push(processor_time() - start);
            drop(value);
        }
        times.sort_unstable();
        times[times.len() / 4].into()
    }

    /// The shortest time to build an index and take back the memory of the one before, as a scheduler does.
    pub(crate) fn renewed(self, buffers: &mut Buffers, mut build: impl FnMut(&mut Buffers) -> Index) -> Time {
        let mut last = Arc::new(Index::default());
        self.best(
            || (),
            |()| {
                let next = Arc::new(build(buffers));
                buffers.recycle(std::mem::replace(&mut last, next));
            },
        )
    }

    /// As [`best`](Effort::best), for a body so short that it is called many times between two looks at the clock. What
    /// the body is given passes through [`black_box`] each time, so that nothing can be computed once for all calls;
    /// whatever else it looks at should be part of that.
    pub(crate) fn best_of_many<I: Copy, T>(self, calls: u32, input: I, mut body: impl FnMut(I) -> T) -> Time {
        let all = self.best(|| (), |()| (0..calls).for_each(|_| drop(black_box(body(black_box(input))))));
        Time(all.0 / f64::from(calls))
    }

    /// As [`best_of_many`](Effort::best_of_many), for a body that uses up what was prepared for it.
    pub(crate) fn best_of_batch<P, T>(
        self,
        calls: usize,
        mut prepare: impl FnMut() -> P,
        mut body: impl FnMut(P) -> T,
    ) -> Time {
        let all = self.best(
            || (0..calls).map(|_| prepare()).collect::<Vec<P>>(),
            |prepared| prepared.into_iter().map(|one| black_box(body(one))).collect::<Vec<T>>(),
        );
        Time(all.0 / calls as f64)
    }
}

/// Single latencies by the wall clock, sorted.
pub(crate) struct Latencies(Vec<Duration>);

impl Latencies {
    /// Times every call of the body alone.
    #[allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
    pub(crate) fn of<T>(calls: usize, mut body: impl FnMut(usize) -> T) -> Latencies {
        let mut all: Vec<Duration> = (0..calls)
            .map(|n| {
                let start = Instant::now();
                black_box(body(n));
                start.elapsed()
            })
            .collect();
        all.sort_unstable();
        Latencies(all)
    }

    pub(crate) fn at(&self, share: f64) -> Time {
        self.0[((self.0.len() - 1) as f64 * share) as usize].into()
    }
}
