//! How a worker reaches its server.

use std::time::Duration;

use futures::future::BoxFuture;

/// One call to the server.
#[derive(Clone, Debug)]
pub struct Call {
    /// The last part of the path, with a query where the body is not JSON.
    pub verb: String,
    /// The body.
    pub body: Vec<u8>,
    /// How long the answer may take.
    pub patience: Duration,
}

/// How a worker reaches its server.
pub trait Link: Send + Sync + 'static {
    /// Makes one call; the body of the answer when its status is 200.
    fn call(&self, call: Call) -> BoxFuture<'static, Result<Vec<u8>, LinkError>>;
}

/// Why a call came to nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkError {
    /// There was no answer.
    Unreachable(String),
    /// The server refused, with this status and for this reason.
    Refused(u16, String),
}
