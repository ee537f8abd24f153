//! `fuzz.yaml`: one target, its repository, its store and what is run.

mod template;

use std::time::Duration;

use cadran_spec::{Diagnostic, Section, Shape, key, read_settings};

use crate::bucket::RETRIES;
use crate::work::{GitLimits, check_address};
use crate::{FileFilter, Layout, Overload, Target, TargetName, Walk};

pub use template::{InitOptions, JobFile, job_files, template};

/// What `fuzz.yaml` says.
#[derive(Clone, Debug)]
pub struct Config {
    /// What the rules need.
    pub target: Target,
    /// `s3://…` or `file:///…`.
    pub store: String,
    /// How often a request to the store that failed by itself is repeated.
    pub store_retries: u32,
    /// What the hands need.
    pub tools: Tools,
}

/// How builds, fuzz runs and crashes are handled, beyond the commands of the [`Target`].
#[derive(Clone, Debug)]
pub struct Tools {
    /// Check out submodules too.
    pub submodules: bool,
    /// What the repository may cost.
    pub git: GitLimits,
    /// Variables of our environment that commands may see, besides the usual ones.
    pub pass_env: Vec<String>,
    /// A directory of the project with inputs to begin with.
    pub seeds: Option<String>,
    /// Reduces the corpus to what adds coverage.
    pub merge: Option<String>,
    /// What a crash means for the run that found it.
    pub after_crash: AfterCrash,
    /// Runs one input.
    pub reproduce: Option<String>,
    /// How often a crash is tried again before it is believed.
    pub tries: u32,
    /// Time for one of these tries.
    pub reproduce_timeout: Duration,
    /// Makes a crashing input smaller.
    pub minimise: Option<String>,
    /// Time for that.
    pub minimise_timeout: Duration,
    /// Functions that never name a bucket.
    pub ignored_frames: Vec<String>,
    /// Time for one coverage map.
    pub coverage_timeout: Duration,
    /// An older map is not used.
    pub coverage_max_age: Duration,
}

/// What a crash means for the run that found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterCrash {
    /// The fuzzer is started again until its time is over.
    Continue,
    /// The run ends early, with its results.
    Stop,
}

impl Default for Tools {
    fn default() -> Tools {
        Tools {
            submodules: false,
            git: GitLimits::default(),
            pass_env: Vec::new(),
            seeds: None,
            merge: None,
            after_crash: AfterCrash::Continue,
            reproduce: None,
            tries: 3,
            reproduce_timeout: Duration::from_secs(60),
            minimise: None,
            minimise_timeout: Duration::from_secs(60),
            ignored_frames: Vec::new(),
            coverage_timeout: Duration::from_secs(3_600),
            coverage_max_age: Duration::from_secs(45 * 86_400),
        }
    }
}

/// Tries of one crash: more say nothing new.
const TRIES_MAX: i64 = 100;

/// Repetitions of a request: with longer and longer waits between them, more would take hours.
const RETRIES_MAX: i64 = 20;

/// What the state may be asked to hold.
const COUNT_MAX: i64 = 100_000;

/// Largest repository that may be asked for, in mebibytes: 1 TiB.
const REPOSITORY_MIB_MAX: i64 = 1 << 20;

const TOP: Shape = Shape {
    what: "fuzz.yaml",
    keys: &[
        key("target"),
        key("repository"),
        key("branch"),
        key("store"),
        key("store_retries"),
        key("layout"),
        key("single_writer"),
        key("history"),
        key("only_today"),
        key("files"),
        key("submodules"),
        key("repository_mib_max"),
        key("repository_timeout"),
        key("pass_env"),
        key("build"),
        key("fuzz"),
        key("crashes"),
        key("coverage"),
        key("retention"),
        key("limits"),
        key("overload"),
        key("lease"),
    ],
    unsupported: &[("schedule", "the schedules stand in the four job files beside it")],
};

const BUILD: Shape =
    Shape { what: "`build`", keys: &[key("production"), key("coverage"), key("timeout")], unsupported: &[] };

