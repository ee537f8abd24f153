use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::CommandError;
use crate::packages::{self, Package};
use crate::program::{Watch, program, shown};

/// `cargo xtask bench`: every benchmark, or those named by their own name or their package's.
pub(crate) fn run(arguments: &[String]) -> Result<(), CommandError> {
    let quick = arguments.iter().any(|word| word == "--quick");
    let names: Vec<&str> = arguments.iter().map(String::as_str).filter(|word| *word != "--quick").collect();
    if let Some(flag) = names.iter().find(|name| name.starts_with('-')) {
        return Err(CommandError::Usage(format!("bench: what is {flag} for?")));
    }
    let packages = packages::all().map_err(CommandError::Failed)?;
    let known = benches(&packages);
    let chosen = choose(&known, &names).map_err(CommandError::Usage)?;
    let folder = target_dir().join("bench");
    fs::create_dir_all(&folder)
        .map_err(|error| CommandError::Failed(format!("cannot make {}: {error}", folder.display())))?;
    let mut failed = Vec::new();
    for (package, bench) in &chosen {
        let mut command = program("cargo bench --locked");
        command.args(["--package", package, "--bench", bench]);
        if quick {
            command.args(["--", "--quick"]);
        }
        println!("\n== {package} {bench}");
        let watch = Watch::start();
        let path = folder.join(format!("{package}-{bench}.txt"));
        match tee(&mut command, &path) {
            Ok(()) => {
                println!("== {bench}: {:.0} s, kept in {}", watch.elapsed().as_secs_f64(), path.display())
            }
            Err(why) => {
                println!("== {bench}: FAILED: {why}");
                failed.push(bench.as_str());
            }
        }
    }
    println!(
        "\n{} of {} benchmarks ran; results in {}",
        chosen.len() - failed.len(),
        chosen.len(),
        folder.display()
    );
    if failed.is_empty() {
        Ok(())
    } else {
        Err(CommandError::Failed(format!("failed: {}", failed.join(", "))))
    }
}

fn benches(packages: &[Package]) -> Vec<(String, String)> {
    let members = packages.iter().filter(|package| package.member);
    let mut benches: Vec<_> = members
        .flat_map(|package| package.benches.iter().map(|bench| (package.name.clone(), bench.clone())))
        .collect();
    benches.sort();
    benches
}

fn choose<'a>(known: &'a [(String, String)], names: &[&str]) -> Result<Vec<&'a (String, String)>, String> {
    let fits = |(package, bench): &(String, String), name: &str| {
        bench == name || package == name || package.strip_prefix("cadran-") == Some(name)
    };
    for name in names {
        if !known.iter().any(|pair| fits(pair, name)) {
            let all: Vec<String> =
                known.iter().map(|(package, bench)| format!("{bench} ({package})")).collect();
            return Err(format!("bench: there is no benchmark {name}; there are: {}", all.join(", ")));
        }
    }
    Ok(known.iter().filter(|pair| names.is_empty() || names.iter().any(|name| fits(pair, name))).collect())
}

/// Shows a program's output and keeps it in a file.
fn tee(command: &mut Command, path: &Path) -> Result<(), String> {
    let shown = shown(command);
    eprintln!("$ {shown}");
    let mut file = File::create(path).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(|error| format!("{shown}: {error}"))?;
    for line in child.stdout.take().map(BufReader::new).into_iter().flat_map(BufRead::lines) {
        let line = line.map_err(|error| format!("{shown}: {error}"))?;
        println!("{line}");
        writeln!(file, "{line}").map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    match child.wait() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{shown}: {status}")),
        Err(error) => Err(format!("{shown}: {error}")),
    }
}

fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn benchmarks_are_chosen_by_their_name_or_their_package() {
        let pair = |package: &str, bench: &str| (package.to_string(), bench.to_string());
        let known =
            [pair("cadran-plan", "index"), pair("cadran-plan", "ring"), pair("cadran-store", "commit")];
        let check = |names: &[&str], expected: Option<&[&str]>| {
            let chosen = choose(&known, names).ok();
            let chosen =
                chosen.map(|pairs| pairs.iter().map(|(_, bench)| bench.as_str()).collect::<Vec<_>>());
            assert_eq!(chosen.as_deref(), expected, "{names:?}");
        };
        check(&[], Some(&["index", "ring", "commit"]));
        check(&["ring"], Some(&["ring"]));
        check(&["plan"], Some(&["index", "ring"]));
        check(&["cadran-store", "index"], Some(&["index", "commit"]));
        check(&["nothing"], None);
    }
}
