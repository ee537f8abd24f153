use crate::CommandError;
use crate::program::{self, program};
use crate::sim;

/// Job files in the simulation: half an hour on two cores, a night's work beside the other checks.
const SIMULATED_JOBS: u64 = 100_000;

/// Job files through the built server, where every command is a process.
const SERVER_JOBS: u64 = 2_000;

/// `cargo xtask random-jobs [--jobs N] [--server-jobs N] [--seed S]`: job files drawn at random, first in the simulation, then
/// through the built server. The seed is printed with every failure; without one it comes from the calendar, so that
/// every night looks somewhere else.
pub(crate) fn run(arguments: &[String]) -> Result<(), CommandError> {
    let options = parse(arguments, today())?;
    println!("random-jobs: seed {}", options.seed);
    if options.jobs > 0 {
        let seeds = format!("{}..{}", options.seed, options.seed + options.jobs);
        let words = ["--drawn", "--files", &options.jobs.to_string(), "--seeds", &seeds].map(str::to_owned);
        sim::run(&words)?;
    }
    if options.server_jobs > 0 {
        let mut test = program("cargo test --locked --package cadran --test random_jobs -- --nocapture");
        test.env("CADRAN_RANDOM_JOBS", options.server_jobs.to_string());
        test.env("CADRAN_RANDOM_JOBS_SEED", options.seed.to_string());
        program::run(&mut test).map_err(CommandError::Failed)?;
    }
    Ok(())
}

/// The number of the day, times so many seeds as a night plays at most.
#[allow(clippy::disallowed_methods, reason = "a chore of the day reads the clock")]
pub(crate) fn today() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(1, |since| since.as_secs() / 86_400 * SIMULATED_JOBS)
}

#[derive(Debug, PartialEq, Eq)]
struct Options {
    jobs: u64,
    server_jobs: u64,
    seed: u64,
}

fn parse(arguments: &[String], seed: u64) -> Result<Options, CommandError> {
    let mut options = Options { jobs: SIMULATED_JOBS, server_jobs: SERVER_JOBS, seed };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let value = words.next().map(String::as_str).unwrap_or_default();
        let number =
            value.parse().map_err(|_| CommandError::Usage(format!("random-jobs: {word} wants a number")));
        match word.as_str() {
            "--jobs" => options.jobs = number?,
            "--server-jobs" => options.server_jobs = number?,
            "--seed" => options.seed = number?,
            other => return Err(CommandError::Usage(format!("random-jobs: what is {other} for?"))),
        }
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_are_understood() {
        let check = |words: &str, expected: Option<(u64, u64, u64)>| {
            let words: Vec<String> = words.split_whitespace().map(String::from).collect();
            let parsed = parse(&words, 7).ok();
            let parsed = parsed.map(|options| (options.jobs, options.server_jobs, options.seed));
            assert_eq!(parsed, expected, "{words:?}");
        };
        check("", Some((SIMULATED_JOBS, SERVER_JOBS, 7)));
        check("--jobs 5 --server-jobs 0 --seed 9", Some((5, 0, 9)));
        check("--jobs", None);
        check("--jbos 5", None);
    }
}
