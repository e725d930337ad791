//! The suite over a real HTTP service behind the layer, and a real gRPC one.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::response::Response;
use axum::routing::{get, post};
use palisade_core::holding::{Holding, NotHolding};
use palisade_core::ids::{LockName, Slot};
use palisade_core::mode::Mode;
use palisade_core::token::Token;
use palisade_fence::adapters::memory::MemoryResource;
use palisade_fence::admit::HighWaterMark;
use palisade_fence::conformance::{SigningCluster, Subject, check_with};
use palisade_fence::error::FenceError;
use palisade_fence::guard::{Guard, Scope};
use palisade_fence::keys::KeySet;
use palisade_fence::service::{SEQUENCER_HEADER, SequencerLayer, http_refusal};
use palisade_fence::verifier::{Presented, SignedFloor, Verifier};
use tokio::runtime::Runtime;
use tower::ServiceExt;

type Orders = Arc<Guard<MemoryResource<Vec<String>>>>;

/// A handler as its author writes it: the layer has verified, the guard decides, with the write.
async fn append(
    State(orders): State<Orders>,
    Extension(held): Extension<Presented>,
    line: String,
) -> Response {
    let written = orders.write(&held, |lines| {
        lines.push(line);
        Ok(())
    });
    written.map_or_else(|error| http_refusal(&error), |()| Response::new(Body::empty()))
}

async fn claim(State(orders): State<Orders>, Extension(held): Extension<Presented>) -> Response {
    orders.claim(&held).map_or_else(|error| http_refusal(&error), |_| Response::new(Body::empty()))
}

async fn all(State(orders): State<Orders>) -> String {
    orders.adapter().read(|lines| lines.join("\n")).unwrap()
}

struct Lines {
    runtime: Runtime,
    service: axum::Router,
    orders: Orders,
}

fn service(orders: &Orders, verifier: Arc<Verifier>) -> axum::Router {
    axum::Router::new()
        .route("/orders", get(all).post(append))
        .route("/claim", post(claim))
        .layer(SequencerLayer::http(verifier).reads_need_none().counted_in(Arc::clone(orders.tally())))
        .with_state(Arc::clone(orders))
}

fn lines(scope: Scope) -> Lines {
    let cluster = SigningCluster::new(1);
    let keys = KeySet::from_jwks(&cluster.verifier().keys().to_jwks()).unwrap();
    let orders = Arc::new(Guard::new(MemoryResource::new(Vec::new()), scope));
    let service = service(&orders, Arc::new(Verifier::new(cluster.id(), keys)));
    Lines { runtime: tokio::runtime::Builder::new_current_thread().build().unwrap(), service, orders }
}

impl Lines {
    fn post(&self, path: &str, sequencer: Option<&str>, line: &str) -> (u16, String, serde_json::Value) {
        let mut request = http::Request::post(path);
        if let Some(sequencer) = sequencer {
            request = request.header(SEQUENCER_HEADER, sequencer);
        }
        let request = request.body(Body::from(line.to_owned())).unwrap();
        self.runtime.block_on(async {
            let response = self.service.clone().oneshot(request).await.unwrap();
            let status = response.status().as_u16();
            let kind = response.headers().get("content-type").map(|kind| kind.to_str().unwrap().to_owned());
            let body = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
            (status, kind.unwrap_or_default(), serde_json::from_slice(&body).unwrap_or_default())
        })
    }

    /// What a client makes of the answer.
    fn ask(&self, path: &str, holding: &dyn Holding, line: &str) -> Result<(), FenceError> {
        holding.check()?;
        let (status, kind, problem) = self.post(path, holding.sequencer(), line);
        if status == 200 {
            return Ok(());
        }
        assert_eq!(kind, "application/problem+json");
        assert_eq!(problem["status"], status);
        let (lock, slot) = (holding.lock().clone(), holding.slot());
        let token = |name: &str| Token::new(problem[name].as_str().unwrap().parse().unwrap()).unwrap();
        Err(match (status, problem["title"].as_str().unwrap()) {
            (412, "STALE") => {
                holding.rejected(token("mark"));
                FenceError::Stale { lock, slot, presented: token("presented"), mark: token("mark") }
            }
            (403, "WRONG_LOCK") => FenceError::WrongLock { presented: lock, expected: String::new() },
            (403, "WRONG_SLOT") => FenceError::WrongSlot { lock, presented: slot, slots: 0 },
            (403, "WRONG_MODE") => FenceError::WrongMode { lock, mode: holding.mode() },
            // The other cluster's key is not among this one's.
            (401, "UNKNOWN_KEY") => {
                FenceError::WrongCluster { presented: String::new(), expected: String::new() }
            }
            other => panic!("{other:?}: {problem}"),
        })
    }
}

