//! The suite over a real gRPC service behind the layer: a server and a client of tonic, a socket between them, and a file that
//! outlives the service.

use std::fs;
use std::future::{Ready, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::post;
use bytes::{Buf, BufMut, Bytes};
use palisade_core::holding::Holding;
use palisade_core::token::Token;
use palisade_fence::adapters::file::FileResource;
use palisade_fence::admit::HighWaterMark;
use palisade_fence::conformance::{SigningCluster, Subject, check_with};
use palisade_fence::error::FenceError;
use palisade_fence::guard::{Guard, Scope};
use palisade_fence::keys::KeySet;
use palisade_fence::service::{SequencerLayer, grpc_refusal};
use palisade_fence::verifier::{Presented, SignedFloor, Verifier};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::server::UnaryService;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Code, Status};

use super::folder;

type Orders = Arc<Guard<FileResource>>;

/// Messages are lines, as they are.
#[derive(Clone, Copy)]
struct Line;

impl Codec for Line {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Line {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, line: Bytes, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put(line);
        Ok(())
    }
}

impl Decoder for Line {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}

enum Method {
    Append(Orders),
    Claim(Orders),
}

impl Method {
    fn answer(&self, request: &tonic::Request<Bytes>) -> Result<(), FenceError> {
        let held = request.extensions().get::<Presented>().ok_or(FenceError::NoSequencer)?;
        match self {
            Self::Append(orders) => {
                let line = [request.get_ref(), &b"\n"[..]].concat();
                orders.write(held, |file| file.append(&line))
            }
            Self::Claim(orders) => orders.claim(held).map(drop),
        }
    }
}

impl UnaryService<Bytes> for Method {
    type Response = Bytes;
    type Future = Ready<Result<tonic::Response<Bytes>, Status>>;

    fn call(&mut self, request: tonic::Request<Bytes>) -> Self::Future {
        let refused = |error| Status::from_header_map(grpc_refusal::<String>(&error).headers()).unwrap();
        ready(self.answer(&request).map(|()| tonic::Response::new(Bytes::new())).map_err(refused))
    }
}

async fn append(State(orders): State<Orders>, request: Request) -> Response {
    tonic::server::Grpc::new(Line).unary(Method::Append(orders), request).await.map(Body::new)
}

async fn claim(State(orders): State<Orders>, request: Request) -> Response {
    tonic::server::Grpc::new(Line).unary(Method::Claim(orders), request).await.map(Body::new)
}

struct Lines {
    channel: Channel,
    orders: Orders,
    // Ends the service, before the file is gone.
    runtime: Runtime,
    scope: Scope,
    path: PathBuf,
    folder: TempDir,
}

fn lines(scope: Scope) -> Lines {
    let folder = folder();
    let path = folder.path().join("orders");
    let resource = FileResource::create(&path).unwrap();
    serve(resource, scope, path, folder)
}

fn serve(resource: FileResource, scope: Scope, path: PathBuf, folder: TempDir) -> Lines {
    let cluster = SigningCluster::new(1);
    let keys = KeySet::from_jwks(&cluster.verifier().keys().to_jwks()).unwrap();
    let orders = Arc::new(Guard::new(resource, scope.clone()));
    let routes = axum::Router::new()
        .route("/orders.v1.Orders/Append", post(append))
        .route("/orders.v1.Orders/Claim", post(claim))
        .layer(SequencerLayer::grpc(Arc::new(Verifier::new(cluster.id(), keys))))
        .with_state(Arc::clone(&orders));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let channel = runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = Server::builder().add_routes(routes.into());
        tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
        Endpoint::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap()
    });
    Lines { channel, orders, runtime, scope, path, folder }
}

