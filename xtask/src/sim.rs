use crate::CommandError;
use crate::program::program;

/// `cargo xtask sim`: the simulation, built for speed. Planted bugs are compiled in only where one is asked for.
pub(crate) fn run(arguments: &[String]) -> Result<(), CommandError> {
    let mut command = program("cargo run --locked --quiet --release --package cadran-sim");
    if arguments.iter().any(|word| word == "--bug" || word == "--bugs") {
        command.args(["--features", "planted"]);
    }
    let status = command
        .arg("--")
        .args(arguments)
        .status()
        .map_err(|error| CommandError::Failed(format!("cannot start the simulation: {error}")))?;
    match status.code() {
        Some(0) => Ok(()),
        Some(2) => Err(CommandError::Usage("sim: see above".into())),
        _ => Err(CommandError::Failed("the simulation broke a law; see above".into())),
    }
}
