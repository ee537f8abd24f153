use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use cadran_core::{Body, RunContext, Start, Step};

use crate::journal::ATTEMPTS_MAX;
use crate::json_path;
use crate::sweep::MARK;

/// What a process of an attempt sees: its variables and its positional arguments.
#[derive(Clone, Debug, Default)]
pub(crate) struct Environment {
    vars: BTreeMap<String, String>,
    positional: Vec<String>,
    /// Which parts of a variable's value do not come from the job file. A variable without an entry is the file's own.
    foreign: BTreeMap<String, Vec<Foreign>>,
}

/// A part of a value that whoever triggered the run, or an earlier step, has chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Foreign {
    at: Range<usize>,
    /// As in "the parameter day".
    source: String,
}

/// More positional parameters than a person gives; a position is a number from outside and sizes a list.
const POSITIONAL_MAX: usize = 256;

impl Environment {
    /// Later ones win: base, job, parameters, step, outputs, what Cadran tells about the run.
    pub(crate) fn of(start: &Start, step: &Step, base: &[(String, String)]) -> Result<Environment, String> {
        let RunContext { body, params, .. } = &*start.context;
        let (named, positional) = parameters(body, params, base)?;
        let mut env = Environment { vars: BTreeMap::new(), positional, foreign: BTreeMap::new() };
        env.vars.extend(base.iter().filter(|(name, _)| !name.starts_with("CADRAN_")).cloned());
        for (at, value) in env.positional.iter().enumerate() {
            env.vars.insert(format!("CADRAN_PARAM_{}", at + 1), value.clone());
        }
        // Parameters come before and after the job's variables: before, so that those may use them; after, so that
        // a value given with the trigger wins over one of the same name in the file.
        env.put_params(&named, body, params);
        for (name, value) in &body.env {
            env.set_expanded(name, value)?;
        }
        env.put_params(&named, body, params);
        env.put_outputs(start)?;
        for (name, value) in &step.env {
            env.set_expanded(name, value)?;
        }
        // Outputs again: the step's own variables may use them, and do not hide them.
        env.put_outputs(start)?;
        env.tell(start, step);
        Ok(env)
    }

    /// Named and positional parameters. A value that the file itself gives as the default is the file's own.
    fn put_params(&mut self, named: &[(String, String)], body: &Body, given: &[(Box<str>, Box<str>)]) {
        let default_of = |name: &str| body.params.iter().find(|param| param.name.as_deref() == Some(name));
        for (name, value) in named {
            let is_given = given.iter().any(|(known, _)| **known == **name);
            let is_default = default_of(name).is_some_and(|param| param.default == *value);
            self.mark_foreign(name, value, is_given && !is_default, "parameter");
            self.vars.insert(name.clone(), value.clone());
        }
        let defaults: Vec<&str> = body
            .params
            .iter()
            .filter(|param| param.name.is_none())
            .map(|param| param.default.as_str())
            .collect();
        for (at, value) in self.positional.clone().iter().enumerate() {
            let is_default = defaults.get(at) == Some(&value.as_str());
            let position = (at + 1).to_string();
            self.mark_foreign(&position, value, !is_default, "parameter");
            self.mark_foreign(&format!("CADRAN_PARAM_{position}"), value, !is_default, "parameter");
        }
    }

    fn put_outputs(&mut self, start: &Start) -> Result<(), String> {
        for (name, value) in start.outputs.iter() {
            self.set(name, value.to_string())?;
            self.mark_foreign(name, value, true, "output");
        }
        Ok(())
    }

    fn mark_foreign(&mut self, name: &str, value: &str, is_foreign: bool, what: &str) {
        if is_foreign {
            let foreign = Foreign { at: 0..value.len(), source: format!("the {what} {name}") };
            self.foreign.insert(name.to_owned(), vec![foreign]);
        } else {
            self.foreign.remove(name);
        }
    }

