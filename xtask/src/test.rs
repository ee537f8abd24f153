use std::process::Command;

use crate::buckets::Buckets;
use crate::database::{self, Database};
use crate::planted::Planted;
use crate::program::{self, Watch, is_there, program};
use crate::{CommandError, check, page, readme};

/// Set for everything that the README's commands start, so that the test command among them does not start itself
/// over and over.
pub(crate) const INSIDE_README: &str = "CADRAN_XTASK_README";

/// Tests that need PostgreSQL find it by this variable. One that is set already is used as it is.
const POSTGRES: &str = "CADRAN_TEST_POSTGRES";

/// Tests that need PostgreSQL pass over themselves when this is set; without either variable they fail.
const SKIP_POSTGRES: &str = "CADRAN_SKIP_POSTGRES";

/// The test of imports finds a MariaDB by the first, and passes over itself when the other is set.
const MYSQL: &str = "CADRAN_TEST_MYSQL";
const SKIP_MYSQL: &str = "CADRAN_SKIP_MYSQL";

/// Tests that need an S3 server pass over themselves when this is set.
const SKIP_S3: &str = "CADRAN_SKIP_S3";

/// Tests of clock jumps find libfaketime by this variable, and pass over themselves when the other is set.
const FAKETIME: &str = "CADRAN_TEST_FAKETIME";
const SKIP_FAKETIME: &str = "CADRAN_SKIP_FAKETIME";

/// Prints the library's path. It installs Debian's package when it is missing.
const FAKETIME_SCRIPT: &str = "scripts/faketime.sh";

/// The test that takes the example project through the fuzzing pipeline asks for the first, and passes over itself when
/// the other is set.
const CLANG: &str = "CADRAN_TEST_CLANG";
const SKIP_CLANG: &str = "CADRAN_SKIP_CLANG";

/// Prints the directory of clang++. It installs Debian's packages when they are missing.
const CLANG_SCRIPT: &str = "scripts/clang.sh";

/// The OpenAPI document is not validated, and no requests are made from it, when this is set.
const SKIP_OPENAPI: &str = "CADRAN_SKIP_OPENAPI";

/// Tests with executors of other people find them by this variable, and pass over themselves when the other is set.
const CLIENTS: &str = "CADRAN_TEST_CLIENTS";
const SKIP_CLIENTS: &str = "CADRAN_SKIP_CLIENTS";

/// Installs them from their registries, into this directory, and prints it.
const CLIENTS_SCRIPT: &str = "scripts/clients.sh target/clients";

/// `cargo xtask test`.
pub(crate) fn run(arguments: &[String]) -> Result<(), CommandError> {
    let options = parse(arguments)?;
    if std::env::var_os(INSIDE_README).is_some() {
        eprintln!("xtask: the tests are running already; not run again inside themselves");
        return Ok(());
    }
    let mut parts = Parts::default();
    if options.filters.is_empty() {
        parts.run_part("formatting", formatting);
        parts.run_part("lints", lints);
        parts.run_part("tests", || tests(&options));
        parts.run_part("planted bugs", planted_bugs);
        parts.run_part("doc tests", doc_tests);
        parts.run_part("page", || page(&options));
        parts.run_part("OpenAPI", || openapi(&options));
        parts.run_part("checks", || passed(check::run()));
        parts.run_part("README", || passed(readme::run()));
    } else {
        parts.run_part("tests", || tests(&options));
    }
    let (line, well) = parts.summary();
    println!("\n{line}");
    if well { Ok(()) } else { Err(CommandError::Failed("not everything passed; see above".into())) }
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    quick: bool,
    filters: Vec<String>,
}

fn parse(arguments: &[String]) -> Result<Options, CommandError> {
    let mut options = Options::default();
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        match word.as_str() {
            "--quick" => options.quick = true,
            "--" => options.filters = rest.by_ref().cloned().collect(),
            other => {
                let why =
                    format!("test: what is {other} for? A filter stands behind --, as in: test -- {other}");
                return Err(CommandError::Usage(why));
            }
        }
    }
    Ok(options)
}

/// How one part of the tests went.
enum PartResult {
    Passed,
    /// A tool for it is not installed.
    Skipped(&'static str),
    Failed(String),
}

#[derive(Default)]
struct Parts {
    results: Vec<(&'static str, PartResult)>,
}

impl Parts {
    /// Runs one part, whatever became of those before: one look shows everything that is wrong.
    fn run_part(&mut self, name: &'static str, part: impl FnOnce() -> Result<PartResult, String>) {
        println!("\n== {name}");
        let watch = Watch::start();
        let result = part().unwrap_or_else(PartResult::Failed);
        let secs = watch.elapsed().as_secs_f64();
        match &result {
            PartResult::Passed => println!("== {name}: passed in {secs:.1} s"),
            PartResult::Skipped(why) => println!("== {name}: skipped, {why}"),
            PartResult::Failed(why) => println!("== {name}: FAILED in {secs:.1} s: {why}"),
        }
        self.results.push((name, result));
    }

