//! Time zones as flat tables: from this instant on, this offset.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};

use crate::{INSTANT_END, Millis};

/// End of the range in seconds.
pub(crate) const END_SECS: i64 = INSTANT_END / 1000;
/// Offsets are found by a table of stretches of 2^23 seconds, about 97 days: few hold more than one transition.
const BUCKET_SHIFT: u32 = 23;

/// A time zone, 1970–2199, as a shared flat table of instants and offsets.
///
/// Cloning is cheap; zones compare by name.
///
/// ```
/// use cadran_cron::Zone;
///
/// let paris = Zone::get("europe/paris").unwrap();
/// assert_eq!(paris.name(), "Europe/Paris");
/// assert_eq!(paris.offset_at(1_774_745_999_999), 3_600); // one millisecond before summer time
/// assert_eq!(paris.offset_at(1_774_746_000_000), 7_200);
/// assert_eq!(Zone::get("Europe/Pariss").unwrap_err().suggestion(), Some("Europe/Paris"));
/// ```
#[derive(Clone)]
pub struct Zone {
    table: Arc<Table>,
}

struct Table {
    name: String,
    segments: Vec<Segment>,
    /// For each bucket of time, the segment its first second lies in.
    buckets: Vec<u32>,
}

/// A stretch of time with one offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// First instant, in seconds.
    pub(crate) start: i64,
    /// First instant that is no longer part of it.
    pub(crate) end: i64,
    /// Seconds to add to UTC.
    pub(crate) offset: i64,
    /// First wall-clock reading that no earlier segment has shown.
    pub(crate) fresh: i64,
    /// Wall-clock readings from here to the segment's first were never shown: the gap. Empty where it equals the first.
    pub(crate) gap: i64,
}

impl Segment {
    /// First wall-clock reading of the segment.
    #[inline]
    pub(crate) fn local_start(&self) -> i64 {
        self.start + self.offset
    }

    /// First wall-clock reading past the segment.
    #[inline]
    pub(crate) fn local_end(&self) -> i64 {
        self.end + self.offset
    }
}

impl Zone {
    /// Coordinated universal time.
    pub fn utc() -> Zone {
        static UTC: OnceLock<Zone> = OnceLock::new();
        UTC.get_or_init(|| Zone::from_jiff("UTC", &TimeZone::UTC)).clone()
    }

    /// The zone of this name in the bundled database, in any case.
    ///
    /// No file is read: the database is part of the program. Tables are built once per name and shared.
    pub fn get(name: &str) -> Result<Zone, ZoneError> {
        static KNOWN: Mutex<BTreeMap<String, Zone>> = Mutex::new(BTreeMap::new());
        if name.eq_ignore_ascii_case("utc") {
            return Ok(Zone::utc());
        }
        // Only names that were found are kept, so the map cannot outgrow the database.
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let key = name.to_ascii_lowercase();
        if let Some(zone) = known.get(&key) {
            return Ok(zone.clone());
        }
        let found = database().get(name).ok().filter(|zone| !zone.is_unknown());
        let Some(found) = found else {
            drop(known);
            return Err(ZoneError { name: name.chars().take(64).collect(), suggestion: suggest(name) });
        };
        let zone = Zone::from_jiff(found.iana_name().unwrap_or(name), &found);
        known.insert(key, zone.clone());
        Ok(zone)
    }

    /// A zone from a jiff value, under the given name.
    pub fn from_jiff(name: &str, zone: &TimeZone) -> Zone {
        let epoch = Timestamp::UNIX_EPOCH;
        let mut offsets = vec![(0, i64::from(zone.to_offset(epoch).seconds()))];
        for transition in zone.following(epoch) {
            let at = transition.timestamp().as_second();
            if at >= END_SECS {
                break;
            }
            let offset = i64::from(transition.offset().seconds());
            // Some transitions change only the abbreviation.
            if offsets.last().is_some_and(|&(_, before)| before != offset) {
                offsets.push((at, offset));
            }
        }
        Zone::from_offsets(name, &offsets)
    }

