//! The page's types of answers are made from the OpenAPI document, so that a renamed field breaks the page's build.

use std::fmt::Write as _;

use serde_json::Value;

/// The file is what the document gives. `CADRAN_WRITE_PAGE_TYPES=1` writes it; `cargo xtask page` sets that.
#[test]
fn the_pages_types_follow_the_document() {
    let made = types(&serde_json::from_str(&cadran_http::openapi()).unwrap());
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/page/src/api.ts");
    if std::env::var_os("CADRAN_WRITE_PAGE_TYPES").is_some() {
        std::fs::write(path, &made).unwrap();
    }
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    assert!(kept == made, "{path} is not what the OpenAPI document gives; `cargo xtask page` writes it");
}

fn types(document: &Value) -> String {
    let mut text = String::from("// Made from the OpenAPI document by `cargo xtask page`. Do not edit.\n");
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        let _ = write!(text, "\nexport type {name} = {};\n", type_of(schema));
    }
    text
}

fn type_of(schema: &Value) -> String {
    if let Some(path) = schema["$ref"].as_str() {
        return path.rsplit('/').next().unwrap_or_default().to_owned();
    }
    let joined = |list: &Value, by: &str| {
        let parts: Vec<String> = list.as_array().into_iter().flatten().map(type_of).collect();
        format!("({})", parts.join(by))
    };
    for (key, by) in [("allOf", " & "), ("oneOf", " | "), ("anyOf", " | ")] {
        if schema[key].is_array() {
            return joined(&schema[key], by);
        }
    }
    if let Some(words) = schema["enum"].as_array() {
        return words.iter().map(Value::to_string).collect::<Vec<_>>().join(" | ");
    }
    match &schema["type"] {
        Value::Array(kinds) => {
            let one = |kind: &Value| {
                let mut schema = schema.clone();
                schema["type"] = kind.clone();
                type_of(&schema)
            };
            kinds.iter().map(one).collect::<Vec<_>>().join(" | ")
        }
        Value::String(kind) => match kind.as_str() {
            "string" => "string".to_owned(),
            "integer" | "number" => "number".to_owned(),
            "boolean" => "boolean".to_owned(),
            "null" => "null".to_owned(),
            "array" => format!("({})[]", type_of(&schema["items"])),
            _ => object(schema),
        },
        _ => "unknown".to_owned(),
    }
}

fn object(schema: &Value) -> String {
    if schema["properties"].is_null() {
        return match &schema["additionalProperties"] {
            values @ Value::Object(_) => format!("Record<string, {}>", type_of(values)),
            _ => "Record<string, unknown>".to_owned(),
        };
    }
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut text = String::from("{\n");
    for (name, field) in schema["properties"].as_object().unwrap() {
        let optional = if required.contains(&name.as_str()) { "" } else { "?" };
        let inner = type_of(field).replace('\n', "\n  ");
        let _ = writeln!(text, "  {name}{optional}: {inner};");
    }
    text.push('}');
    text
}