    /// The last line, and whether nothing failed.
    fn summary(&self) -> (String, bool) {
        let names = |wanted: fn(&PartResult) -> bool| {
            let names: Vec<&str> =
                self.results.iter().filter(|(_, result)| wanted(result)).map(|(name, _)| *name).collect();
            if names.is_empty() { "none".into() } else { names.join(", ") }
        };
        let passed = names(|result| matches!(result, PartResult::Passed));
        let skipped = names(|result| matches!(result, PartResult::Skipped(_)));
        let failed = names(|result| matches!(result, PartResult::Failed(_)));
        let well = !self.results.iter().any(|(_, result)| matches!(result, PartResult::Failed(_)));
        (format!("passed: {passed}; skipped: {skipped}; failed: {failed}"), well)
    }
}

fn passed(done: Result<(), CommandError>) -> Result<PartResult, String> {
    match done {
        Ok(()) => Ok(PartResult::Passed),
        Err(CommandError::Failed(why) | CommandError::Usage(why)) => Err(why),
    }
}

fn formatting() -> Result<PartResult, String> {
    if !is_there("cargo fmt --version") {
        return Ok(PartResult::Skipped("rustfmt is not installed"));
    }
    program::run(&mut program("cargo fmt --all --check")).map(|()| PartResult::Passed)
}

fn lints() -> Result<PartResult, String> {
    if !is_there("cargo clippy --version") {
        return Ok(PartResult::Skipped("clippy is not installed"));
    }
    let mut clippy = program("cargo clippy --locked --workspace --all-targets -- -D warnings");
    program::run(&mut clippy).map(|()| PartResult::Passed)
}

fn tests(options: &Options) -> Result<PartResult, String> {
    let mut command = if is_there("cargo nextest --version") {
        let mut nextest = program("cargo nextest run --locked --workspace --no-fail-fast");
        nextest.args(&options.filters);
        nextest
    } else {
        let mut test = program("cargo test --locked --workspace --tests --no-fail-fast --");
        test.args(&options.filters);
        test
    };
    let mut installing = install_servers(options);
    // Built before the database starts: nothing is left running through minutes of compiling.
    let built = program::run(&mut program("cargo test --locked --workspace --tests --no-run --quiet"));
    if let Some(installing) = &mut installing {
        let _ = installing.wait();
    }
    built?;
    provide_faketime(&mut command);
    provide_clang(&mut command);
    provide_clients(options, &mut command);
    let database = provide_database(options, &mut command)?;
    let buckets = provide_buckets(options, &mut command)?;
    let imported = provide_mariadb(options, &mut command);
    let tested = program::run(&mut command);
    let stopped = database
        .map_or(Ok(()), Database::stop)
        .and(imported.map_or(Ok(()), Database::stop))
        .and(buckets.map_or(Ok(()), Buckets::stop));
    tested.and(stopped).map(|()| PartResult::Passed)
}

/// Installs servers that are missing while the tests are compiled, one after the other: two that install packages at
/// once are in each other's way. What goes wrong is said when the servers start.
fn install_servers(options: &Options) -> Option<std::process::Child> {
    let wanted = |skip: &str, script: &'static str| {
        (!options.quick && std::env::var_os(skip).is_none()).then(|| format!("{script} install"))
    };
    let scripts = [wanted(SKIP_S3, "scripts/seaweedfs.sh"), wanted(SKIP_MYSQL, "scripts/mariadb.sh")];
    let line: Vec<String> = scripts.into_iter().flatten().collect();
    if line.is_empty() {
        return None;
    }
    Command::new("sh").args(["-c", &line.join("; ")]).spawn().ok()
}

/// Without it the test that needs it fails and says why, unless it is left out on purpose.
fn provide_mariadb(options: &Options, command: &mut Command) -> Option<Database> {
    if options.quick || std::env::var_os(SKIP_MYSQL).is_some() {
        println!("the test of imports from MariaDB is passed over");
        command.env(SKIP_MYSQL, "1");
        return None;
    }
    if std::env::var_os(MYSQL).is_some() {
        return None;
    }
    match Database::start(database::MARIADB) {
        Ok(database) => {
            command.env(MYSQL, database.url());
            Some(database)
        }
        Err(why) => {
            println!("{why}");
            None
        }
    }
}

fn provide_database(options: &Options, command: &mut Command) -> Result<Option<Database>, String> {
    if options.quick {
        println!("--quick: tests that need PostgreSQL are passed over");
        command.env(SKIP_POSTGRES, "1").env_remove(POSTGRES);
        return Ok(None);
    }
    if std::env::var_os(POSTGRES).is_some() {
        println!("PostgreSQL: the one that {POSTGRES} names");
        return Ok(None);
    }
    let database = Database::start(database::POSTGRES)?;
    command.env(POSTGRES, database.url()).env_remove(SKIP_POSTGRES);
    Ok(Some(database))
}

fn provide_buckets(options: &Options, command: &mut Command) -> Result<Option<Buckets>, String> {
    if options.quick {
        println!("--quick: tests that need S3 are passed over");
        command.env(SKIP_S3, "1");
        return Ok(None);
    }
    if std::env::var_os(SKIP_S3).is_some() {
        println!("{SKIP_S3}: tests that need S3 are passed over");
        return Ok(None);
    }
    let buckets = Buckets::start()?;
    command.envs(buckets.variables().iter().cloned());
    Ok(Some(buckets))
}

/// Without it the tests that need it fail and say why, unless they are left out on purpose.
fn provide_faketime(command: &mut Command) {
    if std::env::var_os(SKIP_FAKETIME).is_some() {
        println!("{SKIP_FAKETIME}: tests of clock jumps are passed over");
        return;
    }
    match program::read(&mut program(FAKETIME_SCRIPT)) {
        Ok(path) => drop(command.env(FAKETIME, path.trim())),
        Err(why) => println!("{why}. Go without tests of clock jumps: {SKIP_FAKETIME}=1"),
    }
}

/// As above, for the test that builds and fuzzes.
fn provide_clang(command: &mut Command) {
    if std::env::var_os(SKIP_CLANG).is_some() {
        println!("{SKIP_CLANG}: tests that build C++ and fuzz it are passed over");
        return;
    }
    match program::read(&mut program(CLANG_SCRIPT)) {
        Ok(path) => drop(command.env(CLANG, path.trim())),
        Err(why) => println!("{why}. Go without tests that fuzz: {SKIP_CLANG}=1"),
    }
}

/// Without them the test that needs them fails and says why, unless it is left out on purpose.
fn provide_clients(options: &Options, command: &mut Command) {
    if options.quick || std::env::var_os(SKIP_CLIENTS).is_some() {
        println!("executors of other people are passed over");
        command.env(SKIP_CLIENTS, "1");
        return;
    }
    if std::env::var_os(CLIENTS).is_some() {
        return;
    }
    match program::read(&mut program(CLIENTS_SCRIPT)) {
        Ok(dir) => drop(command.env(CLIENTS, dir.trim())),
        Err(why) => println!("{why}. Go without executors of other people: {SKIP_CLIENTS}=1"),
    }
}

/// The checker of the simulation is checked: every mistake that was planted on purpose is found. Built in a copy of the
/// repository, so that nothing else is ever built with the mistakes in it.
fn planted_bugs() -> Result<PartResult, String> {
    Planted::build(false).and_then(|planted| planted.find_all()).map(|()| PartResult::Passed)
}

fn page(options: &Options) -> Result<PartResult, String> {
    if options.quick || std::env::var_os(page::SKIP_PAGE).is_some() {
        return Ok(PartResult::Skipped("the page is not tried in a browser"));
    }
    if !is_there("npm --version") {
        return Ok(PartResult::Skipped("npm, which brings the page's tools, is not installed"));
    }
    page::check().and_then(|()| page::test()).map(|()| PartResult::Passed)
}

/// The document is valid, and the server answers as it says.
fn openapi(options: &Options) -> Result<PartResult, String> {
    if options.quick || std::env::var_os(SKIP_OPENAPI).is_some() {
        return Ok(PartResult::Skipped("the OpenAPI document is not tried"));
    }
    if !is_there("python3 --version") {
        return Ok(PartResult::Skipped("Python, which brings the tools for OpenAPI, is not installed"));
    }
    program::run(&mut program("cargo build --locked --package cadran"))?;
    program::run(&mut program("scripts/openapi.sh target/debug/cadran")).map(|()| PartResult::Passed)
}

fn doc_tests() -> Result<PartResult, String> {
    program::run(&mut program("cargo test --locked --workspace --doc --quiet")).map(|()| PartResult::Passed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_are_understood() {
        let check = |words: &str, expected: Option<(bool, &str)>| {
            let arguments: Vec<String> = words.split_whitespace().map(Into::into).collect();
            let options = parse(&arguments).ok().map(|options| (options.quick, options.filters.join(" ")));
            assert_eq!(options, expected.map(|(quick, filters)| (quick, filters.to_string())), "{words}");
        };
        check("", Some((false, "")));
        check("--quick", Some((true, "")));
        check("-- ring", Some((false, "ring")));
        check("--quick -- ring --exact", Some((true, "ring --exact")));
        check("ring", None);
        check("--fast", None);
    }

    #[test]
    fn the_last_line_tells_what_passed_and_failed() {
        let check = |results: Vec<PartResult>, line: &str, well: bool| {
            let parts = Parts { results: ["lints", "tests", "checks"].into_iter().zip(results).collect() };
            assert_eq!(parts.summary(), (line.to_string(), well));
        };
        use PartResult::*;
        check(
            vec![Passed, Passed, Passed],
            "passed: lints, tests, checks; skipped: none; failed: none",
            true,
        );
        check(vec![Skipped("no"), Passed], "passed: tests; skipped: lints; failed: none", true);
        check(vec![Failed("x".into())], "passed: none; skipped: none; failed: lints", false);
        check(
            vec![Failed("x".into()), Passed, Failed("y".into())],
            "passed: tests; skipped: none; failed: lints, checks",
            false,
        );
    }
}
