//! Read, change, put if nobody else has: the one way state changes.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::bucket::{Bucket, Condition, Put, Version};
use crate::error::{Failure, FuzzError};
use crate::files::StateFile;

/// Conflicts are retried by time, not by a small count: in a burst of writers each of them loses many times, and each
/// loss means that somebody else got on.
const CONFLICTS_FOR: Duration = Duration::from_secs(60);

/// On a slow store a minute may hold only a few tries.
const TRIES_MIN: u32 = 20;

/// The longest of the waits between two tries, which are drawn at random below a doubling limit.
const WAIT_MAX: Duration = Duration::from_millis(400);
const WAIT_FIRST: Duration = Duration::from_millis(4);

/// Patience with other writers of one object.
pub(crate) struct Patience {
    key: String,
    since: Instant,
    tries: u32,
}

impl Patience {
    pub(crate) fn new(key: impl Into<String>) -> Patience {
        Patience { key: key.into(), since: Instant::now(), tries: 0 }
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
        sleep(limit.mul_f64(chance())).await;
        Ok(())
    }
}

fn is_enough(tries: u32, waited: Duration) -> bool {
    tries >= TRIES_MIN && waited >= CONFLICTS_FOR
}

/// Between 0 and 1. Writers that lost together must not try again together.
fn chance() -> f64 {
    let mut bytes = [0; 4];
    match getrandom::fill(&mut bytes) {
        Ok(()) => f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX),
        Err(_) => 0.5,
    }
}

/// A state file as it was read. One that is not there yet reads as empty.
pub(crate) struct Seen<F> {
    pub(crate) file: F,
    pub(crate) condition: Condition,
    /// Whether there is such an object.
    pub(crate) exists: bool,
}

/// Reads a state file, or says what is wrong with it.
pub(crate) async fn read<F: StateFile>(bucket: &Bucket, key: &str) -> Result<Seen<F>, FuzzError> {
    match read_raw::<F>(bucket, key).await? {
        Ok(seen) => Ok(seen),
        Err((_, _, why)) => Err(FuzzError::Broken(Failure::new("read", key, why))),
    }
}

/// As [`read`], with what is there instead when it cannot be read.
pub(crate) async fn read_raw<F: StateFile>(
    bucket: &Bucket,
    key: &str,
) -> Result<Result<Seen<F>, (Vec<u8>, Version, String)>, FuzzError> {
    let Some(object) = bucket.get(key).await? else {
        return Ok(Ok(Seen { file: F::default(), condition: Condition::Absent, exists: false }));
    };
    Ok(match F::read(&object.bytes) {
        Ok(file) => Ok(Seen { file, condition: Condition::Matches(object.version), exists: true }),
        Err(why) => Err((object.bytes, object.version, why)),
    })
}

/// Changes a state file. `decide` may be called several times, each time with the file as it is then; it answers with
/// the changed file and whatever it wants to remember, or `None` when there is nothing to change.
pub(crate) async fn change<F: StateFile, R>(
    bucket: &Bucket,
    key: &str,
    mut decide: impl FnMut(&F) -> Option<(F, R)>,
) -> Result<Option<R>, FuzzError> {
    let mut patience = Patience::new(key);
    let mut tried: Option<(F, R)> = None;
    loop {
        let seen = read::<F>(bucket, key).await?;
        // A put whose answer was lost was repeated by the client and met itself.
        if let Some((file, remember)) = tried.take()
            && seen.exists
            && seen.file == file
        {
            return Ok(Some(remember));
        }
        let Some((file, remember)) = decide(&seen.file) else { return Ok(None) };
        match bucket.put(key, &file.write(), &seen.condition).await? {
            Put::Written(_) => return Ok(Some(remember)),
            Put::Conflict => tried = Some((file, remember)),
        }
        patience.conflict().await?;
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
