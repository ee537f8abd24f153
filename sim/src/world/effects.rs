//! What the engine asks for is done, and each act is held to the law as it happens.

use cadran_core::{JobId, Millis, Order, Policy, Reply, Report, RunId, RunStatus, SkipReason};
use cadran_engine::{Effects, Event, RestoredRun};

use super::{Asked, World};
use crate::fleet::{MIN, SEC};
use crate::law::{OpenRun, Violation, broken};
use crate::record::Record;

impl<R: Record> World<'_, R> {
    /// Does what the engine asks for.
    pub(super) fn carry_out(&mut self) -> Result<(), Violation> {
        loop {
            let effects = self.engine.take_effects();
            let Effects { seq, batch, orders, replies, recalls, changes, .. } = effects;
            // What is over gave back what it touched before others could start with it.
            for change in changes.iter().filter(|change| change.status.is_ended()) {
                self.touch.end(change.run);
            }
            for order in orders {
                let order = match self.script.sabotage {
                    Some(sabotage) => sabotage.order(order),
                    None => order,
                };
                self.deliver(&order)?;
                if self.dies() {
                    return Ok(());
                }
            }
            if seq > 0 {
                for promise in &batch.promised {
                    self.newest.push_back(promise.run);
                    if self.newest.len() > 20 {
                        self.newest.pop_front();
                    }
                }
                let mut batch = batch;
                if let Some(sabotage) = self.script.sabotage {
                    sabotage.batch(&mut batch, &mut self.heard_of);
                }
                self.queue.push_back((seq, batch));
                if self.dies() {
                    return Ok(());
                }
            }
            for change in changes {
                self.changed(change.run, change.job, change.status, change.skip)?;
            }
            for (token, reply) in replies {
                let asked = self.asked.remove(&token);
                let wall = self.now().wall;
                self.deeds.answered(token, reply.is_ok(), wall);
                match (&reply, asked) {
                    (Ok(Reply::Run(run)), Some(Asked::Trigger))
                        if self.record.run(*run).is_none() && !self.law.is_over(*run) =>
                    {
                        return broken("acknowledged means on disk", format!("{run} was acknowledged"));
                    }
                    (Ok(reply), Some(Asked::Share)) if self.script.files.is_empty() => {
                        return broken(
                            "a share is stopped and repeated only where there is one",
                            format!("nothing here is shared out, and the answer was {reply:?}"),
                        );
                    }
                    (Ok(Reply::Done), Some(Asked::Pause(job)))
                        if self.resumed.get(&job).is_none_or(|resumed| *resumed < token) =>
                    {
                        self.paused.insert(job);
                    }
                    _ => {}
                }
                if self.keep_answers {
                    self.answers.insert(
                        token,
                        match reply {
                            Ok(Reply::Run(run)) => Some(run),
                            _ => None,
                        },
                    );
                }
            }
            if recalls.is_empty() {
                return Ok(());
            }
            for (token, run, share) in recalls {
                // Without a row the loop refuses by itself.
                if let Some(record) = self.record.run(run) {
                    let job = self.older(record.promise.job, record.promise.revision);
                    let restored = RestoredRun { record, job };
                    self.hands.step_law.reopened(run);
                    self.engine.handle(Event::Recalled(token, Box::new(restored), share), self.now());
                }
            }
        }
    }

    pub(super) fn older(&self, job: JobId, revision: u32) -> Option<cadran_core::Job> {
        let text = self.record.definition(job, revision)?;
        Some(self.script.definition(self.law.definition(&text)))
    }

    pub(super) fn deliver(&mut self, order: &Order) -> Result<(), Violation> {
        let (mut policy, mut admitted, mut body) = (Policy::DEFAULT, false, None);
        if let Order::Start(start) = order {
            let promised = self.law.open.get(&start.run).map(|run| self.law.job_of(run).policy);
            if promised.is_some_and(|policy| policy.at_most_once) {
                let promised_body =
                    self.law.open.get(&start.run).map(|run| self.law.job_of(run).body.clone());
                let row = self.record.run(start.run).and_then(|row| row.state.steps).unwrap_or_default();
                let name = start.context.body.step(start.step).map_or("", |step| &step.name);
                let recorded = row.iter().find(|step| {
                    *step.name == *name || usize::from(start.step.0) >= start.context.body.steps.len()
                });
                if recorded.is_none_or(|step| *step.name == *name && step.attempt != start.attempt) {
                    return broken(
                        "under retry never an order leaves after its start is on record",
                        format!("{} {:?} attempt {}: {row:?}", start.run, start.step, start.attempt),
                    );
                }
                if let Some(body) = promised_body {
                    self.hands.step_law.recorded(start.run, &body, &row);
                }
            }
            let known = self.law.open.get(&start.run).copied();
            let job = start.context.job_name.as_str()[1..].parse().unwrap_or(u64::MAX);
            if let Some(run) = known
                && !run.started
                && run.trigger.is_scheduled()
                && self.paused.contains(&job)
                // One that called a job before is on since then, without an order.
                && self.law.job_of(&run).body.calls().next().is_none()
            {
                return broken(
                    "nothing that is due starts during a pause",
                    format!("{} of {}, due {}", start.run, start.context.job_name, run.due),
                );
            }
            let sent = self.sending.iter().flat_map(|sending| &sending.batches);
            let edited =
                self.queue.iter().map(|(_, batch)| batch).chain(sent).any(|batch| !batch.jobs.is_empty());
            let settled = self.engine.active_and_waiting().0 < 900 && !edited;
            let waited = self.busy.get(&start.context.job).is_some_and(|busy| busy.contains(&start.run));
            admitted = waited || known.is_none_or(|run| run.started);
            policy = self.law.start(start, self.now(), settled)?;
            self.busy.entry(start.context.job).or_default().insert(start.run);
            body = known.map(|run| self.law.job_of(&run).body.clone());
            if let Some(run) = known {
                self.touch.start(start.run, self.law.job_of(&run))?;
            }
        }
        let mut reports = Vec::new();
        self.hands.take(order, policy, admitted, body.as_ref(), self.now(), &mut reports)?;
        self.send_reports(reports);
        Ok(())
    }

    pub(super) fn changed(
        &mut self,
        run: RunId,
        job: JobId,
        status: RunStatus,
        skip: Option<SkipReason>,
    ) -> Result<(), Violation> {
        let busy = self.busy.entry(job).or_default();
        match status {
            RunStatus::Waiting | RunStatus::Running => drop(busy.insert(run)),
            RunStatus::Promised => {}
            _ => drop(busy.remove(&run)),
        }
        // One that has come due and was admitted has its place, also while thousands before it are being started.
        let now = self.frozen.map_or(self.mono + self.offset, |(_, shows, _)| shows);
        let admitted =
            |(other, open): (&RunId, &OpenRun)| *other != run && open.job == job && open.due <= now;
        if skip == Some(SkipReason::Overlap) && busy.is_empty() && !self.law.open.iter().any(admitted) {
            let once = self.law.jobs.get(&job).is_some_and(|life| {
                life.revisions.iter().any(|no| self.script.definitions[*no].policy.at_most_once)
            });
            // Of very many at one instant some are admitted and not yet ordered.
            let orders_left = self.engine.wake().wall == Some(Millis::MIN);
            if !once && !orders_left {
                return broken(
                    "a run is skipped for overlap only beside another run of its job",
                    format!("{run} of job {job} was, and no other run is active"),
                );
            }
        }
        if busy.is_empty() {
            self.busy.remove(&job);
        }
        if status.is_ended() {
            let forgets = self.hands.forgets;
            let promised = self.law.open.get(&run).map(|run| self.law.job_of(run).policy);
            let once = promised.is_some_and(|policy| policy.at_most_once);
            let record = &self.record;
            let tried = |name: &str| {
                let steps = || record.run(run)?.state.steps;
                once && steps()
                    .is_some_and(|steps| steps.iter().any(|step| *step.name == *name && step.attempt > 0))
            };
            self.hands.step_law.ended(run, status, forgets, tried)?;
        }
        Ok(())
    }

    /// Puts reports on their way: most arrive at once, some late, some again, some only when they are sent again.
    pub(super) fn send_reports(&mut self, reports: Vec<Report>) {
        for report in reports {
            let mut dice = self.luck(5);
            let storm = self.storm_until > self.mono;
            let mut delay = dice.between(0, 2);
            if storm && dice.percent(40) {
                delay += dice.pick(&[50, 900, 4 * SEC, 25 * SEC, 2 * MIN]);
            }
            let again = dice.percent(if storm { 30 } else { 2 });
            let no = self.draws;
            if again {
                let later = delay + dice.pick(&[0, 40, 3 * SEC, MIN, 6 * MIN]);
                self.reports.insert((self.mono + later, no << 1 | 1), report.clone());
            }
            self.reports.insert((self.mono + delay, no << 1), report);
        }
    }
}
