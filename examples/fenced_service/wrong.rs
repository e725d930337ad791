//! The same service, wrong on purpose: each fault is one that real services have.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::routing::{get, post};
use clap::ValueEnum;
use palisade_core::holding::Holding;
use palisade_core::ids::LockName;
use palisade_core::mode::Mode;
use palisade_core::sequencer::{ClaimError, Sequencer, SequencerClaims};
use palisade_core::sequencer_text::{self, TextError};
use palisade_core::token::Token;
use palisade_fence::adapters::file::FileResource;
use palisade_fence::admit::HighWaterMark;
use palisade_fence::error::FenceError;
use palisade_fence::keys::KeyRefresh;
use palisade_fence::service::SEQUENCER_HEADER;
use palisade_fence::trusted::TrustedToken;
use palisade_fence::verifier::Verifier;
use tonic::Status;

use crate::grpc::{self, Nothing, Order, unary};
use crate::{NOT_A_LINE, Orders, all, answer, blocking, line, not_a_line};

/// How long a service that compares first is elsewhere before it writes.
const ELSEWHERE: Duration = Duration::from_millis(50);

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Fault {
    /// Looks at no sequencer at all
    Unfenced,
    /// Verifies the sequencer and compares no tokens
    AcceptsStale,
    /// Compares tokens and verifies no signature
    AcceptsUnsigned,
    /// Takes a write that brings no sequencer
    AcceptsMissing,
    /// Takes the sequencer of any lock
    IgnoresLock,
    /// Takes a shared holder's write
    IgnoresMode,
    /// A claim raises no mark
    ClaimsNothing,
    /// Compares, and writes later
    ComparesFirst,
    /// Writes, and compares later
    WritesFirst,
    /// Has no marks when it starts
    ForgetsMarks,
    /// Answers 500, in gRPC INTERNAL, where it refuses
    Answers500,
}

/// Takes the marks away.
pub(crate) fn forget_marks(data: &Path) -> io::Result<()> {
    let mut marks = data.as_os_str().to_owned();
    marks.push(".marks");
    if !data.try_exists()? {
        return Ok(());
    }
    std::fs::remove_file(&marks)?;
    FileResource::create(data).map(drop).map_err(io::Error::other)
}

#[derive(Clone)]
struct Wrong {
    fault: Fault,
    orders: Orders,
    verifier: Arc<Verifier>,
    keys: Arc<KeyRefresh>,
    data: PathBuf,
    lock: LockName,
}

/// The service with a fault.
pub(crate) fn service(
    fault: Fault,
    orders: Orders,
    verifier: Arc<Verifier>,
    keys: Arc<KeyRefresh>,
    data: &Path,
    lock: LockName,
) -> axum::Router {
    let wrong = Wrong { fault, orders: Arc::clone(&orders), verifier, keys, data: data.to_owned(), lock };
    let writes = axum::Router::new()
        .route("/orders", post(append))
        .route("/claim", post(claim))
        .route("/orders.v1.Orders/Append", post(append_in_grpc))
        .route("/orders.v1.Orders/Claim", post(claim_in_grpc))
        .with_state(wrong);
    let list = grpc::list(Arc::clone(&orders));
    axum::Router::new().route("/orders", get(all)).with_state(orders).merge(list).merge(writes)
}

async fn append(State(wrong): State<Wrong>, headers: HeaderMap, order: String) -> Response {
    match wrong.append(&headers, &order).await {
        Some(written) => wrong.answer(written),
        None => not_a_line(),
    }
}

async fn claim(State(wrong): State<Wrong>, headers: HeaderMap) -> Response {
    let claimed = wrong.claim(&headers).await;
    wrong.answer(claimed)
}

async fn append_in_grpc(State(wrong): State<Wrong>, request: Request) -> Response {
    unary(request, async move |request: tonic::Request<Order>| {
        let (metadata, _, Order { line }) = request.into_parts();
        let written = wrong.append(&metadata.into_headers(), &line).await;
        wrong.answer_in_grpc(written.ok_or_else(|| Status::invalid_argument(NOT_A_LINE))?)
    })
    .await
}

async fn claim_in_grpc(State(wrong): State<Wrong>, request: Request) -> Response {
    unary(request, async move |request: tonic::Request<Nothing>| {
        let claimed = wrong.claim(&request.into_parts().0.into_headers()).await;
        wrong.answer_in_grpc(claimed)
    })
    .await
}

/// What the sequencer says, and nobody has verified.
fn claims(headers: &HeaderMap) -> Result<SequencerClaims, FenceError> {
    let malformed = |error: TextError| FenceError::Malformed(error.to_string());
    sequencer_text::parse(text(headers)?).and_then(|text| text.sequencer_claims()).map_err(malformed)
}

