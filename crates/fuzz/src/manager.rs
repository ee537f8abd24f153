//! One pass of the manager: what is new goes to the queue, what is built to the schedule, and what is over goes.

use std::collections::BTreeSet;

use crate::bucket::{Condition, Put};
use crate::claim::{Claim, Work};
use crate::error::{Failure, FuzzError};
use crate::events::{self, CommitState, Event};
use crate::files::{BuildQueue, Checked, Schedule, StateFile};
use crate::keys::{BinaryKind, Keys, Part};
use crate::ledger::Ledger;
use crate::pipeline::claimed_hashes;
use crate::rules::build;
use crate::rules::detect::{Detected, day_of, detect, fresh};
use crate::rules::replay::{StateSnapshot, edits};
use crate::rules::schedule::{self, EXPIRED_UNFUZZED, Facts};
use crate::state_file::{self, ReadObject, StateObject};
use crate::{Commit, CommitHash, History, Pipeline, Resolved, Since};

/// What a pass came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pass {
    /// Another manager is at it; nothing was done.
    pub busy: Option<String>,
    /// New in the queue.
    pub queued: Vec<CommitHash>,
    /// From `built` to the schedule.
    pub handed_over: u64,
    /// Everything that was noticed, in order.
    pub events: Vec<Event>,
    /// Commits behind the limit of one pass, for the next.
    pub backlog: u64,
    /// The repository could not be asked. The rest of the pass was done.
    pub history_error: Option<String>,
}

/// Clocks of machines that write events may differ by this much.
const SKEW: i64 = 10 * 60 * 1000;

impl Pipeline {
    /// One pass. Two passes at once do no harm, but only one does the work.
    pub async fn manage(&self, history: &impl History) -> Result<Pass, FuzzError> {
        let claim = match self.claim_pass().await? {
            Ok(claim) => claim,
            Err(owner) => return Ok(Pass { busy: Some(owner), ..Pass::default() }),
        };
        // A pass in a large repository may take longer than a lease.
        let keeper = self.keep(&claim);
        let pass = self.pass(history).await;
        drop(keeper);
        match self.release(&claim).await {
            Ok(()) | Err(FuzzError::Stale(_)) => pass,
            Err(error) => pass.and(Err(error)),
        }
    }

    /// Which commit a person means. Says in words what is wrong with it, and whether the filter would have left it out.
    pub async fn resolve(
        &self,
        history: &impl History,
        text: &str,
    ) -> Result<(CommitHash, Option<String>), FuzzError> {
        let text = text.trim();
        if !CommitHash::is_abbreviation(text) {
            let what = "is no commit: give 7 to 40 hexadecimal digits";
            return Err(FuzzError::Input(format!("{text:?} {what}")));
        }
        let wrong = |why: &str| Err(FuzzError::Input(format!("{text} {why}")));
        match history.resolve(text).await? {
            Resolved::Commit(commit) => {
                let warning = (!self.takes(&commit)).then(|| {
                    format!(
                        "{} changes no file that the filter takes; done all the same",
                        commit.hash.short()
                    )
                });
                Ok((commit.hash, warning))
            }
            Resolved::Unknown => wrong("is in no history of this repository"),
            Resolved::Ambiguous => wrong("is the beginning of several objects; give more digits"),
            Resolved::NotACommit(kind) => wrong(&format!("is a {kind}, not a commit")),
        }
    }

    fn takes(&self, commit: &Commit) -> bool {
        matches!(&commit.files, crate::Files::Read(files) if self.target.filter.takes_any(files))
    }

    async fn claim_pass(&self) -> Result<Result<Claim, String>, FuzzError> {
        let Some(nobody) = CommitHash::full(&"0".repeat(40)) else { return Ok(Err(String::new())) };
        let prior = self.claims().read(Work::Manage, "").await?;
        let now = self.now();
        if let Some(found) = prior.as_ref().filter(|found| found.record.is_held(now)) {
            return Ok(Err(found.record.owner.clone()));
        }
        let taken = self.claims().take(Work::Manage, &nobody, prior.as_ref(), &[], &self.actor, now).await?;
        Ok(taken.ok_or_else(|| "somebody else".to_string()))
    }

