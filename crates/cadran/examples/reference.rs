//! Everything that Cadran documents, taken from the code that does it: keys of files, commands and options, endpoints,
//! metrics and skip reasons; and the pages of `docs` that are made from them.
//!
//! Prints one JSON object for `cargo xtask check` and `cargo xtask docs`: `names` are what tests have to cover,
//! `documents` are pages by path, `keys` are the keys that `docs/job-files.md` and `docs/fuzzing.md` have to mention.

use std::fmt::Write as _;

use cadran::cli::Cli;
use cadran::server::executors::render_counts;
use cadran::server::metrics::Metrics;
use cadran_core::SkipReason;
use clap::builder::StyledStr;
use clap::{Arg, ArgAction, Command, CommandFactory};
use serde_json::{Map, Value, json};

fn main() {
    let mut names = Vec::new();
    let (job_keys, fuzz_keys) = (keys(&mut names), fuzz_keys(&mut names));
    let documents = json!({
        "docs/commands.md": commands(&mut names),
        "docs/api.md": endpoints(&mut names),
        "docs/metrics.md": metrics(&mut names),
        "docs/skip-reasons.md": reasons(&mut names),
    });
    let keys = json!({ "docs/job-files.md": job_keys, "docs/fuzzing.md": fuzz_keys });
    println!("{}", json!({ "names": names, "documents": documents, "keys": keys }));
}

/// Every spelling of every key of job files, `resources.yaml` and `executors.yaml`.
fn keys(names: &mut Vec<String>) -> Vec<&'static str> {
    let mut found = Vec::new();
    for (section, key) in cadran_spec::keys() {
        for name in key.spellings() {
            names.push(format!("key {section}.{name}"));
            found.push(name);
        }
    }
    found
}

/// The keys of `fuzz.yaml`.
fn fuzz_keys(names: &mut Vec<String>) -> Vec<&'static str> {
    let mut found = Vec::new();
    for (section, shape) in cadran_fuzz::CONFIG_SHAPES {
        for key in shape.keys {
            names.push(format!("key {section}.{}", key.name()));
            found.push(key.name());
        }
    }
    found
}

const MADE: &str = "<!-- Made by `cargo xtask docs` from the code; `cargo xtask check` compares. -->\n";

fn commands(names: &mut Vec<String>) -> String {
    let mut cli = Cli::command();
    cli.build();
    let mut text = format!("{MADE}\n# Commands\n\n`cadran COMMAND --help` says the same.\n");
    command(&cli, "", names, &mut text);
    text
}

fn command(command: &Command, above: &str, names: &mut Vec<String>, text: &mut String) {
    let path = format!("{above} {}", command.get_name()).trim().to_owned();
    let known = path.strip_prefix("cadran").unwrap_or_default().trim();
    let about = command.get_long_about().or(command.get_about());
    let _ = write!(text, "\n## {path}\n\n{}\n", plain(about));
    if !known.is_empty() {
        names.push(format!("command {known}"));
    }
    let arguments: Vec<&Arg> = command.get_arguments().filter(|arg| is_documented(arg, above)).collect();
    if !arguments.is_empty() {
        text.push_str("\n| option | meaning |\n|---|---|\n");
    }
    for arg in arguments {
        names.push(format!("option {known} {}", name_of(arg)).replace("  ", " "));
        let _ = writeln!(text, "| {} | {} |", spelled(arg), meaning(arg));
    }
    for after in command.get_after_long_help().or(command.get_after_help()).into_iter() {
        let _ = write!(text, "\n```text\n{}\n```\n", after.to_string().trim_end());
    }
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set() && inner.get_name() != "help")
    {
        self::command(inner, &path, names, text);
    }
}

/// Help and version are clap's own, and stand at the top once.
fn is_documented(arg: &Arg, above: &str) -> bool {
    let of_clap = matches!(arg.get_id().as_str(), "help" | "version");
    !arg.is_hide_set() && (!of_clap || above.is_empty())
}

fn name_of(arg: &Arg) -> String {
    match arg.get_long() {
        Some(long) => format!("--{long}"),
        None => value_of(arg),
    }
}

fn value_of(arg: &Arg) -> String {
    let names = arg.get_value_names().unwrap_or_default();
    names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(" ")
}

