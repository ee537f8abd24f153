//! The job files below a directory, found anew each time.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::file_stamp::Stat;
use crate::diagnostic::{Code, Diagnostic, Severity};

/// Job files of one directory tree. More is a mistake in the path; past it, files are not read, and nothing is removed.
pub const FILES_MAX: usize = 200_000;
/// Directories of one tree, those without job files included.
pub(super) const DIRECTORIES_MAX: usize = 50_000;
/// How deep directories may be nested.
pub(super) const DIRECTORY_DEPTH_MAX: usize = 32;

/// What stands in the tree now.
#[derive(Debug, Default)]
pub(super) struct TreeScan {
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

impl TreeScan {
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

/// Walks the tree. Every directory is read once, even when links lead to it in a circle, and nothing outside of the
/// root is looked at: a link counts only when its target lies inside, as in a mounted ConfigMap of Kubernetes.
pub(super) fn walk(root: &Path) -> TreeScan {
    // Without this the root cannot be read either, which is said below.
    let real_root = fs::canonicalize(root).unwrap_or_else(|_| root.to_owned());
    let mut walk = Walk { real_root, ..Walk::default() };
    walk.open.push(Directory { path: root.to_owned(), source: String::new(), depth: 0 });
    while let Some(directory) = walk.next() {
        if let Err(error) = walk.read(&directory) {
            let source = directory.source;
            // A directory that vanished while its parent was read is gone; the root is another matter.
            if error.kind() == io::ErrorKind::NotFound && !source.is_empty() {
                continue;
            }
            let name = if source.is_empty() { "the jobs directory" } else { "this directory" };
            let message = format!("{name} cannot be read: {error}");
            walk.found.problem(
                &source,
                Code::File,
                message,
                Some("the jobs read from it before stay as they are"),
            );
            walk.found.unknown.push(source);
        }
        if walk.found.partial {
            break;
        }
    }
    walk.found
}

#[derive(Debug)]
struct Directory {
    path: PathBuf,
    /// The path relative to the root.
    source: String,
    depth: usize,
}

#[derive(Debug, Default)]
struct Walk {
    /// The root without links.
    real_root: PathBuf,
    found: TreeScan,
    /// Device and inode of the directories read.
    seen: BTreeSet<(u64, u64)>,
    open: Vec<Directory>,
    /// Directories behind links come last, in the order of their names, so that a file is known by its own path and
    /// not by a detour.
    links: BTreeMap<String, Directory>,
}

impl Walk {
    fn next(&mut self) -> Option<Directory> {
        self.open.pop().or_else(|| self.links.pop_first().map(|(_, directory)| directory))
    }

    fn read(&mut self, directory: &Directory) -> io::Result<()> {
        let Directory { path, source, .. } = directory;
        let metadata = fs::metadata(path)?;
        if !self.seen.insert((metadata.dev(), metadata.ino())) {
            return Ok(());
        }
        if self.found.directories.len() >= DIRECTORIES_MAX {
            self.found.partial = true;
            let message = format!("there are more than {DIRECTORIES_MAX} directories; the rest is not read");
            self.found.problem(source, Code::Limit, message, Some("is this the right directory?"));
            return Ok(());
        }
        self.found.directories.insert(source.as_str().into());
        for entry in fs::read_dir(path)? {
            self.entry(&entry?, directory)?;
            if self.found.partial {
                break;
            }
        }
        Ok(())
    }

    fn entry(&mut self, entry: &fs::DirEntry, Directory { source, depth, .. }: &Directory) -> io::Result<()> {
        let found = &mut self.found;
        let name = entry.file_name();
        let Some(name) = name.to_str() else {
            let shown = name.to_string_lossy();
            if is_job_file(&shown) {
                let message = format!("the name of the file `{}` is not UTF-8", shown.escape_debug());
                found.problem(&join(source, &shown), Code::File, message, Some("rename it"));
            }
            return Ok(());
        };
        let kind = entry.file_type()?;
        if is_hidden(name) || kind.is_file() && !is_job_file(name) {
            return Ok(());
        }
        let below = join(source, name);
        let metadata = match fs::metadata(entry.path()) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound && !kind.is_symlink() => return Ok(()),
            Err(error) if is_job_file(name) => {
                let what = if kind.is_symlink() {
                    "this link cannot be followed"
                } else {
                    "this file cannot be read"
                };
                found.problem(&below, Code::File, format!("{what}: {error}"), None);
                // A link whose target is being replaced right now: what it stood for is kept.
                found.unknown.push(below);
                return Ok(());
            }
            Err(_) => return Ok(()),
        };
        if kind.is_symlink() && (metadata.is_dir() || is_job_file(name)) && !self.is_inside(entry, &below) {
            return Ok(());
        }
        let found = &mut self.found;
        if metadata.is_dir() {
            if *depth >= DIRECTORY_DEPTH_MAX {
                let message = format!(
                    "directories are nested deeper than {DIRECTORY_DEPTH_MAX} levels; this one is not read"
                );
                found.problem(&below, Code::Limit, message, None);
                found.unknown.push(below);
            } else {
                let next = Directory { path: entry.path(), source: below, depth: depth + 1 };
                if kind.is_symlink() {
                    self.links.insert(next.source.clone(), next);
                } else {
                    self.open.push(next);
                }
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
            } else {
                found.files.insert(below.into(), Stat::of(&metadata));
            }
        }
        Ok(())
    }

    /// Whether the target of a link lies below the root; if not, that is a problem of the link.
    fn is_inside(&mut self, link: &fs::DirEntry, source: &str) -> bool {
        let message = match fs::canonicalize(link.path()) {
            Ok(target) if target.starts_with(&self.real_root) => return true,
            Ok(target) => format!(
                "this link leads out of the jobs folder, to {}, and is not followed",
                target.display().to_string().escape_debug()
            ),
            // Its target was replaced since it was looked at.
            Err(error) => format!("this link cannot be followed: {error}"),
        };
        let help = "put the files themselves into the folder, or mount or copy them there";
        self.found.problem(source, Code::File, message, Some(help));
        self.found.unknown.push(source.to_owned());
        false
    }
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
