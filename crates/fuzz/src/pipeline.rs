//! The handle on one target: what builders and fuzzers ask, and where they bring their results.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::bucket::Bucket;
use crate::claim::{Claim, Claims, Ending, VersionedClaim, Work};
use crate::error::FuzzError;
use crate::events::{self, Event, Moment};
use crate::files::{BuildQueue, Schedule, StateFile};
use crate::keys::{BinaryKind, Keys};
use crate::rules::build::{self, BuildPick};
use crate::rules::schedule;
use crate::state_file::{self, ConflictRetry};
use crate::{CommitHash, Overload, Target};

/// The wall clock, in milliseconds since the epoch.
pub type Clock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// One target's state, shared with everybody who works on it. Cheap to clone.
#[derive(Clone)]
pub struct Pipeline {
    pub(crate) bucket: Bucket,
    pub(crate) keys: Keys,
    pub(crate) target: Arc<Target>,
    pub(crate) clock: Clock,
    pub(crate) actor: String,
}

/// How a build ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BuildOutcome {
    /// Both binaries are uploaded.
    Built,
    /// The compiler said no: to `failed`, and not tried again by itself.
    Failed(String),
    /// Something else was in the way, such as a full disk or a time limit: tried again, a few times.
    Trouble(String),
}

/// How a fuzz run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FuzzOutcome {
    /// It fuzzed: the count rises by one.
    Fuzzed,
    /// It died before it fuzzed: the count stays.
    Died(String),
}

/// What a builder is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextBuild {
    /// Build this, then [`Pipeline::finish_build`].
    Build(Claim),
    /// Nothing waits that is not being built.
    Nothing,
    /// Fuzzers have enough to do; what waits is built together later.
    Hold {
        /// Commits that wait.
        waiting: usize,
    },
}

impl Pipeline {
    /// Opens a target's state. A store that ignores conditions is refused, unless a single writer is declared.
    pub async fn open(
        bucket: Bucket,
        target: Target,
        clock: Clock,
        actor: impl Into<String>,
    ) -> Result<Pipeline, FuzzError> {
        if !target.single_writer {
            bucket.probe().await?;
        }
        let keys = Keys::new(&target.name, target.layout);
        Ok(Pipeline { bucket, keys, target: Arc::new(target), clock, actor: actor.into() })
    }

    /// Where things of this target lie.
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// The store.
    pub fn bucket(&self) -> &Bucket {
        &self.bucket
    }

    /// What it was opened with.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Records something that is no change of the state files.
    pub async fn note(&self, event: Event) -> Result<(), FuzzError> {
        self.log(vec![event]).await
    }

    /// The next commit to build, claimed for the caller. Takes up what others left half done on the way.
    pub async fn next_build(&self) -> Result<NextBuild, FuzzError> {
        let mut retry = ConflictRetry::new(self.keys.claims());
        loop {
            let now = self.now();
            let claims = self.settled(Work::Build).await?;
            let queue = self.read::<BuildQueue>().await?;
            if self.fail_exhausted(&claims, &queue, now).await? {
                continue;
            }
            let taken = claimed_hashes(&claims, now);
            let unfuzzed = match self.target.overload {
                Overload::Coalesce => {
                    let building = claims.values().filter(|found| found.record.is_held(now)).count();
                    self.read::<Schedule>().await?.unfuzzed() + queue.built.len() + building
                }
                Overload::Fair | Overload::NewestFirst => 0,
            };
            let slots = self.target.budgets.slots_per_day;
            let (hash, covers) = match build::pick(&queue, &taken, self.target.overload, unfuzzed, slots) {
                BuildPick::Take { hash, covers } => (hash, covers),
                BuildPick::Nothing => return Ok(NextBuild::Nothing),
                BuildPick::Hold { waiting } => return Ok(NextBuild::Hold { waiting }),
            };
            match self.take(Work::Build, &hash, claims.get(hash.as_str()), &covers).await? {
                Some(claim) => return Ok(NextBuild::Build(claim)),
                None => retry.conflict().await?,
            }
        }
    }