    fn set_expanded(&mut self, name: &str, text: &str) -> Result<(), String> {
        let (value, foreign) = self.expand_traced(text)?;
        self.set(name, value)?;
        if foreign.is_empty() {
            self.foreign.remove(name);
        } else {
            self.foreign.insert(name.to_owned(), foreign);
        }
        Ok(())
    }

    fn tell(&mut self, start: &Start, step: &Step) {
        let context = &*start.context;
        let run = start.run.to_string();
        let due = cadran_core::instant_text(context.due);
        for (name, value) in [
            ("CADRAN_JOB", context.job_name.as_str()),
            ("CADRAN_RUN_ID", &run),
            ("CADRAN_ATTEMPT", &(start.attempt % ATTEMPTS_MAX).to_string()),
            ("CADRAN_DUE", &due),
            ("CADRAN_TRIGGER", context.trigger.word()),
            ("CADRAN_SHARD_INDEX", &context.shard_index.to_string()),
            ("CADRAN_SHARD_TOTAL", &context.shard_total.to_string()),
            ("CADRAN_STEP", &step.name),
            ("DAG_NAME", context.job_name.as_str()),
            ("DAG_RUN_ID", &run),
            ("DAG_RUN_STEP_NAME", &step.name),
        ] {
            self.put(name, value.into());
        }
        if let Some(status) = self.vars.get("CADRAN_RUN_STATUS") {
            let status = if status == "stopped" { "aborted" } else { status.as_str() }.to_owned();
            self.put("DAG_RUN_STATUS", status);
        }
    }

    /// Sets a variable that Cadran itself makes.
    pub(crate) fn put(&mut self, name: &str, value: String) {
        self.foreign.remove(name);
        self.vars.insert(name.into(), value);
    }

