//! A service behind the fence, over HTTP and gRPC: an order book that takes lines from the holder of a lock, and from nobody
//! older.
//!
//! With `palisade dev` running:
//!
//! ```text
//! cargo run --example fenced_service -- --listen 127.0.0.1:8080 --lock orders/shard-7 --data orders.txt
//! palisade lock orders/shard-7 -- sh -c \
//!     'curl -sS -H "Palisade-Sequencer: $PALISADE_SEQUENCER" -d "an order" http://127.0.0.1:8080/orders'
//! ```
//!
//! `POST /claim` raises the mark, `POST /orders` appends a line, `GET /orders` reads all of them,
//! `GET /metrics` says what was decided, and what was refused is reported to the cluster, which shows it in `palisade who`,
//! `top` and `audit`. The same port speaks gRPC: `orders.v1.Orders` has `Append`, `Claim` and `List`. What it links of
//! Palisade is the resource's library: the cluster's id and its public keys come over HTTP from any node. Marks and lines are
//! durable, so that it may be stopped and started at any time. `--wrong` makes it wrong on purpose, for those who
//! want to see that `palisade conform` and `palisade drill` notice.

mod cluster;
mod grpc;
mod http;
mod reports;
mod wrong;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Extension, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use clap::Parser;
use palisade_core::holding::Holding;
use palisade_core::ids::{ClientName, ClusterId, GuardName, LockName};
use palisade_core::token::Token;
use palisade_fence::adapters::file::FileResource;
use palisade_fence::error::FenceError;
use palisade_fence::guard::{Guard, Scope};
use palisade_fence::keys::KeyRefresh;
use palisade_fence::service::{SequencerLayer, http_refusal};
use palisade_fence::tally::Tally;
use palisade_fence::verifier::{Presented, Verifier};
use tonic::transport::server::TcpIncoming;

use wrong::Fault;

/// Bytes of a line.
const LINE_BYTES_MAX: usize = 16 << 10;
const NOT_A_LINE: &str = "an order is one line of text";

/// An order book that only the holder of a lock may write, over HTTP and gRPC.
#[derive(Debug, Parser)]
struct Arguments {
    /// Where to listen; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: String,
    /// Nodes that have the cluster's id and public keys, host:port
    #[arg(long, env = "PALISADE_ENDPOINTS", value_delimiter = ',', default_value = "127.0.0.1:7170")]
    endpoints: Vec<String>,
    /// The cluster that this service serves; without it, the one that the nodes are of
    #[arg(long)]
    cluster: Option<ClusterId>,
    /// The lock that guards the order book
    #[arg(long, default_value = "orders/shard-7", value_parser = LockName::new)]
    lock: LockName,
    /// The order book. Its marks lie beside it
    #[arg(long, default_value = "orders.txt")]
    data: PathBuf,
    /// What this service is called where it reports what it refused
    #[arg(long, default_value = "order-book", value_parser = GuardName::new)]
    guard: GuardName,
    /// Be wrong on purpose
    #[arg(long, value_enum)]
    wrong: Option<Fault>,
}

type Orders = Arc<Guard<FileResource>>;

/// The layer verifies, and asks for the keys again when it meets one that it does not know. The guard decides, with the
/// write.
fn service(orders: Orders, verifier: Arc<Verifier>, keys: Arc<KeyRefresh>) -> axum::Router {
    let http =
        SequencerLayer::http(Arc::clone(&verifier)).reads_need_none().counted_in(Arc::clone(orders.tally()));
    let grpc = SequencerLayer::grpc(verifier).counted_in(Arc::clone(orders.tally()));
    let asked = Arc::clone(&keys);
    axum::Router::new()
        .route("/orders", get(all).post(append))
        .route("/claim", post(claim))
        .layer(http.on_unknown_key(move |_| keys.ask()))
        .with_state(Orders::clone(&orders))
        .merge(grpc::service(orders, grpc.on_unknown_key(move |_| asked.ask())))
}