    /// Claims the build of one commit, which is put first in the queue if it is not there. Refused while somebody else
    /// builds it.
    pub async fn claim_build(&self, hash: &CommitHash) -> Result<Claim, FuzzError> {
        let claims = self.settled(Work::Build).await?;
        if self.is_built(hash).await? {
            return Err(FuzzError::Input(format!("{} is built already", hash.short())));
        }
        self.enqueue(hash, true).await?;
        self.take_now(Work::Build, hash, claims.get(hash.as_str())).await
    }

    /// Brings the result of a build. Refused when the claim is not the newest.
    pub async fn finish_build(&self, claim: &Claim, outcome: BuildOutcome) -> Result<(), FuzzError> {
        let ending = match outcome {
            BuildOutcome::Built if !self.is_built(&claim.hash).await? => {
                let what = "cannot count as built: one of its binaries is not in the store";
                return Err(FuzzError::Input(format!("{} {what}", claim.hash.short())));
            }
            BuildOutcome::Built => Ending::Built,
            BuildOutcome::Failed(reason) => Ending::Failed { reason },
            BuildOutcome::Trouble(reason) => {
                let deaths = self.claims().give_back(claim, &reason).await?;
                let what = format!("attempt {} of {}: {reason}", deaths, self.target.limits.build_attempts);
                self.note(Event::note("build_trouble", claim.hash.as_str(), what)).await?;
                let Some(found) = self.claims().read(Work::Build, claim.hash.as_str()).await? else {
                    return Ok(());
                };
                let claims = BTreeMap::from([(claim.hash.to_string(), found)]);
                let queue = self.read::<BuildQueue>().await?;
                return self.fail_exhausted(&claims, &queue, self.now()).await.map(drop);
            }
        };
        self.claims().end(claim, ending, self.now()).await?;
        self.settle(Work::Build, claim.hash.as_str()).await
    }

