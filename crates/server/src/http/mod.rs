//! HTTP on the client port: health, metrics, the public keys, and below `/v1` what a script needs (docs/http.md).

mod asked;
mod body;
mod calls;

use std::sync::Arc;

use axum::Router as Routes;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use palisade_raft::Replica;

use crate::coordinator::Coordinator;
use crate::door::Door;
use crate::metrics;
use crate::signer;
use crate::stream::Router;

/// How long resources may keep the key set, seconds.
const KEYS_MAX_AGE_S: u32 = 300;

#[derive(Clone)]
pub(crate) struct Http {
    pub(crate) coordinator: Arc<Coordinator>,
    pub(crate) router: Arc<Router>,
    pub(crate) replica: Replica,
}

/// What a script asks of the cluster. Each call goes the way of gRPC's single calls.
pub(crate) fn calls(door: &Door) -> Routes {
    Routes::new().nest("/v1", calls::routes(door.clone()))
}

/// Calls of every kind, no more of them from one client than the node's configuration allows.
pub(crate) fn paced(routes: Routes, door: Door) -> Routes {
    routes.layer(axum::middleware::from_fn_with_state(door, body::pace))
}

/// What HTTP serves besides.
pub(crate) fn routes(http: Http) -> Routes {
    health_routes().route("/.well-known/jwks.json", get(jwks)).with_state(http)
}

/// Metrics and health alone, for a listener of their own.
pub(crate) fn metrics_routes(http: Http) -> Routes {
    health_routes().with_state(http)
}

fn health_routes() -> Routes<Http> {
    Routes::new()
        .route("/metrics", get(show_metrics))
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
}

/// The process answers.
async fn livez() -> &'static str {
    "ok\n"
}

/// The node serves clients: a leader with a majority is known, and it is this node or this node's relay reaches it.
async fn readyz(State(http): State<Http>) -> Response {
    if is_ready(&http.coordinator, &http.router) {
        return "ok\n".into_response();
    }
    let mut headers = HeaderMap::new();
    headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    (StatusCode::SERVICE_UNAVAILABLE, headers, "no leader with a quorum is known\n").into_response()
}

pub(crate) fn is_ready(coordinator: &Coordinator, router: &Router) -> bool {
    let leader = router.leader();
    (leader.here || !leader.client_address.is_empty()) && coordinator.has_quorum()
}

async fn show_metrics(State(http): State<Http>) -> Response {
    let (streams, watches) = (http.router.stream_count(), http.coordinator.watches.stream_count());
    let text = http.coordinator.metrics.render(&http.replica, streams, watches);
    ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response()
}

async fn jwks(State(http): State<Http>) -> Response {
    let keys = http.replica.read(|table| signer::jwks(&signer::KeySet::of(table)));
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/jwk-set+json"));
    if let Ok(age) = HeaderValue::from_str(&format!("max-age={KEYS_MAX_AGE_S}")) {
        headers.insert(header::CACHE_CONTROL, age);
    }
    (headers, keys).into_response()
}
