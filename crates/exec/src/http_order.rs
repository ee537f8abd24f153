//! A request of a step on its way to the process that makes it: a file, since arguments and environment of a process can be
//! read by others.

use std::path::Path;

use cadran_core::{HttpBody, HttpRequest, JsonPath, Millis, Step};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::environment::Environment;

/// A request with all values in place.
#[derive(Debug, Serialize, Deserialize)]
pub struct HttpOrder {
    /// `GET`, `POST` and so on.
    pub method: String,
    /// Where to.
    pub url: String,
    /// Names and values.
    pub headers: Vec<(String, String)>,
    /// What is sent.
    pub body: Option<String>,
    /// Whether it is JSON.
    pub is_json: bool,
    /// Statuses that are a success, as ranges with both ends; empty means 200 to 299.
    pub expect: Vec<(u16, u16)>,
    /// Which part of the answer is printed.
    json_path: Option<String>,
    /// The time limit of the step, which the executor sees to.
    pub timeout_ms: Option<Millis>,
    /// Networks that may be asked although they are not public.
    pub allow: Vec<String>,
}

impl HttpOrder {
    pub(crate) fn of(request: &HttpRequest, step: &Step, env: &Environment, allow: &[String]) -> HttpOrder {
        let body = match &request.body {
            None => None,
            Some(HttpBody::Text(text)) => Some(env.expand(text)),
            // It was JSON when the file was read; a text that is none by now is sent as it is.
            Some(HttpBody::Json(text)) => Some(match serde_json::from_str(text) {
                Ok(value) => expand(value, env).to_string(),
                Err(_) => env.expand(text),
            }),
        };
        HttpOrder {
            method: request.method.clone(),
            url: env.expand_url(&request.url),
            headers: request.headers.iter().map(|(name, value)| (name.clone(), env.expand(value))).collect(),
            body,
            is_json: matches!(request.body, Some(HttpBody::Json(_))),
            expect: request.expect.clone(),
            json_path: request.json_path.as_ref().map(|path| path.as_str().to_owned()),
            timeout_ms: step.timeout_ms,
            allow: allow.to_vec(),
        }
    }

    /// Reads the file.
    pub fn read(path: &Path) -> Result<HttpOrder, String> {
        let text = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        serde_json::from_slice(&text).map_err(|error| format!("{}: {error}", path.display()))
    }

    pub(crate) fn text(&self) -> String {
        // Texts, numbers and lists of them: nothing that JSON cannot say.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Which part of the answer is printed.
    pub fn json_path(&self) -> Result<Option<JsonPath>, String> {
        self.json_path.as_deref().map(JsonPath::parse).transpose().map_err(|error| error.to_string())
    }
}

/// Values into the texts of a document. Its depth is bounded by the reader's.
fn expand(value: Value, env: &Environment) -> Value {
    match value {
        Value::String(text) => env.expand(&text).into(),
        Value::Array(items) => items.into_iter().map(|item| expand(item, env)).collect(),
        Value::Object(entries) => entries
            .into_iter()
            .map(|(name, value)| (name, expand(value, env)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        other => other,
    }
}