    /// A zone from the instants at which its offset changes, in seconds; the first is the epoch.
    fn from_offsets(name: &str, offsets: &[(i64, i64)]) -> Zone {
        let mut segments = Vec::with_capacity(offsets.len());
        let mut shown = offsets[0].1;
        for (i, &(start, offset)) in offsets.iter().enumerate() {
            // A clock that leaps past everything shown leaves a gap; one that falls back has its fresh readings ahead.
            let end = offsets.get(i + 1).map_or(END_SECS, |&(next, _)| next);
            let local = start + offset;
            segments.push(Segment { start, end, offset, fresh: local.max(shown), gap: local.min(shown) });
            shown = shown.max(end + offset);
        }
        let mut buckets = Vec::with_capacity((END_SECS >> BUCKET_SHIFT) as usize + 1);
        let mut at = 0;
        for bucket in 0..=(END_SECS >> BUCKET_SHIFT) {
            while segments[at].end <= bucket << BUCKET_SHIFT && at + 1 < segments.len() {
                at += 1;
            }
            buckets.push(at as u32);
        }
        Zone { table: Arc::new(Table { name: name.to_owned(), segments, buckets }) }
    }

    /// The names in the bundled database.
    pub fn names() -> impl Iterator<Item = String> {
        database().available().map(|name| name.as_str().to_owned())
    }

    /// The name, as the database spells it.
    pub fn name(&self) -> &str {
        &self.table.name
    }

    /// Seconds to add to UTC at an instant; instants outside 1970–2199 get the offset of the nearest edge.
    pub fn offset_at(&self, instant: Millis) -> i32 {
        let secs = instant.div_euclid(1000).clamp(0, END_SECS - 1);
        self.table.segments[self.segment_at(secs)].offset as i32
    }

    /// The instant at which the wall clock first shows a reading (seconds since 1970-01-01T00:00); a reading inside a
    /// gap gives the gap's end. `None` outside the range.
    pub(crate) fn instant_of(&self, local: i64) -> Option<i64> {
        if local < self.table.segments[0].local_start() {
            return None;
        }
        // No offset exceeds a day, so only the segments around the reading matter.
        let from = self.segment_at((local - 86_400).clamp(0, END_SECS - 1));
        self.table.segments[from..].iter().find_map(|segment| {
            if local < segment.local_start() {
                Some(segment.start)
            } else {
                (local < segment.local_end()).then_some(local - segment.offset)
            }
        })
    }

    /// Position of the segment that holds an instant within the range.
    #[inline]
    pub(crate) fn segment_at(&self, secs: i64) -> usize {
        let mut at = self.table.buckets[(secs >> BUCKET_SHIFT) as usize] as usize;
        while self.table.segments[at].end <= secs {
            at += 1;
        }
        at
    }

    #[inline]
    pub(crate) fn segments(&self) -> &[Segment] {
        &self.table.segments
    }
}

impl PartialEq for Zone {
    fn eq(&self, other: &Zone) -> bool {
        Arc::ptr_eq(&self.table, &other.table) || self.table.name == other.table.name
    }
}

impl Eq for Zone {}

impl Hash for Zone {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.table.name.hash(state);
    }
}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Zone").field(&self.table.name).finish()
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.table.name)
    }
}

/// A name that is no time zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneError {
    name: String,
    suggestion: Option<String>,
}

impl ZoneError {
    /// The name that was asked for (its first 64 characters).
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A zone that was probably meant.
    pub fn suggestion(&self) -> Option<&str> {
        self.suggestion.as_deref()
    }
}

impl fmt::Display for ZoneError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown time zone `{}`", self.name)?;
        match &self.suggestion {
            Some(name) => write!(f, ", did you mean `{name}`?"),
            None => f.write_str(", allowed are names of the IANA database such as `Europe/Paris`"),
        }
    }
}

impl std::error::Error for ZoneError {}

fn database() -> &'static TimeZoneDatabase {
    static DATABASE: OnceLock<TimeZoneDatabase> = OnceLock::new();
    DATABASE.get_or_init(TimeZoneDatabase::bundled)
}