/// What the guard decided, for Prometheus.
fn metrics(orders: Orders) -> axum::Router {
    axum::Router::new().route("/metrics", get(async move || orders.metrics()))
}

async fn append(
    State(orders): State<Orders>,
    Extension(held): Extension<Presented>,
    order: String,
) -> Response {
    let Some(line) = line(&order, Some(held.token())) else { return not_a_line() };
    answer(blocking(move || orders.write(&held, |book| book.append(line.as_bytes()))).await)
}

async fn claim(State(orders): State<Orders>, Extension(held): Extension<Presented>) -> Response {
    answer(blocking(move || orders.claim(&held).map(drop)).await)
}

async fn all(State(orders): State<Orders>) -> Response {
    match blocking(move || orders.adapter().read()).await {
        Ok(bytes) => Response::new(Body::from(bytes)),
        Err(error) => http_refusal(&error),
    }
}

/// The order after the token that it came with: whoever reads the book sees which holder wrote what.
fn line(order: &str, token: Option<Token>) -> Option<String> {
    let order = order.trim_end();
    let one = !order.is_empty() && !order.contains(|c: char| c.is_control());
    let token = token.map_or_else(|| "-".to_owned(), |token| token.to_string());
    one.then(|| format!("{token} {order}\n"))
}

fn not_a_line() -> Response {
    (StatusCode::UNPROCESSABLE_ENTITY, format!("{NOT_A_LINE}\n")).into_response()
}

fn answer(done: Result<(), FenceError>) -> Response {
    match done {
        Ok(()) => Response::new(Body::empty()),
        Err(error) => http_refusal(&error),
    }
}

/// Files block.
async fn blocking<R: Send + 'static>(
    work: impl FnOnce() -> Result<R, FenceError> + Send + 'static,
) -> Result<R, FenceError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(FenceError::effect(error)),
    }
}

/// New where nothing is yet. A book without marks is not new: they are lost, and it is refused.
fn book(data: &Path) -> Result<FileResource, Box<dyn Error>> {
    let mut marks = data.as_os_str().to_owned();
    marks.push(".marks");
    let new = !data.try_exists()? && !Path::new(&marks).try_exists()?;
    Ok(if new { FileResource::create(data)? } else { FileResource::open(data)? })
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse();
    let cluster = cluster::id(&arguments.endpoints).await?;
    if arguments.cluster.is_some_and(|expected| expected != cluster) {
        return Err(format!("these nodes are of cluster {cluster}").into());
    }
    let verifier = Arc::new(Verifier::new(cluster, cluster::keys(&arguments.endpoints).await?));
    let tally = Arc::new(Tally::named(arguments.guard.clone()));
    reports::keep(arguments.endpoints.clone(), arguments.guard, Arc::clone(&tally));
    let keys = cluster::refresh(arguments.endpoints, Arc::clone(&verifier))?;
    if arguments.wrong == Some(Fault::ForgetsMarks) {
        wrong::forget_marks(&arguments.data)?;
    }
    let scope = Scope::new(cluster, arguments.lock.clone());
    let guard = Guard::new(book(&arguments.data)?, scope).counted_in(tally);
    let orders = Arc::new(guard.on_stale(|rejection| {
        let client = rejection.client.map_or("nobody", ClientName::as_str);
        eprintln!("refused: token {} of {client} is below {}", rejection.presented, rejection.mark);
    }));
    let metrics = metrics(Arc::clone(&orders));
    let service = match arguments.wrong {
        None => service(orders, verifier, keys),
        Some(fault) => wrong::service(fault, orders, verifier, keys, &arguments.data, arguments.lock),
    };
    let listener = tokio::net::TcpListener::bind(&arguments.listen).await?;
    println!("listening on http://{}", listener.local_addr()?);
    let service = service.merge(metrics).layer(DefaultBodyLimit::max(LINE_BYTES_MAX));
    tonic::transport::Server::builder()
        .accept_http1(true)
        .add_routes(service.into())
        .serve_with_incoming(TcpIncoming::from(listener))
        .await?;
    Ok(())
}
