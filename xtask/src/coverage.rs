//! What is documented is exercised: every key, command, option, endpoint, metric and skip reason has a test through the
//! built binary, and a place in the documents.
//!
//! The example `reference` of the `cadran` crate lists them from the code itself. A test says what it covers in comments
//! directly above its `#[test]`, with braces for several names that differ in one part:
//!
//! ```text
//! // covers: key retry.{limit,interval}
//! // covers: option trigger --wait
//! #[test]
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde_json::Value;

use crate::CommandError;
use crate::files::File;
use crate::program::{program, read};

/// Where tests run the built binary.
const TESTS: &str = "crates/cadran/tests/";
const MARK: &str = "// covers: ";

/// What has no test through the binary yet: nothing. A name that is covered, or that is gone, has to leave the list.
const WITHOUT_TEST: &[&str] = &[];

/// What the code says of itself.
pub(crate) struct Reference {
    names: BTreeSet<String>,
    documents: BTreeMap<String, String>,
    /// Keys that a page has to mention.
    keys: BTreeMap<String, Vec<String>>,
}

impl Reference {
    pub(crate) fn read() -> Result<Reference, String> {
        let text = read(&mut program("cargo run --quiet --locked --package cadran --example reference"))?;
        let value: Value = serde_json::from_str(&text).map_err(|error| format!("reference: {error}"))?;
        let words = |value: &Value| -> Vec<String> {
            value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let entries = |name: &str| value[name].as_object().cloned().unwrap_or_default();
        let reference = Reference {
            names: words(&value["names"]).into_iter().collect(),
            documents: entries("documents")
                .into_iter()
                .map(|(path, text)| (path, text.as_str().unwrap_or_default().to_owned()))
                .collect(),
            keys: entries("keys").into_iter().map(|(path, keys)| (path, words(&keys))).collect(),
        };
        // A list that came out empty would make every check below pass.
        for kind in ["key", "command", "option", "endpoint", "metric", "reason"] {
            if reference.of_kind(kind).next().is_none() {
                return Err(format!("reference: there is no {kind}"));
            }
        }
        Ok(reference)
    }

    fn of_kind(&self, kind: &str) -> impl Iterator<Item = &String> {
        self.names.iter().filter(move |name| name.split(' ').next() == Some(kind))
    }

    /// Names without a test, and marks that are wrong.
    pub(crate) fn uncovered(&self, files: &[File]) -> Vec<String> {
        self.uncovered_but(files, WITHOUT_TEST)
    }

    fn uncovered_but(&self, files: &[File], without_test: &[&str]) -> Vec<String> {
        let mut problems = Vec::new();
        let mut covered = BTreeSet::new();
        for file in files.iter().filter(|file| file.path.starts_with(TESTS)) {
            for mark in marks(file.text.as_deref().unwrap_or_default()) {
                let place = format!("{}:{}", file.path, mark.line);
                if mark.body.is_empty() {
                    problems.push(format!("{place}: `{}` does not stand above a test that runs", mark.name));
                } else if !self.names.contains(&mark.name) {
                    problems.push(format!("{place}: there is no `{}`", mark.name));
                } else if !mark.body.contains(last_word(&mark.name)) {
                    problems.push(format!("{place}: the test does not mention `{}`", last_word(&mark.name)));
                } else {
                    covered.insert(mark.name);
                }
            }
        }
        for name in without_test {
            if covered.contains(*name) || !self.names.contains(*name) {
                problems.push(format!(
                    "`{name}` has a test or is gone; take it off the list in xtask/src/coverage.rs"
                ));
            }
        }
        let missing = self.names.difference(&covered).filter(|name| !without_test.contains(&name.as_str()));
        problems.extend(missing.map(|name| format!("no test in {TESTS} covers `{name}`")));
        problems
    }

    /// Pages that differ from the code, and keys that no page explains.
    pub(crate) fn undocumented(&self, files: &[File]) -> Vec<String> {
        let text = |path: &str| {
            files
                .iter()
                .find(|file| file.path == path)
                .and_then(|file| file.text.as_deref())
                .unwrap_or_default()
        };
        let stale = self.documents.iter().filter(|(path, made)| text(path) != made.as_str());
        let mut problems: Vec<String> = stale
            .map(|(path, _)| format!("{path} is not what the code says; run `cargo xtask docs`"))
            .collect();
        for (path, keys) in &self.keys {
            let words: BTreeSet<&str> =
                text(path).split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect();
            let missing = keys.iter().filter(|key| !words.contains(key.as_str()));
            problems.extend(missing.map(|key| format!("{path} does not mention the key `{key}`")));
        }
        problems
    }
}

/// `cargo xtask docs`: writes the pages that are made from the code.
pub(crate) fn write_documents() -> Result<(), CommandError> {
    let reference = Reference::read().map_err(CommandError::Failed)?;
    for (path, text) in &reference.documents {
        fs::write(path, text).map_err(|error| CommandError::Failed(format!("{path}: {error}")))?;
        println!("wrote {path}");
    }
    Ok(())
}

struct Mark<'t> {
    line: usize,
    name: String,
    /// The text of the test below it; empty when there is none.
    body: &'t str,
}