fn text(headers: &HeaderMap) -> Result<&str, FenceError> {
    let mut texts = headers.get_all(SEQUENCER_HEADER).iter();
    let text = texts.next().ok_or(FenceError::NoSequencer)?;
    if texts.next().is_some() {
        return Err(FenceError::Malformed("more than one sequencer came with the request".to_owned()));
    }
    text.to_str().map_err(|error| FenceError::Malformed(error.to_string()))
}

impl Wrong {
    /// None where the order is no line.
    async fn append(&self, headers: &HeaderMap, order: &str) -> Option<Result<(), FenceError>> {
        let token = claims(headers).ok().and_then(|claims| Token::new(claims.token));
        let line = line(order, token)?;
        Some(match self.held(headers) {
            Ok(Some(held)) => self.write(held, line).await,
            Ok(None) => self.past_the_guard(&line),
            Err(error) => Err(error),
        })
    }

    async fn claim(&self, headers: &HeaderMap) -> Result<(), FenceError> {
        match self.held(headers)? {
            Some(held) => self.raise(held).await,
            None => Ok(()),
        }
    }

    /// Who writes; none where nobody asks.
    fn held(&self, headers: &HeaderMap) -> Result<Option<TrustedToken>, FenceError> {
        let bare = !headers.contains_key(SEQUENCER_HEADER);
        if self.fault == Fault::Unfenced || (self.fault == Fault::AcceptsMissing && bare) {
            return Ok(None);
        }
        let says = if self.fault == Fault::AcceptsUnsigned {
            claims(headers)?
                .try_into()
                .map_err(|error: ClaimError| FenceError::Malformed(error.to_string()))?
        } else {
            self.verified(text(headers)?)?
        };
        let lock = if self.fault == Fault::IgnoresLock { self.lock.clone() } else { says.lock };
        if lock != self.lock {
            return Err(FenceError::WrongLock { presented: lock, expected: self.lock.to_string() });
        }
        let mode = if self.fault == Fault::IgnoresMode { Mode::Exclusive } else { says.mode };
        Ok(Some(TrustedToken::new(lock, says.slot, mode, says.token)))
    }

    fn verified(&self, text: &str) -> Result<Sequencer, FenceError> {
        let verified = self.verifier.verify(text);
        if let Err(FenceError::UnknownKey { .. }) = &verified {
            self.keys.ask();
        }
        Ok(verified?.statement().clone())
    }

    async fn raise(&self, held: TrustedToken) -> Result<(), FenceError> {
        if matches!(self.fault, Fault::AcceptsStale | Fault::ClaimsNothing) {
            return Ok(());
        }
        let orders = Arc::clone(&self.orders);
        blocking(move || orders.claim(&held).map(drop)).await
    }

    async fn write(&self, held: TrustedToken, line: String) -> Result<(), FenceError> {
        if held.mode() == Mode::Shared {
            return Err(FenceError::WrongMode { lock: held.lock().clone(), mode: held.mode() });
        }
        match self.fault {
            Fault::AcceptsStale => self.past_the_guard(&line),
            Fault::ComparesFirst => {
                self.compare(&held)?;
                tokio::time::sleep(ELSEWHERE).await;
                self.past_the_guard(&line)?;
                // Whoever was newer meanwhile keeps the mark.
                let _ = self.raise(held).await;
                Ok(())
            }
            Fault::WritesFirst => {
                self.past_the_guard(&line)?;
                self.raise(held).await
            }
            _ => {
                let orders = Arc::clone(&self.orders);
                blocking(move || orders.write(&held, |book| book.append(line.as_bytes()))).await
            }
        }
    }

    fn compare(&self, held: &TrustedToken) -> Result<(), FenceError> {
        let (lock, slot, presented) = (held.lock().clone(), held.slot(), held.token());
        match self.orders.mark(&lock, slot)? {
            Some(HighWaterMark(mark)) if mark > presented => {
                Err(FenceError::Stale { lock, slot, presented, mark })
            }
            Some(_) | None => Ok(()),
        }
    }

    fn past_the_guard(&self, line: &str) -> Result<(), FenceError> {
        let file = OpenOptions::new().create(true).append(true).open(&self.data);
        file.and_then(|mut file| file.write_all(line.as_bytes())).map_err(FenceError::effect)
    }

    fn answer(&self, done: Result<(), FenceError>) -> Response {
        let refused = done.is_err();
        let mut response = answer(done);
        if refused && self.fault == Fault::Answers500 {
            *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        }
        response
    }
    fn answer_in_grpc(&self, done: Result<(), FenceError>) -> Result<Nothing, Status> {
        let failed = |status: Status| Status::internal(status.message());
        let done = grpc::done(done);
        if self.fault == Fault::Answers500 { done.map_err(failed) } else { done }
    }
}
