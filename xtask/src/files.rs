use std::path::Path;
use std::{fs, io};

use crate::program::program;

/// A file of the repository.
pub(crate) struct File {
    /// Relative to the root, with `/`.
    pub(crate) path: String,
    /// `None` when it is not text.
    pub(crate) text: Option<String>,
}

/// Every file that belongs to the repository: what git tracks or would track. Without git, everything outside the
/// directories that hold what is made.
pub(crate) fn all() -> Result<Vec<File>, String> {
    let listed = program("git ls-files --cached --others --exclude-standard").output();
    let mut paths: Vec<String> = match listed {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).lines().map(Into::into).collect()
        }
        _ => {
            let mut paths = Vec::new();
            walk(Path::new("."), &mut paths).map_err(|error| format!("cannot list the files: {error}"))?;
            paths
        }
    };
    paths.sort();
    paths.dedup();
    // A file that is tracked but removed just now is nobody's business.
    let files = paths.into_iter().filter(|path| Path::new(path).is_file());
    Ok(files.map(|path| File { text: fs::read_to_string(&path).ok(), path }).collect())
}

/// What is made, not written.
const MADE: [&str; 4] = ["target", ".git", "node_modules", "cadran-data"];

fn walk(dir: &Path, paths: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let path = entry.path();
        if !entry.file_type()?.is_dir() {
            paths.push(path.to_string_lossy().trim_start_matches("./").into());
        } else if !MADE.iter().any(|made| entry.file_name() == *made) {
            walk(&path, paths)?;
        }
    }
    Ok(())
}