const FUZZ: Shape = Shape {
    what: "`fuzz`",
    keys: &[
        key("run"),
        key("merge"),
        key("seeds"),
        key("duration"),
        key("stop_buffer"),
        key("grace"),
        key("runs_per_day"),
        key("after_crash"),
    ],
    unsupported: &[],
};

const CRASHES: Shape = Shape {
    what: "`crashes`",
    keys: &[
        key("reproduce"),
        key("tries"),
        key("timeout"),
        key("minimise"),
        key("minimise_timeout"),
        key("ignore_frames"),
    ],
    unsupported: &[],
};

const COVERAGE: Shape =
    Shape { what: "`coverage`", keys: &[key("run"), key("timeout"), key("max_age")], unsupported: &[] };

const RETENTION: Shape = Shape {
    what: "`retention`",
    keys: &[key("binaries"), key("missing_grace"), key("events")],
    unsupported: &[],
};

const LIMITS: Shape = Shape {
    what: "`limits`",
    keys: &[
        key("commits_per_pass"),
        key("fresh_commits"),
        key("failed"),
        key("schedule_min"),
        key("schedule_max"),
        key("build_attempts"),
        key("fuzz_attempts"),
    ],
    unsupported: &[],
};

/// The maps of a `fuzz.yaml` by section, as the reader looks keys up in them.
pub const CONFIG_SHAPES: &[(&str, &Shape)] = &[
    ("fuzz_file", &TOP),
    ("fuzz_build", &BUILD),
    ("fuzz_fuzz", &FUZZ),
    ("fuzz_crashes", &CRASHES),
    ("fuzz_coverage", &COVERAGE),
    ("fuzz_retention", &RETENTION),
    ("fuzz_limits", &LIMITS),
];

impl Config {
    /// Reads the text of a `fuzz.yaml`. The error says everything that is wrong, with line and column.
    ///
    /// ```
    /// let text = "target: demo\nrepository: /srv/demo\nstore: file:///srv/store\n\
    ///             build: {production: make fuzz, coverage: make cov}\nfuzz: {run: ./fuzz}\n";
    /// let config = cadran_fuzz::Config::read(text.as_bytes()).unwrap();
    /// assert_eq!(config.target.branch, "main");
    ///
    /// let wrong = text.replace("build", "biuld");
    /// let errors = cadran_fuzz::Config::read(wrong.as_bytes()).unwrap_err();
    /// assert_eq!(errors[0].to_string(), "1:1: error: fuzz.yaml needs the key `build`");
    /// assert_eq!(errors[1].to_string(), "4:1: error: unknown key `biuld` (did you mean `build`?)");
    /// ```
    pub fn read(text: &[u8]) -> Result<Config, Vec<Diagnostic>> {
        read_settings(text, &TOP, config)
    }
}

/// Reads on after a mistake, so that one look shows all of them.
fn config(top: &Section<'_>) -> Option<Config> {
    let name = top.needed("target").and_then(|text| {
        let name = TargetName::new(text);
        if name.is_none() {
            let help = "use letters, digits, `.`, `_` and `-`, 64 at most, and do not begin with a dot";
            top.wrong("target", format!("`{text}` is no name for a target"), help);
        }
        name
    });
    let repository = top.needed("repository").filter(|url| match check_address(url) {
        Ok(()) => true,
        Err(why) => {
            top.wrong(
                "repository",
                why,
                "write https://…, ssh://…, host:path or the path of a local repository",
            );
            false
        }
    });
    let store = top.needed("store").filter(|url| {
        let good = url.starts_with("s3://") || url.starts_with("file:///");
        if !good {
            top.wrong(
                "store",
                format!("`{url}` is no store"),
                "write s3://BUCKET/PREFIX or file:///DIRECTORY",
            );
        }
        good
    });
    let placeholder = TargetName::new("target")?;
    let branch = top.text("branch").unwrap_or("main");
    let mut target = Target::new(name.clone().unwrap_or(placeholder), repository.unwrap_or_default(), branch);
    let mut tools = Tools::default();
    history(top, &mut target, &mut tools);
    let built = build(top, &mut target);
    let fuzzed = fuzz(top, &mut target, &mut tools);
    crashes(top, &mut tools);
    coverage(top, &mut target, &mut tools);
    state(top, &mut target);
    name?;
    repository?;
    let store = store?.to_owned();
    let retries = top.whole("store_retries", 0, RETRIES_MAX);
    let store_retries = retries.map_or(RETRIES, |retries| retries.unsigned_abs() as u32);
    (built && fuzzed).then_some(Config { target, store, store_retries, tools })
}