    fn set(&mut self, name: &str, value: String) -> Result<(), String> {
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(format!(
                "{name:?} cannot be the name of a variable: it is empty or has a '=' or NUL in it"
            ));
        }
        if value.contains('\0') {
            return Err(format!(
                "the value of the variable {name} has a NUL byte in it; the system allows none"
            ));
        }
        self.vars.insert(name.into(), value);
        Ok(())
    }

    pub(crate) fn vars(&self) -> impl Iterator<Item = (&str, &str)> {
        self.vars.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Names of variables that a process has from the job, not from the machine it runs on.
    pub(crate) fn beyond<'a>(&'a self, base: &'a [(String, String)]) -> impl Iterator<Item = &'a str> {
        let of_machine = |(name, value): &(&'a str, &'a str)| {
            base.iter().any(|(known, same)| known == name && same == value)
                || [MARK, "CADRAN_LOG"].contains(name)
        };
        self.vars().filter(move |var| !of_machine(var)).map(|(name, _)| name)
    }

    pub(crate) fn positional(&self) -> &[String] {
        &self.positional
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        if let Ok(position) = name.parse::<usize>() {
            return self.positional.get(position.checked_sub(1)?).map(String::as_str);
        }
        self.vars.get(name).map(String::as_str)
    }

    /// `${NAME}` and `${1}` become the value, whole; an unknown name becomes nothing, as in a shell; `$$` is a `$`.
    /// Any other `$` stands for itself. A value is never looked at again, so that it cannot bring in another.
    /// A `${json:NAME.path}` that cannot be found leaves the text as it is; see [`Environment::try_expand`].
    pub(crate) fn expand(&self, text: &str) -> String {
        self.try_expand(text).unwrap_or_else(|_| text.to_owned())
    }

    /// The same, where `${json:NAME.path}`, a value out of a variable that holds JSON, is an error when it is not there.
    pub(crate) fn try_expand(&self, text: &str) -> Result<String, String> {
        Ok(self.expand_traced(text)?.0)
    }

    /// The same for a URL: a value that does not come from the job file is one part of it, whatever it contains, unless the
    /// URL begins with it.
    pub(crate) fn expand_url(&self, text: &str) -> String {
        let (url, mut parts) = self.expand_traced(text).unwrap_or_else(|_| (text.to_owned(), Vec::new()));
        parts.sort_by_key(|part| part.at.start);
        let mut out = String::with_capacity(url.len());
        let mut done = 0;
        for Foreign { at, .. } in parts.into_iter().filter(|part| part.at.start > 0) {
            out.push_str(&url[done..at.start]);
            for byte in url[at.clone()].bytes() {
                match byte {
                    b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                        out.push(byte.into())
                    }
                    _ => out.push_str(&format!("%{byte:02X}")),
                }
            }
            done = at.end;
        }
        out.push_str(&url[done..]);
        out
    }

    /// The same, with the parts that do not come from the job file.
    fn expand_traced(&self, text: &str) -> Result<(String, Vec<Foreign>), String> {
        let mut out = String::with_capacity(text.len());
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            out.push_str(&rest[..at]);
            let after = &rest[at + 1..];
            if let Some(tail) = after.strip_prefix('$') {
                out.push('$');
                rest = tail;
            } else if let Some((name, tail)) = after.strip_prefix('{').and_then(|s| s.split_once('}'))
                && is_name(name)
            {
                for Foreign { at, source } in self.foreign.get(name).into_iter().flatten() {
                    let at = out.len() + at.start..out.len() + at.end;
                    parts.push(Foreign { at, source: source.clone() });
                }
                out.push_str(self.get(name).unwrap_or_default());
                rest = tail;
            } else if let Some((spec, tail)) = after.strip_prefix("{json:").and_then(|s| s.split_once('}')) {
                let value = json_path::look_up(spec, |name| self.get(name))?;
                let name = spec.split(['.', '[']).next().unwrap_or(spec);
                if self.foreign.contains_key(name) {
                    let at = out.len()..out.len() + value.len();
                    parts.push(Foreign { at, source: format!("the value {spec}") });
                }
                out.push_str(&value);
                rest = tail;
            } else {
                out.push('$');
                rest = after;
            }
        }
        out.push_str(rest);
        Ok((out, parts))
    }

    /// A path as a person writes it in the file: `${NAME}`, `~`, and relative to `base`.
    ///
    /// What the file does not say itself, a parameter that was given or the output of an earlier step, is one name in
    /// the path or a part of one: no value leads to a directory that the file does not name. `key` is the key of the
    /// job file that is at fault then.
    pub(crate) fn path(&self, key: &str, text: &str, base: &Path) -> Result<PathBuf, String> {
        let (path, parts) = self.expand_traced(text)?;
        for Foreign { at, source } in parts {
            if let Some(why) = why_not_one_name(&path, at.clone()) {
                let shown: String = path[at].chars().take(SHOWN_CHARS_MAX).collect();
                return Err(format!(
                    "`{key}` cannot be used: {source} is {shown:?}, which {why}; in a path a value is a single name, \
                     without `/`, not empty and neither `.` nor `..`"
                ));
            }
        }
        // Only a `~` of the file itself stands for the home directory.
        let Some(below) = text.strip_prefix('~').and(path.strip_prefix('~')) else {
            return Ok(base.join(path));
        };
        match below {
            "" => self.home(key),
            below if below.starts_with('/') => Ok(self.home(key)?.join(below.trim_start_matches('/'))),
            _ => Ok(base.join(path)),
        }
    }

    fn home(&self, key: &str) -> Result<PathBuf, String> {
        if self.foreign.contains_key("HOME") {
            return Err(format!(
                "`{key}` cannot be used: `~` stands for HOME, which was not set by the job file"
            ));
        }
        Ok(PathBuf::from(self.get("HOME").unwrap_or("/")))
    }
}

/// Characters of a refused value that are shown.
const SHOWN_CHARS_MAX: usize = 100;

