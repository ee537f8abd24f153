use crate::CommandError;
use crate::planted::{self, Planted};
use crate::program::program;

/// `cargo xtask sim`: the simulation, built for speed. Planted bugs are built in only where one is asked for.
pub(crate) fn run(arguments: &[String]) -> Result<(), CommandError> {
    let failed = CommandError::Failed;
    let mut arguments = arguments.to_vec();
    let names = planted::names().map_err(failed)?;
    let named = arguments.iter().position(|word| word == "--bug");
    let named = named.filter(|at| arguments.get(at + 1).is_some_and(|name| names.contains(name)));
    let mut command = match named {
        Some(at) => {
            let name = arguments.drain(at..at + 2).nth(1);
            Planted::build(true).map_err(failed)?.simulation(name.as_deref())
        }
        None => program("cargo run --locked --quiet --release --package cadran-sim --"),
    };
    let status = command
        .args(&arguments)
        .status()
        .map_err(|error| CommandError::Failed(format!("cannot start the simulation: {error}")))?;
    match status.code() {
        Some(0) if arguments.iter().any(|word| word == "--bugs") => {
            Planted::build(true).and_then(|planted| planted.find_all()).map_err(failed)
        }
        Some(0) => Ok(()),
        Some(2) => Err(CommandError::Usage(format!("sim: see above; planted bugs: {}", names.join(", ")))),
        _ => Err(CommandError::Failed("the simulation broke a law; see above".into())),
    }
}
