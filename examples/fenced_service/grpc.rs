//! The same order book as a gRPC service, on the same port.
//!
//! ```proto
//! syntax = "proto3";
//! package orders.v1;
//!
//! service Orders {
//!   rpc Append(Order) returns (Done);
//!   rpc Claim(Nothing) returns (Done);
//!   rpc List(Nothing) returns (Book);
//! }
//! message Order { string line = 1; }
//! message Book { repeated string lines = 1; }
//! message Done {}
//! message Nothing {}
//! ```
//!
//! What a compiler would make of this is written out here, so that the example needs none.

use std::future::Future;
use std::pin::Pin;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::post;
use palisade_core::holding::Holding;
use palisade_fence::error::FenceError;
use palisade_fence::service::{Grpc, SequencerLayer, grpc_refusal};
use palisade_fence::verifier::Presented;
use tonic::Status;
use tonic::server::UnaryService;
use tonic_prost::ProstCodec;

use crate::{LINE_BYTES_MAX, NOT_A_LINE, Orders, blocking, line};

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Order {
    #[prost(string, tag = "1")]
    pub(crate) line: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Book {
    #[prost(string, repeated, tag = "1")]
    lines: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(crate) struct Nothing {}

/// Writes go through the layer, which verifies; the guard decides, with the write. Whoever lists needs no sequencer.
pub(crate) fn service(orders: Orders, layer: SequencerLayer<Grpc>) -> axum::Router {
    axum::Router::new()
        .route("/orders.v1.Orders/Append", post(append))
        .route("/orders.v1.Orders/Claim", post(claim))
        .layer(layer)
        .with_state(Orders::clone(&orders))
        .merge(list(orders))
}

/// What needs no sequencer.
pub(crate) fn list(orders: Orders) -> axum::Router {
    axum::Router::new().route("/orders.v1.Orders/List", post(all)).with_state(orders)
}

async fn append(State(orders): State<Orders>, request: Request) -> Response {
    unary(request, async move |request: tonic::Request<Order>| {
        let held = held(&request)?;
        let line = line(&request.get_ref().line, Some(held.token()));
        let line = line.ok_or_else(|| Status::invalid_argument(NOT_A_LINE))?;
        done(blocking(move || orders.write(&held, |book| book.append(line.as_bytes()))).await)
    })
    .await
}

async fn claim(State(orders): State<Orders>, request: Request) -> Response {
    unary(request, async move |request: tonic::Request<Nothing>| {
        let held = held(&request)?;
        done(blocking(move || orders.claim(&held).map(drop)).await)
    })
    .await
}

async fn all(State(orders): State<Orders>, request: Request) -> Response {
    unary(request, async move |_: tonic::Request<Nothing>| {
        let text = move || String::from_utf8(orders.adapter().read()?).map_err(FenceError::effect);
        let book = blocking(text).await.map_err(|error| status(&error))?;
        Ok(Book { lines: book.lines().map(str::to_owned).collect() })
    })
    .await
}

/// What the layer verified.
fn held<M>(request: &tonic::Request<M>) -> Result<Presented, Status> {
    let held = request.extensions().get::<Presented>().cloned();
    held.ok_or_else(|| status(&FenceError::NoSequencer))
}

pub(crate) fn done(outcome: Result<(), FenceError>) -> Result<Nothing, Status> {
    outcome.map(|()| Nothing {}).map_err(|error| status(&error))
}

/// What the guard refused, as the layer would have said it: a stale one with both tokens in its metadata.
fn status(error: &FenceError) -> Status {
    let refusal = grpc_refusal::<Body>(error);
    Status::from_header_map(refusal.headers()).unwrap_or_else(|| Status::internal("it was refused"))
}

type Answer<M> = Pin<Box<dyn Future<Output = Result<tonic::Response<M>, Status>> + Send>>;

/// A method of the service: one message in, one out.
struct Method<F>(Option<F>);

impl<F, M, A, R> UnaryService<M> for Method<F>
where
    F: FnOnce(tonic::Request<M>) -> R,
    R: Future<Output = Result<A, Status>> + Send + 'static,
{
    type Response = A;
    type Future = Answer<A>;

    fn call(&mut self, request: tonic::Request<M>) -> Answer<A> {
        let answered = self.0.take().map(|method| method(request));
        Box::pin(async move {
            let answered = answered.ok_or_else(|| Status::internal("called twice"))?;
            answered.await.map(tonic::Response::new)
        })
    }
}

/// Takes the frame off a request, and puts one around the answer.
pub(crate) async fn unary<F, M, A, R>(request: Request, method: F) -> Response
where
    F: FnOnce(tonic::Request<M>) -> R,
    M: prost::Message + Default + Send + 'static,
    A: prost::Message + Send + 'static,
    R: Future<Output = Result<A, Status>> + Send + 'static,
{
    let mut grpc =
        tonic::server::Grpc::new(ProstCodec::<A, M>::default()).max_decoding_message_size(LINE_BYTES_MAX);
    grpc.unary(Method(Some(method)), request).await.map(Body::new)
}
