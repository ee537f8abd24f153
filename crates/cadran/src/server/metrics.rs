//! What the server counts, in Prometheus' text format.

use cadran_core::{Millis, Now, RunStatus, SkipReason};
use cadran_engine::{Effects, Engine, TICK_PHASE_MS};
use metrics::{Counter, Gauge, Histogram, Key, Label, Level, Metadata, Recorder};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

/// Buckets of lateness and lag, in seconds: from "nobody notices" to "somebody was called".
const BUCKETS: &[f64] =
    &[0.000_5, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0];

/// How many minutes the forecast covers: the look-ahead of the index.
const MINUTES_AHEAD: usize = (crate::defaults::LOOKAHEAD_MS / 60_000) as usize;

/// The loop's counters. Each is raised once in an iteration, by what that iteration did.
pub struct Metrics {
    ticks: Counter,
    tick_lag: Histogram,
    lateness: Histogram,
    promised: Counter,
    started: Counter,
    finished: Vec<(RunStatus, Counter)>,
    skips: Vec<(SkipReason, Counter)>,
    stale_reports: Counter,
    running: Gauge,
    waiting: Gauge,
    /// For their job, a slot, or what they touch.
    waiting_for: [Gauge; 3],
    jobs: Gauge,
    uncommitted: Gauge,
    /// Runs expected in each of the coming minutes.
    expected: Vec<Gauge>,
    last_tick: Millis,
    last_minute: Millis,
}

