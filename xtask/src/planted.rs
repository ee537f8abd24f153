//! Bugs planted on purpose, to show that the simulation finds them.
//!
//! Each is a patch in `sim/planted`, named after its mistake, so that nobody meets it in the code of the product. All
//! of them are applied to one copy of the repository, which is built once: every patch asks `cadran_core::planted` whether it
//! is the one that is switched on. One build for each would take a quarter of an hour.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use crate::files;
use crate::program::program;

/// Where the patches are.
const PATCHES: &str = "sim/planted";

/// Names the bug that is switched on, to the patched program.
const SWITCH: &str = "CADRAN_PLANTED";

/// Added to the copy of `cadran-core`.
const SWITCH_CODE: &str = r#"
/// Whether the bug of this name is switched on.
pub fn planted(name: &str) -> bool {
    static NAME: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    NAME.get_or_init(|| std::env::var("CADRAN_PLANTED").unwrap_or_default()) == name
}
"#;

/// What the packages of the copy are numbered: compatible with any 0.1.
const COPY_VERSION: &str = "0.1.999999";

/// Every bug is found within so many seeds.
const SEEDS: &str = "1..1001";

/// The names of the planted bugs, in order.
pub(crate) fn names() -> Result<Vec<String>, String> {
    let entries = fs::read_dir(PATCHES).map_err(|error| format!("cannot list {PATCHES}: {error}"))?;
    let name = |entry: fs::DirEntry| Some(entry.file_name().to_str()?.strip_suffix(".patch")?.to_owned());
    let mut names: Vec<String> = entries.filter_map(Result::ok).filter_map(name).collect();
    names.sort();
    Ok(names)
}

/// Every patch still applies to the code as it is, also beside the others.
pub(crate) fn check() -> Result<Vec<String>, String> {
    let copy = Copy::make("check")?;
    let mut problems = Vec::new();
    for name in names()? {
        problems.extend(copy.apply(&name).err());
    }
    Ok(problems)
}

/// The simulation with all bugs built in, none switched on.
pub(crate) struct Planted {
    program: PathBuf,
}

impl Planted {
    /// Builds it: in `release` for long searches.
    pub(crate) fn build(release: bool) -> Result<Planted, String> {
        let copy = Copy::make("patched")?;
        for name in names()? {
            copy.apply(&name)?;
        }
        let tree = copy.sync()?;
        let target = absolute(&env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".into()))?;
        let mut build = program("cargo build --locked --quiet --package cadran-sim");
        build.args(release.then_some("--release")).current_dir(tree).env("CARGO_TARGET_DIR", &target);
        crate::program::run(&mut build)?;
        let built = target.join(if release { "release" } else { "debug" }).join("cadran-sim");
        // The next build of the repository itself replaces that file.
        let program = target.join("planted").join("cadran-sim");
        fs::copy(&built, &program).map_err(|error| format!("cannot copy {}: {error}", built.display()))?;
        Ok(Planted { program })
    }

    /// The simulation with this bug switched on, or with none.
    pub(crate) fn simulation(&self, bug: Option<&str>) -> Command {
        let mut command = Command::new(&self.program);
        command.env_remove(SWITCH).envs(bug.map(|bug| (SWITCH, bug)));
        command
    }

    /// Looks for every bug. Prints the seed and the law by which each was found, and fails unless all were, by seeds that
    /// break nothing without them.
    pub(crate) fn find_all(&self) -> Result<(), String> {
        let names = names()?;
        let mut found: Vec<u64> = Vec::new();
        for name in &names {
            let line = self.hunt(Some(name), SEEDS)?;
            println!("{name:32} {}", line.as_deref().unwrap_or("not found"));
            let seed = line.as_deref().and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
            let Some(seed) = seed else { continue };
            if let Some(line) = self.hunt(None, &format!("{seed}..{}", seed + 1))? {
                return Err(format!("without {name} the simulation breaks a law too: {line}"));
            }
            found.push(seed);
        }
        found.sort_unstable();
        let median = found.get(found.len() / 2).copied().unwrap_or_default();
        println!("{} of {} found, median seed {median}", found.len(), names.len());
        let well = found.len() == names.len();
        if well { Ok(()) } else { Err(format!("planted bugs were not found within the seeds {SEEDS}")) }
    }

    /// The first of these seeds that breaks a law, in words: `seed N  law`.
    fn hunt(&self, bug: Option<&str>, seeds: &str) -> Result<Option<String>, String> {
        let mut hunt = self.simulation(bug);
        let output = hunt.args(["--hunt", "--seeds", seeds]).stderr(Stdio::inherit()).output();
        let output = output.map_err(|error| format!("cannot start the simulation: {error}"))?;
        match output.status.code() {
            Some(0) => Ok(None),
            Some(1) => Ok(Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())),
            _ => Err(format!("the simulation ended with {}", output.status)),
        }
    }
}

