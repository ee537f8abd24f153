use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use cadran_core::{Millis, Order, Outcome, Report, ReportKind};

use crate::Sink;

/// An executor that runs nothing: each start is reported as started and ended with 0 at once, or ended after a
/// delay. For benchmarks and simulations of what is around an executor.
///
/// ```
/// use std::sync::Arc;
/// use cadran_exec::InProcess;
///
/// let executor = InProcess::new(|| 0, Arc::new(|reports| assert!(!reports.is_empty())));
/// executor.submit(Vec::new());
/// assert_eq!(executor.starts(), 0);
/// ```
pub struct InProcess {
    now: Box<dyn Fn() -> Millis + Send + Sync>,
    sink: Sink,
    starts: AtomicU64,
    /// Ends that wait for the delay; the thread behind it ends when this is dropped.
    later: Option<mpsc::Sender<Vec<Report>>>,
}

impl InProcess {
    /// Reports start and end in one batch, inside [`InProcess::submit`].
    pub fn new(now: impl Fn() -> Millis + Send + Sync + 'static, sink: Sink) -> InProcess {
        InProcess { now: Box::new(now), sink, starts: AtomicU64::new(0), later: None }
    }

    /// Reports the start at once and the end `delay` later, from a thread of its own.
    ///
    /// Batches wait one behind the other, so that under load the delay is a lower bound.
    pub fn with_delay(
        now: impl Fn() -> Millis + Send + Sync + 'static,
        sink: Sink,
        delay: Duration,
    ) -> std::io::Result<InProcess> {
        let now: Arc<dyn Fn() -> Millis + Send + Sync> = Arc::new(now);
        let (later, ends) = mpsc::channel::<Vec<Report>>();
        let (end_now, end_sink) = (Arc::clone(&now), Arc::clone(&sink));
        std::thread::Builder::new().name("cadran-in-process".into()).spawn(move || {
            while let Ok(mut reports) = ends.recv() {
                // The thread simulates work that takes this long; there is no moment to wait for.
                #[allow(clippy::disallowed_methods)]
                std::thread::sleep(delay);
                let at = end_now();
                reports.iter_mut().for_each(|report| report.at = at);
                end_sink(reports);
            }
        })?;
        Ok(InProcess { now: Box::new(move || now()), sink, starts: AtomicU64::new(0), later: Some(later) })
    }

    /// Takes a batch of orders; everything but starts is ignored.
    pub fn submit(&self, orders: Vec<Order>) {
        let at = (self.now)();
        let per_start = if self.later.is_some() { 1 } else { 2 };
        let mut reports = Vec::with_capacity(orders.len() * per_start);
        let mut ends = Vec::new();
        let mut starts = 0;
        for order in &orders {
            let Order::Start(start) = order else { continue };
            starts += 1;
            let report = |kind| Report { run: start.run, step: start.step, attempt: start.attempt, at, kind };
            reports.push(report(ReportKind::Started));
            let end = report(ReportKind::Ended { outcome: Outcome::Exited(0), output: None });
            if self.later.is_some() { ends.push(end) } else { reports.push(end) }
        }
        if starts == 0 {
            return;
        }
        self.starts.fetch_add(starts, Ordering::Relaxed);
        (self.sink)(reports);
        if let Some(later) = &self.later {
            // The thread only ends with this value, so that the channel is open.
            let _ = later.send(ends);
        }
    }

    /// How many starts there were so far.
    pub fn starts(&self) -> u64 {
        self.starts.load(Ordering::Relaxed)
    }
}
