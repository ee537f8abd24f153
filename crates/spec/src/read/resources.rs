//! What jobs share: pools with their capacity, resources that keep their order, and the kinds that keys may have.

use std::collections::{BTreeMap, BTreeSet};

use cadran_core::Key;
use cadran_core::footprint::{FootprintSpec, KEY_BYTES_MAX, check_key, key_kind};

use super::fields::{Field, Fields, Shape, key};
use super::findings::Findings;
use super::scalar::{flag, line, one_or_many, short, whole, word};
use crate::dagu::FileDialect;
use crate::diagnostic::{Code, Diagnostic};
use crate::tree::{self, Kind, Node, Tree};

/// The file at the top of the jobs folder that says what jobs share. It is no job.
pub const RESOURCES_FILE: &str = "resources.yaml";

/// Units of one pool, at most. Sums of them stay far inside of what counters hold.
pub(crate) const CAPACITY_MAX: u32 = 1_000_000;

/// Resources of one folder.
const RESOURCES_MAX: usize = 10_000;

/// What `resources.yaml` says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    pools: BTreeMap<String, Pool>,
    /// Keys whose waiters go in the order they came.
    ordered: Vec<Key>,
    /// The kinds that keys may have; `None` allows any.
    kinds: Option<BTreeSet<String>>,
    /// By whose rules files of the folder are read that do not say.
    dialect: Option<FileDialect>,
    /// The file is there and cannot be read.
    unknown: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pool {
    capacity: u32,
    ordered: bool,
}

pub(crate) const FILE: Shape = Shape {
    what: "the resources file",
    keys: &[key("resources"), key("kinds"), key("dialect")],
    unsupported: &[
        ("run", "this file is no job; give a job's file another name"),
        ("steps", "this file is no job; give a job's file another name"),
        ("schedule", "this file is no job; give a job's file another name"),
    ],
};

pub(crate) const RESOURCE: Shape =
    Shape { what: "a resource", keys: &[key("capacity"), key("ordered")], unsupported: &[] };

impl Resources {
    /// Reads the text of a resources file. The error is never empty.
    pub fn read(text: &[u8]) -> Result<Resources, Vec<Diagnostic>> {
        let Tree { root, twice } = tree::parse(text).map_err(|found| vec![found])?;
        let mut findings = Findings::with(twice);
        let mut resources = Resources::default();
        if let Some(fields) = Fields::read(&root, &FILE, &mut findings) {
            if let Some(field) = fields.get("kinds") {
                resources.kinds = Some(kinds(field, &mut findings));
            }
            if let Some(field) = fields.get("dialect") {
                resources.dialect = word(field.spelled, FileDialect::WORDS, field.value, &mut findings);
            }
            if let Some(field) = fields.get("resources") {
                resources.read_all(field, &mut findings);
            }
        }
        if findings.has_errors() { Err(findings.finish(&root)) } else { Ok(resources) }
    }

    /// What is known while the file cannot be read: nothing, which is not the same as an empty file.
    pub fn unknown() -> Resources {
        Resources { unknown: true, ..Resources::default() }
    }

    /// How many units a pool has.
    pub fn capacity(&self, pool: &str) -> Option<u32> {
        self.pools.get(pool).map(|pool| pool.capacity)
    }

    /// By whose rules files of the folder are read that do not say.
    pub fn dialect(&self) -> Option<FileDialect> {
        self.dialect
    }

    /// The names of the pools.
    pub fn pools(&self) -> impl Iterator<Item = &str> {
        self.pools.keys().map(String::as_str)
    }

    pub(crate) fn is_unknown(&self) -> bool {
        self.unknown
    }

    pub(crate) fn kinds(&self) -> impl Iterator<Item = &str> {
        self.kinds.iter().flatten().map(String::as_str)
    }

    pub(crate) fn knows_kind(&self, kind: &str) -> bool {
        self.kinds.as_ref().is_none_or(|kinds| kinds.contains(kind))
    }

    /// Whether a key, as it is written, may be, lie below or lie above one whose waiters keep their order. A parameter
    /// in it may stand for anything.
    pub(crate) fn is_ordered(&self, key: &str) -> bool {
        let Some(key) = whole_key(key) else { return false };
        self.ordered.iter().any(|ordered| {
            ordered.parts().zip(key.parts()).all(|(one, two)| one == two || two.contains("${"))
        })
    }

