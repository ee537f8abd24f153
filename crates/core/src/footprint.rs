//! What a run touches: keys it reads, writes and claims, and units it takes from pools.

use std::fmt;

use crate::Param;
use crate::policy::words;

/// What runs of a job touch, as written in its file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FootprintSpec {
    /// Keys it reads.
    pub reads: Vec<String>,
    /// Keys it writes.
    pub writes: Vec<String>,
    /// Keys it needs for itself alone.
    pub claims: Vec<String>,
    /// Units it takes from pools.
    pub pools: Vec<PoolShare>,
    /// Who waits first goes first: nothing that conflicts passes a waiting run.
    pub ordered: bool,
    /// What happens when something it touches is taken.
    pub on_conflict: OnConflict,
}

/// Units of a pool, as in "2 of 4".
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PoolShare {
    /// The pool.
    pub pool: String,
    /// How many units a run takes.
    pub units: u32,
    /// How many there are, as far as the job file's reader knew.
    pub capacity: u32,
}

/// What happens to a run when something it touches is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnConflict {
    /// It waits its turn.
    #[default]
    Wait,
    /// It is skipped, with the reason.
    Skip,
}

words!(OnConflict { Wait = "wait", Skip = "skip" });

/// What a run does with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Access {
    /// Shares it with others that read.
    Read,
    /// Has it alone.
    Write,
    /// Has it alone, whatever the direction: a port, a device.
    Claim,
}

words!(Access { Read = "read", Write = "write", Claim = "claim" });

/// What one run touches: parameters are filled in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Each key once, under its strongest use.
    pub keys: Vec<(Key, Access)>,
    /// Each pool once.
    pub pools: Vec<PoolShare>,
    /// Who waits first goes first.
    pub ordered: bool,
    /// What happens when something of it is taken.
    pub on_conflict: OnConflict,
}

/// Longest key as it is written, and longest value of a parameter in one.
pub const KEY_BYTES_MAX: usize = 256;

/// Names in one key: deeper than any bucket, and each is looked at when a run starts.
pub const KEY_DEPTH_MAX: usize = 31;

/// Keys and pools of one job. Each is checked whenever a run of it wants to start.
pub const FOOTPRINT_KEYS_MAX: usize = 256;

/// Kinds that Cadran uses itself.
const KINDS_TAKEN: [&str; 3] = ["job", "pool", "slot"];

/// A key without parameters: `kind:name/name`. It stands for itself and everything below it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Box<str>);

impl Key {
    /// The kind, then the names from the top down.
    pub fn parts(&self) -> impl Iterator<Item = &str> {
        let (kind, path) = self.0.split_once(':').unwrap_or((&self.0, ""));
        std::iter::once(kind).chain(path.split('/').filter(|name| !name.is_empty()))
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether one of the two is the other, or lies below it.
    pub fn touches(&self, other: &Key) -> bool {
        self.parts().zip(other.parts()).all(|(one, two)| one == two)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What is wrong with a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyError {
    /// No `kind:` before the name.
    NoKind,
    /// The kind is not a word.
    BadKind,
    /// The kind is one of Cadran's own.
    KindTaken,
    /// Nothing behind the kind.
    NoName,
    /// `.` or `..` as a name.
    Dots,
    /// More names than [`KEY_DEPTH_MAX`].
    TooDeep,
    /// A `${` without its `}`, or around something that is no name.
    BadParam,
    /// The job has no such parameter.
    UnknownParam(String),
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyError::NoKind => f.write_str("has no kind"),
            KeyError::BadKind => f.write_str("begins with something that is no kind"),
            KeyError::KindTaken => f.write_str("has a kind that Cadran uses itself"),
            KeyError::NoName => f.write_str("has an empty name"),
            KeyError::Dots => f.write_str("holds `.` or `..` as a name"),
            KeyError::TooDeep => write!(f, "has more than {KEY_DEPTH_MAX} names"),
            KeyError::BadParam => f.write_str("holds a `${` that does not name a parameter"),
            KeyError::UnknownParam(name) => {
                write!(f, "uses the parameter `{name}`, which the job does not have")
            }
        }
    }
}

/// The kind of a key as it is written, when that is right so far.
pub fn key_kind(text: &str) -> Result<&str, KeyError> {
    let (kind, _) = text.split_once(':').ok_or(KeyError::NoKind)?;
    let good = kind.len() <= 32
        && kind.starts_with(|c: char| c.is_ascii_lowercase())
        && kind.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "+-._".contains(c));
    match good {
        _ if kind.is_empty() => Err(KeyError::NoKind),
        false => Err(KeyError::BadKind),
        true if KINDS_TAKEN.contains(&kind) => Err(KeyError::KindTaken),
        true => Ok(kind),
    }
}