fn history(top: &Section<'_>, target: &mut Target, tools: &mut Tools) {
    let walks = [("first-parent", Walk::FirstParent), ("all", Walk::All)];
    set(&mut target.walk, top.word("history", &walks));
    set(&mut target.only_today, top.flag("only_today"));
    set(&mut target.single_writer, top.flag("single_writer"));
    set(&mut tools.submodules, top.flag("submodules"));
    set(&mut target.filter, top.texts("files").map(|files| FileFilter::new(&files)));
    let mib = top.whole("repository_mib_max", 1, REPOSITORY_MIB_MAX);
    set(&mut tools.git.bytes, mib.map(|mib| mib.unsigned_abs() << 20));
    set(&mut tools.git.time, time(top, "repository_timeout"));
    let names = top.texts("pass_env").unwrap_or_default();
    tools.pass_env = names.into_iter().map(str::to_owned).collect();
}

fn build(top: &Section<'_>, target: &mut Target) -> bool {
    let Some(build) = top.section("build", &BUILD) else {
        // A section is missing the way a text is.
        return top.needed("build").is_some();
    };
    set(&mut target.budgets.build, time(&build, "timeout"));
    let (production, coverage) = (build.needed("production"), build.needed("coverage"));
    target.commands.production = production.unwrap_or_default().to_owned();
    target.commands.coverage = coverage.unwrap_or_default().to_owned();
    production.is_some() && coverage.is_some()
}

fn fuzz(top: &Section<'_>, target: &mut Target, tools: &mut Tools) -> bool {
    let Some(fuzz) = top.section("fuzz", &FUZZ) else {
        return top.needed("fuzz").is_some();
    };
    let budgets = &mut target.budgets;
    set(&mut budgets.fuzz, time(&fuzz, "duration"));
    set(&mut budgets.stop_buffer, time(&fuzz, "stop_buffer"));
    set(&mut budgets.grace, time(&fuzz, "grace"));
    set(
        &mut budgets.slots_per_day,
        fuzz.whole("runs_per_day", 1, 10_000).and_then(|runs| runs.try_into().ok()),
    );
    if budgets.stop_buffer >= budgets.fuzz {
        let key = if fuzz.text("stop_buffer").is_some() { "stop_buffer" } else { "duration" };
        let message = "`stop_buffer` leaves no time to fuzz: it is kept from `duration` to save the results";
        fuzz.wrong(key, message, "give a longer `duration` or a shorter `stop_buffer`");
    }
    let words = [("continue", AfterCrash::Continue), ("stop", AfterCrash::Stop)];
    set(&mut tools.after_crash, fuzz.word("after_crash", &words));
    tools.merge = fuzz.text("merge").map(str::to_owned);
    tools.seeds = fuzz.text("seeds").map(str::to_owned);
    if tools
        .seeds
        .as_deref()
        .is_some_and(|path| path.starts_with(['/', '-']) || path.split('/').any(|part| part == ".."))
    {
        fuzz.wrong("seeds", "`seeds` is a directory of the project", "write a path relative to its root");
    }
    let run = fuzz.needed("run");
    target.commands.fuzz = run.unwrap_or_default().to_owned();
    run.is_some()
}

