//! A tower layer for HTTP and gRPC services: verifies the sequencer that comes with a request, before any handler runs.
//!
//! It puts the [`Presented`] holding into the request's extensions. It does not look at
//! marks: a check before the write is advice (SPEC 8). The handler takes the holding from there and writes through its
//! [`Guard`](crate::guard::Guard), whose refusal it turns into an answer with [`http_refusal`] or [`grpc_refusal`].

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::header::{CONTENT_TYPE, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use tower_layer::Layer;
use tower_service::Service;

use crate::error::FenceError;
use crate::tally::{self, Decision, Tally};
use crate::verifier::{Presented, Verifier};

/// The header, in gRPC the metadata key, that carries a sequencer.
pub const SEQUENCER_HEADER: HeaderName = HeaderName::from_static("palisade-sequencer");

/// How a service answers.
pub trait Protocol<A> {
    /// The answer to what the guard, or the layer, refused.
    fn refuse(error: &FenceError) -> Response<A>;
}

/// HTTP: a status and a problem document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Http {}

/// gRPC: a status in headers, without a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grpc {}

impl<A: From<Vec<u8>>> Protocol<A> for Http {
    fn refuse(error: &FenceError) -> Response<A> {
        http_refusal(error)
    }
}

impl<A: Default> Protocol<A> for Grpc {
    fn refuse(error: &FenceError) -> Response<A> {
        grpc_refusal(error)
    }
}

/// Verifies the sequencers of requests.
pub struct SequencerLayer<P> {
    settings: Arc<Settings>,
    protocol: PhantomData<fn() -> P>,
}

struct Settings {
    verifier: Arc<Verifier>,
    reads: Reads,
    on_unknown_key: Box<UnknownKeyHook>,
    tally: Arc<Tally>,
}

type UnknownKeyHook = dyn Fn(&str) + Send + Sync;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reads {
    NeedOne,
    NeedNone,
}

impl SequencerLayer<Http> {
    /// For an HTTP service.
    pub fn http(verifier: Arc<Verifier>) -> Self {
        Self::new(verifier)
    }
}

impl SequencerLayer<Grpc> {
    /// For a gRPC service.
    pub fn grpc(verifier: Arc<Verifier>) -> Self {
        Self::new(verifier)
    }
}

impl<P> SequencerLayer<P> {
    fn new(verifier: Arc<Verifier>) -> Self {
        let settings = Settings {
            verifier,
            reads: Reads::NeedOne,
            on_unknown_key: Box::new(|_| ()),
            tally: Arc::default(),
        };
        Self { settings: Arc::new(settings), protocol: PhantomData }
    }

    /// Lets requests that read (`GET`, `HEAD`, `OPTIONS`) pass without a sequencer. One that they bring is verified all the
    /// same.
    #[must_use]
    pub fn reads_need_none(self) -> Self {
        self.changed(|settings| settings.reads = Reads::NeedNone)
    }

    /// Calls `fetch` with the id of a key that is not known: fetch the cluster's keys again, rate-limited, and hand them to
    /// [`Verifier::replace_keys`]. It must not block.
    #[must_use]
    pub fn on_unknown_key(self, fetch: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.changed(|settings| settings.on_unknown_key = Box::new(fetch))
    }

    /// Counts what it refuses in the tally of the guards behind it: no sequencer, a forged one, an unknown key.
    #[must_use]
    pub fn counted_in(self, tally: Arc<Tally>) -> Self {
        self.changed(|settings| settings.tally = tally)
    }

    fn changed(self, change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = Arc::try_unwrap(self.settings).unwrap_or_else(|shared| Settings {
            verifier: Arc::clone(&shared.verifier),
            reads: shared.reads,
            tally: Arc::clone(&shared.tally),
            on_unknown_key: Box::new(move |kid| (shared.on_unknown_key)(kid)),
        });
        change(&mut settings);
        Self { settings: Arc::new(settings), protocol: PhantomData }
    }
}

impl Settings {
    /// None where a request that reads brings none.
    fn verify(&self, method: &Method, headers: &HeaderMap) -> Result<Option<Presented>, FenceError> {
        let mut texts = headers.get_all(SEQUENCER_HEADER).iter();
        let Some(text) = texts.next() else {
            let reads = [Method::GET, Method::HEAD, Method::OPTIONS].contains(method);
            let free = reads && self.reads == Reads::NeedNone;
            return if free { Ok(None) } else { Err(FenceError::NoSequencer) };
        };
        if texts.next().is_some() {
            return Err(FenceError::Malformed("more than one sequencer came with the request".to_owned()));
        }
        let text = text.to_str().map_err(|_| FenceError::Malformed("it is not text".to_owned()))?;
        let verified = self.verifier.verify(text);
        if let Err(FenceError::UnknownKey { kid }) = &verified {
            (self.on_unknown_key)(kid);
        }
        verified.map(Some)
    }
}

impl<P> Clone for SequencerLayer<P> {
    fn clone(&self) -> Self {
        Self { settings: Arc::clone(&self.settings), protocol: PhantomData }
    }
}

impl<P> fmt::Debug for SequencerLayer<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SequencerLayer").field("reads", &self.settings.reads).finish_non_exhaustive()
    }
}

