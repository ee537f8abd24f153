//! Which jobs can exclude which, and why: asked of what they declare, without any run.
//!
//! ```
//! use cadran_core::{FootprintSpec, Overlap};
//! use cadran_place::conflicts::{Declared, conflicts};
//!
//! let job = |reads: &[&str], writes: &[&str]| {
//!     let list = |keys: &[&str]| keys.iter().map(|key| key.to_string()).collect();
//!     let spec = FootprintSpec { reads: list(reads), writes: list(writes), ..FootprintSpec::default() };
//!     Declared { footprint: spec.as_written().unwrap(), overlap: Overlap::Skip }
//! };
//! let found = conflicts(&[job(&["table:a"], &[]), job(&["table:a"], &["table:b"]), job(&[], &["table:/"])]);
//! let pairs: Vec<_> = found.list.iter().map(|conflict| (conflict.one, conflict.other)).collect();
//! assert_eq!(pairs, [(0, 2), (1, 2)]);
//! ```

use std::collections::BTreeMap;

use cadran_core::{Access, Footprint, Key, Overlap, PoolShare};
use cadran_footprint::Mode;

/// Pairs that one answer lists: more is read by nobody.
pub const CONFLICTS_MAX: usize = 10_000;

/// Keys that one answer compares: a second of work at most, however many jobs there are.
const COMPARISONS_MAX: usize = 20_000_000;

/// What a job declares.
#[derive(Clone, Debug)]
pub struct Declared {
    /// What its runs touch, parameters left as they are written.
    pub footprint: Footprint,
    /// Its own runs exclude one another by this already, unless it is `allow`.
    pub overlap: Overlap,
}

/// Two jobs that can exclude one another. One and the same job when its own runs can, under `overlap: allow`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The place of the first in the list that was given.
    pub one: usize,
    /// The place of the second.
    pub other: usize,
    /// The first reason found.
    pub why: ConflictReason,
    /// Only some values of parameters make it so.
    pub by_params: bool,
}

/// What two jobs cannot both have at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConflictReason {
    /// Keys of which one is the other, or lies below it.
    Key {
        /// What the first does, with which key.
        one: (Access, Key),
        /// What the second does.
        other: (Access, Key),
    },
    /// A pool that has not enough for both.
    Pool {
        /// What the first takes.
        one: PoolShare,
        /// What the second takes.
        other: PoolShare,
    },
}

/// All conflicts of a list of jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conflicts {
    /// In the order of the jobs.
    pub list: Vec<Conflict>,
    /// There may be more than are listed.
    pub cut: bool,
}

/// Compares every two jobs that may have a key or pool in common.
pub fn conflicts(jobs: &[Declared]) -> Conflicts {
    let mut found = Finder { jobs, pairs: BTreeMap::new(), comparisons_left: COMPARISONS_MAX, cut: false };
    found.keys();
    found.pools();
    let list = found.pairs.into_iter().map(|((one, other), (why, by_params))| Conflict {
        one,
        other,
        why,
        by_params,
    });
    Conflicts { list: list.collect(), cut: found.cut }
}

/// A key or pool of a job: the position of the job in the list, and that of the key among its own.
type KeyIndex = (usize, usize);

struct Finder<'a> {
    jobs: &'a [Declared],
    pairs: BTreeMap<(usize, usize), (ConflictReason, bool)>,
    comparisons_left: usize,
    cut: bool,
}

impl Finder<'_> {
    /// Keys meet only within their kind and first name, unless that is left open.
    fn keys(&mut self) {
        let mut wide: BTreeMap<&str, Vec<KeyIndex>> = BTreeMap::new();
        let mut narrow: BTreeMap<(&str, &str), Vec<KeyIndex>> = BTreeMap::new();
        for (job, declared) in self.jobs.iter().enumerate() {
            for (no, (key, _)) in declared.footprint.keys.iter().enumerate() {
                let mut parts = key.parts();
                let kind = parts.next().unwrap_or_default();
                match parts.next().filter(|name| !name.contains("${")) {
                    Some(name) => narrow.entry((kind, name)).or_default().push((job, no)),
                    None => wide.entry(kind).or_default().push((job, no)),
                }
            }
        }
        for ((kind, _), keys) in &narrow {
            self.compare_all(keys);
            for &one in wide.get(kind).into_iter().flatten() {
                keys.iter().for_each(|&other| self.compare(one, other));
            }
        }
        for keys in wide.values() {
            self.compare_all(keys);
        }
    }

    fn compare_all(&mut self, keys: &[KeyIndex]) {
        for (at, &one) in keys.iter().enumerate() {
            if self.comparisons_left == 0 {
                self.cut = true;
                return;
            }
            keys[at..].iter().for_each(|&other| self.compare(one, other));
        }
    }

    fn compare(&mut self, one: KeyIndex, other: KeyIndex) {
        let (one, other) = (one.min(other), one.max(other));
        if self.comparisons_left == 0 {
            self.cut = true;
            return;
        }
        self.comparisons_left -= 1;
        let same = one.0 == other.0;
        if same && self.jobs[one.0].overlap != Overlap::Allow {
            return;
        }
        let key = |(job, no): KeyIndex| &self.jobs[job].footprint.keys[no];
        let ((one_key, one_access), (other_key, other_access)) = (key(one), key(other));
        if !mode(*one_access).excludes(mode(*other_access)) {
            return;
        }
        let may_meet = one_key.parts().zip(other_key.parts()).all(|(one, two)| may_be_same(one, two));
        if may_meet {
            let open = one_key.as_str().contains("${") || other_key.as_str().contains("${");
            let why = ConflictReason::Key {
                one: (*one_access, one_key.clone()),
                other: (*other_access, other_key.clone()),
            };
            self.add((one.0, other.0), why, open);
        }
    }

    fn pools(&mut self) {
        let mut pools: BTreeMap<&str, Vec<KeyIndex>> = BTreeMap::new();
        for (job, declared) in self.jobs.iter().enumerate() {
            for (no, share) in declared.footprint.pools.iter().enumerate() {
                pools.entry(&share.pool).or_default().push((job, no));
            }
        }
        for users in pools.values() {
            for (at, &(one, one_no)) in users.iter().enumerate() {
                for &(other, other_no) in &users[at..] {
                    if self.comparisons_left == 0 {
                        self.cut = true;
                        return;
                    }
                    self.comparisons_left -= 1;
                    if one == other && self.jobs[one].overlap != Overlap::Allow {
                        continue;
                    }
                    let share = |job: usize, no: usize| &self.jobs[job].footprint.pools[no];
                    let (a, b) = (share(one, one_no), share(other, other_no));
                    if u64::from(a.units) + u64::from(b.units) > u64::from(a.capacity.min(b.capacity)) {
                        let why = ConflictReason::Pool { one: a.clone(), other: b.clone() };
                        self.add((one, other), why, false);
                    }
                }
            }
        }
    }

    /// What always conflicts says more than what depends on parameters.
    fn add(&mut self, pair: (usize, usize), why: ConflictReason, by_params: bool) {
        match self.pairs.get(&pair) {
            Some((_, known)) if !known || by_params => {}
            None if self.pairs.len() >= CONFLICTS_MAX => {
                self.cut = true;
                self.comparisons_left = 0;
            }
            _ => drop(self.pairs.insert(pair, (why, by_params))),
        }
    }
}