fn marks(text: &str) -> Vec<Mark<'_>> {
    let mut found = Vec::new();
    let mut at = 0;
    for (no, line) in text.lines().enumerate() {
        at += line.len() + 1;
        let Some(names) = line.trim_start().strip_prefix(MARK) else { continue };
        let body = test_below(text.get(at..).unwrap_or_default());
        for name in expand(names.trim()) {
            found.push(Mark { line: no + 1, name, body });
        }
    }
    found
}

/// The test that begins below a mark, after further comments; to its closing brace at the left margin.
fn test_below(text: &str) -> &str {
    let mut lines = text.lines().skip_while(|line| line.starts_with("//"));
    let is_test = lines.next() == Some("#[test]") && lines.next().is_some_and(|line| line.starts_with("fn "));
    if is_test { text.split("\n}\n").next().unwrap_or_default() } else { "" }
}

/// `a{b,c}d` as `abd` and `acd`; the braces of an endpoint's path hold no comma and stay.
fn expand(name: &str) -> Vec<String> {
    let list = name.match_indices('{').find_map(|(open, _)| {
        let close = open + name[open..].find('}')?;
        name[open..close].contains(',').then_some((open, close))
    });
    let Some((open, close)) = list else { return vec![name.to_owned()] };
    let choices = name[open + 1..close].split(',');
    choices
        .flat_map(|choice| expand(&format!("{}{}{}", &name[..open], choice.trim(), &name[close + 1..])))
        .collect()
}

/// What a test that covers this cannot do without: the key, the option, the command, the metric, the reason; of an
/// endpoint the last fixed part of its path.
fn last_word(name: &str) -> &str {
    let word = name.rsplit(' ').next().unwrap_or_default();
    if name.starts_with("key ") {
        return word.rsplit('.').next().unwrap_or_default();
    }
    if name.starts_with("endpoint ") {
        return word.split('/').rfind(|part| !part.is_empty() && !part.starts_with('{')).unwrap_or_default();
    }
    // A positional argument has no name on the command line.
    if name.starts_with("option ") && !word.starts_with('-') { "" } else { word }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(names: &[&str]) -> Reference {
        Reference {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            documents: BTreeMap::from([("docs/made.md".into(), "made\n".into())]),
            keys: BTreeMap::from([("docs/keys.md".into(), vec!["limit".into()])]),
        }
    }

    fn file(path: &str, text: &str) -> File {
        File { path: path.into(), text: Some(text.into()) }
    }

    #[test]
    fn what_no_test_covers_is_found_and_what_is_gone_too() {
        let reference =
            reference(&["key retry.limit", "key retry.interval", "option ps --job", "reason paused"]);
        let text = "// covers: key retry.{limit,interval}\n// covers: option ps --gone\n#[test]\nfn a() {\n    \
                    limit interval\n}\n\n// covers: reason paused\nfn no_test() { paused }\n";
        let problems =
            reference.uncovered_but(&[file("crates/cadran/tests/a.rs", text)], &["key retry.limit"]);
        assert_eq!(
            problems,
            [
                "crates/cadran/tests/a.rs:2: there is no `option ps --gone`",
                "crates/cadran/tests/a.rs:8: `reason paused` does not stand above a test that runs",
                "`key retry.limit` has a test or is gone; take it off the list in xtask/src/coverage.rs",
                "no test in crates/cadran/tests/ covers `option ps --job`",
                "no test in crates/cadran/tests/ covers `reason paused`",
            ]
        );
    }

    #[test]
    fn a_mark_on_a_test_that_never_says_the_word_does_not_count() {
        let reference = reference(&["key retry.limit"]);
        let text = "// covers: key retry.limit\n#[test]\nfn a() {\n}\n\nfn b() { limit }\n";
        let problems = reference.uncovered_but(&[file("crates/cadran/tests/a.rs", text)], &[]);
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert_eq!(problems[0], "crates/cadran/tests/a.rs:1: the test does not mention `limit`");
    }

    #[test]
    fn pages_follow_the_code() {
        let reference = reference(&[]);
        let good = [file("docs/made.md", "made\n"), file("docs/keys.md", "| `limit` | how often |")];
        assert!(reference.undocumented(&good).is_empty());
        let bad = [file("docs/made.md", "old\n"), file("docs/keys.md", "| `limits` |")];
        assert_eq!(
            reference.undocumented(&bad),
            [
                "docs/made.md is not what the code says; run `cargo xtask docs`",
                "docs/keys.md does not mention the key `limit`",
            ]
        );
    }

    #[test]
    fn braces_name_several_and_paths_keep_theirs() {
        assert_eq!(expand("option {ps,jobs} --{json,data}").len(), 4);
        assert_eq!(expand("endpoint GET /runs/{id}/why"), ["endpoint GET /runs/{id}/why"]);
        assert_eq!(last_word("endpoint GET /api/v1/runs/{id}"), "runs");
        assert_eq!(last_word("key retry.limit"), "limit");
        assert_eq!(last_word("option trigger JOB"), "");
    }
}
