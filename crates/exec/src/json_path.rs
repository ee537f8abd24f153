//! `${json:NAME.key.0}`: one value out of a variable that holds JSON.

use serde_json::Value;

/// Splits `NAME.path` and finds the value in what `get` gives for the name. Text comes without its quotes, everything
/// else as JSON. The error says what is missing, never the value itself.
pub(crate) fn look_up<'a>(spec: &str, get: impl FnOnce(&str) -> Option<&'a str>) -> Result<String, String> {
    let end = spec.find(['.', '[']).unwrap_or(spec.len());
    let (name, path) = spec.split_at(end);
    let fail = |why: &str| format!("`${{json:{spec}}}` cannot be used: {why}");
    let text = get(name).ok_or_else(|| fail(&format!("there is no variable {name}")))?;
    let mut value: &Value = &serde_json::from_str(text)
        .map_err(|error| fail(&format!("the value of {name} is not JSON ({error})")))?;
    for key in keys(path).ok_or_else(|| fail("a path is written as in `NAME.key.0`"))? {
        let found = match value {
            Value::Object(map) => map.get(key),
            Value::Array(items) => key.parse::<usize>().ok().and_then(|at| items.get(at)),
            _ => None,
        };
        value = found.ok_or_else(|| fail(&format!("there is no `{key}` in {name}")))?;
    }
    Ok(match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    })
}

/// `.a.0["b"][1]` as its keys.
fn keys(path: &str) -> Option<Vec<&str>> {
    let mut keys = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        let (key, tail) = if let Some(inner) = rest.strip_prefix('[') {
            let (key, tail) = inner.split_once(']')?;
            (key.trim_matches(['"', '\'']), tail)
        } else {
            let inner = rest.strip_prefix('.')?;
            inner.split_at(inner.find(['.', '[']).unwrap_or(inner.len()))
        };
        // `.a.[0]` is written too.
        if !key.is_empty() {
            keys.push(key);
        }
        rest = tail;
    }
    Some(keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_their_path() {
        let text = r#"{"a": {"b": [1, {"c": "x y"}]}, "n": null, "e e": true}"#;
        let check = |spec: &str, expected: Option<&str>| {
            let found = look_up(spec, |name| (name == "OUT").then_some(text));
            assert_eq!(found.ok().as_deref(), expected, "{spec}");
        };
        check("OUT.a.b[0]", Some("1"));
        check("OUT.a.b.1.c", Some("x y"));
        check("OUT.a.b[1]", Some(r#"{"c":"x y"}"#));
        check(r#"OUT["e e"]"#, Some("true"));
        check("OUT.n", Some("null"));
        check("OUT.a.z", None);
        check("OUT.a.b[9]", None);
        check("OTHER.a", None);
        check("OUT[0", None);
    }
}
