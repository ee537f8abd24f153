use std::time::Duration;

use reqwest::{Client, Method, RequestBuilder, Response, StatusCode, Url, redirect};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::address::{self, Address};
use super::{ClientOptions, Exit, Failure};

/// A server's API.
pub struct Api {
    client: Client,
    url: Url,
    token: String,
}

/// A server on the same machine answers at once; one across the world within this.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);

/// Above the longest that an endpoint takes before it gives up by itself.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(60);

#[derive(Deserialize)]
struct ErrorAnswer {
    error: ErrorShape,
}

#[derive(Deserialize)]
struct ErrorShape {
    code: String,
    message: String,
    help: Option<String>,
}

impl Api {
    /// The server that the options name.
    pub fn new(options: &ClientOptions) -> Result<Api, Failure> {
        let Address { url, token } = address::find(options)?;
        // A second call changes nothing; without the first a client cannot be built.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = Client::builder()
            .connect_timeout(CONNECT_TIME_MAX)
            .timeout(ANSWER_TIME_MAX)
            // A redirect could carry the token elsewhere; the API makes none.
            .redirect(redirect::Policy::none())
            .user_agent(concat!("cadran/", env!("CARGO_PKG_VERSION")));
        if address::is_loopback(&url) {
            // No proxy has business between two processes of one machine, nor may it see the token.
            builder = builder.no_proxy();
        }
        let client =
            builder.build().map_err(|error| Failure::here(format!("cannot make a client: {error}")))?;
        Ok(Api { client, url, token })
    }

    /// Where the server is, for messages.
    pub fn url(&self) -> &str {
        self.url.as_str().trim_end_matches('/')
    }

    /// Asks for JSON as it is.
    pub async fn get(&self, path: &[&str], query: &[(&str, String)]) -> Result<Value, Failure> {
        self.json(self.request(Method::GET, path)?.query(query)).await
    }

    /// How the server is; it says so also when it is not well.
    pub async fn health<T: DeserializeOwned>(&self) -> Result<(T, Value), Failure> {
        let url = self.url.join("health").map_err(|error| Failure::usage(error.to_string()))?;
        let answer = self.client.get(url).send().await.map_err(|error| self.unreachable(&error))?;
        let bytes = answer.bytes().await.map_err(|error| self.unreachable(&error))?;
        let value: Value =
            serde_json::from_slice(&bytes).map_err(|_| self.not_cadran("its answer is not JSON"))?;
        match serde_json::from_value(value.clone()) {
            Ok(shape) => Ok((shape, value)),
            Err(error) => Err(self.not_cadran(&format!("its health lacks something: {error}"))),
        }
    }

    /// Asks for bytes.
    pub async fn bytes(&self, path: &[&str], query: &[(&str, String)]) -> Result<Vec<u8>, Failure> {
        let response = self.send(self.request(Method::GET, path)?.query(query)).await?;
        response.bytes().await.map(Vec::from).map_err(|error| self.unreachable(&error))
    }

    /// Asks for something to be done.
    pub async fn post(&self, path: &[&str], body: &Value) -> Result<Value, Failure> {
        self.json(self.request(Method::POST, path)?.json(body)).await
    }

    /// Asks for something to be done, under a key that names this request: it may be asked again.
    pub async fn post_with_key(&self, path: &[&str], body: &Value, key: &str) -> Result<Value, Failure> {
        self.json(self.request(Method::POST, path)?.header("Idempotency-Key", key).json(body)).await
    }

    fn request(&self, method: Method, path: &[&str]) -> Result<RequestBuilder, Failure> {
        let mut url = self.url.clone();
        url.path_segments_mut()
            .map_err(|()| Failure::usage(format!("{} cannot have a path", self.url)))?
            .pop_if_empty()
            .extend(["api", "v1"])
            .extend(path);
        Ok(self.client.request(method, url).bearer_auth(&self.token))
    }

    async fn json(&self, request: RequestBuilder) -> Result<Value, Failure> {
        let response = self.send(request).await?;
        let bytes = response.bytes().await.map_err(|error| self.unreachable(&error))?;
        serde_json::from_slice(&bytes).map_err(|_| self.not_cadran("its answer is not JSON"))
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response, Failure> {
        let response = request.send().await.map_err(|error| self.unreachable(&error))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let bytes = response.bytes().await.unwrap_or_default();
        match serde_json::from_slice::<ErrorAnswer>(&bytes) {
            Ok(answer) => Err(self.refused(status, answer.error)),
            Err(_) => Err(self.not_cadran(&format!("it answered {status} in a shape that is not Cadran's"))),
        }
    }

    fn refused(&self, status: StatusCode, error: ErrorShape) -> Failure {
        let exit = match (status.as_u16(), error.code.as_str()) {
            (404, code) if code.starts_with("no_such_") && code != "no_such_path" => Exit::NotFound,
            (400, _) => Exit::Usage,
            (503, _) => Exit::Unreachable,
            _ => Exit::Refused,
        };
        let help = match error.code.as_str() {
            "unauthorized" => Some(format!(
                "the token for {} is in the file `token` of its data directory: name that with --data DIR, or set \
                 CADRAN_TOKEN",
                self.url()
            )),
            // What the API advises in its own words, in words of this command line.
            "no_such_job" => {
                Some("`cadran jobs` lists jobs; `cadran check` says what is wrong with a job file".into())
            }
            "no_such_run" => Some("`cadran history` lists runs".into()),
            "no_such_share" => Some("`cadran show RUN` lists the shares of a run".into()),
            "no_such_log" => Some("`cadran logs RUN` without --step shows all there is".into()),
            _ => error.help,
        };
        Failure { exit, code: error.code, message: error.message, help }
    }

    fn unreachable(&self, error: &reqwest::Error) -> Failure {
        let mut cause: &dyn std::error::Error = error;
        while let Some(deeper) = cause.source() {
            cause = deeper;
        }
        let why = if error.is_timeout() { "it did not answer in time".to_owned() } else { cause.to_string() };
        if !error.is_connect() {
            return Failure::new(
                Exit::Unreachable,
                "no_answer",
                format!("no answer from {}: {why}", self.url()),
            )
            .help("`cadran ps` and `cadran history` show what was done, once the server answers");
        }
        Failure::new(Exit::Unreachable, "unreachable", format!("no server at {}: {why}", self.url()))
            .help("start one with `cadran serve`, or name another with --server URL")
    }

    fn not_cadran(&self, why: &str) -> Failure {
        Failure::new(
            Exit::Unreachable,
            "not_cadran",
            format!("{} does not speak Cadran's API: {why}", self.url()),
        )
        .help("name the right server with --server URL")
    }
}

/// An answer in the shape that people are shown.
pub(super) fn read<T: DeserializeOwned>(value: &Value) -> Result<T, Failure> {
    T::deserialize(value).map_err(|error| {
        Failure::new(
            Exit::Unreachable,
            "not_cadran",
            format!("the server's answer is not understood: {error}"),
        )
        .help("is the server of the same version? `cadran --version` shows this one's")
    })
}

impl Api {
    /// Asks for JSON in a known shape, and as it is.
    pub async fn get_as<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &[(&str, String)],
    ) -> Result<(T, Value), Failure> {
        let value = self.get(path, query).await?;
        Ok((read(&value)?, value))
    }
}
