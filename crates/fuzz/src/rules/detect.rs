//! Which commits of a history go to the queue.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::{Commit, CommitHash, FileFilter, Files};

/// What a look at the history came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Detected {
    /// To the end of the queue, oldest first.
    pub queue: Vec<CommitHash>,
    /// Where the next look begins; `None` when nothing is decided.
    pub checked: Option<CommitHash>,
    /// Left out because they are not of today.
    pub not_today: Vec<CommitHash>,
    /// Decided not to be worth a build.
    pub other_files: u64,
    /// In the queue, built, failed or scheduled already.
    pub known: u64,
    /// The first commit that could not be judged, and why. It and those behind it wait.
    pub pending: Option<(CommitHash, String)>,
}

/// Judges commits, oldest first. The answer covers a prefix of them: up to the first whose files cannot be read.
pub fn detect(
    commits: &[Commit],
    filter: &FileFilter,
    today_only: Option<i64>,
    known: impl Fn(&str) -> bool,
) -> Detected {
    let mut detected = Detected::default();
    for commit in commits {
        let files = match &commit.files {
            Files::Read(files) => files,
            Files::Unreadable(why) => {
                detected.pending = Some((commit.hash.clone(), why.clone()));
                break;
            }
        };
        detected.checked = Some(commit.hash.clone());
        if known(commit.hash.as_str()) || detected.queue.contains(&commit.hash) {
            detected.known += 1;
        } else if !filter.takes_any(files) {
            detected.other_files += 1;
        } else if today_only.is_some_and(|now| day_of(commit.committed_at) != day_of(now)) {
            detected.not_today.push(commit.hash.clone());
        } else {
            detected.queue.push(commit.hash.clone());
        }
    }
    detected
}

/// A fresh start, when there is no commit to begin from: the newest commits that are worth a build, `count` at most.
/// The history before them is not queued. `newest` is newest first, and its first commit is where the next look begins.
pub fn fresh(newest: &[Commit], filter: &FileFilter, count: usize, known: impl Fn(&str) -> bool) -> Detected {
    let mut detected = Detected::default();
    let mut taken = 0;
    for commit in newest {
        if taken == count {
            break;
        }
        match &commit.files {
            Files::Unreadable(why) => {
                detected.pending = Some((commit.hash.clone(), why.clone()));
                detected.queue.clear();
                return detected;
            }
            Files::Read(files) if filter.takes_any(files) => {
                taken += 1;
                if known(commit.hash.as_str()) {
                    detected.known += 1;
                } else {
                    detected.queue.push(commit.hash.clone());
                }
            }
            Files::Read(_) => detected.other_files += 1,
        }
    }
    detected.queue.reverse();
    detected.checked = newest.first().map(|commit| commit.hash.clone());
    detected
}

/// The day of an instant in UTC, as in `2026-11-16`.
pub fn day_of(millis: i64) -> String {
    match Timestamp::from_millisecond(millis) {
        Ok(instant) => instant.to_zoned(TimeZone::UTC).date().to_string(),
        // Committer dates are whatever the committer's machine said.
        Err(_) => "beyond the calendar".into(),
    }
}