    pub(crate) fn is_ordered_pool(&self, pool: &str) -> bool {
        self.pools.get(pool).is_some_and(|pool| pool.ordered)
    }

    fn read_all(&mut self, field: Field<'_>, findings: &mut Findings) {
        let Kind::Map(entries) = &field.value.kind else {
            let message =
                format!("`resources` is a map of names and what they are, not {}", field.value.what());
            return findings.error_help(
                field.value.span,
                Code::WrongType,
                message,
                "write it as in `resources: {gpu: 4}`",
            );
        };
        if entries.len() > RESOURCES_MAX {
            let message = format!("there are {} resources; allowed are {RESOURCES_MAX}", entries.len());
            return findings.error(field.key.span, Code::Limit, message);
        }
        for (name, value) in entries {
            self.read_one(name, value, findings);
        }
    }

    /// `gpu: 4`, `gpu: {capacity: 4, ordered: true}` or `table:orders: {ordered: true}`.
    fn read_one(&mut self, name: &Node, value: &Node, findings: &mut Findings) {
        let Some(text) = line("resources", KEY_BYTES_MAX, name, findings) else { return };
        let (mut capacity, mut ordered) = (None, false);
        if matches!(value.kind, Kind::Map(_)) {
            let Some(fields) = Fields::read(value, &RESOURCE, findings) else { return };
            if let Some(field) = fields.get("capacity") {
                capacity = units(field.value, findings);
                if capacity.is_none() {
                    return;
                }
            }
            if let Some(field) = fields.get("ordered") {
                ordered = flag("ordered", field.value, findings).unwrap_or(false);
            }
        } else {
            capacity = units(value, findings);
            if capacity.is_none() {
                return;
            }
        }
        match (capacity, text.contains(':')) {
            (Some(capacity), false) if is_pool_name(text) => {
                self.pools.insert(text.to_owned(), Pool { capacity, ordered });
            }
            (Some(_), false) => {
                let message = format!("`{}` is no name for a pool", short(text));
                let help = "use letters, digits, `_`, `.` and `-`, and begin with a letter";
                findings.error_help(name.span, Code::BadValue, message, help);
            }
            (Some(_), true) => {
                let message = format!("`{}` is a key, and only a pool has a capacity", short(text));
                let help = "give the pool a name without `:`; jobs take of it with `capacity`";
                findings.error_help(name.span, Code::BadValue, message, help);
            }
            (None, false) => {
                let message = format!("the pool `{}` has no capacity", short(text));
                findings.error_help(name.span, Code::Missing, message, "write it as in `gpu: 4`");
            }
            (None, true) => {
                if let Err(error) = check_key(text, &[]) {
                    let message = format!("the key `{}` {error}", short(text));
                    return findings.error(name.span, Code::BadValue, message);
                }
                if ordered && let Some(key) = whole_key(text) {
                    self.ordered.push(key);
                }
            }
        }
    }
}

/// A key as it is written, cut into its names; parameters stay as they are.
fn whole_key(text: &str) -> Option<Key> {
    let spec = FootprintSpec { reads: vec![text.to_owned()], ..FootprintSpec::default() };
    Some(spec.as_written()?.keys.into_iter().next()?.0)
}

fn is_pool_name(text: &str) -> bool {
    text.len() <= 64
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c))
}

fn units(node: &Node, findings: &mut Findings) -> Option<u32> {
    whole("capacity", 1, i64::from(CAPACITY_MAX), node, findings).map(|units| units as u32)
}

fn kinds(field: Field<'_>, findings: &mut Findings) -> BTreeSet<String> {
    let mut kinds = BTreeSet::new();
    for item in one_or_many(field.value) {
        let Some(kind) = line("kinds", KEY_BYTES_MAX, item, findings) else { continue };
        let kind = kind.strip_suffix(':').unwrap_or(kind);
        match key_kind(&format!("{kind}:")) {
            Ok(kind) => drop(kinds.insert(kind.to_owned())),
            Err(error) => {
                let message = format!("`{}` {error}", short(kind));
                let help = "a kind is a lower-case word, as in `table`";
                findings.error_help(item.span, Code::BadValue, message, help);
            }
        }
    }
    kinds
}
