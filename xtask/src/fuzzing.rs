use crate::CommandError;
use crate::buckets::Buckets;
use crate::program::{self, program};

/// `cargo xtask fuzzing overload|writers|builders`: tests of the fuzzing pipeline for longer than with the tests, with
/// their figures on the screen.
pub(crate) fn run(arguments: &[String]) -> Result<(), CommandError> {
    let (what, rest) = match arguments {
        [what, rest @ ..] => (what.as_str(), rest),
        [] => ("", arguments),
    };
    let mut command = program("cargo test --locked --package cadran-fuzz --test state");
    let needs_s3 = match what {
        "overload" => {
            command.arg("rule_29_what_gives_under_each_policy");
            false
        }
        "writers" => {
            command
                .arg("eight_writers")
                .env("CADRAN_WRITERS_ROUNDS", number(rest, "--rounds", 20)?.to_string());
            true
        }
        "builders" => {
            command
                .arg("eight_builders")
                .env("CADRAN_BUILDERS_COMMITS", number(rest, "--commits", 100)?.to_string());
            true
        }
        other => {
            return Err(CommandError::Usage(format!(
                "fuzzing: overload, writers or builders, not {other:?}"
            )));
        }
    };
    command.args(["--", "--nocapture", "--test-threads=1"]);
    let build = "cargo test --locked --package cadran-fuzz --test state --no-run --quiet";
    program::run(&mut program(build)).map_err(CommandError::Failed)?;
    let buckets = needs_s3.then(Buckets::start).transpose().map_err(CommandError::Failed)?;
    if let Some(buckets) = &buckets {
        command.envs(buckets.variables().iter().cloned());
    }
    let tested = program::run(&mut command);
    let stopped = buckets.map_or(Ok(()), Buckets::stop);
    tested.and(stopped).map_err(CommandError::Failed)
}

/// The value of the one option there is.
fn number(arguments: &[String], option: &str, default: u64) -> Result<u64, CommandError> {
    match arguments {
        [] => Ok(default),
        [name, value] if name == option => {
            value.parse().map_err(|_| CommandError::Usage(format!("fuzzing: {option} wants a number")))
        }
        [other, ..] => Err(CommandError::Usage(format!("fuzzing: what is {other} for?"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_are_understood() {
        let check = |words: &str, expected: Option<u64>| {
            let arguments: Vec<String> = words.split_whitespace().map(Into::into).collect();
            assert_eq!(number(&arguments, "--rounds", 20).ok(), expected, "{words}");
        };
        check("", Some(20));
        check("--rounds 3", Some(3));
        check("--rounds", None);
        check("--rounds many", None);
        check("--commits 3", None);
        assert!(run(&["nothing".into()]).is_err());
        assert!(run(&[]).is_err());
    }
}
