//! Checks on the text of the repository's files.

use crate::files::File;

/// Above this a file probably holds a second idea. Tables of cases may be long, so it only warns.
const LINES_MAX: usize = 700;

/// A second `clippy.toml` would silently replace the first for everything below it.
pub(crate) fn one_clippy_toml(files: &[File]) -> Vec<String> {
    let is_clippy = |file: &&File| {
        let name = file.path.rsplit('/').next().unwrap_or_default();
        name == "clippy.toml" || name == ".clippy.toml"
    };
    let found: Vec<&str> = files.iter().filter(is_clippy).map(|file| file.path.as_str()).collect();
    if found == ["clippy.toml"] {
        vec![]
    } else {
        vec![format!("one clippy.toml is wanted, at the root; found {found:?}")]
    }
}

pub(crate) fn long_files(files: &[File]) -> Vec<String> {
    let long = |file: &File| {
        let lines = file.text.as_ref()?.lines().count();
        let is_code = file.path.ends_with(".rs");
        (is_code && lines > LINES_MAX)
            .then(|| format!("{}: {lines} lines; is there a second idea in it?", file.path))
    };
    files.iter().filter_map(long).collect()
}

/// Paths of one machine: they work nowhere else, and tell whose it was.
///
/// `own` are places of this machine (the home directory, the checkout) that are looked for besides the usual homes.
pub(crate) fn home_paths(files: &[File], own: &[String]) -> Vec<String> {
    find(files, |line| {
        let own = own.iter().find(|place| holds_path(line, place)).cloned();
        own.or_else(|| holds_path(line, concat!("/ro", "ot/")).then(|| concat!("/ro", "ot/").into()))
            .or_else(|| somebodys_home(line))
    })
}

/// Host names of package registries and mirrors: a checkout must build wherever it is, by the defaults of its tools.
pub(crate) fn registry_hosts(files: &[File]) -> Vec<String> {
    const HOSTS: [&str; 9] = [
        concat!("index.crates", ".io"),
        concat!("static.crates", ".io"),
        concat!("registry.npmjs", ".org"),
        concat!("registry.yarnpkg", ".com"),
        concat!("files.python", "hosted.org"),
        concat!("pypi", ".org/simple"),
        concat!("proxy.golang", ".org"),
        concat!("deb.debian", ".org"),
        concat!("artifact", "ory"),
    ];
    let mut problems =
        find(files, |line| HOSTS.iter().find(|host| line.contains(**host)).map(|host| host.to_string()));
    let lock = files.iter().find(|file| file.path == "Cargo.lock").and_then(|file| file.text.as_deref());
    for line in lock.unwrap_or_default().lines() {
        let default = concat!("registry+https://github.com/rust-lang/crates", ".io-index");
        if let Some(source) = line.strip_prefix("source = ")
            && source.trim_matches('"') != default
        {
            problems.push(format!("Cargo.lock: {source} is not the default registry"));
        }
    }
    problems
}

/// The test command stands in the README and in `.ci/run`, the same in both.
pub(crate) fn ci_runs_the_readme(files: &[File], is_executable: bool) -> Vec<String> {
    let text = |path: &str| files.iter().find(|file| file.path == path).and_then(|file| file.text.as_deref());
    let Some(ci) = text(".ci/run") else {
        return vec![".ci/run is missing".into()];
    };
    let mut problems = Vec::new();
    if !is_executable {
        problems.push(".ci/run is not executable: chmod +x .ci/run".into());
    }
    let command = ci.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
    let command = command.strip_prefix("exec ").unwrap_or(command);
    match text("README.md") {
        None => problems.push("README.md is missing".into()),
        Some(readme) if !readme.lines().any(|line| line.trim() == command) => {
            problems
                .push(format!("README.md does not have the test command of .ci/run on a line: {command}"));
        }
        Some(_) => {}
    }
    problems
}

fn find(files: &[File], mut wrong: impl FnMut(&str) -> Option<String>) -> Vec<String> {
    let mut problems = Vec::new();
    for file in files {
        for (at, line) in file.text.iter().flat_map(|text| text.lines()).enumerate() {
            if let Some(what) = wrong(line) {
                problems.push(format!("{}:{}: {what}", file.path, at + 1));
            }
        }
    }
    problems
}

