use std::fs;

use crate::CommandError;
use crate::program::{self, is_there, program};

/// A short look at each target.
const SECONDS: u64 = 60;

/// `cargo xtask fuzz [TARGET…] [--seconds N]`: the fuzz targets under libFuzzer, one after another.
pub(crate) fn run(arguments: &[String]) -> Result<(), CommandError> {
    let known = targets().map_err(CommandError::Failed)?;
    let (mut chosen, mut seconds) = (Vec::new(), SECONDS);
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        if word == "--seconds" {
            let value = words.next().and_then(|word| word.parse().ok());
            seconds = value.ok_or_else(|| CommandError::Usage("fuzz: --seconds wants a number".into()))?;
        } else if known.contains(word) {
            chosen.push(word.clone());
        } else {
            let why = format!("fuzz: there is no target {word}; there are: {}", known.join(", "));
            return Err(CommandError::Usage(why));
        }
    }
    if !is_there("cargo fuzz --version") {
        return Err(CommandError::Failed("cargo-fuzz is not installed: cargo install cargo-fuzz".into()));
    }
    for target in if chosen.is_empty() { known } else { chosen } {
        // Sanitizers are a nightly feature; the stable compiler has them too, when asked like this.
        let mut command = program("cargo fuzz run");
        command.env("RUSTC_BOOTSTRAP", "1").arg(&target).arg("--");
        command.arg(format!("-max_total_time={seconds}")).args(["-timeout=10", "-rss_limit_mb=2048"]);
        program::run(&mut command).map_err(CommandError::Failed)?;
    }
    Ok(())
}

/// One file each.
fn targets() -> Result<Vec<String>, String> {
    let folder = fs::read_dir("fuzz/fuzz_targets").map_err(|error| format!("fuzz/fuzz_targets: {error}"))?;
    let names = folder.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> =
        names.filter_map(|name| name.strip_suffix(".rs").map(str::to_owned)).collect();
    names.sort();
    Ok(names)
}
