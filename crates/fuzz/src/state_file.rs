//! Read, change, put if nobody else has: the one way state changes.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::bucket::{Bucket, Condition, Put, Version};
use crate::error::{Failure, FuzzError};
use crate::files::StateFile;
use crate::keys::{Keys, Part};

/// Conflicts are retried by time, not by a small count: in a burst of writers each of them loses many times, and each
/// loss means that somebody else got on.
const CONFLICTS_FOR: Duration = Duration::from_secs(60);

/// On a slow store a minute may hold only a few tries.
const TRIES_MIN: u32 = 20;

/// The longest of the waits between two tries, which are drawn at random below a doubling limit.
const WAIT_MAX: Duration = Duration::from_millis(400);
const WAIT_FIRST: Duration = Duration::from_millis(4);

/// Retries after conflicts with other writers of one object, for a limited time.
pub(crate) struct ConflictRetry {
    key: String,
    since: Instant,
    tries: u32,
}

impl ConflictRetry {
    pub(crate) fn new(key: impl Into<String>) -> ConflictRetry {
        ConflictRetry { key: key.into(), since: Instant::now(), tries: 0 }
    }

    /// Somebody else was first: waits a moment, or says that it has been long enough.
    pub(crate) async fn conflict(&mut self) -> Result<(), FuzzError> {
        self.tries += 1;
        let waited = self.since.elapsed();
        if is_enough(self.tries, waited) {
            let detail = format!("{} tries in {} s lost to other writers", self.tries, waited.as_secs());
            return Err(FuzzError::Contended(Failure::new("change", &self.key, detail)));
        }
        let limit = WAIT_FIRST.saturating_mul(1 << self.tries.min(10)).min(WAIT_MAX);
        sleep(limit.mul_f64(random_fraction())).await;
        Ok(())
    }
}

fn is_enough(tries: u32, waited: Duration) -> bool {
    tries >= TRIES_MIN && waited >= CONFLICTS_FOR
}

/// Between 0 and 1. Writers that lost together must not try again together.
fn random_fraction() -> f64 {
    let mut bytes = [0; 4];
    match getrandom::fill(&mut bytes) {
        Ok(()) => f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX),
        Err(_) => 0.5,
    }
}

/// One object of a state file, as it was found.
pub(crate) struct StateObject<F> {
    pub(crate) part: Part,
    pub(crate) key: String,
    pub(crate) found: ReadObject<F>,
}

pub(crate) enum ReadObject<F> {
    /// There is no such object yet.
    Nothing,
    Sound(F, Version),
    /// It cannot be read: what is there instead, and why.
    Broken(Vec<u8>, Version, String),
}

/// Looks at the objects of a state file, the file itself first.
pub(crate) async fn read_objects<F: StateFile>(
    bucket: &Bucket,
    keys: &Keys,
) -> Result<Vec<StateObject<F>>, FuzzError> {
    let mut objects = Vec::new();
    for (part, key) in keys.parts(F::NAME) {
        let found = match bucket.get(&key).await? {
            None => ReadObject::Nothing,
            Some(object) => match F::read_part(&object.bytes, keys.layout(), part) {
                Ok(file) => ReadObject::Sound(file, object.version),
                Err(why) => ReadObject::Broken(object.bytes, object.version, why),
            },
        };
        objects.push(StateObject { part, key, found });
    }
    Ok(objects)
}

/// A state file as it was read. One that is not there yet reads as empty.
pub(crate) struct VersionedFile<F> {
    pub(crate) file: F,
    /// Its objects, and the condition that each is still as it was.
    objects: Vec<(Part, String, Condition)>,
}

/// Reads a state file, or says what is wrong with it.
pub(crate) async fn read<F: StateFile>(bucket: &Bucket, keys: &Keys) -> Result<VersionedFile<F>, FuzzError> {
    let (mut file, mut objects) = (F::default(), Vec::new());
    for StateObject { part, key, found } in read_objects::<F>(bucket, keys).await? {
        let (found, condition) = match found {
            ReadObject::Nothing => (F::default(), Condition::Absent),
            ReadObject::Sound(found, version) => (found, Condition::Matches(version)),
            ReadObject::Broken(_, _, why) => return Err(FuzzError::Broken(Failure::new("read", key, why))),
        };
        file = match part {
            Part::File => found,
            Part::Beside => file.join(found),
        };
        objects.push((part, key, condition));
    }
    Ok(VersionedFile { file, objects })
}

impl<F: StateFile> VersionedFile<F> {
    /// Whether there is such a file.
    fn exists(&self) -> bool {
        self.objects.first().is_some_and(|(_, _, condition)| !matches!(condition, Condition::Absent))
    }

    /// Puts another in its place, unless somebody else has changed it meanwhile: then it is `false`, and what was put of
    /// two objects is done again by whoever tries again.
    pub(crate) async fn replace(&self, bucket: &Bucket, keys: &Keys, next: &F) -> Result<bool, FuzzError> {
        let mut objects: Vec<_> = self.objects.iter().collect();
        if next.is_beside_first(&self.file) {
            objects.reverse();
        }
        for (part, key, condition) in &objects {
            let bytes = next.write_part(keys.layout(), *part);
            if objects.len() > 1 && bytes == self.file.write_part(keys.layout(), *part) {
                continue;
            }
            match bucket.put(key, &bytes, condition).await? {
                Put::Written(_) => {}
                Put::Conflict => return Ok(false),
            }
        }
        Ok(true)
    }
}

/// Changes a state file. `decide` may be called several times, each time with the file as it is then; it answers with
/// the changed file and whatever it wants to remember, or `None` when there is nothing to change.
pub(crate) async fn change<F: StateFile, R>(
    bucket: &Bucket,
    keys: &Keys,
    mut decide: impl FnMut(&F) -> Option<(F, R)>,
) -> Result<Option<R>, FuzzError> {
    let mut retry = ConflictRetry::new(keys.file(F::NAME));
    let mut tried: Option<(F, R)> = None;
    loop {
        let seen = read::<F>(bucket, keys).await?;
        // A put whose answer was lost was repeated by the client and met itself.
        if let Some((file, remember)) = tried.take()
            && seen.exists()
            && seen.file == file
        {
            return Ok(Some(remember));
        }
        let Some((file, remember)) = decide(&seen.file) else { return Ok(None) };
        if seen.replace(bucket, keys, &file).await? {
            return Ok(Some(remember));
        }
        tried = Some((file, remember));
        retry.conflict().await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_26_h31_conflicts_are_given_up_by_time_and_not_before_twenty_tries() {
        let check = |tries, secs, enough| {
            assert_eq!(is_enough(tries, Duration::from_secs(secs)), enough, "{tries} {secs}")
        };
        check(3, 0, false);
        check(500, 59, false);
        check(19, 600, false);
        check(20, 60, true);
    }
}
