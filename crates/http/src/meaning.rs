//! How two definitions of a job differ in what they mean: compared as the store keeps them, where spelling, comments and
//! the order of keys are gone.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// Differences that one answer lists.
const CHANGES_MAX: usize = 1_000;

/// One difference.
#[derive(Serialize, ToSchema)]
pub(crate) struct MeaningChange {
    /// The place, as in `body.steps[1].run`.
    pub(crate) path: String,
    /// What stood there; missing when it is new.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) before: Option<String>,
    /// What stands there now; missing when it is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) after: Option<String>,
}

/// The differences of two stored definitions, by place.
pub(crate) fn changes(before: &str, after: &str) -> Vec<MeaningChange> {
    let (before, after) = (leaves(before), leaves(after));
    let mut paths: Vec<&String> = before.keys().chain(after.keys()).collect();
    paths.sort_unstable();
    paths.dedup();
    let change = |path: &String| {
        let (before, after) = (before.get(path), after.get(path));
        (before != after).then(|| MeaningChange {
            path: path.clone(),
            before: before.cloned(),
            after: after.cloned(),
        })
    };
    paths.into_iter().filter_map(change).take(CHANGES_MAX).collect()
}

/// The plain values of a definition, by place.
fn leaves(text: &str) -> BTreeMap<String, String> {
    let mut leaves = BTreeMap::new();
    let value = serde_json::from_str(text).unwrap_or(Value::Null);
    walk(&value, String::new(), &mut leaves);
    leaves
}

fn walk(value: &Value, path: String, leaves: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                walk(value, below, leaves);
            }
        }
        Value::Array(items) => {
            for (no, item) in items.iter().enumerate() {
                walk(item, format!("{path}[{no}]"), leaves);
            }
        }
        Value::Null => {}
        Value::String(text) => drop(leaves.insert(path, text.clone())),
        plain => drop(leaves.insert(path, plain.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_named_by_its_place() {
        let before =
            r#"{"v":1,"schedules":["0 9 * * *"],"body":{"steps":[{"name":"a","run":"x"}],"timeout":5}}"#;
        let after = r#"{"v":1,"schedules":["0 9 * * *","@daily"],"body":{"steps":[{"name":"a","run":"y"}]}}"#;
        let rows: Vec<_> =
            changes(before, after).into_iter().map(|one| (one.path, one.before, one.after)).collect();
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(
            rows,
            [
                ("body.steps[0].run".to_owned(), text("x"), text("y")),
                ("body.timeout".to_owned(), text("5"), None),
                ("schedules[1]".to_owned(), None, text("@daily")),
            ]
        );
        assert_eq!(changes(before, before).len(), 0);
    }
}
