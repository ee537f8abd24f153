//! `footprint`: what a run touches.

use cadran_core::footprint::{FOOTPRINT_KEYS_MAX, KEY_BYTES_MAX, check_key, key_kind};
use cadran_core::{FootprintSpec, KeyError, OnConflict, Param, PoolShare};

use super::fields::{Field, Fields, Shape, key, keys};
use super::findings::Findings;
use super::resources::{CAPACITY_MAX, RESOURCES_FILE, Resources};
use super::scalar::{flag, line, one_or_many, scalar, short, text, word};
use crate::diagnostic::Code;
use crate::suggest::nearest;
use crate::tree::{Kind, Node};

pub(crate) const FOOTPRINT: Shape = Shape {
    what: "a footprint",
    keys: &[
        keys("reads", &["read"]),
        keys("writes", &["write"]),
        keys("claims", &["claim"]),
        keys("capacity", &["pools", "uses"]),
        key("ordered"),
        key("on_conflict"),
    ],
    unsupported: &[],
};

pub(crate) const ON_CONFLICTS: &[(&str, OnConflict)] =
    &[("wait", OnConflict::Wait), ("skip", OnConflict::Skip)];

pub(crate) fn read(
    field: Field<'_>,
    params: &[Param],
    resources: &Resources,
    findings: &mut Findings,
) -> FootprintSpec {
    let mut footprint = FootprintSpec::default();
    let Some(fields) = Fields::read(field.value, &FOOTPRINT, findings) else { return footprint };
    let mut count = 0;
    for name in ["reads", "writes", "claims"] {
        let Some(field) = fields.get(name) else { continue };
        let items = one_or_many(field.value);
        count += items.len();
        if count > FOOTPRINT_KEYS_MAX {
            break;
        }
        let texts = items.iter().filter_map(|item| touched(field, item, params, resources, findings));
        let list = match name {
            "reads" => &mut footprint.reads,
            "writes" => &mut footprint.writes,
            _ => &mut footprint.claims,
        };
        *list = texts.collect();
    }
    if let Some(field) = fields.get("capacity") {
        let Kind::Map(entries) = &field.value.kind else {
            let message =
                format!("`{}` is a map of pools and units, not {}", field.spelled, field.value.what());
            findings.error_help(field.value.span, Code::WrongType, message, "write it as in `{gpu: 2}`");
            return footprint;
        };
        count += entries.len();
        if count <= FOOTPRINT_KEYS_MAX {
            footprint.pools =
                entries.iter().filter_map(|(name, units)| share(name, units, resources, findings)).collect();
        }
    }
    if count > FOOTPRINT_KEYS_MAX {
        let message = format!("the footprint has {count} keys and pools; allowed are {FOOTPRINT_KEYS_MAX}");
        let help = "name what lies above them: a key stands for everything below it";
        findings.error_help(field.key.span, Code::Limit, message, help);
    }
    let in_order = footprint.keys().any(|(key, _)| resources.is_ordered(key))
        || footprint.pools.iter().any(|share| resources.is_ordered_pool(&share.pool));
    footprint.ordered = match fields.get("ordered") {
        Some(field) => flag("ordered", field.value, findings).unwrap_or(false) || in_order,
        None => in_order,
    };
    if let Some(field) = fields.get("on_conflict")
        && let Some(then) = word(field.spelled, ON_CONFLICTS, field.value, findings)
    {
        footprint.on_conflict = then;
    }
    if footprint.is_empty() && !findings.has_errors() {
        let message = "the footprint names nothing that a run touches";
        findings.warn(
            field.key.span,
            Code::Missing,
            message,
            "add `reads`, `writes`, `claims` or `capacity`",
        );
        footprint = FootprintSpec::default();
    }
    footprint
}

