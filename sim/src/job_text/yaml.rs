//! A job file as a tree that can be written as YAML and made smaller.

use std::fmt::Write;

/// One value of a YAML file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Text, a number or a flag.
    Scalar(String),
    /// A list.
    List(Vec<Value>),
    /// Keys and values, in the order of the file.
    Map(Vec<(String, Value)>),
}

impl Value {
    /// A text.
    pub fn text(text: impl ToString) -> Value {
        Value::Scalar(text.to_string())
    }

    /// How many scalars, lists and maps it is made of.
    pub fn size(&self) -> usize {
        match self {
            Value::Scalar(_) => 1,
            Value::List(items) => 1 + items.iter().map(Value::size).sum::<usize>(),
            Value::Map(entries) => 1 + entries.iter().map(|(_, value)| value.size()).sum::<usize>(),
        }
    }

    /// The file: the top in block style, what lies deeper in flow style.
    pub fn file(&self) -> String {
        let mut out = String::new();
        match self {
            Value::Map(entries) => {
                for (key, value) in entries {
                    match value {
                        Value::List(items) if key == "steps" => {
                            out += "steps:\n";
                            items.iter().for_each(|item| _ = writeln!(out, "  - {}", item.flow()));
                        }
                        _ => _ = writeln!(out, "{}: {}", scalar(key), value.flow()),
                    }
                }
            }
            other => _ = writeln!(out, "{}", other.flow()),
        }
        out
    }

    fn flow(&self) -> String {
        match self {
            Value::Scalar(text) => scalar(text),
            Value::List(items) => {
                format!("[{}]", items.iter().map(Value::flow).collect::<Vec<_>>().join(", "))
            }
            Value::Map(entries) => {
                let entry = |(key, value): &(String, Value)| format!("{}: {}", scalar(key), value.flow());
                format!("{{{}}}", entries.iter().map(entry).collect::<Vec<_>>().join(", "))
            }
        }
    }

    /// Every tree that is this one with one part left out, or with a list in place of which its only item stands; large
    /// parts first.
    pub fn smaller(&self) -> Vec<Value> {
        let mut found = Vec::new();
        match self {
            Value::Scalar(_) => {}
            Value::List(items) => {
                for at in 0..items.len() {
                    let mut fewer = items.clone();
                    fewer.remove(at);
                    found.push(Value::List(fewer));
                }
                if let [only] = &items[..] {
                    found.push(only.clone());
                }
                for (at, item) in items.iter().enumerate() {
                    for less in item.smaller() {
                        let mut changed = items.clone();
                        changed[at] = less;
                        found.push(Value::List(changed));
                    }
                }
            }
            Value::Map(entries) => {
                for at in 0..entries.len() {
                    let mut fewer = entries.clone();
                    fewer.remove(at);
                    found.push(Value::Map(fewer));
                }
                for (at, (_, value)) in entries.iter().enumerate() {
                    for less in value.smaller() {
                        let mut changed = entries.clone();
                        changed[at].1 = less;
                        found.push(Value::Map(changed));
                    }
                }
            }
        }
        found.sort_by_key(Value::size);
        found
    }
}

/// A scalar as YAML: bare where that is safe in every position, else in double quotes.
fn scalar(text: &str) -> String {
    let bare = text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "_./-".contains(c));
    if bare {
        return text.to_owned();
    }
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out += "\\\"",
            '\\' => out += "\\\\",
            '\n' => out += "\\n",
            c => out.push(c),
        }
    }
    out + "\""
}

/// Leaves out parts of a tree for as long as `fails` holds. `tries` bounds how often it is asked.
pub fn shrink_value(value: &Value, mut tries: u32, mut fails: impl FnMut(&Value) -> bool) -> Value {
    let mut best = value.clone();
    loop {
        let mut found = None;
        for candidate in best.smaller() {
            if tries == 0 {
                return best;
            }
            tries -= 1;
            if fails(&candidate) {
                found = Some(candidate);
                break;
            }
        }
        match found {
            Some(smaller) => best = smaller,
            None => return best,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_shrunk_to_what_fails() {
        let step = Value::Map(vec![
            ("run".into(), Value::text("echo \"a\"\n")),
            ("retry".into(), Value::Map(vec![("limit".into(), Value::text(3))])),
        ]);
        let file = Value::Map(vec![
            ("overlap".into(), Value::text("skip")),
            ("steps".into(), Value::List(vec![Value::text("true"), step])),
        ]);
        assert_eq!(
            file.file(),
            "overlap: skip\nsteps:\n  - true\n  - {run: \"echo \\\"a\\\"\\n\", retry: {limit: 3}}\n"
        );
        let shrunk = shrink_value(&file, 1000, |value| value.file().contains("limit"));
        assert_eq!(shrunk.file(), "steps: {retry: {limit: 3}}\n");
    }
}
