//! A single call: a frame with one request, on a stream of its own that lives as long as the call. There is no
//! second path.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use palisade_proto::convert::session::session_from;
use palisade_proto::v1::{self, ClientFrame, request, response};
use tokio::time::{Instant, timeout_at};

use crate::door::Door;
use crate::error;
use crate::stream::EdgeStream;

/// Tag of the binding.
const BIND: u64 = 1;
/// Tag of the request itself.
const ASK: u64 = 2;
/// Tag of the look at the lock that a late release named.
const LOOK: u64 = 3;

/// An answer, and whether the caller may count its lease from the sending of the call (SPEC 3).
pub(crate) struct Answer {
    pub(crate) result: response::Result,
    pub(crate) renewed: bool,
}

/// Asks one thing, for a session that its secret proves or for none, and returns the answer.
///
/// An acquire that queues is waited for: as long as the caller does, or for `patience`, after which the answer is its
/// place in the queue (and it still waits). When the leader changes meanwhile, what can be repeated is repeated; what
/// cannot (a request without a number) is answered as unknown.
///
/// # Errors
///
/// The refusal, or that it is not known what became of it.
pub(crate) async fn call(
    door: &Door,
    session: Option<(u64, Vec<u8>)>,
    op: request::Op,
    patience: Option<Duration>,
) -> Result<Answer, v1::Error> {
    let _permit = door.calls.try_acquire().map_err(|_| error::overloaded())?;
    if let Some((id, _)) = &session {
        session_from(*id)?;
    }
    let stream = door.router.open(&door.coordinator, door.principal(), true);
    let until = patience.map(|patience| Instant::now() + patience);
    let mut call =
        Call { stream, session, op, until, asked: false, renewed: false, queued: None, late: None };
    match call.run().await? {
        response::Result::Error(error) => Err(error),
        result => Ok(Answer { result, renewed: call.renewed }),
    }
}

struct Call {
    stream: Arc<EdgeStream>,
    session: Option<(u64, Vec<u8>)>,
    op: request::Op,
    /// Whether the request may be in the log.
    asked: bool,
    /// Whether the request was answered `renewed`.
    renewed: bool,
    /// Until when the caller waits in the queue; none: as long as it takes.
    until: Option<Instant>,
    /// The place of an acquire that waits, when it was last told.
    queued: Option<v1::Queued>,
    /// Why a late release was refused, while it is looked up who came after.
    late: Option<v1::Error>,
}

impl Call {
    async fn run(&mut self) -> Result<response::Result, v1::Error> {
        loop {
            let next = poll_fn(|context| self.stream.queue.poll_frame(context));
            let frame = match (self.until, self.queued) {
                (Some(until), Some(queued)) => match timeout_at(until, next).await {
                    Ok(frame) => frame,
                    Err(_) => return Ok(response::Result::Queued(queued)),
                },
                _ => next.await,
            };
            let Some(Ok(frame)) = frame else { return Err(error::outcome_unknown()) };
            if let Some(leader) = frame.leader {
                self.leader(&leader).await?;
            }
            for item in frame.items {
                if let Some(done) = self.item(item).await? {
                    return Ok(done);
                }
            }
        }
    }

    /// The first news of the leader, or a change.
    async fn leader(&mut self, leader: &v1::Leader) -> Result<(), v1::Error> {
        if leader.client_address.is_empty() && !leader.here {
            return Err(if self.asked { error::outcome_unknown() } else { error::no_quorum() });
        }
        if self.asked && !self.repeatable() {
            return Err(error::outcome_unknown());
        }
        self.asked = true;
        let session = self.session.as_ref().map_or(0, |(id, _)| *id);
        let ask = v1::Request { tag: ASK, session, op: Some(self.op.clone()) };
        // In one frame: requests of a frame are taken in order, and an answer to the binding comes before the other.
        let bind = self.session.as_ref().map(|(_, secret)| {
            let bind = request::Op::Bind(v1::Bind { secret: secret.clone() });
            v1::Request { tag: BIND, session, op: Some(bind) }
        });
        self.send(bind.into_iter().chain([ask]).collect()).await
    }

    async fn send(&self, requests: Vec<v1::Request>) -> Result<(), v1::Error> {
        let frame = ClientFrame { requests, ..ClientFrame::default() };
        self.stream.frame(frame).await.map_err(|_| error::overloaded())
    }

    /// A repeat of the same request takes effect once.
    fn repeatable(&self) -> bool {
        match &self.op {
            // Without a number of its own, each copy takes the next.
            request::Op::Acquire(acquire) => acquire.number != 0,
            request::Op::Open(open) => !open.secret_hash.is_empty(),
            request::Op::SetMetadata(set) => set.revision != 0,
            request::Op::SetBaton(set) => set.revision != 0,
            request::Op::ReportProgress(report) => report.number != 0,
            // A copy that comes late would undo what somebody else has set since.
            request::Op::SetCapacity(_) | request::Op::SetDelayRule(_) | request::Op::SetSettings(_) => false,
            // The next leader knows nothing of what the last one was told.
            request::Op::ReportRejections(_) => true,
            // These name exactly what they are about, or change nothing.
            request::Op::Bind(_)
            | request::Op::Close(_)
            | request::Op::Release(_)
            | request::Op::Cancel(_)
            | request::Op::Sequencer(_)
            | request::Op::Check(_)
            | request::Op::GetLock(_)
            | request::Op::ListLocks(_)
            | request::Op::History(_)
            | request::Op::Audit(_)
            | request::Op::ListSessions(_)
            | request::Op::Downgrade(_)
            | request::Op::HandOver(_)
            | request::Op::ConfirmFloor(_)
            | request::Op::BreakLock(_)
            | request::Op::EndSession(_)
            | request::Op::GetSettings(_)
            | request::Op::ListRejections(_) => true,
        }
    }

