//! Everything that goes into the binary is under a licence of the list in `deny.toml`.
//!
//! `cargo deny` checks more and takes minutes to build; this is the part of it that must hold on every machine.

use std::collections::BTreeSet;

use crate::packages::{self, Package};

pub(crate) fn check(packages: &[Package], deny_toml: &str) -> Result<Vec<String>, String> {
    let allowed = allow_list(deny_toml);
    if allowed.is_empty() {
        return Err("deny.toml has no list `allow = [...]` of licences".into());
    }
    let mut problems = Vec::new();
    let built: BTreeSet<(String, String)> = packages::built_with("cadran")?.into_iter().collect();
    for package in packages {
        if package.member || !built.contains(&(package.name.clone(), package.version.clone())) {
            continue;
        }
        problems.extend(problem(package, &allowed));
    }
    Ok(problems)
}

fn problem(package: &Package, allowed: &[&str]) -> Option<String> {
    let name = &package.name;
    match &package.licence {
        None => Some(format!("{name} {} names no licence", package.version)),
        Some(licence) if is_allowed(licence, allowed) => None,
        Some(licence) => {
            Some(format!("{name} {} is under {licence}, which deny.toml does not allow", package.version))
        }
    }
}

/// The licences named between `allow = [` and `]` of the `[licenses]` table.
fn allow_list(deny_toml: &str) -> Vec<&str> {
    let Some((_, table)) = deny_toml.split_once("[licenses]") else {
        return Vec::new();
    };
    let Some((_, list)) = table.split_once("allow = [") else {
        return Vec::new();
    };
    let list = list.split_once(']').map_or(list, |(list, _)| list);
    list.split('"').skip(1).step_by(2).collect()
}

/// Whether an SPDX expression can be met with allowed licences. `/` is how older crates wrote `OR`; `AND` binds
/// closer than `OR`; an exception (`WITH`) only gives more, so the licence before it decides, unless the pair is
/// listed.
fn is_allowed(expression: &str, allowed: &[&str]) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = &words[..];
    let met = any_of(&mut rest, allowed, 0);
    met && rest.is_empty()
}

/// Brackets in brackets: nobody writes more, and the reader is recursive.
const DEPTH_MAX: u32 = 8;

fn any_of(words: &mut &[&str], allowed: &[&str], depth: u32) -> bool {
    let mut met = all_of(words, allowed, depth);
    while let ["OR", rest @ ..] = words {
        *words = rest;
        met |= all_of(words, allowed, depth);
    }
    met
}

fn all_of(words: &mut &[&str], allowed: &[&str], depth: u32) -> bool {
    let mut met = one(words, allowed, depth);
    while let ["AND", rest @ ..] = words {
        *words = rest;
        met &= one(words, allowed, depth);
    }
    met
}

fn one(words: &mut &[&str], allowed: &[&str], depth: u32) -> bool {
    match words {
        ["(", rest @ ..] if depth < DEPTH_MAX => {
            *words = rest;
            let met = any_of(words, allowed, depth + 1);
            match words {
                [")", rest @ ..] => {
                    *words = rest;
                    met
                }
                _ => false,
            }
        }
        [licence, "WITH", _, rest @ ..] | [licence, rest @ ..]
            if !["(", ")", "OR", "AND"].contains(licence) =>
        {
            let met = allowed.contains(licence);
            *words = rest;
            met
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_met() {
        let allowed = ["MIT", "Apache-2.0", "Unicode-3.0"];
        let check =
            |expression, expected| assert_eq!(is_allowed(expression, &allowed), expected, "{expression}");
        check("MIT", true);
        check("MIT OR GPL-3.0", true);
        check("MIT/Apache-2.0", true);
        check("GPL-3.0 / MIT", true);
        check("MIT AND GPL-3.0", false);
        check("GPL-3.0 OR MIT AND GPL-3.0", false);
        check("(MIT OR GPL-3.0) AND Unicode-3.0", true);
        check("(MIT OR Apache-2.0) AND OpenSSL", false);
        check("Apache-2.0 WITH LLVM-exception OR GPL-3.0", true);
        check("GPL-2.0 WITH Classpath-exception", false);
        check("GPL-3.0", false);
        check("", false);
        check("(MIT", false);
        check("MIT)", false);
        check("MIT OR", true); // Sloppy, but clear enough.
        check(&"(".repeat(100_000), false);
    }

    #[test]
    fn the_list_is_found_in_its_table() {
        let text =
            "[bans]\nallow = [\"x\"]\n[licenses]\n# why\nallow = [\n  \"MIT\",\n  \"ISC\", # both\n]\n";
        assert_eq!(allow_list(text), ["MIT", "ISC"]);
        assert!(allow_list("[bans]\nallow = [\"x\"]\n").is_empty());
    }
}