fn crashes(top: &Section<'_>, tools: &mut Tools) {
    let Some(crashes) = top.section("crashes", &CRASHES) else { return };
    tools.reproduce = crashes.text("reproduce").map(str::to_owned);
    tools.minimise = crashes.text("minimise").map(str::to_owned);
    set(&mut tools.tries, crashes.whole("tries", 1, TRIES_MAX).and_then(|tries| tries.try_into().ok()));
    set(&mut tools.reproduce_timeout, time(&crashes, "timeout"));
    set(&mut tools.minimise_timeout, time(&crashes, "minimise_timeout"));
    let names = crashes.texts("ignore_frames").unwrap_or_default();
    tools.ignored_frames = names.into_iter().map(str::to_owned).collect();
}

fn coverage(top: &Section<'_>, target: &mut Target, tools: &mut Tools) {
    let Some(coverage) = top.section("coverage", &COVERAGE) else { return };
    target.commands.map = coverage.text("run").map(str::to_owned);
    set(&mut tools.coverage_timeout, time(&coverage, "timeout"));
    set(&mut tools.coverage_max_age, time(&coverage, "max_age"));
}

fn state(top: &Section<'_>, target: &mut Target) {
    let policies =
        [Overload::Fair, Overload::NewestFirst, Overload::Coalesce].map(|policy| (policy.as_str(), policy));
    set(&mut target.overload, top.word("overload", &policies));
    let layouts = [Layout::V1, Layout::V2].map(|layout| (layout.as_str(), layout));
    set(&mut target.layout, top.word("layout", &layouts));
    set(&mut target.lease, time(top, "lease"));
    if let Some(retention) = top.section("retention", &RETENTION) {
        set(&mut target.retention.binaries, time(&retention, "binaries"));
        set(&mut target.retention.missing_grace, time(&retention, "missing_grace"));
        set(&mut target.retention.events, time(&retention, "events"));
    }
    let Some(section) = top.section("limits", &LIMITS) else { return };
    let count = |key: &str, min: i64| section.whole(key, min, COUNT_MAX);
    let size = |key: &str, min: i64| count(key, min).and_then(|count| usize::try_from(count).ok());
    let tries = |key: &str| count(key, 1).and_then(|count| u32::try_from(count).ok());
    let limits = &mut target.limits;
    set(&mut limits.commits_per_pass, size("commits_per_pass", 1));
    set(&mut limits.fresh_commits, size("fresh_commits", 1));
    set(&mut limits.failed, size("failed", 1));
    set(&mut limits.schedule_min, size("schedule_min", 0));
    set(&mut limits.schedule_max, size("schedule_max", 1));
    set(&mut limits.build_attempts, tries("build_attempts"));
    set(&mut limits.fuzz_attempts, tries("fuzz_attempts"));
    if limits.schedule_min > limits.schedule_max {
        section.wrong(
            "schedule_max",
            "`schedule_max` is below `schedule_min`",
            "raise it, or lower the other",
        );
    }
}

fn set<T>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
    }
}