/// Checks a key as it is written, against the parameters of its job.
pub fn check_key(text: &str, params: &[Param]) -> Result<(), KeyError> {
    let kind = key_kind(text)?;
    let path = &text[kind.len() + 1..];
    if path.trim().is_empty() {
        return Err(KeyError::NoName);
    }
    let mut known = |name: &str| match value(name, params, &[]) {
        Some(_) => Ok("x".to_owned()),
        None => Err(KeyError::UnknownParam(name.to_owned())),
    };
    let filled = fill(path, &mut known)?;
    let mut depth = 0;
    for name in filled.split('/').filter(|name| !name.is_empty()) {
        depth += 1;
        if matches!(name, "." | "..") {
            return Err(KeyError::Dots);
        }
    }
    if depth > KEY_DEPTH_MAX { Err(KeyError::TooDeep) } else { Ok(()) }
}

/// The names of the parameters that a key uses. A key that does not read uses none.
pub fn key_params(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let all = fill(text, &mut |name| {
        names.push(name.to_owned());
        Ok(String::new())
    });
    if all.is_err() {
        names.clear();
    }
    names
}

impl FootprintSpec {
    /// Whether it touches nothing.
    pub fn is_empty(&self) -> bool {
        self.reads.is_empty() && self.writes.is_empty() && self.claims.is_empty() && self.pools.is_empty()
    }

    /// Every key as it is written, with its use.
    pub fn keys(&self) -> impl Iterator<Item = (&str, Access)> {
        let lists =
            [(&self.reads, Access::Read), (&self.writes, Access::Write), (&self.claims, Access::Claim)];
        lists.into_iter().flat_map(|(list, access)| list.iter().map(move |key| (key.as_str(), access)))
    }

    /// Whether a parameter decides what it touches.
    pub fn has_params(&self) -> bool {
        self.keys().any(|(key, _)| key.contains("${"))
    }

    /// What a run with these values touches. `None` when it touches nothing.
    ///
    /// A value is one name, or part of one, whatever it contains: `/`, `%` and control characters in it are written as
    /// `%2F` and the like, and an empty value as `%`. So no value makes a key that the file does not say.
    pub fn resolve(&self, params: &[Param], given: &[(Box<str>, Box<str>)]) -> Option<Footprint> {
        self.filled(&mut |name| escape(value(name, params, given).unwrap_or_default()))
    }

    /// The same with every parameter left as `${name}`, to look at.
    pub fn as_written(&self) -> Option<Footprint> {
        self.filled(&mut |name| format!("${{{name}}}"))
    }

    fn filled(&self, value: &mut dyn FnMut(&str) -> String) -> Option<Footprint> {
        if self.is_empty() {
            return None;
        }
        let mut keys: Vec<(Key, Access)> = Vec::with_capacity(self.keys().count());
        for (text, access) in self.keys() {
            // Keys were checked when the file was read; what an older program let through stands as it is.
            let filled = fill(text, &mut |name| Ok(value(name))).unwrap_or_else(|_| text.to_owned());
            keys.push((canonical(&filled), access));
        }
        keys.sort_by(|one, two| one.0.cmp(&two.0).then(two.1.cmp(&one.1)));
        keys.dedup_by(|later, first| later.0 == first.0);
        let mut pools = self.pools.clone();
        pools.sort();
        pools.dedup_by(|later, first| later.pool == first.pool);
        Some(Footprint { keys, pools, ordered: self.ordered, on_conflict: self.on_conflict })
    }
}

/// `kind:` and the names with one `/` between them. Slashes in front say nothing and are left for people to recognise.
fn canonical(text: &str) -> Key {
    let (kind, path) = text.split_once(':').unwrap_or((text, ""));
    let front = match path.trim_start_matches('/') {
        "" => "",
        names => &path[..(path.len() - names.len()).min(2)],
    };
    let mut key = format!("{kind}:{front}");
    for (no, name) in path.split('/').filter(|name| !name.is_empty()).enumerate() {
        if no > 0 {
            key.push('/');
        }
        key.push_str(name);
    }
    if key.ends_with(':') {
        key.push('/');
    }
    Key(key.into())
}

/// The text with every `${name}` replaced.
fn fill(text: &str, value: &mut dyn FnMut(&str) -> Result<String, KeyError>) -> Result<String, KeyError> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("${") {
        out.push_str(before);
        let (name, after) = behind.split_once('}').ok_or(KeyError::BadParam)?;
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return Err(KeyError::BadParam);
        }
        out.push_str(&value(name)?);
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

/// The value of a parameter, by its name or its 1-based position among those without one.
fn value<'a>(name: &str, params: &'a [Param], given: &'a [(Box<str>, Box<str>)]) -> Option<&'a str> {
    let declared = match name.parse::<usize>() {
        Ok(position) => params.iter().filter(|param| param.name.is_none()).nth(position.checked_sub(1)?),
        Err(_) => params.iter().find(|param| param.name.as_deref() == Some(name)),
    }?;
    let given = given.iter().rfind(|(of, _)| **of == *name).map(|(_, value)| &**value);
    Some(given.unwrap_or(&declared.default))
}