impl Subject for Lines {
    fn claim(&self, holding: &dyn Holding) -> Result<(), FenceError> {
        self.ask("/claim", holding, "")
    }

    fn append(&self, holding: &dyn Holding, line: &str) -> Result<(), FenceError> {
        self.ask("/orders", holding, line)
    }

    // A floor comes from a feed, not with a request.
    fn raise(&self, floor: &SignedFloor) -> Result<HighWaterMark, FenceError> {
        self.orders.raise(floor)
    }

    fn lines(&self) -> Vec<String> {
        self.orders.adapter().read(Clone::clone).unwrap()
    }

    fn reopen(self) -> Self {
        self
    }

    fn append_past_the_guard(&self, line: &str) {
        self.orders.adapter().unguarded(|lines| lines.push(line.to_owned())).unwrap();
    }

    fn append_bare(&self, line: &str) -> Option<Result<(), FenceError>> {
        let (status, _, problem) = self.post("/orders", None, line);
        assert_eq!((status, &problem["title"]), (428, &"SEQUENCER_REQUIRED".into()));
        Some(Err(FenceError::NoSequencer))
    }

    // This service keeps its data in memory.
    fn die_before_the_commit(self, _: &dyn Holding, _: &str) -> Option<Self> {
        None
    }

    fn lose_marks(self) -> Option<Self> {
        None
    }
}

#[test]
fn an_http_service_passes() {
    check_with(lines, 100);
}

fn of(scope: impl Fn(Scope) -> Scope) -> (SigningCluster, Lines) {
    let cluster = SigningCluster::new(1);
    let service = lines(scope(Scope::new(cluster.id(), LockName::new("a").unwrap())));
    (cluster, service)
}