    /// The next commit to fuzz, claimed for the caller; `None` when there is nothing to fuzz.
    pub async fn next_fuzz(&self) -> Result<Option<Claim>, FuzzError> {
        let mut retry = ConflictRetry::new(self.keys.claims());
        'again: loop {
            let now = self.now();
            let claims = self.settled(Work::Fuzz).await?;
            let deaths = claims.iter().map(|(hash, found)| (hash.clone(), found.record.deaths_by(now)));
            let deaths: BTreeMap<String, u32> = deaths.collect();
            let plan = self.read::<Schedule>().await?;
            let limits = &self.target.limits;
            for entry in
                schedule::order(&plan, self.target.overload, &claimed_hashes(&claims, now), &deaths, limits)
            {
                let Some(hash) = CommitHash::full(&entry.hash) else { continue };
                // Whose binaries are gone is passed over; the manager's next pass says what becomes of it.
                if !self.is_built(&hash).await? {
                    continue;
                }
                match self.take(Work::Fuzz, &hash, claims.get(&entry.hash), &[]).await? {
                    Some(claim) => return Ok(Some(claim)),
                    None => {
                        retry.conflict().await?;
                        continue 'again;
                    }
                }
            }
            return Ok(None);
        }
    }

    /// Claims a fuzz run of one commit that is scheduled. Refused while somebody else fuzzes it.
    pub async fn claim_fuzz(&self, hash: &CommitHash) -> Result<Claim, FuzzError> {
        let claims = self.settled(Work::Fuzz).await?;
        if self.read::<Schedule>().await?.find(hash.as_str()).is_none() {
            return Err(FuzzError::Input(format!("{} is not scheduled", hash.short())));
        }
        self.take_now(Work::Fuzz, hash, claims.get(hash.as_str())).await
    }

    /// Brings the result of a fuzz run. Refused when the claim is not the newest; the count rises once.
    pub async fn finish_fuzz(&self, claim: &Claim, outcome: FuzzOutcome) -> Result<(), FuzzError> {
        match outcome {
            FuzzOutcome::Fuzzed => {
                let plan = self.read::<Schedule>().await?;
                let count = plan.find(claim.hash.as_str()).map_or(0, |entry| entry.fuzz_count);
                let raise_to = count.saturating_add(1);
                self.claims().end(claim, Ending::Fuzzed { raise_to }, self.now()).await?;
                self.settle(Work::Fuzz, claim.hash.as_str()).await
            }
            FuzzOutcome::Died(reason) => {
                let deaths = self.claims().give_back(claim, &reason).await?;
                let limit = self.target.limits.fuzz_attempts.max(1);
                let (what, why) = match deaths % limit {
                    0 => ("fuzz_moved_back", format!("died {deaths} times before fuzzing, last: {reason}")),
                    _ => ("fuzz_died", reason),
                };
                self.note(Event::note(what, claim.hash.as_str(), why)).await
            }
        }
    }

    /// Lengthens a claim. Refused when somebody else has the work: stop it then.
    pub async fn renew(&self, claim: &mut Claim) -> Result<(), FuzzError> {
        self.claims().renew(claim, self.now()).await
    }

    /// Gives a claim back without a word about the work, as when a person interrupts it.
    pub async fn release(&self, claim: &Claim) -> Result<(), FuzzError> {
        self.claims().release(claim).await
    }

    /// Whether both binaries of a commit are in the store.
    pub async fn is_built(&self, hash: &CommitHash) -> Result<bool, FuzzError> {
        for kind in BinaryKind::ALL {
            if self.bucket.size(&self.keys.binary(kind, hash.as_str())).await?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Appends to the schedule, then removes from `built`: in this order, so that a crash between the two leaves a
    /// commit in both rather than in neither.
    pub(crate) async fn hand_over(&self, hashes: &[String]) -> Result<u64, FuzzError> {
        let events = self.change::<Schedule, _>(|plan| schedule::append(plan, hashes)).await?;
        self.change::<BuildQueue, ()>(|queue| {
            let mut next = queue.clone();
            next.built.retain(|hash| !hashes.contains(hash));
            (next != *queue).then_some((next, ()))
        })
        .await?;
        let events = events.unwrap_or_default();
        let count = events.len() as u64;
        self.log(events).await?;
        Ok(count)
    }

    async fn take(
        &self,
        work: Work,
        hash: &CommitHash,
        prior: Option<&VersionedClaim>,
        covers: &[String],
    ) -> Result<Option<Claim>, FuzzError> {
        let now = self.now();
        let claim = self.claims().take(work, hash, prior, covers, &self.actor, now).await?;
        if let (Some(claim), Some(prior)) = (&claim, prior.filter(|prior| prior.record.is_expired(now))) {
            let reason = format!("the lease of {} ran out; attempt {}", prior.record.owner, claim.attempt);
            self.note(Event::note("taken_over", hash.as_str(), reason)).await?;
        }
        Ok(claim)
    }

    async fn take_now(
        &self,
        work: Work,
        hash: &CommitHash,
        prior: Option<&VersionedClaim>,
    ) -> Result<Claim, FuzzError> {
        let now = self.now();
        let busy = |owner: &str| FuzzError::Input(format!("{} is in the hands of {owner}", hash.short()));
        if let Some(found) = prior.filter(|found| found.record.is_held(now)) {
            return Err(busy(&found.record.owner));
        }
        self.take(work, hash, prior, &[]).await?.ok_or_else(|| busy("somebody else"))
    }

    pub(crate) fn claims(&self) -> Claims<'_> {
        Claims { bucket: &self.bucket, keys: &self.keys, lease: self.target.lease }
    }

    pub(crate) fn now(&self) -> i64 {
        (self.clock)()
    }

    pub(crate) async fn read<F: StateFile>(&self) -> Result<F, FuzzError> {
        Ok(state_file::read::<F>(&self.bucket, &self.keys).await?.file)
    }

    pub(crate) async fn change<F: StateFile, R>(
        &self,
        decide: impl FnMut(&F) -> Option<(F, R)>,
    ) -> Result<Option<R>, FuzzError> {
        state_file::change(&self.bucket, &self.keys, decide).await
    }

    pub(crate) async fn log(&self, mut events: Vec<Event>) -> Result<(), FuzzError> {
        let now = self.now();
        for event in &mut events {
            event.at = now;
            event.actor = self.actor.clone();
        }
        events::log(&self.bucket, &self.keys, Moment::new(now), None, &events).await
    }
}

/// What nobody else may take, with what a build stands for.
pub(crate) fn claimed_hashes(claims: &BTreeMap<String, VersionedClaim>, now: i64) -> BTreeSet<String> {
    let held = claims.iter().filter(|(_, found)| found.record.is_held(now));
    held.flat_map(|(hash, found)| std::iter::once(hash).chain(&found.record.covers)).cloned().collect()
}

impl std::fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pipeline({} in {})", self.target.name, self.bucket.url())
    }
}
