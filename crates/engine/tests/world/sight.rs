//! What one sees of the world, and what must hold in it.

use cadran_core::{JobId, Millis, Overlap, RunId, RunStatus, Trigger};

use super::{DAY, HOUR, MIN, Manner, SEC, World};

impl World {
    pub fn id(&self, job: &str) -> JobId {
        let named = |(put, _): &&(cadran_core::JobPut, Option<Millis>)| put.name.as_str() == job;
        self.record.jobs.values().find(named).unwrap_or_else(|| panic!("no job {job}")).0.job
    }

    /// `03:00`, `03:00:05.250`, `+1 03:00` on the next day of the script.
    pub fn clock(&self, at: Millis) -> String {
        let day = at.div_euclid(DAY) - self.began.div_euclid(DAY);
        let (hour, minute) = (at.rem_euclid(DAY) / HOUR, at.rem_euclid(HOUR) / MIN);
        let (second, milli) = (at.rem_euclid(MIN) / SEC, at.rem_euclid(SEC));
        let mut text = if day == 0 { String::new() } else { format!("{day:+} ") };
        text += &format!("{hour:02}:{minute:02}");
        if second + milli > 0 {
            text += &format!(":{second:02}");
        }
        if milli > 0 {
            text += &format!(".{milli:03}");
        }
        text
    }

    /// Dues of the attempts of a job, in the order of their starts.
    pub fn starts(&self, job: &str) -> Vec<String> {
        let mine = self.hands.starts.iter().filter(|(_, of, ..)| of == job);
        mine.map(|(due, ..)| self.clock(*due)).collect()
    }

    /// When attempts of a job started, by the wall clock.
    pub fn started_at(&self, job: &str) -> Vec<String> {
        let mine = self.hands.starts.iter().filter(|(_, of, ..)| of == job);
        mine.map(|(_, _, at, _)| self.clock(*at)).collect()
    }

    /// Everything that is recorded of a job, in the order of the dues.
    pub fn story(&self, job: &str) -> Vec<String> {
        let id = self.id(job);
        let mut lines: Vec<(Millis, u64, String)> = Vec::new();
        for row in self.record.runs.values().filter(|row| row.promise.job == id) {
            let trigger = match row.promise.trigger {
                Trigger::Schedule => "",
                other => &format!(" {}", other.word()),
            };
            let skip = row.state.skip.map(|skip| format!(" {}", skip.word())).unwrap_or_default();
            let status = row.state.status.word();
            let line = format!("{}{trigger} {status}{skip}", self.clock(row.promise.due));
            lines.push((row.promise.due, row.promise.run.raw(), line));
        }
        for skip in self.record.skips.values().filter(|skip| skip.job == id) {
            let (first, last) = (self.clock(skip.first_due), self.clock(skip.last_due));
            let span = if first == last { first } else { format!("{first}..{last}") };
            lines.push((
                skip.first_due,
                skip.id.raw(),
                format!("{span} x{} {}", skip.count, skip.reason.word()),
            ));
        }
        lines.sort();
        lines.into_iter().map(|(_, _, line)| line).collect()
    }

    /// Where a run stands.
    pub fn status(&self, run: RunId) -> RunStatus {
        self.record.runs[&run].state.status
    }

    /// The runs of a job, by id.
    pub fn runs(&self, job: &str) -> Vec<RunId> {
        let id = self.id(job);
        self.record.runs.values().filter(|row| row.promise.job == id).map(|row| row.promise.run).collect()
    }

    pub fn overlap_of(&self, job: &str) -> Overlap {
        self.law.definition(&self.record.jobs[&self.id(job)].0.definition).policy.overlap
    }
}

/// What must hold.
impl World {
    /// Lets everything come to its end: commits go through, pauses end, attempts end, backlogs drain.
    pub fn settle(&mut self) {
        self.crash_after = None;
        self.store(true);
        let paused: Vec<String> = self
            .record
            .jobs
            .values()
            .filter(|(put, gone)| gone.is_none() && self.engine.planner().is_paused(put.job))
            .map(|(put, _)| put.name.to_string())
            .collect();
        for name in paused {
            self.resume(&name);
        }
        for manner in self.hands.manners.values_mut() {
            *manner = Manner { takes_ms: Some(0), ..Manner::default() };
        }
        let jobs: Vec<String> = self.hands.manners.keys().cloned().collect();
        for name in jobs {
            self.finish(&name);
        }
        self.run_for(3 * MIN);
    }

    /// Checks the law and that nothing is stuck. Consumes nothing: a script may go on afterwards.
    pub fn check(&mut self) {
        self.settle();
        let planner = self.engine.planner();
        self.law.check(&self.record, self.now.wall, |job| planner.has_backlog(job) || planner.is_paused(job));
        for row in self.record.open() {
            let due = row.promise.due;
            assert!(
                due > self.now.wall,
                "run {} of {} is stuck: {:?}",
                row.promise.run,
                self.clock(due),
                row.state
            );
        }
        assert!(
            self.hands.journal.is_empty(),
            "runs that were never closed: {:?}",
            self.hands.journal.keys()
        );
        assert_eq!(self.engine.active_and_waiting(), (0, 0), "places that nobody holds");
        assert_eq!(self.engine.uncommitted(), 0);
    }
}
