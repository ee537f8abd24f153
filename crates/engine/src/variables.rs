//! The values of `${NAME}` in the parameters of a job that a step calls, by the rules of the executor's environment, without
//! what a machine has.

use std::collections::BTreeMap;

use cadran_core::{RunContext, Step};

/// Longest value that is made of others. The parameters of a run are bounded by less.
const VALUE_BYTES_MAX: usize = 1 << 20;

/// Values by name; later ones win: the job's variables, parameters, outputs.
pub(crate) struct Variables(BTreeMap<String, String>);

impl Variables {
    pub(crate) fn of(
        context: &RunContext,
        run: &str,
        step: &Step,
        outputs: &[(Box<str>, Box<str>)],
    ) -> Variables {
        let body = &*context.body;
        let mut variables = Variables(BTreeMap::new());
        let mut position = 0;
        for param in &body.params {
            let name = param.name.clone().unwrap_or_else(|| {
                position += 1;
                position.to_string()
            });
            variables.put(&name, param.default.clone());
        }
        variables.put_all(&context.params);
        for (name, value) in &body.env {
            let value = variables.expand(value);
            variables.put(name, value);
        }
        // A value that was given wins over one of the same name in the file.
        variables.put_all(&context.params);
        variables.put_all(outputs);
        for (name, value) in [
            ("CADRAN_JOB", context.job_name.as_str()),
            ("CADRAN_RUN_ID", run),
            ("CADRAN_TRIGGER", context.trigger.word()),
            ("CADRAN_STEP", &step.name),
        ] {
            variables.put(name, value.to_owned());
        }
        variables
    }

    pub(crate) fn put(&mut self, name: &str, value: String) {
        self.0.insert(name.to_owned(), value);
    }

    fn put_all(&mut self, values: &[(Box<str>, Box<str>)]) {
        for (name, value) in values {
            self.put(name, value.to_string());
        }
    }

    /// `${NAME}` becomes the value, whole; an unknown name becomes nothing; `$$` is a `$`.
    pub(crate) fn expand(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('$')
            && out.len() < VALUE_BYTES_MAX
        {
            out.push_str(&rest[..at]);
            let after = &rest[at + 1..];
            if let Some(tail) = after.strip_prefix('$') {
                out.push('$');
                rest = tail;
            } else if let Some((name, tail)) = after.strip_prefix('{').and_then(|text| text.split_once('}')) {
                out.push_str(self.0.get(name).map(String::as_str).unwrap_or_default());
                rest = tail;
            } else {
                out.push('$');
                rest = after;
            }
        }
        out.push_str(rest);
        out
    }
}
