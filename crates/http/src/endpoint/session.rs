use axum::Json;
use axum::extract::{Extension, Path, State};
use axum::http::header::{SET_COOKIE, USER_AGENT};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use cadran_core::Millis;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::access::{self, Caller};
use crate::error::{ApiError, ErrorBody};
use crate::guard::count_failure;
use crate::request::{Fields, JsonBody, NoFields};
use crate::session::{CODE_TIME_MAX, Rights, SESSION_TIME_MAX, Session};
use crate::{ApiState, Peer, instant};

/// Who asks.
#[derive(Serialize, ToSchema)]
pub(super) struct SessionState {
    /// Whether the request came with the token or a session.
    signed_in: bool,
    /// Whether it may only look.
    read_only: bool,
    /// The session's name, when there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<String>,
}

/// Says whether the request comes with a session and what it may do. Answers everybody.
#[utoipa::path(
    get, path = "/api/v1/session", tag = "sessions", operation_id = "show_session", security(()),
    responses((status = 200, body = SessionState, description = "Who asks."), (status = "default", body = ErrorBody, description = "What went wrong.")),
)]
pub(super) async fn show(
    Extension(caller): Extension<Caller>,
    Fields(NoFields {}): Fields<NoFields>,
) -> Json<SessionState> {
    Json(SessionState::of(&caller))
}

impl SessionState {
    fn of(caller: &Caller) -> SessionState {
        match caller {
            Caller::Unknown => SessionState { signed_in: false, read_only: false, session: None },
            Caller::Token => SessionState { signed_in: true, read_only: false, session: None },
            Caller::Session(session) => SessionState {
                signed_in: true,
                read_only: session.read_only,
                session: Some(session.name.clone()),
            },
        }
    }
}

/// What opens a session: exactly one of the two.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SignInBody {
    /// A code from `cadran open` or `POST /api/v1/login-codes`. It works once.
    code: Option<String>,
    /// The server's token.
    token: Option<String>,
    /// Ask for a session that may only look.
    #[serde(default)]
    read_only: bool,
}

/// Opens a session for a browser: the answer sets its cookie.
#[utoipa::path(
    post, path = "/api/v1/session", tag = "sessions", operation_id = "sign_in", security(()),
    request_body = SignInBody,
    responses((status = 201, body = SessionState, description = "The session."), (status = "default", body = ErrorBody, description = "What went wrong.")),
)]
pub(super) async fn sign_in(
    State(state): State<ApiState>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
    Fields(NoFields {}): Fields<NoFields>,
    JsonBody(body): JsonBody<SignInBody>,
) -> Result<Response, ApiError> {
    let now = state.server.now();
    let opened = match (&body.code, &body.token) {
        (Some(code), None) => state.sessions.take_code(code, now).ok_or_else(ApiError::bad_code),
        (None, Some(token)) if state.token.matches(token.trim().as_bytes()) => Ok(Rights::Full),
        (None, Some(_)) => Err(ApiError::bad_token()),
        _ => return Err(ApiError::bad_query("a session is opened with either code or token".into())),
    };
    let rights = match opened {
        Ok(rights) => rights,
        Err(error) => {
            let peer = peer.map_or([0; 4].into(), |peer| peer.0.0.ip());
            return Err(count_failure(&state, peer).unwrap_or(error));
        }
    };
    let rights = if body.read_only { Rights::ReadOnly } else { rights };
    let agent = headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
    let no_chance = || ApiError::bug("the system gave no random bytes for a session");
    let id = state.sessions.start(rights, agent, now).ok_or_else(no_chance)?;
    let session = state.sessions.find(id.as_str(), now).ok_or_else(no_chance)?;
    let mut response =
        (StatusCode::CREATED, Json(SessionState::of(&Caller::Session(session)))).into_response();
    response.headers_mut().append(SET_COOKIE, cookie(&headers, id.as_str(), SESSION_TIME_MAX / 1000)?);
    Ok(response)
}

fn cookie(headers: &HeaderMap, value: &str, max_age_secs: Millis) -> Result<HeaderValue, ApiError> {
    let is_secure = access::is_secure(headers);
    let name = access::cookie_name(headers, is_secure);
    let secure = if is_secure { "; Secure" } else { "" };
    let text = format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={max_age_secs}{secure}");
    HeaderValue::from_str(&text).map_err(ApiError::bug)
}

