//! Files of `NAME=value` lines that a job gives to its steps as environment.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use cadran_core::Dotenv;

/// Largest file: what a process can be given is bounded too.
const FILE_BYTES_MAX: u64 = 64 << 10;
/// Variables of all files together.
const VARIABLES_MAX: usize = 500;

/// The variables of all files, later ones last. A file that is not there is passed over; one that leads out of its folder
/// is an error, and so is a line that is no assignment.
pub(crate) fn read(dotenv: &Dotenv, base_dir: &Path) -> Result<Vec<(String, String)>, String> {
    let folder = base_dir.join(&dotenv.folder);
    let mut variables = Vec::new();
    for name in &dotenv.files {
        let path = folder.join(name);
        let real = match path.canonicalize() {
            Ok(real) => real,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => continue,
            Err(error) => return Err(format!("`dotenv`: {} cannot be read: {error}", path.display())),
        };
        let inside = folder.canonicalize().is_ok_and(|folder| real.starts_with(folder));
        if !inside {
            return Err(format!(
                "`dotenv`: {} lies outside of {}; only files inside of the job's folder are read",
                path.display(),
                folder.display()
            ));
        }
        let mut text = String::new();
        File::open(&real)
            .and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text))
            .map_err(|error| format!("`dotenv`: {} cannot be read: {error}", path.display()))?;
        if text.len() as u64 > FILE_BYTES_MAX {
            return Err(format!("`dotenv`: {} has more than {FILE_BYTES_MAX} bytes", path.display()));
        }
        parse(&text, &mut variables).map_err(|why| format!("`dotenv`: {}: {why}", path.display()))?;
        if variables.len() > VARIABLES_MAX {
            return Err(format!("`dotenv`: there are more than {VARIABLES_MAX} variables"));
        }
    }
    Ok(variables)
}

/// Values never appear in messages: they may be secrets.
fn parse(text: &str, variables: &mut Vec<(String, String)>) -> Result<(), String> {
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let line = line.strip_prefix("export ").unwrap_or(line);
        let Some((name, value)) = line.split_once('=') else {
            return Err(format!("line {} is not NAME=value", at + 1));
        };
        let name = name.trim();
        let good = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if !good || value.contains('\0') {
            return Err(format!("line {} has no usable name or value", at + 1));
        }
        let value = value.trim();
        let value = match value.chars().next() {
            Some('\'') => value[1..]
                .split_once('\'')
                .ok_or(format!("line {} has no closing quote", at + 1))?
                .0
                .to_owned(),
            Some('"') => {
                let inner = quoted(&value[1..]).ok_or(format!("line {} has no closing quote", at + 1))?;
                expand(&inner, variables)
            }
            _ => {
                let end = value.find(" #").unwrap_or(value.len());
                expand(value[..end].trim_end(), variables)
            }
        };
        variables.push((name.to_owned(), value));
    }
    Ok(())
}

/// The text up to the closing double quote, with its escapes resolved; `\$` stays escaped for [`expand`].
fn quoted(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut chars = text.chars();
    loop {
        match chars.next()? {
            '"' => return Some(out),
            '\\' => match chars.next()? {
                'n' => out.push('\n'),
                't' => out.push('\t'),
                'r' => out.push('\r'),
                '$' => out.push_str("\\$"),
                other => out.push(other),
            },
            c => out.push(c),
        }
    }
}

/// `$NAME` and `${NAME}` of the lines above; a name that is not there becomes nothing.
fn expand(text: &str, known: &[(String, String)]) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        if rest[..at].ends_with('\\') {
            out.push_str(&rest[..at - 1]);
            out.push('$');
            rest = &rest[at + 1..];
            continue;
        }
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let braced = after.strip_prefix('{').and_then(|inner| inner.split_once('}'));
        let (name, tail) = braced.unwrap_or_else(|| {
            let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(after.len());
            after.split_at(end)
        });
        if name.is_empty() {
            out.push('$');
            rest = after;
            continue;
        }
        let value = known.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
        out.push_str(value.unwrap_or_default());
        rest = tail;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_other_tools_read_them() {
        let text = "# comment\n\nexport A=plain # tail\nB=\"two words\\n\"\nC='$A'\nD=$A-${B}x\nE=\nF=a#b\nG=\"\\$A\"\n";
        let mut found = Vec::new();
        parse(text, &mut found).expect("good");
        let values: Vec<&str> = found.iter().map(|(_, value)| value.as_str()).collect();
        assert_eq!(values, ["plain", "two words\n", "$A", "plain-two words\nx", "", "a#b", "$A"]);
        for bad in ["no assignment", "1A=x", "A=\"open", "A='open"] {
            assert!(parse(bad, &mut Vec::new()).is_err(), "{bad}");
        }
    }
}