/// Whether `line` holds `place` as a path or the beginning of one, not as a piece of a longer name.
fn holds_path(line: &str, place: &str) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | '}');
    line.match_indices(place).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + place.len()..].chars().next();
        let ends = place.ends_with('/') || !after.is_some_and(|c| is_name(c) && c != '/');
        ends && !before.is_some_and(is_name)
    })
}

/// Homes of people that examples and tests make up.
const NOBODY: [&str; 5] = ["me", "user", "you", "someone", "cadran"];

fn somebodys_home(line: &str) -> Option<String> {
    for homes in [concat!("/ho", "me/"), concat!("/Us", "ers/")] {
        for (at, _) in line.match_indices(homes) {
            let before = line[..at].chars().next_back();
            let is_path =
                !before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '/' | '}'));
            let rest = &line[at + homes.len()..];
            let name =
                rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-').next().unwrap_or("");
            if is_path && !name.is_empty() && !NOBODY.contains(&name) {
                return Some(format!("{homes}{name}"));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(list: &[(&str, &str)]) -> Vec<File> {
        list.iter()
            .map(|(path, text)| File { path: path.to_string(), text: Some(text.to_string()) })
            .collect()
    }

    #[test]
    fn one_clippy_toml_at_the_root() {
        let check = |paths: &[&str], well: bool| {
            let list: Vec<(&str, &str)> = paths.iter().map(|path| (*path, "")).collect();
            assert_eq!(one_clippy_toml(&files(&list)).is_empty(), well, "{paths:?}");
        };
        check(&["clippy.toml", "crates/a/Cargo.toml"], true);
        check(&["clippy.toml", "crates/a/clippy.toml"], false);
        check(&["clippy.toml", "crates/a/.clippy.toml"], false);
        check(&["crates/a/clippy.toml"], false);
        check(&[], false);
    }

    #[test]
    fn long_code_is_named_and_long_tables_are_not() {
        let long = "x\n".repeat(LINES_MAX + 1);
        let list = files(&[("a.rs", &long), ("a.csv", &long), ("b.rs", "x")]);
        assert_eq!(long_files(&list), ["a.rs: 701 lines; is there a second idea in it?"]);
    }

    #[test]
    fn home_paths_are_found() {
        let root = concat!("/ro", "ot");
        let home = concat!("/ho", "me");
        let check = |line: &str, well: bool| {
            let found = home_paths(&files(&[("a.md", line)]), &["/work/tree".into()]);
            assert_eq!(found.is_empty(), well, "{line}: {found:?}");
        };
        check(&format!("cd {root}/cadran"), false);
        check(&format!("the {root} of all"), true);
        check(&format!("crates{root}/x"), true);
        check(&format!("\"{home}/jane/x\""), false);
        check(&format!("{home}/me/x"), true);
        check(&format!("{home}/$USER/x"), true);
        check(&format!("/data{home}/jane"), true);
        check(concat!("/Us", "ers/jane/x"), false);
        check("cd /work/tree", false);
        check("cd /work/tree/crates", false);
        check("cd /work/trees", true);
        check("cd /my/work/tree", true);
    }

    #[test]
    fn registry_hosts_are_found() {
        let check = |path: &str, line: &str, well: bool| {
            assert_eq!(registry_hosts(&files(&[(path, line)])).is_empty(), well, "{line}");
        };
        check("a.md", concat!("see https://crates", ".io/crates/jiff"), true);
        check("package-lock.json", concat!("\"resolved\": \"https://registry.npmjs", ".org/x.tgz\""), false);
        check("a.toml", concat!("index = \"https://my.artifact", "ory.example\""), false);
        check(
            "Cargo.lock",
            concat!("source = \"registry+https://github.com/rust-lang/crates", ".io-index\""),
            true,
        );
        check("Cargo.lock", "source = \"registry+https://mirror.example/index\"", false);
    }

    #[test]
    fn ci_and_readme_agree() {
        let check = |ci: &str, readme: &str, executable: bool, problems: usize| {
            let list = files(&[(".ci/run", ci), ("README.md", readme)]);
            assert_eq!(ci_runs_the_readme(&list, executable).len(), problems, "{ci} {readme}");
        };
        check("#!/bin/bash\necho hi\nexec cargo xtask test\n", "```sh\ncargo xtask test\n```", true, 0);
        check("cargo xtask test", "    cargo xtask test", true, 0);
        check("cargo xtask test", "cargo xtask test --quick", true, 1);
        check("cargo xtask test", "cargo xtask test", false, 1);
        assert_eq!(ci_runs_the_readme(&[], true).len(), 1);
    }
}