#[test]
fn each_refusal_has_its_status() {
    let (cluster, service) = of(|scope| scope);
    let good = cluster.exclusive("a", 34);
    let text = good.sequencer().unwrap();
    let forger = SigningCluster::new(2);
    let statement = cluster.statement("a", 0, Mode::Exclusive, 90);
    let forged = forger.sign(&cluster.header(), &statement);
    let unknown = forger.sign(&forger.header(), &statement);
    let mut header = cluster.header();
    header.typ = "palisade-floor+jwt".to_owned();
    let floor = cluster.sign(&header, &statement);
    for (sequencer, status, title) in [
        (Some(forged.as_str()), 401, "FORGED"),
        (Some(&unknown), 401, "UNKNOWN_KEY"),
        (Some(&floor), 401, "WRONG_PURPOSE"),
        (Some("34"), 400, "MALFORMED"),
        (Some(""), 400, "MALFORMED"),
        (None, 428, "SEQUENCER_REQUIRED"),
    ] {
        let (answered, _, problem) = service.post("/orders", sequencer, "no");
        assert_eq!((answered, problem["title"].as_str().unwrap()), (status, title), "{problem}");
    }
    assert_eq!(service.post("/orders", Some(text), "yes").0, 200);
    assert_eq!(service.post("/claim", Some(cluster.exclusive("a", 41).sequencer().unwrap()), "").0, 200);
    let (status, _, problem) = service.post("/orders", Some(text), "stale");
    assert_eq!(status, 412);
    assert_eq!((&problem["presented"], &problem["mark"]), (&"34".into(), &"41".into()));
    assert_eq!(problem["type"], "urn:palisade:stale");
    assert_eq!(service.lines(), ["yes"]);
    // What the layer refused is counted beside what the guard decided.
    let metrics = service.orders.metrics();
    for (decision, count) in [
        ("claimed", 1),
        ("written", 1),
        ("stale", 1),
        ("malformed", 2),
        ("forged", 1),
        ("wrong_purpose", 1),
        ("no_sequencer", 1),
        ("unknown_key", 1),
        ("wrong_lock", 0),
    ] {
        let line = format!(r#"palisade_fence_decisions_total{{guard="",decision="{decision}"}} {count}"#);
        assert!(metrics.lines().any(|found| found == line), "{metrics}");
    }
}

#[test]
fn a_second_sequencer_is_not_chosen_from() {
    let (cluster, service) = of(|scope| scope);
    let request = http::Request::post("/orders")
        .header(SEQUENCER_HEADER, cluster.exclusive("a", 34).sequencer().unwrap())
        .header(SEQUENCER_HEADER, cluster.exclusive("a", 35).sequencer().unwrap())
        .body(Body::empty())
        .unwrap();
    let response = service.runtime.block_on(service.service.clone().oneshot(request)).unwrap();
    assert_eq!(response.status().as_u16(), 400);
}

#[test]
fn a_read_needs_no_sequencer_and_a_wrong_one_is_refused_all_the_same() {
    let (cluster, service) = of(|scope| scope);
    let read = |sequencer: Option<String>| {
        let mut request = http::Request::get("/orders");
        if let Some(sequencer) = sequencer {
            request = request.header(SEQUENCER_HEADER, sequencer);
        }
        let request = request.body(Body::empty()).unwrap();
        service.runtime.block_on(service.service.clone().oneshot(request)).unwrap().status().as_u16()
    };
    assert_eq!(read(None), 200);
    assert_eq!(read(cluster.exclusive("a", 34).sequencer().map(str::to_owned)), 200);
    assert_eq!(read(Some("34".to_owned())), 400);
}

#[test]
fn an_unknown_key_is_asked_for_and_known_afterwards() {
    let (old, new) = (SigningCluster::new(1), SigningCluster::new(2));
    let verifier =
        Arc::new(Verifier::new(new.id(), KeySet::from_jwks(&old.verifier().keys().to_jwks()).unwrap()));
    let asked = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&asked);
    let layer = SequencerLayer::http(Arc::clone(&verifier)).on_unknown_key(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
    });
    let service = axum::Router::new().route("/", post(|| async { "ok" })).layer(layer);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let ask = || {
        let sequencer = new.exclusive("a", 34).sequencer().unwrap().to_owned();
        let request =
            http::Request::post("/").header(SEQUENCER_HEADER, sequencer).body(Body::empty()).unwrap();
        runtime.block_on(service.clone().oneshot(request)).unwrap().status().as_u16()
    };
    assert_eq!((ask(), asked.load(Ordering::Relaxed)), (401, 1));
    verifier.replace_keys(KeySet::from_jwks(&new.verifier().keys().to_jwks()).unwrap());
    assert_eq!((ask(), asked.load(Ordering::Relaxed)), (200, 1));
}

/// A tonic server and a tonic client over a real socket.
#[test]
fn a_grpc_service_answers_with_codes() {
    use tonic::Code;
    use tonic_health::pb::HealthCheckRequest;
    use tonic_health::pb::health_client::HealthClient;

    let cluster = SigningCluster::new(1);
    let keys = KeySet::from_jwks(&cluster.verifier().keys().to_jwks()).unwrap();
    let layer = SequencerLayer::grpc(Arc::new(Verifier::new(cluster.id(), keys)));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (_, health) = tonic_health::server::health_reporter();
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let address: SocketAddr = listener.local_addr().unwrap();
    let incoming = tonic::transport::server::TcpIncoming::from(listener);
    runtime.spawn(
        tonic::transport::Server::builder().layer(layer).add_service(health).serve_with_incoming(incoming),
    );
    let ask = |sequencer: Option<&str>| {
        runtime.block_on(async {
            let endpoint = tonic::transport::Endpoint::from_shared(format!("http://{address}")).unwrap();
            let mut client = HealthClient::new(endpoint.connect().await.unwrap());
            let mut request = tonic::Request::new(HealthCheckRequest { service: String::new() });
            if let Some(sequencer) = sequencer {
                request.metadata_mut().insert("palisade-sequencer", sequencer.parse().unwrap());
            }
            client.check(request).await.map(drop)
        })
    };
    let forged =
        SigningCluster::new(2).sign(&cluster.header(), &cluster.statement("a", 0, Mode::Exclusive, 90));
    for (sequencer, code, name) in [
        (None, Code::FailedPrecondition, "SEQUENCER_REQUIRED"),
        (Some(forged.as_str()), Code::Unauthenticated, "FORGED"),
        (Some("34"), Code::InvalidArgument, "MALFORMED"),
    ] {
        let status = ask(sequencer).unwrap_err();
        assert_eq!(
            (status.code(), status.metadata().get("palisade-refusal").unwrap().to_str().unwrap()),
            (code, name)
        );
        assert!(!status.message().is_empty());
    }
    ask(cluster.exclusive("a", 34).sequencer()).unwrap();
}

