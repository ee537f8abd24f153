use axum::body::{Body, HttpBody};
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use cadran_core::{Address, IdempotencyKey, JobName, Millis, RunId, RunName};
use serde::de::DeserializeOwned;

use crate::error::ApiError;
use crate::instant;
use crate::lists::LabelFilter;

/// The largest body: parameters of a trigger, with room to spare.
pub(crate) const BODY_BYTES_MAX: usize = 1 << 20;

/// The fields of a query, each known and given once.
pub(crate) struct Fields<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Fields<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Fields<T>, ApiError> {
        match Query::from_request_parts(parts, state).await {
            Ok(Query(fields)) => Ok(Fields(fields)),
            Err(rejection) => Err(ApiError::bad_query(rejection.body_text())),
        }
    }
}

/// A query without fields.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoFields {}

/// A JSON body, every field known. An empty body is an empty object.
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<JsonBody<T>, ApiError> {
        let is_json = request.headers().get(CONTENT_TYPE).is_some_and(|value| {
            let kind = value.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default();
            kind.trim_ascii().eq_ignore_ascii_case(b"application/json")
        });
        let bytes = read_body(request.into_body()).await?;
        if bytes.is_empty() {
            return serde_json::from_str("{}").map(JsonBody).map_err(|error| ApiError::bad_json(&error));
        }
        if !is_json {
            return Err(ApiError::not_json());
        }
        serde_json::from_slice(&bytes).map(JsonBody).map_err(|error| ApiError::bad_json(&error))
    }
}

/// A body that has nothing to say: anything but `{}` is an unknown field.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoBody {}

async fn read_body(body: Body) -> Result<bytes::Bytes, ApiError> {
    // A body that announces its length is refused before any of it is read.
    if body.size_hint().lower() > BODY_BYTES_MAX as u64 {
        return Err(ApiError::body_too_large(BODY_BYTES_MAX));
    }
    axum::body::to_bytes(body, BODY_BYTES_MAX).await.map_err(|error| {
        let text = error.to_string();
        if text.contains("length limit") {
            ApiError::body_too_large(BODY_BYTES_MAX)
        } else {
            ApiError::body_broken()
        }
    })
}

/// The job named by the path. The pattern of a name is checked here, before anything looks for it.
pub(crate) struct JobAt(pub(crate) JobName);

impl<S: Send + Sync> FromRequestParts<S> for JobAt {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<JobAt, ApiError> {
        let name: String = segment(parts, state).await?;
        name.parse().map(JobAt).map_err(|error| ApiError::bad_job_name(&error))
    }
}

/// The run, or the share of one, named by the path. The pattern of an id is checked here, before anything looks for it.
pub(crate) struct RunAt(pub(crate) RunName);

impl<S: Send + Sync> FromRequestParts<S> for RunAt {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<RunAt, ApiError> {
        let id: String = segment(parts, state).await?;
        id.parse().map(RunAt).map_err(|error| ApiError::bad_run_name(&error))
    }
}

/// The run and the step named by the path. The step's name is free text: it is only ever compared with names that are
/// there, never made into a path.
pub(crate) struct StepAt {
    pub(crate) name: RunName,
    pub(crate) step: String,
}

impl<S: Send + Sync> FromRequestParts<S> for StepAt {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<StepAt, ApiError> {
        let (id, step): (String, String) = segment(parts, state).await?;
        let name = id.parse().map_err(|error| ApiError::bad_run_name(&error))?;
        Ok(StepAt { name, step })
    }
}

async fn segment<T, S>(parts: &mut Parts, state: &S) -> Result<T, ApiError>
where
    T: DeserializeOwned + Send,
    S: Send + Sync,
{
    match Path::<T>::from_request_parts(parts, state).await {
        Ok(Path(value)) => Ok(value),
        Err(rejection) => Err(ApiError::bad_path(rejection.body_text())),
    }
}

/// Characters of an `Idempotency-Key`.
const KEY_CHARS_MAX: usize = 255;

/// The `Idempotency-Key` of a request, if it has one. Not yet tied to what is asked for.
pub(crate) struct KeyHeader(Option<blake3::Hash>);

impl<S: Send + Sync> FromRequestParts<S> for KeyHeader {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<KeyHeader, ApiError> {
        let mut values = parts.headers.get_all("idempotency-key").iter();
        let Some(value) = values.next() else { return Ok(KeyHeader(None)) };
        let text = value.as_bytes();
        let is_good = (1..=KEY_CHARS_MAX).contains(&text.len()) && text.iter().all(u8::is_ascii_graphic);
        if !is_good || values.next().is_some() {
            return Err(ApiError::bad_key(KEY_CHARS_MAX));
        }
        Ok(KeyHeader(Some(blake3::hash(text))))
    }
}

impl KeyHeader {
    /// The key of one job of many that a request is about.
    pub(crate) fn for_job(&self, job: &JobName, request: &str) -> Option<IdempotencyKey> {
        let mut text = self.0?.as_bytes().to_vec();
        text.extend_from_slice(job.as_str().as_bytes());
        KeyHeader(Some(blake3::hash(&text))).for_request(request)
    }