/// Why a value inside of a path is more or less than a name. What stands around it counts too.
fn why_not_one_name(path: &str, at: Range<usize>) -> Option<&'static str> {
    let value = &path[at.clone()];
    if value.is_empty() {
        return Some("is empty");
    }
    if value.contains('/') {
        return Some("holds a `/`");
    }
    if value.contains('\0') {
        return Some("holds a NUL byte");
    }
    if matches!(value, "." | "..") {
        return Some("names another directory");
    }
    let start = path[..at.start].rfind('/').map_or(0, |slash| slash + 1);
    let end = path[at.end..].find('/').map_or(path.len(), |slash| at.end + slash);
    matches!(&path[start..end], "." | "..").then_some("makes `.` or `..` of its part of the path")
}

/// A variable's name, or the number of a positional parameter.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Variables that change what a program *is* rather than what it works on. Whoever may trigger a job may not set
/// them unless the job declares them as parameters.
fn changes_programs(name: &str, base: &[(String, String)]) -> bool {
    const PREFIXES: [&str; 9] = ["LD_", "DYLD_", "BASH_", "PYTHON", "PERL", "RUBY", "NODE_", "GIT_", "JAVA_"];
    const NAMES: [&str; 10] = [
        "PATH",
        "ENV",
        "IFS",
        "PS4",
        "SHELLOPTS",
        "CDPATH",
        "EDITOR",
        "PAGER",
        "GCONV_PATH",
        "_JAVA_OPTIONS",
    ];
    base.iter().any(|(known, _)| known == name)
        || NAMES.contains(&name)
        || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Named parameters and positional ones: the declared defaults, then what the trigger gave.
fn parameters(
    body: &Body,
    given: &[(Box<str>, Box<str>)],
    base: &[(String, String)],
) -> Result<(Vec<(String, String)>, Vec<String>), String> {
    let mut named: Vec<(String, String)> = Vec::new();
    let mut positional: Vec<String> = Vec::new();
    for param in &body.params {
        match &param.name {
            Some(name) => {
                let is_given = given.iter().any(|(known, _)| **known == **name);
                if param.required && !is_given {
                    return Err(format!(
                        "the parameter {name} is required and was not given; give it with -p {name}=…"
                    ));
                }
                named.push((name.clone(), param.default.clone()));
            }
            None => {
                let position = positional.len() + 1;
                let is_given = given.iter().any(|(known, _)| known.parse() == Ok(position));
                if param.required && !is_given {
                    return Err(format!("parameter {position} is required and was not given"));
                }
                positional.push(param.default.clone());
            }
        }
    }
    for (name, value) in given {
        if value.contains('\0') {
            return Err(format!("the parameter {name} has a NUL byte in its value; the system allows none"));
        }
        match name.parse::<usize>() {
            Ok(position) if (1..=POSITIONAL_MAX).contains(&position) => {
                if positional.len() < position {
                    positional.resize(position, String::new());
                }
                positional[position - 1] = value.to_string();
            }
            Ok(position) => {
                return Err(format!(
                    "there is no parameter {position}: positions go from 1 to {POSITIONAL_MAX}"
                ));
            }
            Err(_) => {
                let declared = body.params.iter().any(|param| param.name.as_deref() == Some(name));
                if !is_name(name) || name.starts_with(|c: char| c.is_ascii_digit()) {
                    return Err(format!(
                        "{name:?} cannot be the name of a parameter: use letters, digits and '_'"
                    ));
                }
                if name.starts_with("CADRAN_") || !declared && changes_programs(name, base) {
                    return Err(format!(
                        "the parameter {name} would change how programs run; the job must declare it in params first"
                    ));
                }
                named.push((name.to_string(), value.to_string()));
            }
        }
    }
    Ok((named, positional))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expands_whole_values_once() {
        let mut env = Environment { positional: vec!["first".into()], ..Environment::default() };
        for (name, value) in [("A", "x y"), ("B", "${A}; $(rm)"), ("HOME", "/home/me")] {
            env.put(name, value.into());
        }
        let check =
            |text: &str, expected: &str| assert_eq!(env.try_expand(text).as_deref(), Ok(expected), "{text}");
        check("", "");
        check("plain", "plain");
        check("${A}", "x y");
        check("<${A}${A}>", "<x yx y>");
        check("${B}", "${A}; $(rm)");
        check("$$", "$");
        check("$${A}", "${A}");
        check("$A", "$A");
        check("${NONE}", "");
        check("${1}-${2}-${0}", "first--");
        check("${A", "${A");
        check("${A-b}", "${A-b}");
        check("${}", "${}");
        check("é$", "é$");
        let path = |text: &str| env.path("dir", text, Path::new("/base")).expect("a path");
        assert_eq!(path("~"), Path::new("/home/me"));
        assert_eq!(path("~/a"), Path::new("/home/me/a"));
        assert_eq!(path("~other"), Path::new("/base/~other"));
        assert_eq!(path("${A}/z"), Path::new("/base/x y/z"));
        assert_eq!(path("/abs"), Path::new("/abs"));
    }

    #[test]
    fn a_value_from_outside_is_one_part_of_a_url() {
        let mut env = Environment::default();
        for (name, value, is_foreign) in [
            ("BASE", "https://a.b/c", false),
            ("TO", "https://a.b/", true),
            ("id", "../x?y=1&é", true),
            ("v", "1.2-3", true),
        ] {
            env.put(name, value.into());
            env.mark_foreign(name, value, is_foreign, "parameter");
        }
        let check = |text: &str, expected: &str| assert_eq!(env.expand_url(text), expected, "{text}");
        check("${BASE}/${v}", "https://a.b/c/1.2-3");
        check("${BASE}/${id}/${v}", "https://a.b/c/..%2Fx%3Fy%3D1%26%C3%A9/1.2-3");
        check("${TO}${v}", "https://a.b/1.2-3");
        check("https://${TO}", "https://https%3A%2F%2Fa.b%2F");
    }

    #[test]
    fn a_value_from_outside_is_one_name_of_a_path() {
        let mut env = Environment::default();
        let mut put = |name: &str, value: &str, is_foreign: bool| {
            env.put(name, value.into());
            env.mark_foreign(name, value, is_foreign, "parameter");
        };
        put("OWN", "/srv/a/..", false);
        put("DOT", ".", false);
        let given = [
            ("day", "mon"),
            ("up", ".."),
            ("dot", "."),
            ("deep", "a/b"),
            ("none", ""),
            ("home", "~"),
            ("wide", "1..2"),
        ];
        given.into_iter().for_each(|(name, value)| put(name, value, true));
        put("SLASH", "/", true);
        for (name, text) in [("BELOW", "/srv/${day}"), ("ABOVE", "/srv/${up}"), ("DOTTED", ".${dot}")] {
            env.set_expanded(name, text).expect("set");
        }
        let path = |text: &str| env.path("stdout", text, Path::new("/base"));
        for (text, expected) in [
            ("${day}.log", "/base/mon.log"),
            ("${OWN}/${day}", "/srv/a/../mon"),
            ("${BELOW}/x", "/srv/mon/x"),
            ("a${wide}b", "/base/a1..2b"),
            ("${home}/x", "/base/~/x"),
            ("${home}", "/base/~"),
            ("../x", "/base/../x"),
            ("${unknown}x", "/base/x"),
        ] {
            assert_eq!(path(text).as_deref(), Ok(Path::new(expected)), "{text}");
        }
        for (text, source) in [
            ("${up}/x", "the parameter up"),
            ("x/${up}", "the parameter up"),
            ("${dot}${dot}/x", "the parameter dot"),
            (".${dot}", "the parameter dot"),
            ("x${dot}log", "the parameter dot"),
            ("a${up}b", "the parameter up"),
            ("${DOT}${dot}", "the parameter dot"),
            ("${deep}", "the parameter deep"),
            ("x${none}", "the parameter none"),
            ("${SLASH}etc", "the parameter SLASH"),
            ("${ABOVE}", "the parameter up"),
            ("${DOTTED}/x", "the parameter dot"),
        ] {
            let why = path(text).expect_err(text);
            assert!(why.contains(source) && why.contains("`stdout`"), "{text}: {why}");
        }
    }
}
