use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cadran_core::{Body, RunContext, Start, Step};

use crate::journal::ATTEMPTS_MAX;

/// What a process of an attempt sees: its variables and its positional arguments.
#[derive(Clone, Debug, Default)]
pub(crate) struct Environment {
    vars: BTreeMap<String, String>,
    positional: Vec<String>,
}

/// More positional parameters than a person gives; a position is a number from outside and sizes a list.
const POSITIONAL_MAX: usize = 256;

impl Environment {
    /// Later ones win: base, job, parameters, step, outputs, what Cadran tells about the run.
    pub(crate) fn of(start: &Start, step: &Step, base: &[(String, String)]) -> Result<Environment, String> {
        let RunContext { body, params, .. } = &*start.context;
        let (named, positional) = parameters(body, params, base)?;
        let mut env = Environment { vars: BTreeMap::new(), positional };
        env.vars.extend(base.iter().filter(|(name, _)| !name.starts_with("CADRAN_")).cloned());
        for (at, value) in env.positional.iter().enumerate() {
            env.vars.insert(format!("CADRAN_PARAM_{}", at + 1), value.clone());
        }
        // Parameters come before and after the job's variables: before, so that those may use them; after, so that
        // a value given with the trigger wins over one of the same name in the file.
        env.vars.extend(named.iter().cloned());
        for (name, value) in &body.env {
            let value = env.expand(value);
            env.set(name, value)?;
        }
        env.vars.extend(named);
        env.vars.extend(start.outputs.iter().map(|(name, value)| (name.to_string(), value.to_string())));
        for (name, value) in &step.env {
            let value = env.expand(value);
            env.set(name, value)?;
        }
        // Outputs again: the step's own variables may use them, and do not hide them.
        for (name, value) in start.outputs.iter() {
            env.set(name, value.to_string())?;
        }
        env.tell(start, step);
        Ok(env)
    }

    fn tell(&mut self, start: &Start, step: &Step) {
        let context = &*start.context;
        let run = start.run.to_string();
        let due = match jiff::Timestamp::from_millisecond(context.due) {
            Ok(due) => format!("{due:.3}"),
            Err(_) => String::new(),
        };
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
            self.vars.insert(name.into(), value.into());
        }
    }

    /// Sets a variable that Cadran itself makes.
    pub(crate) fn put(&mut self, name: &str, value: String) {
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
    pub(crate) fn expand(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
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
                out.push_str(self.get(name).unwrap_or_default());
                rest = tail;
            } else {
                out.push('$');
                rest = after;
            }
        }
        out.push_str(rest);
        out
    }

    /// A path as a person writes it: `${NAME}`, `~`, and relative to `base`.
    pub(crate) fn path(&self, text: &str, base: &Path) -> PathBuf {
        let text = self.expand(text);
        let home = || PathBuf::from(self.get("HOME").unwrap_or("/"));
        match text.strip_prefix('~') {
            Some("") => home(),
            Some(below) if below.starts_with('/') => home().join(below.trim_start_matches('/')),
            _ => base.join(text),
        }
    }
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
        let check = |text: &str, expected: &str| assert_eq!(env.expand(text), expected, "{text}");
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
        let path = |text: &str| env.path(text, Path::new("/base"));
        assert_eq!(path("~"), Path::new("/home/me"));
        assert_eq!(path("~/a"), Path::new("/home/me/a"));
        assert_eq!(path("~other"), Path::new("/base/~other"));
        assert_eq!(path("${A}/z"), Path::new("/base/x y/z"));
        assert_eq!(path("/abs"), Path::new("/abs"));
    }
}