impl Lines {
    fn call(&self, method: &str, sequencer: Option<&str>, line: &str) -> Result<(), Status> {
        let mut request = tonic::Request::new(Bytes::from(line.to_owned()));
        if let Some(sequencer) = sequencer {
            request.metadata_mut().insert("palisade-sequencer", sequencer.parse().unwrap());
        }
        let path = format!("/orders.v1.Orders/{method}").parse().unwrap();
        let mut client = tonic::client::Grpc::new(self.channel.clone());
        self.runtime.block_on(async {
            client.ready().await.unwrap();
            client.unary(request, path, Line).await.map(drop)
        })
    }

    /// What a client makes of the answer.
    fn ask(&self, method: &str, holding: &dyn Holding, line: &str) -> Result<(), FenceError> {
        holding.check()?;
        let Err(status) = self.call(method, holding.sequencer(), line) else { return Ok(()) };
        let told = |name| status.metadata().get(name).and_then(|value| value.to_str().ok());
        let token = |name| Token::new(told(name).unwrap().parse().unwrap()).unwrap();
        let (lock, slot) = (holding.lock().clone(), holding.slot());
        Err(match (status.code(), told("palisade-refusal").unwrap()) {
            (Code::FailedPrecondition, "STALE") => {
                let (presented, mark) = (token("palisade-presented"), token("palisade-mark"));
                holding.rejected(mark);
                FenceError::Stale { lock, slot, presented, mark }
            }
            (Code::PermissionDenied, "WRONG_LOCK") => {
                FenceError::WrongLock { presented: lock, expected: String::new() }
            }
            (Code::PermissionDenied, "WRONG_SLOT") => {
                FenceError::WrongSlot { lock, presented: slot, slots: 0 }
            }
            (Code::PermissionDenied, "WRONG_MODE") => FenceError::WrongMode { lock, mode: holding.mode() },
            // The other cluster's key is not among this one's.
            (Code::Unauthenticated, "UNKNOWN_KEY") => {
                FenceError::WrongCluster { presented: String::new(), expected: String::new() }
            }
            (Code::Internal, "CANNOT_DECIDE") => FenceError::NoMarks { store: String::new() },
            other => panic!("{other:?}: {status}"),
        })
    }
}

impl Subject for Lines {
    fn claim(&self, holding: &dyn Holding) -> Result<(), FenceError> {
        self.ask("Claim", holding, "")
    }

    fn append(&self, holding: &dyn Holding, line: &str) -> Result<(), FenceError> {
        self.ask("Append", holding, line)
    }

    // A floor comes from a feed, not with a request.
    fn raise(&self, floor: &SignedFloor) -> Result<HighWaterMark, FenceError> {
        self.orders.raise(floor)
    }

    fn lines(&self) -> Vec<String> {
        let bytes = self.orders.adapter().read().unwrap();
        String::from_utf8(bytes).unwrap().lines().map(str::to_owned).collect()
    }

    fn reopen(self) -> Self {
        let Self { runtime, scope, path, folder, .. } = self;
        drop(runtime);
        let resource = FileResource::open(&path).unwrap();
        serve(resource, scope, path, folder)
    }

    fn append_past_the_guard(&self, line: &str) {
        let mut all = fs::read(&self.path).unwrap_or_default();
        all.extend(format!("{line}\n").bytes());
        fs::write(&self.path, all).unwrap();
    }

    fn append_bare(&self, line: &str) -> Option<Result<(), FenceError>> {
        let refused = self.call("Append", None, line).unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition);
        assert_eq!(refused.metadata().get("palisade-refusal").unwrap(), "SEQUENCER_REQUIRED");
        Some(Err(FenceError::NoSequencer))
    }

    fn die_before_the_commit(self, holding: &dyn Holding, _: &str) -> Option<Self> {
        let died = catch_unwind(AssertUnwindSafe(|| {
            let _: Result<(), _> = self.orders.write(holding, |_| panic!("the service dies here"));
        }));
        assert!(died.is_err());
        Some(self.reopen())
    }

    fn lose_marks(self) -> Option<Self> {
        fs::remove_file(self.path.with_extension("marks")).unwrap();
        Some(self)
    }
}

#[test]
fn a_grpc_service_passes() {
    check_with(lines, 100);
}
