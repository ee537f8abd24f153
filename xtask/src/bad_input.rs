use std::path::Path;

use crate::CommandError;

/// `cargo xtask bad-input DIR`: writes the corpus of bad job files.
pub(crate) fn run(arguments: &[String]) -> Result<(), CommandError> {
    let [folder] = arguments else {
        return Err(CommandError::Usage("bad-input: it wants the folder to write to".into()));
    };
    let written = cadran_dev::bad_input::write(Path::new(folder));
    let count =
        written.map_err(|error| CommandError::Failed(format!("cannot write to {folder}: {error}")))?;
    println!("{count} bad files in {folder}; try: cargo run -- check {folder}");
    Ok(())
}