/// Ends the session that the request comes with.
#[utoipa::path(
    delete, path = "/api/v1/session", tag = "sessions", operation_id = "sign_out", security(()),
    responses((status = 204, description = "There is no session any more."), (status = "default", body = ErrorBody, description = "What went wrong.")),
)]
pub(super) async fn sign_out(
    State(state): State<ApiState>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    Fields(NoFields {}): Fields<NoFields>,
) -> Result<Response, ApiError> {
    if let Caller::Session(session) = caller {
        state.sessions.end(&session.name);
    }
    let mut response = StatusCode::NO_CONTENT.into_response();
    response.headers_mut().append(SET_COOKIE, cookie(&headers, "", 0)?);
    Ok(response)
}

/// Open sessions.
#[derive(Serialize, ToSchema)]
pub(super) struct SessionPage {
    /// The newest first.
    sessions: Vec<SessionItem>,
}

/// One session of a browser.
#[derive(Serialize, ToSchema)]
pub(super) struct SessionItem {
    /// Names it; opens nothing.
    name: String,
    read_only: bool,
    /// Whether the request came with this one.
    current: bool,
    since: String,
    since_ms: Millis,
    /// When it was last used.
    used: String,
    used_ms: Millis,
    /// What the browser calls itself.
    agent: String,
}

impl SessionItem {
    fn new(session: Session, current: Option<&str>) -> SessionItem {
        SessionItem {
            current: current == Some(session.name.as_str()),
            name: session.name,
            read_only: session.read_only,
            since: instant::to_text(session.since),
            since_ms: session.since,
            used: instant::to_text(session.used),
            used_ms: session.used,
            agent: session.agent,
        }
    }
}

/// Lists the sessions of browsers.
#[utoipa::path(
    get, path = "/api/v1/sessions", tag = "sessions", operation_id = "list_sessions",
    responses((status = 200, body = SessionPage, description = "Open sessions."), (status = "default", body = ErrorBody, description = "What went wrong.")),
)]
pub(super) async fn list(
    State(state): State<ApiState>,
    Extension(caller): Extension<Caller>,
    Fields(NoFields {}): Fields<NoFields>,
) -> Json<SessionPage> {
    let current = match &caller {
        Caller::Session(session) => Some(session.name.as_str()),
        _ => None,
    };
    let sessions = state.sessions.list(state.server.now());
    Json(SessionPage { sessions: sessions.into_iter().map(|one| SessionItem::new(one, current)).collect() })
}

/// Ends a session of a browser.
#[utoipa::path(
    delete, path = "/api/v1/sessions/{name}", tag = "sessions", operation_id = "end_session",
    params(("name" = String, Path, description = "The session's name.")),
    responses((status = 204, description = "It has ended."), (status = "default", body = ErrorBody, description = "What went wrong.")),
)]
pub(super) async fn end(
    State(state): State<ApiState>,
    Path(name): Path<String>,
    Fields(NoFields {}): Fields<NoFields>,
) -> Result<StatusCode, ApiError> {
    if state.sessions.end(&name) { Ok(StatusCode::NO_CONTENT) } else { Err(ApiError::no_such_session(&name)) }
}

/// What a code is for.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CodeBody {
    /// The session it opens may only look.
    #[serde(default)]
    read_only: bool,
}

/// A code that opens one session.
#[derive(Serialize, ToSchema)]
pub(super) struct LoginCode {
    /// Goes behind `/#code=` in the page's address, or into `POST /api/v1/session`.
    code: String,
    /// How long it works.
    expires_in_ms: Millis,
}

/// Makes a code that opens one session in a browser, within a minute.
#[utoipa::path(
    post, path = "/api/v1/login-codes", tag = "sessions", operation_id = "make_login_code",
    request_body = CodeBody,
    responses((status = 201, body = LoginCode, description = "The code."), (status = "default", body = ErrorBody, description = "What went wrong.")),
)]
pub(super) async fn make_code(
    State(state): State<ApiState>,
    Fields(NoFields {}): Fields<NoFields>,
    JsonBody(body): JsonBody<CodeBody>,
) -> Result<(StatusCode, Json<LoginCode>), ApiError> {
    let code = state.sessions.make_code(body.read_only, state.server.now());
    let code = code.ok_or_else(|| ApiError::bug("the system gave no random bytes for a code"))?;
    let made = LoginCode { code: code.as_str().to_owned(), expires_in_ms: CODE_TIME_MAX };
    Ok((StatusCode::CREATED, Json(made)))
}
