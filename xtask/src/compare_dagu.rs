use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::CommandError;
use crate::program::program;

const PACKAGE: &str = "@dagu-org/dagu-linux-x64";
/// Files of ours in Dagu's form. Lines of output that begin with `>` are compared.
const FILES: &str = "scripts/dagu";
/// Of a hundred files, how many must be accepted, and of a hundred accepted ones how many must behave the same.
const ACCEPTED_MIN: usize = 90;
const SAME_MIN: usize = 95;

/// How one tool ran one file.
#[derive(Debug, PartialEq, Eq)]
struct Ran {
    status: String,
    code: i32,
    lines: Vec<String>,
}

/// `cargo xtask compare-dagu [DIR]`: runs the files of a folder in Dagu and in Cadran and compares status, exit code and
/// output. `CADRAN_DAGU` names a Dagu program; without it one is fetched from npm.
pub(crate) fn run(arguments: &[String]) -> Result<(), CommandError> {
    let folder = match arguments {
        [] => PathBuf::from(FILES),
        [folder] => PathBuf::from(folder),
        _ => return Err(CommandError::Usage("compare-dagu: it wants one folder".into())),
    };
    compare(&folder).map_err(CommandError::Failed)
}

fn compare(folder: &Path) -> Result<(), String> {
    let dagu = dagu()?;
    crate::program::run(&mut program("cargo build --quiet -p cadran --bin cadran"))?;
    let cadran =
        fs::canonicalize("target/debug/cadran").map_err(|error| format!("target/debug/cadran: {error}"))?;
    let home = std::env::temp_dir().join(format!("compare-dagu-{}", std::process::id()));
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|path| path.extension().is_some_and(|ending| ending == "yaml" || ending == "yml"));
    files.sort();
    let (mut loaded, mut accepted, mut same, mut turned) = (0, 0, 0, Vec::new());
    for file in &files {
        let file = fs::canonicalize(file).map_err(|error| format!("{}: {error}", file.display()))?;
        let shown = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some(there) = in_dagu(&dagu, &file, &home)? else {
            println!("{shown}: not loaded by Dagu");
            continue;
        };
        loaded += 1;
        let here = match in_cadran(&cadran, &file)? {
            Ok(here) => here,
            Err(why) => {
                println!("{shown}: refused: {why}");
                continue;
            }
        };
        accepted += 1;
        if here == there {
            same += 1;
        } else {
            println!("{shown}: differs\n  dagu   {there:?}\n  cadran {here:?}");
            if there.code != 0 && here.code == 0 {
                turned.push(shown);
            }
        }
    }
    // Nothing of it is of use any more; what cannot be removed is in the system's temporary directory.
    let _ = fs::remove_dir_all(&home);
    println!(
        "{loaded} files loaded by Dagu, {accepted} accepted here, {same} of them the same, {} that fail there and succeed \
         here",
        turned.len()
    );
    if accepted * 100 < loaded * ACCEPTED_MIN || same * 100 < accepted * SAME_MIN || !turned.is_empty() {
        return Err(format!(
            "at least {ACCEPTED_MIN} % accepted, {SAME_MIN} % the same and none turned are wanted"
        ));
    }
    Ok(())
}

/// The program, fetched once into `target`.
fn dagu() -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os("CADRAN_DAGU") {
        return Ok(path.into());
    }
    let folder = Path::new("target/dagu");
    let path = folder.join("node_modules").join(PACKAGE).join("bin/dagu");
    if !path.exists() {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let mut npm =
            program("npm install --no-save --ignore-scripts --no-audit --no-fund --loglevel=error --prefix");
        crate::program::run(npm.arg(folder).arg(PACKAGE))?;
    }
    fs::canonicalize(&path).map_err(|error| format!("{}: {error}", path.display()))
}

/// `None` for a file that Dagu itself does not load.
fn in_dagu(dagu: &Path, file: &Path, home: &Path) -> Result<Option<Ran>, String> {
    let logs = home.join("logs");
    let _ = fs::remove_dir_all(&logs);
    let mut command = Command::new(dagu);
    command.arg("start").arg(file).env("DAGU_HOME", home).stdin(Stdio::null());
    let output = command.output().map_err(|error| format!("{}: {error}", dagu.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let Some(status) = text.lines().find_map(|line| line.strip_prefix("Result: ")) else { return Ok(None) };
    let mut lines = Vec::new();
    printed(&logs, &mut lines);
    lines.sort();
    let status = status.trim().to_lowercase().replace(' ', "_");
    Ok(Some(Ran { status, code: output.status.code().unwrap_or(-1), lines }))
}

/// What steps and handlers printed, from Dagu's log files.
fn printed(folder: &Path, lines: &mut Vec<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            printed(&path, lines);
        } else if path.extension().is_some_and(|ending| ending == "out" || ending == "err") {
            lines.extend(marked(&fs::read_to_string(&path).unwrap_or_default()));
        }
    }
}

fn marked(text: &str) -> Vec<String> {
    text.lines().filter(|line| line.starts_with('>')).map(str::to_owned).collect()
}

/// The error is why the file was refused.
fn in_cadran(cadran: &Path, file: &Path) -> Result<Result<Ran, String>, String> {
    let mut command = Command::new(cadran);
    command.args(["run", "--as", "dagu"]).arg(file).stdin(Stdio::null());
    let output = command.output().map_err(|error| format!("{}: {error}", cadran.display()))?;
    let talk = String::from_utf8_lossy(&output.stderr).into_owned();
    if talk.contains("the job file has errors") {
        let why = talk.lines().find(|line| line.starts_with("error")).unwrap_or_default();
        return Ok(Err(why.to_owned()));
    }
    let last = talk.lines().rfind(|line| !line.starts_with(' ')).unwrap_or_default();
    let word = last.split_whitespace().nth(1).unwrap_or_default().trim_end_matches(':');
    let status = match word {
        // Dagu's word for a run that was not started because of a precondition.
        "skipped" | "stopped" => "aborted",
        other => other,
    };
    let mut lines = marked(&String::from_utf8_lossy(&output.stdout));
    lines.sort();
    Ok(Ok(Ran { status: status.to_owned(), code: output.status.code().unwrap_or(-1), lines }))
}
