//! The job files below a directory, found anew each time.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::mark::Stat;
use crate::diagnostic::{Code, Diagnostic, Severity};

/// Job files of one directory tree. More is a mistake in the path; past it, files are not read, and nothing is removed.
pub const FILES_MAX: usize = 200_000;
/// Directories of one tree, those without job files included.
pub(super) const DIRECTORIES_MAX: usize = 50_000;
/// How deep directories may be nested.
pub(super) const DIRECTORY_DEPTH_MAX: usize = 32;

/// What stands in the tree now.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// By path relative to the root, with `/` between names.
    pub(super) files: BTreeMap<Arc<str>, Stat>,
    /// Directories read, by path relative to the root.
    pub(super) directories: BTreeSet<Arc<str>>,
    /// What could not be looked at.
    pub(super) problems: Vec<(Arc<str>, Diagnostic)>,
    /// Nothing is known about what lies below these: what was there before is taken to be there still.
    unknown: Vec<String>,
    /// A limit was reached: what was not found may exist all the same.
    partial: bool,
}

impl Found {
    /// Whether a file that was not found is really gone.
    pub(super) fn is_gone(&self, source: &str) -> bool {
        !self.partial
            && !self.files.contains_key(source)
            && !self.unknown.iter().any(|known| {
                known.is_empty()
                    || source == known
                    || source.strip_prefix(known.as_str()).is_some_and(|rest| rest.starts_with('/'))
            })
    }

    fn problem(&mut self, source: &str, code: Code, message: String, help: Option<&str>) {
        let mut found = Diagnostic::whole_file(Severity::Error, code, message);
        found.help = help.map(str::to_owned);
        self.problems.push((source.into(), found));
    }
}

/// Walks the tree. Every directory is read once, even when links lead to it in a circle.
pub(super) fn walk(root: &Path) -> Found {
    let mut found = Found::default();
    let mut seen: BTreeSet<(u64, u64)> = BTreeSet::new();
    let mut open: Vec<(PathBuf, String, usize)> = vec![(root.to_owned(), String::new(), 0)];
    // Directories behind links come last, so that a file is known by its own path and not by a detour.
    let mut links: Vec<(PathBuf, String, usize)> = Vec::new();
    while let Some((path, source, depth)) = open.pop().or_else(|| links.pop()) {
        if let Err(error) = directory(&path, &source, depth, &mut seen, &mut found, &mut open, &mut links) {
            // A directory that vanished while its parent was read is gone; the root is another matter.
            if error.kind() == io::ErrorKind::NotFound && !source.is_empty() {
                continue;
            }
            let name = if source.is_empty() { "the jobs directory" } else { "this directory" };
            let message = format!("{name} cannot be read: {error}");
            found.problem(
                &source,
                Code::File,
                message,
                Some("the jobs read from it before stay as they are"),
            );
            found.unknown.push(source);
        }
        if found.partial {
            break;
        }
    }
    found
}

fn directory(
    path: &Path,
    source: &str,
    depth: usize,
    seen: &mut BTreeSet<(u64, u64)>,
    found: &mut Found,
    open: &mut Vec<(PathBuf, String, usize)>,
    links: &mut Vec<(PathBuf, String, usize)>,
) -> io::Result<()> {
    let metadata = fs::metadata(path)?;
    if !seen.insert((metadata.dev(), metadata.ino())) {
        return Ok(());
    }
    if found.directories.len() >= DIRECTORIES_MAX {
        found.partial = true;
        let message = format!("there are more than {DIRECTORIES_MAX} directories; the rest is not read");
        found.problem(source, Code::Limit, message, Some("is this the right directory?"));
        return Ok(());
    }
    found.directories.insert(source.into());
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else {
            let shown = name.to_string_lossy();
            if is_job_file(&shown) {
                let message = format!("the name of the file `{}` is not UTF-8", shown.escape_debug());
                found.problem(&join(source, &shown), Code::File, message, Some("rename it"));
            }
            continue;
        };
        if is_hidden(name) {
            continue;
        }
        let kind = entry.file_type()?;
        let below = join(source, name);
        if kind.is_file() && !is_job_file(name) {
            continue;
        }
        let metadata = match fs::metadata(entry.path()) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound && !kind.is_symlink() => continue,
            Err(error) if is_job_file(name) => {
                let what = if kind.is_symlink() {
                    "this link cannot be followed"
                } else {
                    "this file cannot be read"
                };
                found.problem(&below, Code::File, format!("{what}: {error}"), None);
                // A link whose target is being replaced right now: what it stood for is kept.
                found.unknown.push(below);
                continue;
            }
            Err(_) => continue,
        };
        if metadata.is_dir() {
            if depth >= DIRECTORY_DEPTH_MAX {
                let message = format!(
                    "directories are nested deeper than {DIRECTORY_DEPTH_MAX} levels; this one is not read"
                );
                found.problem(&below, Code::Limit, message, None);
                found.unknown.push(below);
            } else {
                let list = if kind.is_symlink() { &mut *links } else { &mut *open };
                list.push((entry.path(), below, depth + 1));
            }
        } else if is_job_file(name) {
            if !metadata.is_file() {
                found.problem(
                    &below,
                    Code::File,
                    "this is no regular file".to_owned(),
                    Some("remove or rename it"),
                );
            } else if found.files.len() >= FILES_MAX {
                found.partial = true;
                let message = format!("there are more than {FILES_MAX} job files; the rest is not read");
                found.problem(source, Code::Limit, message, Some("is this the right directory?"));
                return Ok(());
            } else {
                found.files.insert(below.into(), Stat::of(&metadata));
            }
        }
    }
    Ok(())
}

fn join(source: &str, name: &str) -> String {
    if source.is_empty() { name.to_owned() } else { format!("{source}/{name}") }
}

/// Dot files, and what editors leave beside the file they edit (`.#a.yaml`, `#a.yaml#`, `~$a.yaml`).
fn is_hidden(name: &str) -> bool {
    name.starts_with(['.', '#', '~'])
}

/// `a.yaml` and `a.yml`; so `a.yaml~`, `a.yaml.swp` and `a.yaml.bak` are none.
fn is_job_file(name: &str) -> bool {
    let (stem, ending) = name.rsplit_once('.').unwrap_or(("", ""));
    !stem.is_empty() && (ending.eq_ignore_ascii_case("yaml") || ending.eq_ignore_ascii_case("yml"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_files_are_job_files() {
        let check = |name: &str, expected: bool| {
            assert_eq!(!is_hidden(name) && is_job_file(name), expected, "{name}")
        };
        check("a.yaml", true);
        check("a.yml", true);
        check("a.b.yaml", true);
        check("A.YAML", true);
        for name in [
            ".a.yaml",
            "a.yaml~",
            "#a.yaml#",
            ".#a.yaml",
            "~$a.yaml",
            "a.yaml.swp",
            "a.yaml.bak",
            "a.json",
            "yaml",
            ".yaml",
            "4913",
        ] {
            check(name, false);
        }
    }
}
