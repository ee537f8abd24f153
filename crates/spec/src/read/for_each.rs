//! The `for_each` key of a step: its items, and how many at once.

use cadran_core::{ForEach, Items};

use super::fields::{Field, Fields, Shape, key, keys};
use super::findings::Findings;
use super::scalar::{filled, flag, short, text, whole};
use crate::diagnostic::Code;
use crate::tree::{Kind, Node};

pub(crate) const FOR_EACH: Shape = Shape {
    what: "`for_each`",
    keys: &[
        keys("items", &["in"]),
        key("range"),
        keys("max_parallel", &["max_concurrent"]),
        key("fail_fast"),
    ],
    unsupported: &[],
};

/// A list, a text, or a map with one of them or a range.
pub(crate) fn read(field: Field<'_>, findings: &mut Findings) -> Option<Box<ForEach>> {
    let mut each =
        ForEach { items: Items::List(Vec::new()), max_parallel: ForEach::MAX_PARALLEL, fail_fast: false };
    if !matches!(field.value.kind, Kind::Map(_)) {
        each.items = items(field.spelled, field.value, findings)?;
        return Some(Box::new(each));
    }
    let fields = Fields::read(field.value, &FOR_EACH, findings)?;
    each.items = match (fields.get("items"), fields.get("range")) {
        (Some(list), None) => items(list.spelled, list.value, findings)?,
        (None, Some(field)) => range(field, findings)?,
        (Some(_), Some(range)) => {
            let message = "`range` stands beside `items`";
            findings.error_help(range.key.span, Code::Conflict, message, "keep one of the two");
            return None;
        }
        (None, None) => {
            let help = "add `items: [a, b]`, `items: ${LIST}` or `range: 1-10`";
            findings.error_help(field.value.span, Code::Missing, "`for_each` has no items", help);
            return None;
        }
    };
    if let Some(field) = fields.get("max_parallel") {
        each.max_parallel = whole(field.spelled, 1, Items::MAX as i64, field.value, findings)? as u16;
    }
    if let Some(field) = fields.get("fail_fast") {
        each.fail_fast = flag(field.spelled, field.value, findings).unwrap_or(false);
    }
    Some(Box::new(each))
}

fn items(name: &str, node: &Node, findings: &mut Findings) -> Option<Items> {
    let Kind::List(list) = &node.kind else {
        return Some(Items::Text(filled(name, node, findings)?.to_owned()));
    };
    if list.len() > Items::MAX {
        let message = format!("`{name}` has {} items; allowed are {}", list.len(), Items::MAX);
        findings.error_help(node.span, Code::Limit, message, "let one run take several of them");
        return None;
    }
    let mut items = Vec::new();
    for item in list {
        let text = text(name, item, findings)?;
        if text.len() > Items::BYTES_MAX {
            let message = format!("an item of `{name}` has more than {} bytes", Items::BYTES_MAX);
            findings.error(item.span, Code::Limit, message);
            return None;
        }
        items.push(text.to_owned());
    }
    Some(Items::List(items))
}

/// `1-10`, or `0-100/5`.
fn range(field: Field<'_>, findings: &mut Findings) -> Option<Items> {
    let text = filled(field.spelled, field.value, findings)?.trim();
    let (ends, step) = text.split_once('/').unwrap_or((text, "1"));
    let parts = ends.split_once('-').and_then(|(from, to)| {
        let step: i64 = step.trim().parse().ok().filter(|step| *step > 0)?;
        Some((from.trim().parse::<u32>().ok()?, to.trim().parse::<u32>().ok()?, step))
    });
    let Some((from, to, step)) = parts.filter(|(from, to, _)| from <= to) else {
        let message = format!("`{}` cannot be `{}`", field.spelled, short(text));
        let help = "write the first and the last number, as in `1-10`, or `0-100/5` for every fifth";
        findings.error_help(field.value.span, Code::BadValue, message, help);
        return None;
    };
    let count = i64::from(to - from) / step + 1;
    if count > Items::MAX as i64 {
        let message = format!("`{}` names {count} items; allowed are {}", field.spelled, Items::MAX);
        findings.error_help(field.value.span, Code::Limit, message, "let one run take several of them");
        return None;
    }
    Some(Items::Range { from: from.into(), to: to.into(), step })
}
