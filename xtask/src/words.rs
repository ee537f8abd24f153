//! The glossary against the code: a thing has one name, and the names it had before stay away.

use std::collections::BTreeMap;

use crate::files::File;

/// Where the words are.
const GLOSSARY: &str = "docs/glossary.md";

/// What a definition begins with, after `pub` and the like.
const KEYWORDS: [&str; 8] = ["struct", "enum", "trait", "type", "fn", "mod", "const", "static"];

/// Definitions and source files that have a name which the glossary replaces by a word.
pub(crate) fn rival_names(files: &[File]) -> Result<Vec<String>, String> {
    let glossary = files.iter().find(|file| file.path == GLOSSARY).and_then(|file| file.text.as_deref());
    let rivals = rivals(glossary.ok_or_else(|| format!("{GLOSSARY} is missing"))?);
    if rivals.is_empty() {
        return Err(format!("{GLOSSARY} names no rivals; has its table changed?"));
    }
    let mut problems = Vec::new();
    for file in files.iter().filter(|file| file.path.ends_with(".rs")) {
        let stem = file.path.rsplit('/').next().unwrap_or_default().trim_end_matches(".rs");
        if let Some(word) = rivals.get(stem) {
            problems
                .push(format!("{}: a file called `{stem}`; the word is \"{word}\" ({GLOSSARY})", file.path));
        }
        for (at, line) in file.text.iter().flat_map(|text| text.lines()).enumerate() {
            if let Some(name) = defined(line)
                && let Some(word) = rivals.get(name)
            {
                problems.push(format!(
                    "{}:{}: `{name}`; the word is \"{word}\" ({GLOSSARY})",
                    file.path,
                    at + 1
                ));
            }
        }
    }
    Ok(problems)
}

/// The names in the last column of the glossary's tables, each with the word of its row.
fn rivals(glossary: &str) -> BTreeMap<&str, &str> {
    let mut rivals = BTreeMap::new();
    for line in glossary.lines() {
        let cells: Vec<&str> = line.trim().trim_matches('|').split('|').map(str::trim).collect();
        if let [word, _, not] = cells[..] {
            rivals.extend(not.split('`').skip(1).step_by(2).map(|name| (name, word)));
        }
    }
    rivals
}

/// The name that a line of code defines, if it defines one.
fn defined(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace().skip_while(|word| {
        matches!(*word, "pub" | "async" | "unsafe" | "extern" | "default") || word.starts_with("pub(")
    });
    let keyword = words.next()?;
    let name = match (KEYWORDS.contains(&keyword), keyword, words.next()?) {
        (true, "const", "fn") => words.next()?,
        (true, _, name) => name,
        _ => return None,
    };
    let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
    Some(&name[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_found() {
        let check = |line: &str, expected: Option<&str>| assert_eq!(defined(line), expected, "{line}");
        check("pub struct Turn {", Some("Turn"));
        check("pub(crate) enum Turn<'a, T> {", Some("Turn"));
        check("    async fn turn(&self) {", Some("turn"));
        check("pub const fn turn() {}", Some("turn"));
        check("const TURN: u32 = 5;", Some("TURN"));
        check("mod turn;", Some("turn"));
        check("// a struct Turn", None);
        check("let turn = Turn::new();", None);
        check("use super::turn::Turn;", None);
        check("", None);
    }

    #[test]
    fn rival_names_are_problems() {
        let glossary =
            "| word | meaning | not |\n|---|---|---|\n| event loop | it loops | `Turn`, `turn` |\n";
        let check = |path: &str, code: &str, count: usize| {
            let file = |path: &str, text: &str| File { path: path.to_string(), text: Some(text.to_string()) };
            let files = [file(GLOSSARY, glossary), file(path, code)];
            let problems = rival_names(&files).expect("a glossary");
            assert_eq!(problems.len(), count, "{path} {code}: {problems:?}");
        };
        check("a.rs", "struct EventLoop;\nlet turn = return_turn(); // struct Turn", 0);
        check("a.rs", "struct Turn;\nfn turn() {}", 2);
        check("src/turn.rs", "", 1);
        check("turn.md", "struct Turn;", 0);
        check("a.rs", "struct Turning;", 0);
        assert!(rival_names(&[]).is_err());
    }
}
