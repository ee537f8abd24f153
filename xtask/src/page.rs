//! `cargo xtask page`: builds the page that is embedded in the server, and tests it in a browser.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::CommandError;
use crate::program::{is_there, program, read, run as run_program};

const SOURCE: &str = "crates/http/page";
const BUILT: &str = "crates/http/page/dist";

/// Packages whose code is in the script that is sent, with their licence files.
const BUNDLED: [&str; 3] = ["preact", "@preact/signals", "@preact/signals-core"];

/// Prints the path of Chromium. It installs Debian's package when it is missing.
const CHROMIUM_SCRIPT: &str = "scripts/chromium.sh";

/// The page's tests are left out when this is set.
pub(crate) const SKIP_PAGE: &str = "CADRAN_SKIP_PAGE";

/// What the page is measured beside.
const DAGU: &str = "@dagu-org/dagu-linux-x64@1.30.2";

/// `cargo xtask page`, with `--check`, `--test`, `--pictures` or `--bench`.
pub(crate) fn run(arguments: &[String]) -> Result<(), CommandError> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        [] => build(),
        ["--check"] => check(),
        ["--test"] => test(),
        ["--pictures"] => node("debug", &["test/pictures.mjs", "../../../docs"], &[]),
        ["--bench"] => bench(),
        _ => return Err(CommandError::Usage(format!("page: what is {} for?", words.join(" ")))),
    };
    done.map_err(CommandError::Failed)
}

/// Writes `dist` from the source, and the types of the API before it.
fn build() -> Result<(), String> {
    install()?;
    let types = program("cargo test -q -p cadran-http --test api the_pages_types_follow_the_document")
        .env("CADRAN_WRITE_PAGE_TYPES", "1")
        .status();
    if !types.is_ok_and(|status| status.success()) {
        return Err("the types of the API could not be written".into());
    }
    bundle(Path::new(BUILT))
}

/// Whether `dist` is what the source gives.
pub(crate) fn check() -> Result<(), String> {
    install()?;
    let made = Path::new("target/page-check");
    let _ = fs::remove_dir_all(made);
    bundle(made)?;
    let names = |dir: &Path| -> Result<Vec<String>, String> {
        let entries = fs::read_dir(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        let mut names: Vec<String> =
            entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        Ok(names)
    };
    let differs =
        |name: &String| fs::read(made.join(name)).ok() != fs::read(Path::new(BUILT).join(name)).ok();
    let kept = names(Path::new(BUILT))?;
    let made_names = names(made)?;
    let changed: Vec<&String> = made_names.iter().filter(|name| differs(name)).collect();
    if kept != made_names || !changed.is_empty() {
        return Err(format!("{BUILT} is not what its source gives ({changed:?}); run `cargo xtask page`"));
    }
    Ok(())
}

/// The page in a real browser against a real server. One file after the other: each starts a server and a browser.
pub(crate) fn test() -> Result<(), String> {
    let mut arguments = vec!["--test", "--test-reporter=spec", "--test-concurrency=1"];
    arguments.extend([
        "test/page.test.mjs",
        "test/states.test.mjs",
        "test/scale.test.mjs",
        "test/truth.test.mjs",
    ]);
    node("debug", &arguments, &[])
}

/// The page beside Dagu's, in the same browser. The server is built as it is released.
fn bench() -> Result<(), String> {
    let folder = std::env::current_dir().map_err(|error| error.to_string())?.join("target/dagu");
    let mut npm = program("npm install --ignore-scripts --no-audit --no-fund --loglevel=error --prefix");
    run_program(npm.arg(&folder).arg(DAGU))?;
    node("release", &["test/bench.mjs"], &[("CADRAN_DAGU", &folder)])
}

/// Runs a script of the page's tests with a built server and Chromium.
fn node(profile: &str, arguments: &[&str], variables: &[(&str, &Path)]) -> Result<(), String> {
    install()?;
    let mut cargo = program("cargo build --locked -p cadran");
    if profile == "release" {
        cargo.arg("--release");
    }
    run_program(&mut cargo)?;
    let chromium = read(&mut program(CHROMIUM_SCRIPT))?;
    let folder = std::env::current_dir().map_err(|error| error.to_string())?.join("target");
    let binary = folder.join(profile).join("cadran");
    let mut script = Command::new("node");
    script.args(arguments).env("CADRAN_CHROMIUM", chromium.trim()).env("CADRAN_BINARY", binary);
    script.envs(variables.iter().copied());
    run_program(script.current_dir(SOURCE))
}

/// The tools in the versions of the lock file, with their hashes checked. Their own scripts are not run.
fn install() -> Result<(), String> {
    if !is_there("npm --version") {
        return Err(
            "the page is built with npm, which is not here; the built page is in the repository".into()
        );
    }
    let lock = fs::read_to_string(Path::new(SOURCE).join("package-lock.json")).unwrap_or_default();
    let mark = Path::new(SOURCE).join("node_modules/.installed");
    if fs::read_to_string(&mark).is_ok_and(|installed| installed == lock) {
        return Ok(());
    }
    let mut npm = program("npm ci --ignore-scripts --no-audit --no-fund --loglevel=error");
    run_program(npm.current_dir(SOURCE))?;
    fs::write(&mark, lock).map_err(|error| format!("{}: {error}", mark.display()))
}

fn bundle(to: &Path) -> Result<(), String> {
    let io = |error: std::io::Error| format!("{}: {error}", to.display());
    fs::create_dir_all(to).map_err(io)?;
    let source = Path::new(SOURCE);
    run_program(program("node_modules/.bin/tsc --project tsconfig.json").current_dir(source))?;
    let whole = std::path::absolute(to).map_err(io)?;
    for (entry, name) in [("src/app.tsx", "app.js"), ("src/app.css", "app.css")] {
        let mut esbuild = program(
            "node_modules/.bin/esbuild --bundle --minify --target=es2022,chrome123,firefox120,safari17.5",
        );
        esbuild.args([
            "--format=esm",
            "--jsx=automatic",
            "--jsx-import-source=preact",
            "--legal-comments=none",
        ]);
        esbuild.args(["--log-level=warning", entry]).arg(format!("--outfile={}", whole.join(name).display()));
        run_program(esbuild.current_dir(source))?;
    }
    for name in ["index.html", "icon.svg"] {
        fs::copy(source.join("src").join(name), to.join(name)).map_err(io)?;
    }
    let mut licences = String::from("The page contains code of these packages.\n");
    for package in BUNDLED {
        let path = source.join("node_modules").join(package).join("LICENSE");
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        if !text.contains("MIT License") {
            return Err(format!("{package} is not under the MIT licence any more"));
        }
        licences.push_str(&format!("\n{package}\n\n{}\n", text.trim()));
    }
    fs::write(to.join("LICENSES.txt"), licences).map_err(io)
}