/// What a handler answers when its guard refuses: as a client of any language reads it.
#[test]
fn a_stale_grpc_write_names_both_tokens() {
    let stale = FenceError::Stale {
        lock: LockName::new("lager/höhe 100%").unwrap(),
        slot: Slot(0),
        presented: Token::new(34).unwrap(),
        mark: Token::new(41).unwrap(),
    };
    let response = palisade_fence::service::grpc_refusal::<String>(&stale);
    let header = |name: &str| response.headers().get(name).unwrap().to_str().unwrap().to_owned();
    assert_eq!((response.status().as_u16(), header("grpc-status")), (200, "9".to_owned()));
    assert_eq!((header("palisade-presented"), header("palisade-mark")), ("34".to_owned(), "41".to_owned()));
    assert!(header("grpc-message").contains("lager/h%C3%B6he 100%25"), "{}", header("grpc-message"));
    let status = tonic::Status::from_header_map(response.headers()).unwrap();
    assert_eq!(status.code(), tonic::Code::FailedPrecondition);
    assert!(status.message().contains("lager/höhe 100%"));
}

#[test]
fn the_page_has_every_refusal_as_it_is() {
    let page = include_str!("../../../../docs/adapters/services.md");
    let (lock, text) = (|| LockName::new("a").unwrap(), String::new);
    let (slot, token) = (Slot(0), Token::new(1).unwrap());
    let rejected = NotHolding::Rejected { lock: lock(), token, mark: token };
    let errors = [
        FenceError::Stale { lock: lock(), slot, presented: token, mark: token },
        FenceError::NotHolding(rejected),
        FenceError::NoSequencer,
        FenceError::Malformed(text()),
        FenceError::Forged,
        FenceError::UnknownKey { kid: text() },
        FenceError::WrongPurpose { expected: "", typ: text(), alg: text() },
        FenceError::WrongCluster { presented: text(), expected: text() },
        FenceError::WrongLock { presented: lock(), expected: text() },
        FenceError::WrongSlot { lock: lock(), presented: slot, slots: 0 },
        FenceError::WrongMode { lock: lock(), mode: Mode::Shared },
        FenceError::Contended { store: text() },
        FenceError::NoFloor { lock: lock() },
        FenceError::Busy { path: text().into() },
        FenceError::NoMarks { store: "a secret path".to_owned() },
        FenceError::Storage { what: "a secret path".to_owned(), source: text().into() },
        FenceError::effect("a secret path"),
    ];
    for error in &errors {
        let refusal = error.refusal();
        let mut code = String::new();
        for letter in format!("{:?}", tonic::Code::from(refusal.grpc)).chars() {
            if letter.is_uppercase() && !code.is_empty() {
                code.push('_');
            }
            code.push(letter.to_ascii_uppercase());
        }
        let row = format!("| `{}` | {} | `{code}` |", refusal.name, refusal.http);
        assert!(page.contains(&row), "the page lacks {row}");
        assert!(!error.problem().to_string().contains("secret"), "{}", error.problem());
    }
    let section = page.split("\n## ").find(|section| section.starts_with("Answers\n")).unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    assert_eq!(rows.count(), errors.len(), "a row of no error");
}