fn spelled(arg: &Arg) -> String {
    if arg.is_positional() {
        return format!("`{}`", value_of(arg));
    }
    let short = arg.get_short().map(|short| format!("-{short}, ")).unwrap_or_default();
    let takes_value = matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
    let value = if takes_value { format!(" {}", value_of(arg)) } else { String::new() };
    format!("`{short}{}{value}`", name_of(arg)).replace('|', "\\|")
}

fn meaning(arg: &Arg) -> String {
    let mut text = plain(arg.get_long_help().or(arg.get_help())).replace('\n', " ");
    let home = std::env::var("HOME").unwrap_or_else(|_| "~".into());
    let defaults: Vec<String> =
        arg.get_default_values().iter().map(|value| value.to_string_lossy().replace(&home, "~")).collect();
    let takes_value = matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
    if takes_value && !defaults.is_empty() {
        let _ = write!(text, " (default: `{}`)", defaults.join(" "));
    }
    if let Some(variable) = arg.get_env() {
        let _ = write!(text, " (environment: `{}`)", variable.to_string_lossy());
    }
    text.replace('|', "\\|")
}

fn plain(text: Option<&StyledStr>) -> String {
    text.map(StyledStr::to_string).unwrap_or_default().trim().to_owned()
}

fn endpoints(names: &mut Vec<String>) -> String {
    let document: Value = serde_json::from_str(&cadran_http::openapi()).unwrap_or_default();
    let mut text = format!(
        "{MADE}\n# API\n\n{}\n\nThe whole description, with every field, is the OpenAPI document at `/api/v1/openapi.json`.\n\n\
         | endpoint | what it does | parameters |\n|---|---|---|\n",
        document["info"]["description"].as_str().unwrap_or_default()
    );
    let none = Map::new();
    for (path, methods) in document["paths"].as_object().unwrap_or(&none) {
        for (method, operation) in methods.as_object().unwrap_or(&none) {
            let name = format!("{} {path}", method.to_uppercase());
            let said = ["summary", "description"].iter().find_map(|key| operation[*key].as_str());
            let fields = operation["parameters"].as_array().cloned().unwrap_or_default();
            let queries = fields.iter().filter(|field| field["in"] == "query");
            let queries: Vec<String> =
                queries.map(|field| format!("`{}`", field["name"].as_str().unwrap_or_default())).collect();
            let said = said.unwrap_or_default().replace('\n', " ").replace('|', "\\|");
            let _ = writeln!(text, "| `{name}` | {said} | {} |", queries.join(", "));
            names.push(format!("endpoint {name}"));
        }
    }
    text
}

fn metrics(names: &mut Vec<String>) -> String {
    let mut rendered = Metrics::new().1.render();
    rendered.push_str(&render_counts(&Default::default(), &Default::default(), &Default::default()));
    let mut text = format!(
        "{MADE}\n# Metrics\n\n`GET /metrics` answers in Prometheus' text format. Those of executors are there once the \
         server hears executors.\n\n| metric | kind | meaning |\n|---|---|---|\n"
    );
    let described = |word: &'static str| {
        rendered
            .lines()
            .filter_map(move |line| line.strip_prefix(word))
            .filter_map(|rest| rest.split_once(' '))
    };
    // The recorder keeps them in a hash table.
    let kinds: std::collections::BTreeMap<&str, &str> = described("# TYPE ").collect();
    for (name, kind) in kinds {
        let help = described("# HELP ").find(|(known, _)| *known == name).map_or("", |(_, help)| help);
        let _ = writeln!(text, "| `{name}` | {kind} | {help} |");
        names.push(format!("metric {name}"));
    }
    text
}

fn reasons(names: &mut Vec<String>) -> String {
    let mut text = format!(
        "{MADE}\n# Skip reasons\n\nEvery due that does not become a started run has one of these on record; \
         `cadran history` and the API show it, and the metric `cadran_dues_skipped_total` counts by it.\n\n\
         | reason | meaning |\n|---|---|\n"
    );
    for (reason, word) in SkipReason::WORDS {
        let _ = writeln!(text, "| `{word}` | {} |", reason.sentence());
        names.push(format!("reason {word}"));
    }
    text
}
