use std::fmt;
use std::time::Duration;

use crate::Layout;

/// Everything that one fuzz target is configured with, as plain values. `fuzz.yaml` is read into it elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The name in `solvers/{name}/…`.
    pub name: TargetName,
    /// A git URL or a local path.
    pub repository: String,
    /// The branch whose commits are fuzzed.
    pub branch: String,
    /// Which commits are worth a build.
    pub filter: FileFilter,
    /// Which commits of a merged history count.
    pub walk: Walk,
    /// Take only commits of the current day in UTC, by committer date. Loses commits at midnight and after an outage.
    pub only_today: bool,
    /// What the state may grow to.
    pub limits: Limits,
    /// How long things are kept.
    pub retention: Retention,
    /// What gives when more commits arrive than can be fuzzed.
    pub overload: Overload,
    /// How long builds and fuzz runs may take.
    pub budgets: Budgets,
    /// What is run.
    pub commands: Commands,
    /// How long a claim lasts without being renewed. Machines whose clocks differ by more than this disturb one
    /// another, though they lose nothing.
    pub lease: Duration,
    /// The names of the state files.
    pub layout: Layout,
    /// The store ignores conditions, and somebody promises that nobody else writes to it.
    pub single_writer: bool,
}

impl Target {
    /// A target with every default.
    pub fn new(name: TargetName, repository: impl Into<String>, branch: impl Into<String>) -> Target {
        Target {
            name,
            repository: repository.into(),
            branch: branch.into(),
            filter: FileFilter::default(),
            walk: Walk::FirstParent,
            only_today: false,
            limits: Limits::default(),
            retention: Retention::default(),
            overload: Overload::Fair,
            budgets: Budgets::default(),
            commands: Commands::default(),
            lease: Duration::from_secs(5 * 60),
            layout: Layout::V1,
            single_writer: false,
        }
    }
}

/// The name of a target: letters, digits, `.`, `_` and `-`, not beginning with a dot, 64 at most. It becomes part of
/// keys and paths.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TargetName(String);

const NAME_MAX: usize = 64;

impl TargetName {
    /// `None` when the text cannot be a name.
    pub fn new(text: &str) -> Option<TargetName> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        let good = (1..=NAME_MAX).contains(&text.len()) && text.bytes().all(fits) && !text.starts_with('.');
        good.then(|| TargetName(text.to_string()))
    }

    /// As written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TargetName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Which files make a commit worth a build: those with one of these last suffixes, whatever the case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileFilter {
    extensions: Vec<String>,
}

impl FileFilter {
    /// Extensions with or without their dot. None at all takes every commit.
    pub fn new(extensions: &[&str]) -> FileFilter {
        let plain = |text: &&str| text.trim().trim_start_matches('.').to_ascii_lowercase();
        FileFilter { extensions: extensions.iter().map(plain).filter(|text| !text.is_empty()).collect() }
    }

    /// The extensions, in lower case, without dots.
    pub fn extensions(&self) -> &[String] {
        &self.extensions
    }

    /// Whether a change of this file is worth a build. Only the last suffix counts: `notes.cpp.md` is a text.
    pub fn takes(&self, path: &str) -> bool {
        if self.extensions.is_empty() {
            return true;
        }
        let name = path.rsplit('/').next().unwrap_or(path);
        let Some((stem, suffix)) = name.rsplit_once('.') else { return false };
        !stem.is_empty() && self.extensions.iter().any(|extension| suffix.eq_ignore_ascii_case(extension))
    }

    /// Whether any of these files is.
    pub fn takes_any(&self, paths: &[String]) -> bool {
        paths.iter().any(|path| self.takes(path))
    }
}

impl Default for FileFilter {
    /// C and C++.
    fn default() -> FileFilter {
        FileFilter::new(&["cpp", "cc", "cxx", "c", "h", "hpp", "hxx", "hh"])
    }
}

/// Which commits of a merged history count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walk {
    /// What the branch itself went through: a merge is one commit.
    FirstParent,
    /// Commits of merged side branches too.
    All,
}

