//! The endpoints for our own executors: `cadran worker` calls here, and is never called.
//!
//! It stands on the executors' listener and is opened by their token. Answers are JSON; a refusal has a status of its own
//! and a sentence for the worker's log.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, extract::Query};
use cadran_core::GroupName;
use cadran_exec::Tokens;
use cadran_exec::worker::wire::{
    BODY_BYTES_MAX, GROUP_HEADER, PIECE_BYTES_MAX, Piece, Refusal, TOKEN_HEADER,
};
use cadran_exec::worker::{Hub, Refused};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;
use tower_http::catch_panic::CatchPanicLayer;

use crate::admin::{ExecutorCallCounts, same};

/// How long a body may take.
const BODY_TIME_MAX: Duration = Duration::from_secs(20);

#[derive(Clone)]
struct WorkerEndpoints {
    hub: Arc<Hub>,
    tokens: Arc<Tokens>,
    counts: Arc<ExecutorCallCounts>,
}

/// The workers' side of the server, for the listener of the executors.
pub fn worker_router(hub: Arc<Hub>, tokens: Arc<Tokens>, counts: Arc<ExecutorCallCounts>) -> Router {
    Router::new()
        .route("/worker/v1/{verb}", post(answer))
        .layer(CatchPanicLayer::custom(|_| {
            refuse(StatusCode::INTERNAL_SERVER_ERROR, "an error inside of the server")
        }))
        .with_state(WorkerEndpoints { hub, tokens, counts })
}

async fn answer(
    State(endpoints): State<WorkerEndpoints>,
    Path(verb): Path<String>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let Some(group) = endpoints.caller(&parts.headers) else {
        endpoints.counts.bad_token.fetch_add(1, Ordering::Relaxed);
        let why = "the token for executors of this group is wrong";
        return refuse(StatusCode::UNAUTHORIZED, why);
    };
    let bytes_max = if verb == "log" { PIECE_BYTES_MAX } else { BODY_BYTES_MAX };
    let body = match read(body, bytes_max).await {
        Ok(body) => body,
        Err(why) => {
            endpoints.counts.bad_body.fetch_add(1, Ordering::Relaxed);
            return refuse(StatusCode::BAD_REQUEST, why);
        }
    };
    let hub = &endpoints.hub;
    match verb.as_str() {
        "hello" => match parse(&body) {
            Ok(hello) => {
                endpoints.counts.registrations.fetch_add(1, Ordering::Relaxed);
                endpoints.say(hub.hello(group, hello))
            }
            Err(why) => endpoints.bad(&why),
        },
        "orders" => match parse(&body) {
            Ok(poll) => endpoints.say(hub.orders(group, poll).await),
            Err(why) => endpoints.bad(&why),
        },
        "reports" => match parse(&body) {
            Ok(reports) => {
                endpoints.counts.results.fetch_add(1, Ordering::Relaxed);
                endpoints.say(tokio::task::block_in_place(|| hub.reports(group, reports)))
            }
            Err(why) => endpoints.bad(&why),
        },
        "leave" => match parse(&body) {
            Ok(leave) => endpoints.say(hub.leave(group, &leave)),
            Err(why) => endpoints.bad(&why),
        },
        "log" => match Query::<Piece>::try_from_uri(&parts.uri) {
            Ok(Query(piece)) => {
                endpoints.say(tokio::task::block_in_place(|| hub.piece(group, &piece, &body)))
            }
            Err(error) => endpoints.bad(&error.to_string()),
        },
        _ => {
            endpoints.counts.unknown_verb.fetch_add(1, Ordering::Relaxed);
            refuse(StatusCode::NOT_FOUND, "there is no such call; is the worker newer than the server?")
        }
    }
}

impl WorkerEndpoints {
    /// The group the call is for, if the token is that group's.
    fn caller(&self, headers: &HeaderMap) -> Option<GroupName> {
        let header = |name| headers.get(name).and_then(|value: &axum::http::HeaderValue| value.to_str().ok());
        let token = header(TOKEN_HEADER)?.strip_prefix("Bearer ")?;
        let group: GroupName = header(GROUP_HEADER)?.trim().parse().ok()?;
        self.tokens.of(&group).is_some_and(|known| same(&known, token.trim())).then_some(group)
    }

    fn say(&self, answer: Result<impl Serialize, Refused>) -> Response {
        let refused = match answer {
            Ok(answer) => return Json(answer).into_response(),
            Err(refused) => refused,
        };
        match refused {
            Refused::Hello => refuse(StatusCode::CONFLICT, "the worker is not known here: say hello"),
            Refused::Superseded => refuse(StatusCode::GONE, "another worker came with the same id"),
            Refused::Unwanted => refuse(StatusCode::NOT_FOUND, "nobody wants this any more"),
            Refused::Stopping => refuse(StatusCode::SERVICE_UNAVAILABLE, "the server is stopping"),
            Refused::NotKept(why) => {
                let text =
                    format!("the server's disk does not take results ({why}); keep them and try again");
                refuse(StatusCode::SERVICE_UNAVAILABLE, &text)
            }
            Refused::Bad(why) => self.bad(&why),
        }
    }

    fn bad(&self, why: &str) -> Response {
        self.counts.bad_body.fetch_add(1, Ordering::Relaxed);
        refuse(StatusCode::BAD_REQUEST, why)
    }
}

async fn read(body: Body, bytes_max: usize) -> Result<Bytes, &'static str> {
    match timeout(BODY_TIME_MAX, axum::body::to_bytes(body, bytes_max)).await {
        Err(_) => Err("the body did not arrive in time"),
        Ok(Err(_)) => Err("the body is too large, or broke off"),
        Ok(Ok(bytes)) => Ok(bytes),
    }
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    serde_json::from_slice(body).map_err(|error| error.to_string())
}

fn refuse(status: StatusCode, why: &str) -> Response {
    (status, Json(Refusal { error: why.to_owned() })).into_response()
}