impl<S, P> Layer<S> for SequencerLayer<P> {
    type Service = Sequenced<S, P>;

    fn layer(&self, inner: S) -> Sequenced<S, P> {
        Sequenced { inner, layer: self.clone() }
    }
}

/// A service behind a [`SequencerLayer`].
pub struct Sequenced<S, P> {
    inner: S,
    layer: SequencerLayer<P>,
}

impl<S: Clone, P> Clone for Sequenced<S, P> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), layer: self.layer.clone() }
    }
}

impl<S: fmt::Debug, P> fmt::Debug for Sequenced<S, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sequenced").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl<S, P, B, A> Service<Request<B>> for Sequenced<S, P>
where
    S: Service<Request<B>, Response = Response<A>>,
    P: Protocol<A>,
{
    type Response = Response<A>;
    type Error = S::Error;
    type Future = Answer<S::Future, A>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        match self.layer.settings.verify(request.method(), request.headers()) {
            Ok(presented) => {
                if let Some(presented) = presented {
                    request.extensions_mut().insert(presented);
                }
                Answer::Inner(Box::pin(self.inner.call(request)))
            }
            Err(error) => {
                // Whose it is nobody can tell.
                let refused = Decision::Other(tally::reason(&error));
                self.layer.settings.tally.count(None, None, refused);
                Answer::Refused(Some(P::refuse(&error)))
            }
        }
    }
}

/// What the inner service answers, or a refusal.
#[derive(Debug)]
pub enum Answer<F, A> {
    /// The request was passed on.
    Inner(Pin<Box<F>>),
    /// It was not. None once it was answered.
    Refused(Option<Response<A>>),
}

// Nothing is pinned in place: the future is behind its own pointer.
impl<F, A> Unpin for Answer<F, A> {}

impl<F, E, A> Future for Answer<F, A>
where
    F: Future<Output = Result<Response<A>, E>>,
{
    type Output = Result<Response<A>, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Self::Inner(inner) => inner.as_mut().poll(context),
            Self::Refused(refusal) => {
                refusal.take().map_or(Poll::Pending, |refusal| Poll::Ready(Ok(refusal)))
            }
        }
    }
}

/// The answer of an HTTP service to what its guard, or the layer, refused: status and problem document (RFC 9457).
pub fn http_refusal<A: From<Vec<u8>>>(error: &FenceError) -> Response<A> {
    let problem = error.problem();
    let mut response = Response::new(A::from(problem.to_string().into_bytes()));
    *response.status_mut() =
        StatusCode::from_u16(error.refusal().http).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    if error.refusal().http == StatusCode::UNAUTHORIZED.as_u16() {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Palisade-Sequencer"));
    }
    response
}

/// The answer of a gRPC service: a status in headers. A stale one names both tokens in its metadata.
pub fn grpc_refusal<A: Default>(error: &FenceError) -> Response<A> {
    let mut response = Response::new(A::default());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    for (name, value) in grpc_metadata(error) {
        headers.insert(name, value);
    }
    response
}

/// The headers of a gRPC refusal: status, message, name, and both tokens where it is stale.
fn grpc_metadata(error: &FenceError) -> Vec<(HeaderName, HeaderValue)> {
    let mut metadata = vec![
        (HeaderName::from_static("grpc-status"), error.refusal().grpc.into()),
        (HeaderName::from_static("palisade-refusal"), HeaderValue::from_static(error.refusal().name)),
    ];
    if let Ok(message) = HeaderValue::from_str(&percent_encoded(&error.told())) {
        metadata.push((HeaderName::from_static("grpc-message"), message));
    }
    if let FenceError::Stale { presented, mark, .. } = error {
        metadata.push((HeaderName::from_static("palisade-presented"), presented.get().into()));
        metadata.push((HeaderName::from_static("palisade-mark"), mark.get().into()));
    }
    metadata
}

/// As the gRPC protocol wants its message.
fn percent_encoded(message: &str) -> String {
    let encode = |byte: u8| match byte {
        b' '..=b'~' if byte != b'%' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    message.bytes().map(encode).collect()
}