/// A copy of the repository's files, to be patched.
struct Copy {
    dir: PathBuf,
}

impl Copy {
    fn make(name: &str) -> Result<Copy, String> {
        let dir = absolute("target/planted")?.join(name);
        let _ = fs::remove_dir_all(&dir);
        for file in files::all()? {
            copy_file(Path::new(&file.path), &dir.join(&file.path))?;
        }
        let core = dir.join("crates/core/src/lib.rs");
        let text = fs::read_to_string(&core).map_err(|error| format!("{}: {error}", core.display()))?;
        fs::write(&core, text + SWITCH_CODE).map_err(|error| format!("{}: {error}", core.display()))?;
        for name in ["Cargo.toml", "Cargo.lock"] {
            let path = dir.join(name);
            let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            fs::write(&path, renumbered(&text)).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        Ok(Copy { dir })
    }

    /// Applies the patch of a bug.
    fn apply(&self, name: &str) -> Result<(), String> {
        let patch = absolute(PATCHES)?.join(format!("{name}.patch"));
        let mut apply = program("git apply --whitespace=nowarn");
        apply.arg(&patch).current_dir(&self.dir).stderr(Stdio::piped());
        // Inside a repository git takes the paths of a patch from its root.
        let output = apply.env("GIT_CEILING_DIRECTORIES", absolute("target/planted")?).output();
        let output = output.map_err(|error| format!("cannot start git: {error}"))?;
        if output.status.success() {
            return Ok(());
        }
        let why = String::from_utf8_lossy(&output.stderr);
        let why = why.lines().next().unwrap_or_default();
        Err(format!(
            "{PATCHES}/{name}.patch does not fit the code any more ({why}); make the same mistake in the code as it is, \
             and write it with git diff -U1"
        ))
    }

    /// Brings the tree that is built to the state of this copy. Files that are the same keep their time of change, so that
    /// only what changed is built again.
    fn sync(self) -> Result<PathBuf, String> {
        let tree = absolute("target/planted/tree")?;
        for file in files::all()? {
            let (from, to) = (self.dir.join(&file.path), tree.join(&file.path));
            let same = fs::read(&from).ok().is_some_and(|text| fs::read(&to).is_ok_and(|old| old == text));
            if !same {
                copy_file(&from, &to)?;
            }
        }
        Ok(tree)
    }
}

/// A manifest or lock file whose own packages have another version. Cargo tells builds of path packages apart by name and
/// version, not by where the workspace is: with the same version, the copy's crates would take the place of the real ones in the
/// target directory, which both use so that dependencies are built once.
fn renumbered(text: &str) -> String {
    let sections = text.split_inclusive("\n\n").map(|section| {
        let is_ours = section.starts_with("[workspace.package]")
            || section.starts_with("[[package]]") && !section.contains("\nsource = ");
        let line = |line: &str| match line.starts_with("version = ") && is_ours {
            true => format!("version = \"{COPY_VERSION}\"\n"),
            false => line.to_owned(),
        };
        section.split_inclusive('\n').map(line).collect::<String>()
    });
    sections.collect()
}

fn copy_file(from: &Path, to: &Path) -> Result<(), String> {
    let copied = to.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::copy(from, to));
    copied.map(drop).map_err(|error| format!("cannot copy {} to {}: {error}", from.display(), to.display()))
}

fn absolute(path: &str) -> Result<PathBuf, String> {
    std::path::absolute(path).map_err(|error| format!("{path}: {error}"))
}
