//! Exit codes, in one table.

use std::process::ExitCode;

/// How a command that talks to a server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It went well.
    Ok,
    /// The run that was waited for did not succeed.
    RunFailed,
    /// The command line was wrong.
    Usage,
    /// The server could not be reached, or could not answer now.
    Unreachable,
    /// There is no such job, run or log.
    NotFound,
    /// The server refused: wrong token, a run that is over, a bound that was reached.
    Refused,
    /// Ctrl-C.
    Interrupted,
}

impl Exit {
    /// Every exit with its number and meaning, as `--help` shows them.
    pub const TABLE: &'static [(Exit, u8, &'static str)] = &[
        (Exit::Ok, 0, "it went well"),
        (Exit::RunFailed, 1, "the run that was waited for did not succeed"),
        (Exit::Usage, 2, "the command line was wrong"),
        (Exit::Unreachable, 3, "the server could not be reached, or could not answer now"),
        (Exit::NotFound, 4, "there is no such job, run or log"),
        (Exit::Refused, 5, "the server refused"),
        (Exit::Interrupted, 130, "Ctrl-C"),
    ];

    /// The number.
    pub fn number(self) -> u8 {
        Exit::TABLE.iter().find(|(exit, ..)| *exit == self).map_or(1, |(_, number, _)| *number)
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.number())
    }
}

/// The end of a help text: examples, then the exit codes.
pub fn after_help(examples: &str) -> String {
    let mut text = format!("Examples:\n{examples}\n\nExit codes:");
    for (_, number, meaning) in Exit::TABLE {
        text.push_str(&format!("\n  {number:<3}  {meaning}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_exit_is_in_the_table_once() {
        use Exit::*;
        for exit in [Ok, RunFailed, Usage, Unreachable, NotFound, Refused, Interrupted] {
            assert_eq!(Exit::TABLE.iter().filter(|(known, ..)| *known == exit).count(), 1, "{exit:?}");
            assert!(after_help("").contains(&format!("\n  {:<3}  ", exit.number())), "{exit:?}");
        }
        let mut numbers: Vec<u8> = Exit::TABLE.iter().map(|(_, number, _)| *number).collect();
        numbers.dedup();
        assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 130]);
    }
}