/// The closest name: the same city, or few letters away.
fn suggest(asked: &str) -> Option<String> {
    const NAME_BYTES_MAX: usize = 40;
    if asked.is_empty() || asked.len() > NAME_BYTES_MAX {
        return None;
    }
    static KNOWN: OnceLock<Vec<(String, Vec<u8>)>> = OnceLock::new();
    let known = KNOWN.get_or_init(|| Zone::names().map(|name| (name.clone(), plain(&name))).collect());
    let asked = plain(asked);
    let asked_city = city(&asked);
    let mistakes_max = if asked_city.len() <= 4 { 1 } else { 3 };
    known
        .iter()
        .filter_map(|(name, known)| {
            let known_city = city(known);
            let whole = distance(&asked, known, mistakes_max);
            // A city under the wrong region, or without one, is a near miss too.
            let named_city = known_city.len() < known.len() || asked_city.len() == asked.len();
            let same_city = named_city.then(|| distance(asked_city, known_city, mistakes_max - 1)).flatten();
            let best = whole.into_iter().chain(same_city.map(|mistakes| mistakes + 1)).min()?;
            Some((best, name))
        })
        .min()
        .map(|(_, name)| name.clone())
}

/// A name without case and kinds of space.
fn plain(name: &str) -> Vec<u8> {
    name.to_ascii_lowercase().replace([' ', '-'], "_").into_bytes()
}

fn city(name: &[u8]) -> &[u8] {
    name.rsplit(|&b| b == b'/').next().unwrap_or(name)
}

/// Edit distance in bytes, where it does not exceed `max`.
fn distance(a: &[u8], b: &[u8], max: usize) -> Option<usize> {
    // Two cheap bounds spare most names the table: every mistake changes the length by one and the set of letters by two
    // at most.
    let letters = |name: &[u8]| name.iter().fold(0u32, |set, letter| set | 1 << (letter & 31));
    let odd_letters = (letters(a) ^ letters(b)).count_ones() as usize;
    if a.len().abs_diff(b.len()) > max || odd_letters > 2 * max {
        return None;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let cost = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = cost.min(row[j] + 1).min(diagonal + 1);
        }
        if row.iter().all(|&mistakes| mistakes > max) {
            return None;
        }
    }
    Some(row[b.len()]).filter(|&mistakes| mistakes <= max)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{Dialect, Dst, Schedule};

    /// Changes that follow one another faster than any real zone's: a fold within a fold, a leap within it, a gap that
    /// begins among readings shown before.
    #[test]
    fn changes_in_quick_succession() {
        const HOUR: i64 = 3_600;
        let offsets = [
            (0, 2 * HOUR),
            (10 * HOUR, HOUR),
            (10 * HOUR + 1_800, 0),
            (11 * HOUR, 1_800),
            (12 * HOUR, 5 * HOUR),
            (13 * HOUR, 4 * HOUR),
            (13 * HOUR + 600, 6 * HOUR),
        ];
        let zone = Zone::from_offsets("Test/Hasty", &offsets);
        for (text, dst) in [
            ("*/10 * * * *", Dst::Skip),
            ("*/10 * * * *", Dst::Shift),
            ("*/10 * * * *", Dst::Both),
            ("0,20,50 11,12,13,14,15,16 * * *", Dst::Auto),
        ] {
            let schedule = Schedule::parse(text, &zone, Dialect::Cadran).unwrap().with_dst(dst);
            let utc = Schedule::parse(text, &Zone::utc(), Dialect::Cadran).unwrap();
            let matches = |reading: i64| utc.next(reading * 1000 - 1) == Some(reading * 1000);
            let once = dst != Dst::Both;
            let (mut shown, mut expected) = (BTreeSet::new(), Vec::new());
            for secs in (0..48 * HOUR).step_by(60) {
                let reading = secs + i64::from(zone.offset_at(secs * 1000));
                let newest = shown.last().copied().unwrap_or(reading - 60);
                let shifted = matches!(dst, Dst::Shift | Dst::Auto);
                let missed = shifted && (newest + 60..reading).step_by(60).any(matches);
                if missed || (matches(reading) && !(once && shown.contains(&reading))) {
                    expected.push(secs * 1000);
                }
                shown.insert(reading);
            }
            let end = 48 * HOUR * 1000;
            assert_eq!(schedule.between(0, end).collect::<Vec<_>>(), expected, "`{text}`, {dst:?}");
            let mut walked = Vec::new();
            schedule.walk(0, end, &mut |due| walked.push(due));
            assert_eq!(walked, expected, "`{text}`, {dst:?}");
            assert_eq!(schedule.count(0, end), expected.len() as u64);
            let mut back = Vec::new();
            let mut cursor = end;
            while let Some(due) = schedule.previous(cursor) {
                back.push(due);
                cursor = due;
            }
            back.reverse();
            assert_eq!(back, expected, "`{text}`, {dst:?}, backwards");
        }
    }
}
