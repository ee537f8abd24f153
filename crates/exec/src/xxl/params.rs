//! The text a handler gets.

use cadran_core::{Start, Step, Target};

use crate::environment::Environment;

/// The step's own text with `${NAME}` replaced, or else the parameters of the run: positional ones with blanks
/// between, and an object in JSON as soon as one has a name.
pub(crate) fn text(start: &Start, step: &Step, target: &Target) -> Result<String, String> {
    if let Some(text) = &target.params {
        return Environment::of(start, step, &[])?.try_expand(text);
    }
    let body = &start.context.body;
    if body.params.is_empty() {
        return Ok(String::new());
    }
    let given = |name: &str| {
        start.context.params.iter().find(|(given, _)| **given == *name).map(|(_, value)| value.to_string())
    };
    let mut position = 0;
    let mut values: Vec<(Option<&str>, String)> = Vec::with_capacity(body.params.len());
    for param in &body.params {
        let name = match &param.name {
            Some(name) => name.clone(),
            None => {
                position += 1;
                position.to_string()
            }
        };
        values.push((param.name.as_deref(), given(&name).unwrap_or_else(|| param.default.clone())));
    }
    if values.iter().all(|(name, _)| name.is_none()) {
        let texts: Vec<String> = values.into_iter().map(|(_, value)| value).collect();
        return Ok(texts.join(" "));
    }
    let mut position = 0;
    let object = values.into_iter().map(|(name, value)| {
        let name = name.map(str::to_owned).unwrap_or_else(|| {
            position += 1;
            position.to_string()
        });
        (name, serde_json::Value::String(value))
    });
    Ok(serde_json::Value::Object(object.collect()).to_string())
}
