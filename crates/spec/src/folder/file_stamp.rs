//! What a file looked like, so that an unchanged one is not read again.

use std::fmt;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::str::FromStr;

use cadran_core::Millis;

/// What the file system says about a file without reading it.
///
/// The change time is part of it: a program may set the modification time as it likes, never this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) size: u64,
    modified_ns: i64,
    changed_ns: i64,
    inode: u64,
}

impl Stat {
    pub(super) fn of(metadata: &Metadata) -> Stat {
        let nanos = |secs: i64, nanos: i64| secs.saturating_mul(1_000_000_000).saturating_add(nanos);
        Stat {
            size: metadata.size(),
            modified_ns: nanos(metadata.mtime(), metadata.mtime_nsec()),
            changed_ns: nanos(metadata.ctime(), metadata.ctime_nsec()),
            inode: metadata.ino(),
        }
    }

    /// Whether the file was written within so many milliseconds of `now`. The time of the change counts, not the one
    /// that a copying program restored; a clock that differs a lot says nothing.
    pub(super) fn is_recent(&self, now: Millis, within_ms: Millis) -> bool {
        (now - self.changed_ns / 1_000_000).abs() < within_ms
    }
}

/// A file as it was read: what the file system says, and a hash of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) stat: Stat,
    /// Of the bytes, and of everything else that decides how they are read.
    pub(super) hash: u128,
    /// Of the resources file it was judged by, when it may be judged otherwise by another.
    pub(super) resources: Option<u64>,
}

/// Rises when files read by an older program must be read again.
const READER: &str = "1";

/// A hash of the bytes of a file together with the zone that schedules get by default: with another zone, the same
/// bytes mean another job.
pub(super) fn hash(bytes: &[u8], default_zone: &str) -> u128 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(READER.as_bytes());
    hasher.update(&[0]);
    hasher.update(default_zone.as_bytes());
    hasher.update(&[0]);
    hasher.update(bytes);
    let mut half = [0; 16];
    half.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    u128::from_be_bytes(half)
}

/// A hash of the bytes of the resources file.
pub(super) fn hash_resources(bytes: &[u8]) -> u64 {
    // Half of the half is enough to tell one edit from the next.
    hash(bytes, "resources") as u64
}

impl Mark {
    /// Whether another resources file may say something else about it.
    /// With `all`, about every file.
    pub(super) fn is_judged_by(&self, resources: Option<u64>, all: bool) -> bool {
        self.resources.is_none() && !all || resources.is_none() || self.resources == resources
    }

    /// As text for the store. The zone is part of it for the same reason as in [`hash`].
    pub(super) fn text(&self, default_zone: &str) -> String {
        format!("{READER};{default_zone};{self}")
    }

    /// From the text, unless it was written by another reader or under another default zone.
    pub(super) fn from_text(text: &str, default_zone: &str) -> Option<Mark> {
        text.strip_prefix(READER)?
            .strip_prefix(';')?
            .strip_prefix(default_zone)?
            .strip_prefix(';')?
            .parse()
            .ok()
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Stat { size, modified_ns, changed_ns, inode } = self.stat;
        write!(f, "{size};{modified_ns};{changed_ns};{inode};{:032x}", self.hash)?;
        self.resources.map_or(Ok(()), |resources| write!(f, ";{resources:016x}"))
    }
}

impl FromStr for Mark {
    type Err = ();

    fn from_str(text: &str) -> Result<Mark, ()> {
        let mut parts = text.split(';');
        let mut next = || parts.next().ok_or(());
        let mark = Mark {
            stat: Stat {
                size: next()?.parse().map_err(drop)?,
                modified_ns: next()?.parse().map_err(drop)?,
                changed_ns: next()?.parse().map_err(drop)?,
                inode: next()?.parse().map_err(drop)?,
            },
            hash: u128::from_str_radix(next()?, 16).map_err(drop)?,
            resources: next().ok().map(|hash| u64::from_str_radix(hash, 16)).transpose().map_err(drop)?,
        };
        if next().is_ok() { Err(()) } else { Ok(mark) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_survives_its_text() {
        let stat = Stat { size: 12, modified_ns: -5, changed_ns: i64::MAX, inode: u64::MAX };
        let mark = Mark { stat, hash: hash(b"run: date", "UTC"), resources: None };
        assert_eq!(Mark::from_text(&mark.text("UTC"), "UTC"), Some(mark));
        let shared = Mark { resources: Some(hash_resources(b"resources: {gpu: 4}")), ..mark };
        assert_eq!(Mark::from_text(&shared.text("UTC"), "UTC"), Some(shared));
        assert_eq!(Mark::from_text(&mark.text("UTC"), "Europe/Paris"), None);
        for text in [
            "",
            "1;UTC;",
            "1;UTC;1;2;3;4",
            "1;UTC;1;2;3;4;0;0;0",
            "1;UTC;1;2;3;4;0;x",
            "0;UTC;1;2;3;4;0",
            "1;UTC;a;2;3;4;0",
        ] {
            assert_eq!(Mark::from_text(text, "UTC"), None, "{text}");
        }
    }

    #[test]
    fn the_default_zone_is_part_of_what_a_file_says() {
        assert_ne!(hash(b"x", "UTC"), hash(b"x", "Europe/Paris"));
        assert_ne!(hash(b"x", "UTC"), hash(b"y", "UTC"));
    }
}