    async fn pass(&self, history: &impl History) -> Result<Pass, FuzzError> {
        let mut pass = Pass::default();
        self.settled(Work::Build).await?;
        self.settled(Work::Fuzz).await?;
        let (mut ledger, condition) = Ledger::read(&self.bucket, &self.keys).await?;
        let known = self.read_state(&mut ledger, &mut pass).await?;
        self.spell_out(history, &mut pass).await?;

        let checked = self.detect(history, known, &mut ledger, &mut pass).await?;
        self.hand_over_built(&mut ledger, &mut pass).await?;
        self.tidy(&mut ledger, &mut pass).await?;

        let picture = StateSnapshot::of(&self.read().await?, &self.read().await?);
        ledger.remember(picture);
        ledger.looked_at = self.now();
        ledger.checked = checked.clone().or(ledger.checked);
        ledger.write(&self.bucket, &self.keys, &condition).await?;
        // The last write of the pass: whatever was not done before it is found again by the next one.
        if let Some(checked) = checked {
            self.change::<Checked, ()>(|state| {
                let mut next = state.clone();
                next.last = Some(checked.clone());
                (next != *state).then_some((next, ()))
            })
            .await?;
        }
        Ok(pass)
    }

    /// Reads the files, restores what is broken, and notices what somebody else made of them.
    async fn read_state(&self, ledger: &mut Ledger, pass: &mut Pass) -> Result<Option<String>, FuzzError> {
        let since = ledger.looked_at.saturating_sub(SKEW);
        // Files, then claims, then the log: whatever a builder has moved by now is still claimed as ended, or logged.
        let queue = state_file::read_objects::<BuildQueue>(&self.bucket, &self.keys).await?;
        let plan = state_file::read_objects::<Schedule>(&self.bucket, &self.keys).await?;
        let state = state_file::read_objects::<Checked>(&self.bucket, &self.keys).await?;
        let mut moving = BTreeSet::new();
        for work in [Work::Build, Work::Fuzz] {
            let claims = self.claims().all(work).await?;
            moving.extend(
                claims.into_iter().filter(|(_, found)| found.record.ending.is_some()).map(|(hash, _)| hash),
            );
        }
        let log = events::read(&self.bucket, &self.keys, since).await?;
        let expected = ledger.picture().replay(&log, self.target.limits.failed);
        let remembers = ledger.looked_at != 0;

        let queue = self.sound(queue, remembers.then(|| expected.to_queue()), pass).await?;
        let plan = self.sound(plan, remembers.then(|| expected.to_schedule()), pass).await?;
        let mut recorded = Checked::default();
        recorded.last.clone_from(&ledger.checked);
        let state = self.sound(state, remembers.then_some(recorded), pass).await?;
        if remembers {
            let mut noticed = edits(&expected, &StateSnapshot::of(&queue, &plan));
            noticed.retain(|event| !moving.contains(&event.hash));
            self.say(pass, noticed).await?;
        }
        Ok(state.last)
    }

    /// The file as read, or as restored from the record when it is broken or gone.
    async fn sound<F: StateFile>(
        &self,
        objects: Vec<StateObject<F>>,
        recorded: Option<F>,
        pass: &mut Pass,
    ) -> Result<F, FuzzError> {
        let mut file = F::default();
        for object in objects {
            let part = object.part;
            let sound = self.sound_part(object, recorded.as_ref(), pass).await?;
            file = match part {
                Part::File => sound,
                Part::Beside => file.join(sound),
            };
        }
        Ok(file)
    }

    async fn sound_part<F: StateFile>(
        &self,
        StateObject { part, key, found }: StateObject<F>,
        recorded: Option<&F>,
        pass: &mut Pass,
    ) -> Result<F, FuzzError> {
        let layout = self.keys.layout();
        let name = key.rsplit('/').next().unwrap_or(&key);
        let recorded = recorded.map(|file| file.write_part(layout, part));
        let (condition, why, kept) = match found {
            ReadObject::Sound(file, _) => return Ok(file),
            // Never written, or nothing to lose.
            ReadObject::Nothing
                if recorded.as_ref().is_none_or(|bytes| *bytes == F::default().write_part(layout, part)) =>
            {
                return Ok(F::default());
            }
            ReadObject::Nothing => (Condition::Absent, "it is gone".to_string(), String::new()),
            ReadObject::Broken(_, _, why) if recorded.is_none() => {
                let detail = format!("{why}; there is no record yet to restore it from");
                return Err(FuzzError::Broken(Failure::new("read", key, detail)));
            }
            ReadObject::Broken(bytes, version, why) => {
                let copy = self.keys.broken(name, self.now());
                self.bucket.put(&copy, &bytes, &Condition::Always).await?;
                (Condition::Matches(version), why, format!("; what was there is kept as {copy}"))
            }
        };
        let bytes = recorded.unwrap_or_default();
        match self.bucket.put(&key, &bytes, &condition).await? {
            Put::Written(_) => {}
            Put::Conflict => {
                let detail = "it changed while it was restored; the next pass looks again";
                return Err(FuzzError::Contended(Failure::new("restore", key, detail)));
            }
        }
        let reason = format!("{name} was restored from the record: {why}{kept}");
        self.say(pass, vec![Event::note("restored", "", reason)]).await?;
        F::read_part(&bytes, layout, part).map_err(|why| FuzzError::Broken(Failure::new("restore", key, why)))
    }

