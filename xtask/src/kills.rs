use crate::CommandError;
use crate::database::{self, Database};
use crate::program::{self, program};

/// A long look: an hour or so on two cores.
const KILLS: u64 = 1_000;

/// `cargo xtask kills [--kills N] [--store sqlite|postgres] [--seed N]`: the kill test, for longer than with the tests.
pub(crate) fn run(arguments: &[String]) -> Result<(), CommandError> {
    let options = parse(arguments)?;
    let mut command = program("cargo test --locked --package cadran --test kills -- --nocapture");
    command.env("CADRAN_KILLS", options.kills.to_string()).env("CADRAN_KILLS_STORE", &options.store);
    if let Some(seed) = options.seed {
        command.env("CADRAN_KILLS_SEED", seed.to_string());
    }
    let build = "cargo test --locked --package cadran --test kills --no-run --quiet";
    program::run(&mut program(build)).map_err(CommandError::Failed)?;
    let wanted = options.store != "sqlite" && std::env::var_os("CADRAN_TEST_POSTGRES").is_none();
    let database =
        wanted.then(|| Database::start(database::POSTGRES)).transpose().map_err(CommandError::Failed)?;
    if let Some(database) = &database {
        command.env("CADRAN_TEST_POSTGRES", database.url());
    }
    let tested = program::run(&mut command);
    let stopped = database.map_or(Ok(()), Database::stop);
    tested.and(stopped).map_err(CommandError::Failed)
}

#[derive(Debug, PartialEq, Eq)]
struct Options {
    kills: u64,
    /// Empty for both.
    store: String,
    seed: Option<u64>,
}

fn parse(arguments: &[String]) -> Result<Options, CommandError> {
    let mut options = Options { kills: KILLS, store: String::new(), seed: None };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let value = words.next().map(String::as_str).unwrap_or_default();
        let number =
            || value.parse().map_err(|_| CommandError::Usage(format!("kills: {word} wants a number")));
        match word.as_str() {
            "--kills" => options.kills = number()?,
            "--seed" => options.seed = Some(number()?),
            "--store" if matches!(value, "sqlite" | "postgres") => options.store = value.into(),
            "--store" => return Err(CommandError::Usage("kills: --store is sqlite or postgres".into())),
            other => return Err(CommandError::Usage(format!("kills: what is {other} for?"))),
        }
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_are_understood() {
        let check = |words: &str, expected: Option<(u64, &str, Option<u64>)>| {
            let arguments: Vec<String> = words.split_whitespace().map(Into::into).collect();
            let options = parse(&arguments).ok().map(|o| (o.kills, o.store, o.seed));
            assert_eq!(options, expected.map(|(kills, store, seed)| (kills, store.into(), seed)), "{words}");
        };
        check("", Some((KILLS, "", None)));
        check("--kills 5 --store postgres --seed 7", Some((5, "postgres", Some(7))));
        check("--kills", None);
        check("--kills many", None);
        check("--store mysql", None);
        check("--fast 1", None);
    }
}
