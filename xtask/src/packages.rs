use serde_json::Value;

use crate::program::{program, read};

/// What `cargo metadata` says about the packages, as far as the checks ask.
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    /// As an SPDX expression; `None` without one.
    pub(crate) licence: Option<String>,
    /// Whether it is ours.
    pub(crate) member: bool,
    /// Names of direct dependencies, with whether only tests use them.
    pub(crate) dependencies: Vec<Dependency>,
    /// Names of its benchmarks.
    pub(crate) benches: Vec<String>,
}

pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) dev: bool,
}

pub(crate) fn all() -> Result<Vec<Package>, String> {
    let text = read(&mut program("cargo metadata --locked --format-version 1"))?;
    parse(&text)
}

/// What a build of one of our packages alone takes in, with its own features and without what only tests use:
/// (name, version), itself among them.
///
/// `cargo metadata` cannot tell: it shows features that other members switch on, and optional dependencies that
/// nobody does.
pub(crate) fn built_with(package: &str) -> Result<Vec<(String, String)>, String> {
    let mut tree = program("cargo tree --locked --edges normal,build --prefix none --format");
    read(tree.arg("{p}").args(["--package", package])).map(|text| parse_tree(&text))
}

fn parse_tree(text: &str) -> Vec<(String, String)> {
    let pair = |line: &str| {
        let mut words = line.split_whitespace();
        Some((words.next()?.to_string(), words.next()?.trim_start_matches('v').to_string()))
    };
    let mut pairs: Vec<_> = text.lines().filter_map(pair).collect();
    pairs.sort();
    pairs.dedup();
    pairs
}

fn parse(text: &str) -> Result<Vec<Package>, String> {
    let metadata: Value = serde_json::from_str(text).map_err(|error| format!("cargo metadata: {error}"))?;
    let members: Vec<&str> = list(&metadata["workspace_members"]).filter_map(Value::as_str).collect();
    let string = |value: &Value| value.as_str().unwrap_or_default().to_string();
    let package = |value: &Value| Package {
        name: string(&value["name"]),
        version: string(&value["version"]),
        licence: value["license"].as_str().map(Into::into),
        member: value["id"].as_str().is_some_and(|id| members.contains(&id)),
        dependencies: list(&value["dependencies"])
            .map(|value| Dependency { name: string(&value["name"]), dev: value["kind"] == "dev" })
            .collect(),
        benches: list(&value["targets"])
            .filter(|target| list(&target["kind"]).any(|kind| kind == "bench"))
            .map(|target| string(&target["name"]))
            .collect(),
    };
    let packages: Vec<Package> = list(&metadata["packages"]).map(package).collect();
    if packages.is_empty() { Err("cargo metadata: no packages".into()) } else { Ok(packages) }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_read() {
        let text = r#"{"workspace_members": ["path+a"], "packages": [
            {"id": "path+a", "name": "a", "version": "0.1.0", "license": null,
             "dependencies": [{"name": "b", "kind": null}, {"name": "c", "kind": "dev"}],
             "targets": [{"kind": ["lib"], "name": "a"}, {"kind": ["bench"], "name": "speed"}]},
            {"id": "registry+b", "name": "b", "version": "2.0.0", "license": "MIT", "dependencies": [], "targets": []}
        ]}"#;
        let packages = parse(text).unwrap();
        let [a, b] = &packages[..] else { panic!("{} packages", packages.len()) };
        assert!(a.member && !b.member);
        assert_eq!(a.benches, ["speed"]);
        let dependencies: Vec<_> = a.dependencies.iter().map(|on| (on.name.as_str(), on.dev)).collect();
        assert_eq!(dependencies, [("b", false), ("c", true)]);
        assert_eq!((a.licence.as_deref(), b.licence.as_deref()), (None, Some("MIT")));
        assert!(parse("{}").is_err());
        assert!(parse("nonsense").is_err());
    }

    #[test]
    fn trees_are_read() {
        let pairs = parse_tree("a v0.1.0 (/x)\nb v1.2.3\nb v1.2.3 (*)\n\n");
        let pairs: Vec<_> = pairs.iter().map(|(name, version)| (name.as_str(), version.as_str())).collect();
        assert_eq!(pairs, [("a", "0.1.0"), ("b", "1.2.3")]);
    }
}
