//! Timing: the best of several repetitions, two sides in turns.

use std::hint::black_box;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};

/// Time this thread has run.
fn processor_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("every Linux has this clock").into()
}

/// How often each measurement is repeated.
#[derive(Clone, Copy)]
pub(crate) struct Effort {
    pub(crate) budget: Duration,
    pub(crate) times_min: u32,
}

/// Calls of one side before it is the other's turn. The first of them finds the caches as the other left them.
const TURN: u32 = 5;

/// A turn is over sooner when it lasts so long: what takes longer does not live by the caches, but the weather changes meanwhile.
const TURN_TIME: Duration = Duration::from_millis(100);

impl Effort {
    /// The shortest processor time one call takes, so that a busy machine disturbs little. Preparation is not counted;
    /// neither is dropping the result.
    #[allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
    pub(crate) fn best<P, T>(self, mut prepare: impl FnMut() -> P, mut body: impl FnMut(P) -> T) -> Duration {
        let (began, mut best, mut times) = (Instant::now(), Duration::MAX, 0);
        while times < self.times_min || began.elapsed() < self.budget {
            best = best.min(once(&mut prepare, &mut body));
            times += 1;
        }
        best
    }

    /// The shortest processor times of two sides, called in turns, so that both meet the same weather.
    #[allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
    pub(crate) fn both<P, T, Q, U>(
        self,
        (mut prepare, mut ours): (impl FnMut() -> P, impl FnMut(P) -> T),
        (mut prepare_rival, mut rival): (impl FnMut() -> Q, impl FnMut(Q) -> U),
    ) -> (Duration, Duration) {
        let (began, mut best) = (Instant::now(), (Duration::MAX, Duration::MAX));
        let (mut times, mut times_rival) = (0, 0);
        while times.min(times_rival) < self.times_min || began.elapsed() < 2 * self.budget {
            times += turn(&mut best.0, || once(&mut prepare, &mut ours));
            times_rival += turn(&mut best.1, || once(&mut prepare_rival, &mut rival));
        }
        best
    }
}

/// Calls one side for a turn and keeps its best time. Says how often it was called.
fn turn(best: &mut Duration, mut once: impl FnMut() -> Duration) -> u32 {
    let (mut times, mut lasted) = (0, Duration::ZERO);
    while times < TURN && lasted < TURN_TIME {
        let time = once();
        *best = time.min(*best);
        lasted += time;
        times += 1;
    }
    times
}

/// The processor time of one call.
fn once<P, T>(prepare: &mut impl FnMut() -> P, body: &mut impl FnMut(P) -> T) -> Duration {
    loop {
        let prepared = prepare();
        let start = processor_time();
        let value = black_box(body(black_box(prepared)));
        let time = processor_time() - start;
        drop(value);
        // Now and then a virtual machine's clock stands still.
        if !time.is_zero() {
            return time;
        }
    }
}

/// The time for a thousand of many: times are whole nanoseconds.
pub(crate) fn thousand(time: Duration, count: usize) -> Duration {
    Duration::from_secs_f64(time.as_secs_f64() * 1e3 / count as f64)
}

/// Numbers that look random and are the same in every run.
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.next()) * end as u128) >> 64) as usize
    }

    /// Numbers below `end`, each once, in no order.
    pub(crate) fn shuffled(&mut self, end: u32) -> Vec<u32> {
        let mut all: Vec<u32> = (0..end).collect();
        for at in (1..all.len()).rev() {
            all.swap(at, self.below(at + 1));
        }
        all
    }
}
