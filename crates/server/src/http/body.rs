//! Bodies: what comes in as JSON, and how an error goes out.

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use palisade_proto::convert::{error_code, json};
use palisade_proto::v1;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::door::{Door, client_of};
use crate::error;

const PROBLEM: HeaderValue = HeaderValue::from_static("application/problem+json");

/// An error, as a problem document (RFC 9457).
pub(super) struct Problem(pub(super) v1::Error);

impl From<v1::Error> for Problem {
    fn from(error: v1::Error) -> Self {
        Self(error)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (_, status) = error_code(&self.0.name);
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, PROBLEM);
        if self.0.retry_after_ms > 0 {
            headers.insert(header::RETRY_AFTER, self.0.retry_after_ms.div_ceil(1_000).into());
        }
        let body = json::problem(&self.0, status).to_string() + "\n";
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (status, headers, body).into_response()
    }
}

/// An answer.
pub(super) fn document(status: StatusCode, document: &Value) -> Response {
    let json = HeaderValue::from_static("application/json");
    (status, [(header::CONTENT_TYPE, json)], document.to_string() + "\n").into_response()
}

/// The body of a call. It says that it is JSON, so that no page of another site can send one unasked.
pub(super) async fn asked<T: DeserializeOwned>(door: &Door, request: Request) -> Result<T, Problem> {
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let bare = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default().trim();
    if !bare.eq_ignore_ascii_case("application/json") {
        return Err(error::bad_argument("the body must be JSON: send Content-Type: application/json").into());
    }
    let max = door.coordinator.config.door.body_bytes_max;
    let bytes = bounded(request.into_body(), max).await.ok_or_else(|| error::too_large(max))?;
    serde_json::from_slice(&bytes).map_err(|bad| error::bad_argument(format!("the body: {bad}")).into())
}

/// None when there is more, or the client is gone.
async fn bounded(body: Body, max: usize) -> Option<axum::body::Bytes> {
    to_bytes(body, max).await.ok()
}

/// The query of a call.
pub(super) fn queried<T: DeserializeOwned>(uri: &Uri) -> Result<T, Problem> {
    let query = axum::extract::Query::<T>::try_from_uri(uri);
    query.map(|query| query.0).map_err(|bad| error::bad_argument(format!("the query: {bad}")).into())
}

/// There is no such call.
pub(super) async fn unknown(request: Request) -> Problem {
    let words = format!("there is no {} {}", request.method(), request.uri().path());
    error::no_such_call(words).into()
}

/// Lets a call pass, or says in the caller's own protocol when to repeat it.
pub(super) async fn pace(State(door): State<Door>, request: Request, next: Next) -> Response {
    let Err(error) = door.admit(client_of(request.extensions()), 1) else { return next.run(request).await };
    let kind = request.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    if kind.starts_with(b"application/grpc") {
        return error::status(&error).into_http();
    }
    Problem(error).into_response()
}