/// A duration that is one: zero would end everything at once.
fn time(section: &Section<'_>, key: &str) -> Option<Duration> {
    let millis = section.duration(key)?;
    if millis <= 0 {
        section.wrong(key, format!("`{key}` is no time at all"), "write a duration such as 90s, 10m or 6h");
    }
    u64::try_from(millis).ok().map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = "target: demo\nrepository: /srv/demo\nstore: file:///srv/store\n\
                         build:\n  production: make fuzz\n  coverage: make cov\nfuzz:\n  run: ./fuzz\n";

    #[test]
    fn what_is_left_out_has_its_default() {
        let config = Config::read(SMALL.as_bytes()).expect("good");
        let plain = Target::new(TargetName::new("demo").expect("good"), "/srv/demo", "main");
        assert_eq!(config.target.limits, plain.limits);
        assert_eq!(config.target.budgets, plain.budgets);
        assert_eq!(config.target.filter, plain.filter);
        assert_eq!(config.target.commands.fuzz, "./fuzz");
        assert_eq!(config.tools.tries, 3);
    }

    #[test]
    fn every_setting_arrives() {
        let text = format!(
            "{SMALL}  merge: m\n  seeds: fuzz/seeds\n  duration: 1h\n  stop_buffer: 2m\n  grace: 3s\n  runs_per_day: 24\n\
             \x20 after_crash: stop\nbranch: next\nhistory: all\nonly_today: true\nfiles: [.rs, toml]\nsubmodules: true\n\
             repository_mib_max: 100\nrepository_timeout: 1m\npass_env: CC\ncrashes:\n  reproduce: r\n  tries: 5\n\
             \x20 timeout: 4s\n  minimise: n\n  minimise_timeout: 5s\n  ignore_frames: [check]\ncoverage:\n  run: c\n\
             \x20 timeout: 6s\n  max_age: 10d\nretention:\n  binaries: 2d\nlimits:\n  schedule_max: 9\n\
             overload: coalesce\nlease: 1m\nlayout: v2\nsingle_writer: true\nstore_retries: 7\n"
        );
        let Config { target, tools, store_retries, .. } = Config::read(text.as_bytes()).expect("good");
        assert_eq!(store_retries, 7);
        assert_eq!((target.branch.as_str(), target.walk, target.only_today), ("next", Walk::All, true));
        assert_eq!((target.layout, target.single_writer), (Layout::V2, true));
        assert_eq!(target.filter.extensions(), ["rs", "toml"]);
        assert_eq!((target.limits.schedule_max, target.overload), (9, Overload::Coalesce));
        assert_eq!((target.budgets.slots_per_day, target.budgets.fuzz.as_secs()), (24, 3600));
        assert_eq!((target.retention.binaries.as_secs(), target.lease.as_secs()), (172_800, 60));
        assert_eq!((tools.git.bytes, tools.git.time.as_secs(), tools.submodules), (100 << 20, 60, true));
        assert_eq!((tools.tries, tools.after_crash), (5, AfterCrash::Stop));
        assert_eq!((tools.pass_env, tools.ignored_frames), (vec!["CC".to_owned()], vec!["check".to_owned()]));
        assert_eq!((tools.seeds.as_deref(), target.commands.map.as_deref()), (Some("fuzz/seeds"), Some("c")));
    }

    #[test]
    fn mistakes_have_line_and_column() {
        let check = |text: String, expected: &[&str]| {
            let errors: Vec<String> =
                Config::read(text.as_bytes()).expect_err("bad").iter().map(ToString::to_string).collect();
            assert_eq!(errors, expected, "{text}");
        };
        let with = |from: &str, to: &str| SMALL.replace(from, to);
        check(
            with("/srv/demo", "ext::sh"),
            &[
                "2:13: error: ext:: is not an address that is fetched from; use https, ssh or a path (write https://…, ssh://…, host:path or the path of a local repository)",
            ],
        );
        check(
            with("file:///srv/store", "/srv/store"),
            &["3:8: error: `/srv/store` is no store (write s3://BUCKET/PREFIX or file:///DIRECTORY)"],
        );
        check(
            with("  run: ./fuzz", "  runn: ./fuzz"),
            &[
                "8:3: error: unknown key `runn` (did you mean `run`?)",
                "8:3: error: `fuzz` needs the key `run`",
            ],
        );
        check(
            format!("{SMALL}  duration: 4m\n"),
            &[
                "9:13: error: `stop_buffer` leaves no time to fuzz: it is kept from `duration` to save the results (give a longer `duration` or a shorter `stop_buffer`)",
            ],
        );
        check(
            format!("{SMALL}overload: fairr\n"),
            &["9:11: error: `overload` cannot be `fairr` (did you mean `fair`?)"],
        );
        check(
            format!("{SMALL}schedule: daily\n"),
            &[
                "9:1: error: `schedule` is not supported by Cadran (the schedules stand in the four job files beside it)",
            ],
        );
        check(
            format!("{SMALL}  seeds: ../x\n"),
            &["9:10: error: `seeds` is a directory of the project (write a path relative to its root)"],
        );
        assert!(Config::read(b"\xff").is_err());
        assert!(Config::read(b"").is_err());
        assert!(Config::read(b"- a").is_err());
    }
}