/// A value as one name.
fn escape(value: &str) -> String {
    if value.is_empty() {
        return "%".to_owned();
    }
    let mut out = String::with_capacity(value.len());
    for c in value.chars() {
        if c == '/' || c == '%' || c.is_control() {
            let mut bytes = [0; 4];
            c.encode_utf8(&mut bytes).bytes().for_each(|byte| out.push_str(&format!("%{byte:02X}")));
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn param(name: Option<&str>, default: &str) -> Param {
        Param { name: name.map(str::to_owned), default: default.to_owned(), required: false }
    }

    #[test]
    fn keys_read_or_say_why_not() {
        let params = [param(Some("day"), ""), param(None, "")];
        let check = |text: &str, expected: Result<(), KeyError>| {
            assert_eq!(check_key(text, &params), expected, "{text}");
        };
        for good in [
            "table:orders",
            "s3://bucket/path/",
            "file:/srv/prices",
            "table:${day}",
            "table:/",
            "arg:${1}",
            "git+ssh:host/a b",
            "x:a:b",
            "x:...",
        ] {
            check(good, Ok(()));
        }
        check("nokind", Err(KeyError::NoKind));
        check(":x", Err(KeyError::NoKind));
        check("", Err(KeyError::NoKind));
        check("/srv/x", Err(KeyError::NoKind));
        check("Table:x", Err(KeyError::BadKind));
        check("ta ble:x", Err(KeyError::BadKind));
        check("${day}:x", Err(KeyError::BadKind));
        check("1:x", Err(KeyError::BadKind));
        check("job:x", Err(KeyError::KindTaken));
        check("pool:gpu", Err(KeyError::KindTaken));
        check("table:", Err(KeyError::NoName));
        check("table: ", Err(KeyError::NoName));
        check("file:/srv/../etc", Err(KeyError::Dots));
        check("file:.", Err(KeyError::Dots));
        check("table:${", Err(KeyError::BadParam));
        check("table:${}", Err(KeyError::BadParam));
        check("table:${a b}", Err(KeyError::BadParam));
        check("table:${night}", Err(KeyError::UnknownParam("night".into())));
        check("table:${2}", Err(KeyError::UnknownParam("2".into())));
        check("table:${0}", Err(KeyError::UnknownParam("0".into())));
        check(&format!("x:{}", "a/".repeat(31)), Ok(()));
        check(&format!("x:{}", "a/".repeat(32)), Err(KeyError::TooDeep));
    }

    #[test]
    fn no_value_makes_a_key_that_the_file_does_not_say() {
        let params = [param(Some("day"), "mon"), param(None, "one")];
        let check = |text: &str, given: &[(&str, &str)], expected: &str| {
            let given: Vec<(Box<str>, Box<str>)> =
                given.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
            let spec = FootprintSpec { writes: vec![text.to_owned()], ..FootprintSpec::default() };
            let footprint = spec.resolve(&params, &given).unwrap();
            assert_eq!(footprint.keys[0].0.as_str(), expected, "{text} {given:?}");
        };
        check("table:orders", &[], "table:orders");
        check("s3://bucket//path/", &[], "s3://bucket/path");
        check("table:/", &[], "table:/");
        check("table:${day}/x", &[], "table:mon/x");
        check("table:${day}/x", &[("day", "tue")], "table:tue/x");
        check("table:${1}", &[("1", "two")], "table:two");
        check("table:a${day}b/", &[("day", "-")], "table:a-b");
        // Separators stay inside of the name, a trailing one too, and an empty value is a name.
        check("table:${day}", &[("day", "a/b")], "table:a%2Fb");
        check("table:${day}", &[("day", "/")], "table:%2F");
        check("table:${day}", &[("day", "")], "table:%");
        check("table:${day}/", &[("day", "%2F")], "table:%252F");
        check("table:${day}", &[("day", "x:y${day}")], "table:x:y${day}");
        check("table:${day}", &[("day", "\n\u{85}")], "table:%0A%C2%85");
    }

    #[test]
    fn each_key_counts_once_under_its_strongest_use() {
        let list = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>();
        let spec = FootprintSpec {
            reads: list(&["a:x", "a:y", "a:x/"]),
            writes: list(&["a:x"]),
            claims: list(&["b:x", "b:x"]),
            ..FootprintSpec::default()
        };
        let keys = spec.resolve(&[], &[]).unwrap().keys;
        let keys: Vec<(&str, Access)> = keys.iter().map(|(key, access)| (key.as_str(), *access)).collect();
        assert_eq!(keys, [("a:x", Access::Write), ("a:y", Access::Read), ("b:x", Access::Claim)]);
        assert_eq!(FootprintSpec::default().resolve(&[], &[]), None);
    }

    #[test]
    fn a_key_touches_itself_and_what_lies_below() {
        let check = |one: &str, two: &str, expected: bool| {
            let (one, two) = (canonical(one), canonical(two));
            assert_eq!(one.touches(&two), expected, "{one} {two}");
            assert_eq!(two.touches(&one), expected, "{two} {one}");
        };
        check("table:orders", "table:orders", true);
        check("table:orders", "table:order", false);
        check("s3://b/p/", "s3://b/p/x", true);
        check("s3://b/p/", "s3://b/q/x", false);
        check("s3://b/p", "s3:b/p/x", true);
        check("table:/", "table:orders", true);
        check("table:/", "file:orders", false);
    }
}