/// What the state may grow to, each with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Commits that one manager pass decides on; the rest waits for the next pass.
    pub commits_per_pass: usize,
    /// Commits a fresh start begins with.
    pub fresh_commits: usize,
    /// Entries of `failed`; the oldest go first.
    pub failed: usize,
    /// No rule of size brings the schedule below this.
    pub schedule_min: usize,
    /// Entries of the schedule; above it the overload policy decides.
    pub schedule_max: usize,
    /// Attempts at one build that may end without an answer from the compiler.
    pub build_attempts: u32,
    /// Fuzz runs of one commit that may die before fuzzing, before it goes behind its equals.
    pub fuzz_attempts: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            commits_per_pass: 200,
            fresh_commits: 4,
            failed: 1000,
            schedule_min: 4,
            schedule_max: 64,
            build_attempts: 3,
            fuzz_attempts: 3,
        }
    }
}

/// How long things are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Binaries, except those of scheduled commits that were not fuzzed yet.
    pub binaries: Duration,
    /// How long the binaries of a commit in `built` may be missing before it counts as failed.
    pub missing_grace: Duration,
    /// The event log.
    pub events: Duration,
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

impl Default for Retention {
    fn default() -> Retention {
        Retention {
            binaries: DAY.saturating_mul(7),
            missing_grace: Duration::from_secs(60 * 60),
            events: DAY.saturating_mul(90),
        }
    }
}

/// What gives when more commits arrive than can be fuzzed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overload {
    /// Oldest first, as documented. When the schedule is full the oldest unfuzzed commit gives way.
    Fair,
    /// The newest commit is fuzzed next; old ones give way.
    NewestFirst,
    /// Neighbouring commits share one build and one fuzz run; a crash is bisected.
    Coalesce,
}

impl Overload {
    /// As written in `fuzz.yaml`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Overload::Fair => "fair",
            Overload::NewestFirst => "newest-first",
            Overload::Coalesce => "coalesce",
        }
    }
}

/// How long builds and fuzz runs may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budgets {
    /// One build, both binaries.
    pub build: Duration,
    /// One fuzz run, setup and corpus included.
    pub fuzz: Duration,
    /// How long before the end of the budget the fuzzer is asked to stop, so that results can be saved.
    pub stop_buffer: Duration,
    /// Between the request to stop and the end of the whole process tree.
    pub grace: Duration,
    /// Fuzz runs that start in one day, on all machines.
    pub slots_per_day: u32,
}

impl Default for Budgets {
    fn default() -> Budgets {
        Budgets {
            build: Duration::from_secs(2 * 60 * 60),
            fuzz: Duration::from_secs(6 * 60 * 60),
            stop_buffer: Duration::from_secs(5 * 60),
            grace: Duration::from_secs(30),
            slots_per_day: 4,
        }
    }
}

/// What is run. Values are passed as environment, never spliced into these lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Commands {
    /// Builds the production binary.
    pub production: String,
    /// Builds the coverage binary.
    pub coverage: String,
    /// Fuzzes.
    pub fuzz: String,
    /// Maps coverage, when there is such a thing.
    pub map: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h06_the_last_suffix_decides_whatever_its_case() {
        let filter = FileFilter::default();
        let check = |path: &str, taken: bool| assert_eq!(filter.takes(path), taken, "{path}");
        for extension in ["cpp", "cc", "cxx", "c", "h", "hpp", "hxx", "hh"] {
            check(&format!("src/a.{extension}"), true);
            check(&format!("src/a.{}", extension.to_uppercase()), true);
        }
        check("notes.cpp.md", false);
        check("a.c.orig", false);
        check("a.b.c", true);
        check("src.cpp/readme", false);
        check(".c", false);
        check("c", false);
        check("", false);
        check("a.", false);
        check("Makefile", false);
        check("é.Cpp", true);
        assert!(FileFilter::new(&[".rs", " TOML "]).takes("Cargo.toml"));
        assert!(!FileFilter::new(&[".rs"]).takes("a.cpp"));
        assert!(FileFilter::new(&[]).takes("anything"));
    }

    #[test]
    fn names_are_safe_in_keys_and_paths() {
        let check = |text: &str, good: bool| assert_eq!(TargetName::new(text).is_some(), good, "{text}");
        check("cvc5", true);
        check("my-solver_2.1", true);
        check("", false);
        check("..", false);
        check(".hidden", false);
        check("a/b", false);
        check("a b", false);
        check("é", false);
        check(&"a".repeat(64), true);
        check(&"a".repeat(65), false);
    }
}