    /// Hashes that a person has typed short become full ones; what means no commit leaves the queue, and says so.
    async fn spell_out(&self, history: &impl History, pass: &mut Pass) -> Result<(), FuzzError> {
        let queue: BuildQueue = self.read().await?;
        for text in queue.queue.iter().filter(|text| CommitHash::full(text).is_none()) {
            let meant = match self.resolve(history, text).await {
                Ok((hash, _)) => Ok(hash),
                Err(FuzzError::Input(why)) => Err(why),
                // The repository cannot be asked: it waits.
                Err(_) => continue,
            };
            let scheduled = match &meant {
                Ok(hash) => self.read::<Schedule>().await?.find(hash.as_str()).is_some(),
                Err(_) => false,
            };
            let meant = meant.as_ref().map(CommitHash::as_str).map_err(String::as_str);
            let events =
                self.change::<BuildQueue, _>(|queue| build::spell_out(queue, text, meant, scheduled)).await?;
            self.say(pass, events.unwrap_or_default()).await?;
        }
        Ok(())
    }

    /// Looks at the history, and queues what is new. Answers with the newest commit that is decided.
    async fn detect(
        &self,
        history: &impl History,
        last: Option<String>,
        ledger: &mut Ledger,
        pass: &mut Pass,
    ) -> Result<Option<String>, FuzzError> {
        let looked = match self.ask(history, last.as_deref()).await {
            Ok(looked) => looked,
            Err(FuzzError::History(why)) => {
                pass.history_error = Some(why);
                return Ok(None);
            }
            Err(other) => return Err(other),
        };
        let queue: BuildQueue = self.read().await?;
        let plan: Schedule = self.read().await?;
        let claims = self.claims().all(Work::Build).await?;
        let claimed = claimed_hashes(&claims, self.now());
        let is_known = |queue: &BuildQueue, hash: &str| {
            build::state_of(queue, hash) != CommitState::Nowhere
                || plan.find(hash).is_some()
                || claimed.contains(hash)
        };
        let target = &self.target;
        let judge = |queue: &BuildQueue| match &looked {
            Looked::Since { commits, .. } => {
                let today = target.only_today.then(|| self.now());
                detect(commits, &target.filter, today, |hash| is_known(queue, hash))
            }
            Looked::Fresh { newest, .. } => {
                fresh(newest, &target.filter, target.limits.fresh_commits, |hash| is_known(queue, hash))
            }
        };
        let queued = self
            .change::<BuildQueue, Detected>(|queue| {
                let detected = judge(queue);
                let mut next = queue.clone();
                next.queue.extend(detected.queue.iter().map(ToString::to_string));
                (!detected.queue.is_empty()).then_some((next, detected))
            })
            .await?;
        let detected = queued.unwrap_or_else(|| judge(&queue));
        let mut said = Vec::new();
        match &looked {
            Looked::Since { more, .. } => {
                pass.backlog = *more;
                if *more > 0 {
                    let reason = format!("{more} commits are more than one pass takes; they come next");
                    said.push(Event::note("backlog", "", reason));
                }
            }
            Looked::Fresh { why, .. } => said.push(Event::note("fresh_start", "", why.clone())),
        }
        said.extend(detected.queue.iter().map(|hash| {
            Event::moved(
                "queued",
                hash.as_str(),
                CommitState::Nowhere,
                CommitState::Queue,
                "new in the history",
            )
        }));
        said.extend(detected.not_today.iter().map(|hash| {
            Event::note("skipped_not_today", hash.as_str(), "only_today: it was committed on another day")
        }));
        let pending = detected.pending.as_ref().map(|(hash, _)| hash.to_string());
        if let Some((hash, why)) = &detected.pending
            && ledger.pending != pending
        {
            said.push(Event::note("pending", hash.as_str(), format!("its files cannot be read: {why}")));
        }
        ledger.pending = pending;
        ledger.arrived(day_of(self.now()), detected.queue.len() as u64);
        pass.queued.clone_from(&detected.queue);
        self.say(pass, said).await?;
        Ok(detected.checked.map(|hash| hash.to_string()))
    }