    /// The key together with what is asked for, as text in a fixed form.
    pub(crate) fn for_request(self, request: &str) -> Option<IdempotencyKey> {
        let key = u128::from_le_bytes(*self.0?.as_bytes().first_chunk()?);
        let request = u64::from_le_bytes(*blake3::hash(request.as_bytes()).as_bytes().first_chunk()?);
        Some(IdempotencyKey { key, request })
    }
}

/// How many rows a list may answer at once, and how many it does unasked.
pub(crate) const LIMIT_MAX: u32 = 1000;
/// See [`LIMIT_MAX`].
pub(crate) const LIMIT_DEFAULT: u32 = 100;

/// The `limit` field of a list.
pub(crate) fn limit(given: Option<u32>) -> Result<usize, ApiError> {
    match given.unwrap_or(LIMIT_DEFAULT) {
        limit @ 1..=LIMIT_MAX => Ok(limit as usize),
        limit => {
            Err(ApiError::bad_field("limit", &limit.to_string(), &format!("a number from 1 to {LIMIT_MAX}")))
        }
    }
}

/// A field that holds an instant.
pub(crate) fn instant_field(field: &str, given: Option<&str>) -> Result<Option<Millis>, ApiError> {
    let Some(text) = given else { return Ok(None) };
    let allowed = "an instant such as 2026-11-15T22:08:10Z, or milliseconds since 1970";
    instant::from_text(text).map(Some).ok_or_else(|| ApiError::bad_field(field, text, allowed))
}

/// A field that holds a job name.
pub(crate) fn job_field(given: Option<&str>) -> Result<Option<JobName>, ApiError> {
    given.map(|text| text.parse().map_err(|error| ApiError::bad_job_name(&error))).transpose()
}

/// A field that holds a run id.
pub(crate) fn run_field(given: Option<&str>) -> Result<Option<RunId>, ApiError> {
    given.map(|text| text.parse().map_err(|error| ApiError::bad_run_id(&error))).transpose()
}

/// A field that holds the address of an executor.
pub(crate) fn address_field(given: &str) -> Result<Address, ApiError> {
    given.parse().map_err(|error| ApiError::bad_address(given, &error))
}

/// A field that holds words out of a table, separated by commas.
pub(crate) fn words_field<T: Copy + PartialEq>(
    field: &str,
    given: Option<&str>,
    words: &[(T, &str)],
) -> Result<Vec<T>, ApiError> {
    let mut found = Vec::new();
    for text in given.into_iter().flat_map(|text| text.split(',')) {
        let Some((value, _)) = words.iter().find(|(_, word)| *word == text.trim()) else {
            let all: Vec<&str> = words.iter().map(|(_, word)| *word).collect();
            let allowed = format!("one or more of {}, separated by commas", all.join(", "));
            return Err(ApiError::bad_field(field, text, &allowed));
        };
        if !found.contains(value) {
            found.push(*value);
        }
    }
    Ok(found)
}

/// A field that holds one word out of a table.
pub(crate) fn word_field<T: Copy>(
    field: &str,
    given: Option<&str>,
    words: &[(T, &str)],
) -> Result<Option<T>, ApiError> {
    let Some(text) = given else { return Ok(None) };
    let found = words.iter().find(|(_, word)| *word == text);
    let all: Vec<&str> = words.iter().map(|(_, word)| *word).collect();
    let allowed = format!("one of {}", all.join(", "));
    found.map(|(value, _)| Some(*value)).ok_or_else(|| ApiError::bad_field(field, text, &allowed))
}

/// A field that holds labels, separated by commas.
pub(crate) fn labels_field(field: &str, given: Option<&str>) -> Result<Vec<LabelFilter>, ApiError> {
    let label = |text: &str| {
        let (name, value) = match text.split_once(':') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (text, None),
        };
        if name.is_empty() {
            let allowed = "NAME:VALUE, or NAME for any value, separated by commas";
            return Err(ApiError::bad_field(field, text, allowed));
        }
        Ok(LabelFilter { name: name.to_owned(), value })
    };
    given.into_iter().flat_map(|text| text.split(',')).map(label).collect()
}

/// A field that holds a stretch of time, such as `90s`, `5m`, `1h` or `7d`, or a number of milliseconds.
pub(crate) fn span_field(field: &str, given: Option<&str>) -> Result<Option<Millis>, ApiError> {
    let Some(text) = given else { return Ok(None) };
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let factor = match unit {
        "" | "ms" => Some(1),
        "s" => Some(1_000),
        "m" => Some(60_000),
        "h" => Some(3_600_000),
        "d" => Some(86_400_000),
        _ => None,
    };
    let millis = factor.and_then(|factor| number.parse::<Millis>().ok()?.checked_mul(factor));
    let allowed = "a stretch of time such as 500ms, 90s, 5m, 1h or 7d";
    millis.map(Some).ok_or_else(|| ApiError::bad_field(field, text, allowed))
}
