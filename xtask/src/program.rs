use std::process::{Command, Stdio};
use std::time::Duration;

/// A program with its arguments, split at blanks. The caller adds arguments that may hold some.
pub(crate) fn program(line: &str) -> Command {
    let mut words = line.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or("true"));
    command.args(words);
    command
}

/// Runs a program whose output goes where ours goes.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    let shown = shown(command);
    eprintln!("$ {shown}");
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{shown}: {status}")),
        Err(error) => Err(format!("{shown}: {error}")),
    }
}

/// Runs a program and takes its standard output.
pub(crate) fn read(command: &mut Command) -> Result<String, String> {
    let shown = shown(command);
    let output = command.stderr(Stdio::inherit()).output().map_err(|error| format!("{shown}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{shown}: {}", output.status));
    }
    String::from_utf8(output.stdout).map_err(|error| format!("{shown}: {error}"))
}

/// Whether a program is there: it answers to its arguments with success.
pub(crate) fn is_there(line: &str) -> bool {
    let quiet = |command: &mut Command| {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()
    };
    quiet(&mut program(line)).is_ok_and(|status| status.success())
}

/// The command as a person would type it, more or less.
pub(crate) fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// A stop watch for what is shown to people.
pub(crate) struct Watch(std::time::Instant);

impl Watch {
    pub(crate) fn start() -> Watch {
        // A tool at the edge: it tells people how long things took, and decides nothing by it.
        #[allow(clippy::disallowed_methods)]
        Watch(std::time::Instant::now())
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}