    async fn ask(&self, history: &impl History, last: Option<&str>) -> Result<Looked, FuzzError> {
        let (walk, limits) = (self.target.walk, &self.target.limits);
        let head = history.head().await?;
        let base = match last {
            None => Err("this target was never looked at".to_string()),
            Some(text) => match CommitHash::full(text) {
                Some(hash) => Ok(hash),
                // Somebody has shortened it.
                None if CommitHash::is_abbreviation(text) => match history.resolve(text).await? {
                    Resolved::Commit(commit) => Ok(commit.hash),
                    _ => Err(format!("last_checked_commit {text} is no commit of this repository")),
                },
                None => Err(format!("last_checked_commit {text:?} is no hash")),
            },
        };
        let why = match base {
            Err(why) => why,
            Ok(base) if base == head => return Ok(Looked::Since { commits: Vec::new(), more: 0 }),
            Ok(base) => match history.since(&base, &head, walk, limits.commits_per_pass).await? {
                Since::Commits { commits, more } => return Ok(Looked::Since { commits, more }),
                Since::UnknownBase => {
                    let short = base.short();
                    format!(
                        "{short} is not in this repository: the branch was rewritten, or it is another one"
                    )
                }
            },
        };
        let newest = history.newest(&head, walk, limits.commits_per_pass).await?;
        Ok(Looked::Fresh { newest, why: format!("{why}; starting with the newest commits") })
    }

    /// `built` to the schedule, where both binaries are there; to `failed`, where they have been missing for long.
    async fn hand_over_built(&self, ledger: &mut Ledger, pass: &mut Pass) -> Result<(), FuzzError> {
        let queue: BuildQueue = self.read().await?;
        let mut ready = Vec::new();
        let mut lost = Vec::new();
        let now = self.now();
        let grace = self.target.retention.missing_grace.as_millis() as i64;
        ledger.missing_since.retain(|hash, _| queue.built.contains(hash));
        for hash in &queue.built {
            let there = match CommitHash::full(hash) {
                Some(hash) => self.is_built(&hash).await?,
                None => false,
            };
            if there {
                ledger.missing_since.remove(hash);
                ready.push(hash.clone());
            } else if now.saturating_sub(*ledger.missing_since.entry(hash.clone()).or_insert(now)) >= grace {
                lost.push(hash.clone());
            }
        }
        pass.handed_over = self.hand_over(&ready).await?;
        if !lost.is_empty() {
            let events = self
                .change::<BuildQueue, _>(|queue| build::missing(queue, &lost, &self.target.limits))
                .await?;
            ledger.missing_since.retain(|hash, _| !lost.contains(hash));
            self.say(pass, events.unwrap_or_default()).await?;
        }
        Ok(())
    }

    async fn tidy(&self, ledger: &mut Ledger, pass: &mut Pass) -> Result<(), FuzzError> {
        let pinned = claimed_hashes(&self.claims().all(Work::Fuzz).await?, self.now());
        let plan: Schedule = self.read().await?;
        let mut gone: BTreeSet<String> = plan.entries.iter().map(|entry| entry.hash.clone()).collect();
        let mut there = binaries(self, BinaryKind::Production).await?;
        there = &there & &binaries(self, BinaryKind::Coverage).await?;
        gone.retain(|hash| !there.contains(hash));
        let facts = Facts { gone, pinned };
        let events =
            self.change::<Schedule, _>(|plan| schedule::tidy(plan, &facts, &self.target.limits)).await?;
        let events = events.unwrap_or_default();
        ledger.expired_unfuzzed +=
            events.iter().filter(|event| event.what == EXPIRED_UNFUZZED).count() as u64;
        self.say(pass, events).await
    }

    async fn say(&self, pass: &mut Pass, events: Vec<Event>) -> Result<(), FuzzError> {
        pass.events.extend(events.iter().cloned());
        self.log(events).await
    }
}

/// What the history answered.
enum Looked {
    Since { commits: Vec<Commit>, more: u64 },
    Fresh { newest: Vec<Commit>, why: String },
}

/// The commits that have a binary of this kind.
async fn binaries(pipeline: &Pipeline, kind: BinaryKind) -> Result<BTreeSet<String>, FuzzError> {
    let folder = pipeline.keys.binaries(kind);
    let listed = pipeline.bucket.list(&folder, None).await?;
    let hash = |key: &str| Keys::hash_of(&folder, key).map(str::to_string);
    Ok(listed.iter().filter_map(|one| hash(&one.key)).collect())
}