impl Metrics {
    /// Counters at zero, and the handle that renders them.
    pub fn new() -> (Metrics, PrometheusHandle) {
        let builder = ["cadran_tick_lag_seconds", "cadran_lateness_seconds"].iter().fold(
            PrometheusBuilder::new(),
            |builder, name| {
                let matcher = Matcher::Full((*name).to_owned());
                builder.set_buckets_for_metric(matcher, BUCKETS).unwrap_or_else(|_| PrometheusBuilder::new())
            },
        );
        let recorder = builder.build_recorder();
        let handle = recorder.handle();
        let meta = Metadata::new(module_path!(), Level::INFO, None);
        let counter = |name: &'static str, help: &'static str| {
            recorder.describe_counter(name.into(), None, help.into());
            recorder.register_counter(&Key::from_name(name), &meta)
        };
        let labelled = |name: &'static str, label: &'static str, word: &'static str| {
            recorder.register_counter(&Key::from_parts(name, vec![Label::new(label, word)]), &meta)
        };
        let gauge = |name: &'static str, help: &'static str| {
            recorder.describe_gauge(name.into(), None, help.into());
            recorder.register_gauge(&Key::from_name(name), &meta)
        };
        let histogram = |name: &'static str, help: &'static str| {
            recorder.describe_histogram(name.into(), None, help.into());
            recorder.register_histogram(&Key::from_name(name), &meta)
        };
        recorder.describe_counter(
            "cadran_runs_finished_total".into(),
            None,
            "Runs that ended, by status.".into(),
        );
        recorder.describe_counter(
            "cadran_dues_skipped_total".into(),
            None,
            "Dues that did not become started runs, by reason.".into(),
        );
        recorder.describe_gauge(
            "cadran_runs_expected".into(),
            None,
            "Runs expected in a minute, counted from the present one, by the index.".into(),
        );
        let expected = |minute: usize| {
            let label = Label::new("minute", minute.to_string());
            recorder.register_gauge(&Key::from_parts("cadran_runs_expected", vec![label]), &meta)
        };
        recorder.describe_gauge(
            "cadran_runs_waiting_for".into(),
            None,
            "Runs that wait, by what they wait for.".into(),
        );
        let waiting_for = |what: &'static str| {
            let label = Label::new("what", what);
            recorder.register_gauge(&Key::from_parts("cadran_runs_waiting_for", vec![label]), &meta)
        };
        let metrics = Metrics {
            ticks: counter("cadran_ticks_total", "Ticks planned."),
            tick_lag: histogram(
                "cadran_tick_lag_seconds",
                "From when a tick was due until it was planned, waiting for the store included.",
            ),
            lateness: histogram(
                "cadran_lateness_seconds",
                "From the due of a scheduled run to its first order, whatever it waited for.",
            ),
            promised: counter("cadran_runs_promised_total", "Runs promised."),
            started: counter("cadran_runs_started_total", "Runs whose first order went out."),
            finished: RunStatus::WORDS
                .iter()
                .filter(|(status, _)| status.is_ended())
                .map(|&(status, word)| (status, labelled("cadran_runs_finished_total", "status", word)))
                .collect(),
            skips: SkipReason::WORDS
                .iter()
                .map(|&(reason, word)| (reason, labelled("cadran_dues_skipped_total", "reason", word)))
                .collect(),
            stale_reports: counter("cadran_stale_reports_total", "Reports of attempts that were over."),
            running: gauge("cadran_runs_running", "Runs that hold a slot."),
            waiting: gauge("cadran_runs_waiting", "Runs that wait for their turn."),
            waiting_for: ["job", "slot", "footprint"].map(waiting_for),
            jobs: gauge("cadran_jobs", "Jobs in force."),
            uncommitted: gauge("cadran_batches_uncommitted", "Batches on their way to the store."),
            expected: (0..MINUTES_AHEAD).map(expected).collect(),
            last_tick: Millis::MIN,
            last_minute: Millis::MIN,
        };
        (metrics, handle)
    }

    /// Counts one iteration of the loop.
    pub(crate) fn observe(&mut self, engine: &Engine, effects: &Effects, now: Now) {
        if let Some(due) = effects.tick {
            self.ticks.increment(1);
            self.tick_lag.record((now.wall - due).max(0) as f64 / 1_000.0);
        }
        let second = (now.wall - TICK_PHASE_MS).div_euclid(1_000);
        if second != self.last_tick {
            self.last_tick = second;
            let (running, waiting) = engine.active_and_waiting();
            self.running.set(running as f64);
            self.waiting.set(waiting as f64);
            let (slot, footprint) = engine.waiting_for_slot_and_footprint();
            let counts = [waiting - slot - footprint, slot, footprint];
            self.waiting_for.iter().zip(counts).for_each(|(gauge, count)| gauge.set(count as f64));
            self.uncommitted.set(engine.uncommitted() as f64);
            self.forecast(engine, now);
        }
        if effects.jobs_changed {
            self.jobs.set(engine.catalog().len() as f64);
        }
        self.promised.increment(effects.batch.promised.len() as u64);
        self.started.increment(effects.first_orders.len() as u64);
        for (due, trigger) in &effects.first_orders {
            if trigger.is_scheduled() {
                self.lateness.record((now.wall - due).max(0) as f64 / 1_000.0);
            }
        }
        for change in effects.changes.iter().filter(|change| change.status.is_ended()) {
            if let Some((_, counter)) = self.finished.iter().find(|(status, _)| *status == change.status) {
                counter.increment(1);
            }
            if let Some(reason) = change.skip {
                self.skip(reason, 1);
            }
        }
        for skip in &effects.batch.skips {
            self.skip(skip.reason, skip.count);
        }
        self.stale_reports.increment(effects.stale_reports);
    }

    /// Runs expected per minute, by the index: once a minute, and until the first index is there.
    fn forecast(&mut self, engine: &Engine, now: Now) {
        let minute = now.wall.div_euclid(60_000);
        let index = engine.planner().index();
        if minute == self.last_minute || index.window().is_empty() {
            return;
        }
        self.last_minute = minute;
        let counts = index.counts_per_minute(minute * 60_000, MINUTES_AHEAD);
        for (gauge, count) in self.expected.iter().zip(counts) {
            gauge.set(f64::from(count));
        }
    }

    fn skip(&self, reason: SkipReason, count: u64) {
        if let Some((_, counter)) = self.skips.iter().find(|(known, _)| *known == reason) {
            counter.increment(count);
        }
    }
}
