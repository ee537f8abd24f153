//! Writing what an import made: all of it or nothing, and never over a file that somebody changed.

use std::fs;
use std::path::Path;

use anyhow::Context;

/// What became of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// It is new.
    New,
    /// It was there, with the same text.
    Unchanged,
    /// It was there with another text, and was left alone.
    Kept,
}

impl Written {
    /// For reports.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Written::New => "written",
            Written::Unchanged => "unchanged",
            Written::Kept => "kept",
        }
    }
}

/// Writes files into a folder and says what became of each, in their order. They are written beside it first and moved
/// when all are there, so that a full disk or a kill leaves no half of them. A dry run writes nothing.
pub(super) fn write_files(
    to: &Path,
    files: &[(String, String)],
    dry_run: bool,
) -> anyhow::Result<Vec<Written>> {
    let state = |(name, text): &(String, String)| match fs::read_to_string(to.join(name)) {
        Ok(there) if there == *text => Written::Unchanged,
        Ok(_) => Written::Kept,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Written::New,
        Err(_) => Written::Kept,
    };
    let states: Vec<Written> = files.iter().map(state).collect();
    if dry_run || !states.contains(&Written::New) {
        return Ok(states);
    }
    fs::create_dir_all(to).with_context(|| format!("cannot make {}", to.display()))?;
    // Hidden, so that a server that watches the folder does not read it.
    let beside = to.join(format!(".import-{}", std::process::id()));
    let moved = move_new(to, &beside, files, &states);
    let cleared = fs::remove_dir_all(&beside);
    moved?;
    cleared.with_context(|| format!("cannot remove {}", beside.display()))?;
    Ok(states)
}

fn move_new(to: &Path, beside: &Path, files: &[(String, String)], states: &[Written]) -> anyhow::Result<()> {
    let new = || files.iter().zip(states).filter(|(_, state)| **state == Written::New).map(|(file, _)| file);
    fs::create_dir(beside).with_context(|| format!("cannot make {}", beside.display()))?;
    for (name, text) in new() {
        let path = beside.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    for (name, _) in new() {
        let path = to.join(name);
        fs::rename(beside.join(name), &path).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_overwritten_and_a_second_time_changes_nothing() {
        let dir = tempfile::tempdir().expect("a folder");
        let to = dir.path().join("jobs");
        let files = ["a", "b"].map(|name| (format!("{name}.yaml"), format!("run: {name}\n")));
        assert_eq!(write_files(&to, &files, true).expect("a dry run"), [Written::New; 2]);
        assert!(!to.exists());
        assert_eq!(write_files(&to, &files, false).expect("written"), [Written::New; 2]);
        fs::write(to.join("a.yaml"), "run: mine\n").expect("a change");
        assert_eq!(write_files(&to, &files, false).expect("again"), [Written::Kept, Written::Unchanged]);
        assert_eq!(fs::read_to_string(to.join("a.yaml")).expect("a file"), "run: mine\n");
        assert_eq!(fs::read_dir(&to).expect("a folder").count(), 2);
    }
}