    async fn item(&mut self, item: v1::Item) -> Result<Option<response::Result>, v1::Error> {
        match item.item {
            Some(v1::item::Item::Response(response)) => self.response(response).await,
            Some(v1::item::Item::Event(event)) => Ok(self.event(event)),
            None => Ok(None),
        }
    }

    async fn response(&mut self, response: v1::Response) -> Result<Option<response::Result>, v1::Error> {
        self.renewed |= response.tag == ASK && response.renewed;
        match response.result {
            Some(response::Result::Bound(_)) => Ok(None),
            // Asked under a binding that failed; what is answered is why, once the lock was looked at.
            Some(_) if response.tag == ASK && self.late.is_some() => Ok(None),
            Some(response::Result::Error(error)) if response.tag == BIND && error.ended != 0 => {
                let request::Op::Release(release) = &self.op else {
                    return Ok(Some(response::Result::Error(error)));
                };
                if release.lock.is_empty() {
                    return Ok(Some(response::Result::Error(error)));
                }
                let look = request::Op::GetLock(v1::GetLock { lock: release.lock.clone() });
                self.late = Some(error);
                self.send(vec![v1::Request { tag: LOOK, session: 0, op: Some(look) }]).await?;
                Ok(None)
            }
            Some(response::Result::Lock(view)) if response.tag == LOOK => {
                let error = self.late.take().unwrap_or_else(error::outcome_unknown);
                Ok(Some(response::Result::Error(self.superseded(error, view))))
            }
            Some(response::Result::Queued(queued)) => {
                let number = queued.acquisition.map_or(0, |id| id.number);
                self.queued = Some(queued);
                // From now on it has a number, and can be repeated.
                if let request::Op::Acquire(acquire) = &mut self.op {
                    acquire.number = number;
                }
                Ok(None)
            }
            Some(result) => Ok(Some(result)),
            None => Ok(Some(response::Result::Error(error::outcome_unknown()))),
        }
    }

    /// A late release says who superseded its caller, also when the session ended meanwhile (SPEC 4).
    fn superseded(&self, mut error: v1::Error, view: v1::LockView) -> v1::Error {
        let request::Op::Release(release) = &self.op else { return error };
        let slot = view.slots.into_iter().find(|slot| slot.slot == release.slot);
        if let Some(v1::slot_view::State::Held(tenure)) = slot.and_then(|slot| slot.state)
            && tenure.token > release.token
        {
            error.superseded_by = tenure.token;
            error.holder = tenure.holders.into_iter().next();
        }
        error
    }

    fn event(&self, event: v1::Event) -> Option<response::Result> {
        let waits = self.queued?.acquisition?.number;
        match event.what {
            Some(v1::event::What::Granted(grant))
                if grant.acquisition.is_some_and(|id| id.number == waits) =>
            {
                Some(response::Result::Granted(grant))
            }
            Some(v1::event::What::WaitEnded(end)) if end.number == waits => {
                Some(response::Result::Error(end.error.unwrap_or_else(error::outcome_unknown)))
            }
            Some(_) | None => None,
        }
    }
}

/// Checks sequencers. A verdict that this node's own state settles needs no leader.
///
/// # Errors
///
/// As [`call`].
pub(crate) async fn check(door: &Door, check: v1::Check) -> Result<v1::CheckAnswer, v1::Error> {
    let questions = door.coordinator.questions(&check).await?;
    if let Some(answer) = door.coordinator.answer_from_applied(&questions) {
        return Ok(answer);
    }
    match call(door, None, request::Op::Check(check), None).await?.result {
        response::Result::Check(answer) => Ok(answer),
        _ => Err(error::defect("the answer is of another kind than the question")),
    }
}

/// Renews one session.
///
/// # Errors
///
/// That it ended, or that nothing was proved.
pub(crate) async fn keep_alive(door: &Door, session: u64, secret: Vec<u8>) -> Result<v1::Renewed, v1::Error> {
    let _permit = door.keepalives.try_acquire().map_err(|_| error::overloaded())?;
    session_from(session)?;
    let stream = door.router.open(&door.coordinator, door.principal(), true);
    let unknown = error::no_quorum;
    loop {
        let frame = poll_fn(|context| stream.queue.poll_frame(context)).await;
        let Some(Ok(frame)) = frame else { return Err(unknown()) };
        if let Some(leader) = &frame.leader {
            if leader.client_address.is_empty() && !leader.here {
                return Err(unknown());
            }
            let bind = request::Op::Bind(v1::Bind { secret: secret.clone() });
            let request = v1::Request { tag: BIND, session, op: Some(bind) };
            let renew = v1::Renew { number: 1, sessions: vec![session], report: None };
            let bind = ClientFrame { requests: vec![request], ..ClientFrame::default() };
            let renew = ClientFrame { renew: Some(renew), ..ClientFrame::default() };
            for frame in [bind, renew] {
                stream.frame(frame).await.map_err(|_| error::overloaded())?;
            }
        }
        for item in frame.items {
            if let Some(v1::item::Item::Response(response)) = item.item
                && let Some(response::Result::Error(error)) = response.result
            {
                return Err(error);
            }
        }
        if let Some(mut renewed) = frame.renewed {
            return match renewed.error.take() {
                Some(error) => Err(error),
                None => Ok(renewed),
            };
        }
    }
}
