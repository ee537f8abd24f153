//! The keys of one map: which are there, under which spelling, and which should not be.

use super::findings::Findings;
use crate::diagnostic::{Code, printable};
use crate::suggest::nearest;
use crate::tree::{Kind, Node};

/// A key with its other spellings, all in `snake_case`; `camelCase` is accepted for each.
#[derive(Debug)]
pub struct Key {
    pub(crate) name: &'static str,
    pub(crate) also: &'static [&'static str],
}

impl Key {
    /// Its name in documents.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Its name and everything else it may be called.
    pub fn spellings(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name).chain(self.also.iter().copied())
    }
}

/// A key and nothing else it is called.
pub const fn key(name: &'static str) -> Key {
    Key { name, also: &[] }
}

/// A key and what else it is called.
pub(crate) const fn keys(name: &'static str, also: &'static [&'static str]) -> Key {
    Key { name, also }
}

/// What a map may hold.
#[derive(Debug)]
pub struct Shape {
    /// As in "a step has no key …".
    pub what: &'static str,
    /// The keys it may have.
    pub keys: &'static [Key],
    /// Keys that other schedulers know here, and what to do instead.
    pub unsupported: &'static [(&'static str, &'static str)],
}

#[derive(Clone, Copy)]
pub(crate) struct Field<'n> {
    /// As written.
    pub(crate) spelled: &'n str,
    /// Which of the key's names, in `snake_case`.
    pub(crate) name: &'static str,
    pub(crate) key: &'n Node,
    pub(crate) value: &'n Node,
}

pub(crate) struct Fields<'n> {
    found: Vec<(&'static str, Field<'n>)>,
}

impl<'n> Fields<'n> {
    /// The fields of a map. Keys that do not belong are reported; the others can be asked for.
    pub(crate) fn read(node: &'n Node, shape: &Shape, findings: &mut Findings) -> Option<Fields<'n>> {
        let Kind::Map(entries) = &node.kind else {
            findings.error(
                node.span,
                Code::WrongType,
                format!("{} is a map of keys and values, not {}", shape.what, node.what()),
            );
            return None;
        };
        let mut found: Vec<(&'static str, Field<'n>)> = Vec::with_capacity(entries.len());
        for (key, value) in entries {
            let Kind::Scalar(scalar) = &key.kind else { continue };
            let spelled = scalar.text.as_str();
            let snake = snake_case(spelled);
            let known = shape.keys.iter().find_map(|known| {
                known.spellings().find(|name| *name == snake).map(|name| (known.name, name))
            });
            let Some((canonical, name)) = known else {
                unknown(spelled, &snake, key, shape, findings);
                continue;
            };
            if let Some((_, first)) = found.iter().find(|(other, _)| *other == canonical) {
                findings.error_help(
                    key.span,
                    Code::DuplicateKey,
                    format!(
                        "`{spelled}` says the same as `{}` on line {}",
                        first.spelled, first.key.span.line
                    ),
                    "keep one of the two",
                );
                continue;
            }
            found.push((canonical, Field { spelled, name, key, value }));
        }
        Some(Fields { found })
    }

    /// A field, unless it is absent or has no value.
    pub(crate) fn get(&self, name: &str) -> Option<Field<'n>> {
        self.written(name).filter(|field| !field.value.is_null())
    }

    /// A field, even without a value.
    pub(crate) fn written(&self, name: &str) -> Option<Field<'n>> {
        self.found.iter().find(|(canonical, _)| *canonical == name).map(|(_, field)| *field)
    }
}

/// Words that other tools have, or people expect, for keys of ours, with an example. The first that the map knows counts.
const SYNONYMS: &[(&str, &str, &str)] = &[
    ("cron", "schedule", "As in `schedule: \"0 3 * * *\"`"),
    ("crontab", "schedule", "As in `schedule: \"0 3 * * *\"`"),
    ("interval", "schedule", "As in `schedule: every 10m`"),
    ("every", "schedule", "As in `schedule: every 10m`"),
    ("retries", "retry", "As in `retry: 3`"),
    ("retries", "limit", "As in `limit: 3`"),
    ("attempts", "limit", "As in `limit: 3`"),
    ("needs", "depends", "As in `depends: [build, test]`"),
    ("needs", "children", "The job that comes first names those behind it; steps have `depends`"),
    ("depends", "children", "The job that comes first names those behind it; steps have `depends`"),
    ("if", "preconditions", "As in `preconditions: \"test -f ready\"`"),
    ("when", "preconditions", "As in `preconditions: \"test -f ready\"`"),
    ("mailto", "handlers", "As in `handlers: {failure: \"mail -s failed me@example.org </dev/null\"}`"),
    ("email", "handlers", "As in `handlers: {failure: \"mail -s failed me@example.org </dev/null\"}`"),
    ("disabled", "enabled", "As in `enabled: false`"),
    ("start_date", "not_before", "As in `not_before: 2026-12-01T00:00:00`"),
    ("end_date", "not_after", "As in `not_after: 2026-12-31T23:59:59`"),
];

fn unknown(spelled: &str, snake: &str, key: &Node, shape: &Shape, findings: &mut Findings) {
    let shown: String = printable(&spelled.chars().take(64).collect::<String>());
    if let Some((_, instead)) = shape.unsupported.iter().find(|(known, _)| *known == snake) {
        findings.error_help(
            key.span,
            Code::Unsupported,
            format!("`{shown}` is not supported by Cadran"),
            *instead,
        );
        return;
    }
    if findings.is_full() {
        return findings.error(key.span, Code::UnknownKey, "unknown key");
    }
    if let Some((_, meant, example)) = SYNONYMS
        .iter()
        .filter(|(word, ..)| *word == snake)
        .find(|(_, meant, _)| shape.keys.iter().any(|known| known.name == *meant))
    {
        let help = format!("did you mean `{meant}`? {example}");
        return findings.error_help(key.span, Code::UnknownKey, format!("unknown key `{shown}`"), help);
    }
    let names = shape.keys.iter().flat_map(Key::spellings);
    let help = match nearest(snake, names) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => {
            let all: Vec<&str> = shape.keys.iter().map(|known| known.name).collect();
            format!("{} has the keys {}", shape.what, all.join(", "))
        }
    };
    findings.error_help(key.span, Code::UnknownKey, format!("unknown key `{shown}`"), help);
}

/// `maxActiveSteps` as `max_active_steps`; text that is not camelCase stays as it is.
pub(crate) fn snake_case(key: &str) -> String {
    let mut snake = String::with_capacity(key.len() + 4);
    for (at, c) in key.chars().enumerate() {
        if c.is_ascii_uppercase() && at > 0 {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    if key.starts_with(|c: char| c.is_ascii_uppercase()) { key.to_owned() } else { snake }
}