/// One key, checked.
fn touched(
    field: Field<'_>,
    item: &Node,
    params: &[Param],
    resources: &Resources,
    findings: &mut Findings,
) -> Option<String> {
    let key = line(field.spelled, KEY_BYTES_MAX, item, findings)?.trim();
    if let Err(error) = check_key(key, params) {
        let help = match &error {
            KeyError::NoKind | KeyError::NoName => "write `kind:name`, as in `table:orders`".to_owned(),
            KeyError::BadKind => "a kind is a lower-case word, as in `table:orders`".to_owned(),
            KeyError::KindTaken => {
                "choose another; jobs that must not run together name one and the same key".to_owned()
            }
            KeyError::Dots => "write the path without them".to_owned(),
            KeyError::TooDeep => "name what lies above: a key stands for everything below it".to_owned(),
            KeyError::BadParam => "write `${name}` with the name of a parameter".to_owned(),
            KeyError::UnknownParam(name) => {
                match nearest(name, params.iter().filter_map(|param| param.name.as_deref())) {
                    Some(meant) => format!("did you mean `${{{meant}}}`?"),
                    None => "add it to `params`".to_owned(),
                }
            }
        };
        findings.error_help(item.span, Code::BadValue, format!("the key `{}` {error}", short(key)), help);
        return None;
    }
    let kind = key_kind(key).unwrap_or_default();
    if !resources.knows_kind(kind) {
        let help = match nearest(kind, resources.kinds()) {
            Some(meant) => format!("did you mean `{meant}:`?"),
            None => format!("add it to `kinds` in {RESOURCES_FILE}"),
        };
        let message = format!("the key `{}` has the unknown kind `{}`", short(key), short(kind));
        findings.error_help(item.span, Code::BadValue, message, help);
        return None;
    }
    Some(key.to_owned())
}

/// `gpu: 2`, or `gpu: 2 of 4` where the file wants to say what it counts on.
fn share(name: &Node, units: &Node, resources: &Resources, findings: &mut Findings) -> Option<PoolShare> {
    let pool = text("capacity", name, findings)?;
    let value = scalar(pool, "a number of units", units, findings)?;
    let mut words = value.text.split_whitespace();
    let number = |word: &str| word.parse::<u32>().ok().filter(|units| *units <= CAPACITY_MAX);
    let parsed = match (words.next().map(number), words.next(), words.next().map(number), words.next()) {
        (Some(Some(units)), None, None, None) => Some((units, None)),
        (Some(Some(units)), Some("of"), Some(Some(total)), None) => Some((units, Some(total))),
        _ => None,
    };
    let Some((wanted, total)) = parsed else {
        let message = format!(
            "`{}` takes a number of units up to {CAPACITY_MAX}, as in `2` or `2 of 4`, not `{}`",
            short(pool),
            short(&value.text)
        );
        findings.error(units.span, Code::WrongType, message);
        return None;
    };
    if wanted == 0 {
        let message = format!("`{}` takes at least one unit", short(pool));
        findings.error_help(
            units.span,
            Code::BadValue,
            message,
            "remove the pool if nothing of it is needed",
        );
        return None;
    }
    if resources.is_unknown() {
        let message = format!("the pool `{}` cannot be looked up: {RESOURCES_FILE} has errors", short(pool));
        findings.error(name.span, Code::Missing, message);
        return None;
    }
    let Some(capacity) = resources.capacity(pool) else {
        let help = match nearest(pool, resources.pools()) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("add `resources: {{{}: 4}}` to {RESOURCES_FILE} in the jobs folder", short(pool)),
        };
        let message = format!("there is no pool `{}`", short(pool));
        findings.error_help(name.span, Code::Missing, message, help);
        return None;
    };
    if total.is_some_and(|total| total != capacity) {
        let message = format!(
            "the file counts on {} of `{}`, and {RESOURCES_FILE} says {capacity}",
            total.unwrap_or_default(),
            short(pool)
        );
        findings.error(units.span, Code::Conflict, message);
        return None;
    }
    if wanted > capacity {
        let message = format!(
            "it can never be met: {wanted} of `{}` are needed, and there are {capacity}",
            short(pool)
        );
        let help = format!("need less, or raise the capacity in {RESOURCES_FILE}");
        findings.error_help(units.span, Code::Conflict, message, help);
        return None;
    }
    Some(PoolShare { pool: pool.to_owned(), units: wanted, capacity })
}