/// The mode under which a key is held: the rule of admission is the rule here.
fn mode(access: Access) -> Mode {
    match access {
        Access::Read => Mode::Read,
        Access::Write => Mode::Write,
        Access::Claim => Mode::Claim,
    }
}

/// Whether two names can be one, when every `${name}` in them may stand for any text.
fn may_be_same(one: &str, two: &str) -> bool {
    let ends = |name: &str| -> Option<(usize, usize)> {
        let first = name.find("${")?;
        let last = name.rfind('}').filter(|last| *last > first)?;
        Some((first, name.len() - last - 1))
    };
    let (front, back) = match (ends(one), ends(two)) {
        (None, None) => return one == two,
        (Some((front, back)), None) if front + back <= two.len() => (front, back),
        (None, Some((front, back))) if front + back <= one.len() => (front, back),
        (Some(one), Some(two)) => (one.0.min(two.0), one.1.min(two.1)),
        _ => return false,
    };
    one.as_bytes()[..front] == two.as_bytes()[..front]
        && one.as_bytes()[one.len() - back..] == two.as_bytes()[two.len() - back..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use cadran_core::FootprintSpec;

    /// Reads `r a:x, w b:y, c port:1, 2 gpu` of a capacity of 4; `*` in front allows overlap.
    fn job(text: &str) -> Declared {
        let (overlap, text) = match text.strip_prefix('*') {
            Some(text) => (Overlap::Allow, text),
            None => (Overlap::Skip, text),
        };
        let mut spec = FootprintSpec::default();
        for item in text.split(", ") {
            let (how, name) = item.split_once(' ').unwrap();
            let name = name.to_owned();
            match how {
                "r" => spec.reads.push(name),
                "w" => spec.writes.push(name),
                "c" => spec.claims.push(name),
                units => {
                    spec.pools.push(PoolShare { pool: name, units: units.parse().unwrap(), capacity: 4 })
                }
            }
        }
        Declared { footprint: spec.as_written().unwrap(), overlap }
    }

    #[test]
    fn which_jobs_exclude_which() {
        let check = |one: &str, two: &str, expected: &str| {
            let found = conflicts(&[job(one), job(two)]);
            let rows: Vec<String> = found
                .list
                .iter()
                .map(|row| format!("{}{}{}", row.one, row.other, if row.by_params { "?" } else { "" }))
                .collect();
            assert_eq!(rows.join(" "), expected, "{one} | {two}");
        };
        check("r a:x", "r a:x", "");
        check("r a:x", "w a:x", "01");
        check("w a:x", "w a:x", "01");
        check("c a:x", "r a:x", "01");
        check("w a:x", "w a:y", "");
        check("w a:x", "w b:x", "");
        check("w a:x/", "r a:x/y/z", "01");
        check("r a:x/", "r a:x/y", "");
        check("w a:/", "r a:x", "01");
        check("*w a:x", "r a:y", "00");
        check("*r a:x", "r a:x", "");
        check("w a:${p}", "w a:x", "01?");
        check("w a:${p}, w b:z", "w a:x, r b:z", "01");
        check("w a:x-${p}", "w a:x-1", "01?");
        check("w a:x-${p}", "w a:y-1", "");
        check("w a:x-${p}-z", "w a:x-z", "");
        check("w a:${p}/x", "w a:q/y", "");
        check("w a:${p}x", "w a:${q}y", "");
        check("2 gpu", "2 gpu", "");
        check("3 gpu", "2 gpu", "01");
        check("*3 gpu", "1 gpu", "00");
        check("2 gpu", "4 tpu", "");
    }

    #[test]
    fn a_long_answer_is_cut() {
        let jobs: Vec<Declared> = (0..300).map(|_| job("w a:x")).collect();
        let found = conflicts(&jobs);
        assert_eq!((found.list.len(), found.cut), (CONFLICTS_MAX, true));
    }
}
