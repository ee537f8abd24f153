mod bulk;
mod definition;
mod due;
mod event;
mod executor;
mod follow;
mod graph;
mod history;
mod job;
mod line;
mod log;
mod plan;
mod run;
mod service;
mod session;
mod spec;
mod stats;
mod upcoming;
mod why;
mod why_at;

use std::any::Any;

use axum::Router;
use axum::extract::{Extension, Request};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use tower_http::catch_panic::CatchPanicLayer;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{Modify, OpenApi};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::ApiState;
use crate::error::ApiError;
use crate::guard::guard;
pub use definition::etag;
use service::OpenApiText;

/// The page and the API: every endpoint, closed but for `/health`, the two paths below it, and signing in.
pub fn router(state: ApiState) -> Router {
    let (endpoints, document) = endpoints().split_for_parts();
    endpoints
        .fallback(async |request: Request| ApiError::no_such_path(request.uri().path()))
        .method_not_allowed_fallback(async |request: Request| {
            ApiError::wrong_method(request.method().as_str(), request.uri().path())
        })
        .layer(Extension(OpenApiText::new(&document)))
        .layer(CatchPanicLayer::custom(panicked))
        .layer(from_fn_with_state(state.clone(), guard))
        .with_state(state)
}

/// The OpenAPI document that the server answers at `/api/v1/openapi.json`.
pub fn openapi() -> String {
    OpenApiText::new(&endpoints().into_openapi()).as_str().to_owned()
}

/// The one table of endpoints: what is served and what is documented both come from it.
fn endpoints() -> OpenApiRouter<ApiState> {
    OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(job::list))
        .routes(routes!(job::show))
        .routes(routes!(job::trigger))
        .routes(routes!(job::pause))
        .routes(routes!(job::resume))
        .routes(routes!(graph::graph))
        .routes(routes!(run::list))
        .routes(routes!(run::show))
        .routes(routes!(run::stop))
        .routes(routes!(run::retry))
        .routes(routes!(why::why))
        .routes(routes!(why::conflicts))
        .routes(routes!(why::waits))
        .routes(routes!(due::dues))
        .routes(routes!(stats::stats))
        .routes(routes!(log::list))
        .routes(routes!(log::read))
        .routes(routes!(line::lines))
        .routes(routes!(line::search))
        .routes(routes!(event::events))
        .routes(routes!(session::show, session::sign_in, session::sign_out))
        .routes(routes!(why_at::why_at))
        .routes(routes!(spec::check))
        .routes(routes!(spec::preview))
        .routes(routes!(definition::show, definition::save, definition::remove))
        .routes(routes!(definition::revisions))
        .routes(routes!(definition::diff))
        .routes(routes!(plan::plan))
        .routes(routes!(bulk::pause))
        .routes(routes!(bulk::resume))
        .routes(routes!(bulk::trigger))
        .routes(routes!(session::list))
        .routes(routes!(session::end))
        .routes(routes!(session::make_code))
        .routes(routes!(history::history))
        .routes(routes!(history::skips))
        .routes(routes!(upcoming::upcoming))
        .routes(routes!(upcoming::forecast))
        .routes(routes!(executor::list))
        .routes(routes!(service::problems))
        .routes(routes!(service::openapi))
        .routes(routes!(service::metrics))
        .routes(routes!(service::health))
        .routes(routes!(service::live))
        .routes(routes!(service::ready))
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Cadran",
        description = "Jobs, their schedules, runs and logs. Every instant stands twice: as RFC 3339 text in UTC and, \
                       with `_ms` behind its name, as milliseconds since 1970. Requests take either form. Unknown \
                       fields are refused. Every answer that is not a success has the shape of `ErrorBody`."
    ),
    modifiers(&Bearer),
    security(("bearer" = [])),
)]
struct Document;

struct Bearer;

impl Modify for Bearer {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
        document
            .components
            .get_or_insert_default()
            .add_security_scheme("bearer", SecurityScheme::Http(scheme));
    }
}

fn panicked(payload: Box<dyn Any + Send>) -> Response {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("panic");
    ApiError::bug(text).into_response()
}
