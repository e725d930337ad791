//! What is to be sent, what is unanswered, and what rests before it is repeated.
//!
//! Every sending has a tag of its own, also a repeated one. So an answer tells exactly which copy it answers, and a
//! lease is never counted from a sending that the answer does not belong to.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use palisade_host::Moment;
use palisade_proto::v1;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Purpose;
use crate::client::Answered;
use crate::error::CallError;
use crate::session::SessionShared;

/// Requests that wait to be sent before no more commands are taken.
const UNSENT_MAX: usize = 1_024;
/// First rest before a repeat.
const REST_MIN: Duration = Duration::from_millis(20);
/// Longest rest.
const REST_MAX: Duration = Duration::from_secs(1);

/// One request, as a name of what the session's record holds: built anew for each sending.
pub(super) enum Op {
    Open {
        key: u64,
        purpose: Purpose,
    },
    Bind {
        session: u64,
    },
    Close {
        session: u64,
    },
    /// Of a session that nobody wanted by the time it was open; it has no record.
    CloseUnwanted {
        session: u64,
    },
    Acquire {
        session: u64,
        number: u64,
    },
    /// Of a part, by its place in the grant; of none: of all.
    Change {
        session: u64,
        number: u64,
        place: Option<usize>,
    },
    Cancel {
        session: u64,
        number: u64,
    },
    Ask(Box<AskOp>),
}

/// A request that names all that it is about, of a session or of none.
pub(super) struct AskOp {
    pub(super) session: Option<Arc<SessionShared>>,
    pub(super) message: v1::request::Op,
    /// Of the first copy.
    pub(super) first_sent: Option<Moment>,
    pub(super) reply: Option<oneshot::Sender<Result<Answered, CallError>>>,
    pub(super) give_up: Instant,
}

impl Op {
    /// Answers a caller whose patience is over. Whether anybody still waits for this request.
    fn patient(&mut self, now: Instant, last: &str) -> bool {
        match self {
            Self::Ask(ask) => ask.patient(now, last),
            Self::Open { .. }
            | Self::Bind { .. }
            | Self::Close { .. }
            | Self::CloseUnwanted { .. }
            | Self::Acquire { .. }
            | Self::Change { .. }
            | Self::Cancel { .. } => true,
        }
    }
}

impl AskOp {
    fn patient(&mut self, now: Instant, last: &str) -> bool {
        if now >= self.give_up
            && let Some(reply) = self.reply.take()
        {
            let _ = reply.send(Err(CallError::Unavailable { last: last.to_owned() }));
        }
        self.reply.as_ref().is_some_and(|reply| !reply.is_closed())
    }
}

/// One unanswered sending.
pub(super) struct InFlight {
    pub(super) op: Op,
    pub(super) sent: Moment,
}

/// The three places where a request can be.
pub(super) struct Outgoing {
    unsent: VecDeque<Op>,
    in_flight: BTreeMap<u64, InFlight>,
    parked: Vec<Op>,
    parked_until: Option<Instant>,
    rest: Duration,
    /// Spreads rests, so that clients which were refused together do not come back together.
    spread: u64,
    next_tag: u64,
    window: usize,
}

impl Outgoing {
    /// `spread`: any number.
    pub(super) fn new(spread: u64) -> Self {
        Self {
            unsent: VecDeque::new(),
            in_flight: BTreeMap::new(),
            parked: Vec::new(),
            parked_until: None,
            rest: REST_MIN,
            spread,
            next_tag: 1,
            window: 1,
        }
    }

    pub(super) fn has_room(&self) -> bool {
        self.unsent.len() < UNSENT_MAX
    }

    pub(super) fn has_unanswered(&self) -> bool {
        !self.in_flight.is_empty()
    }

    pub(super) fn sendable(&self) -> bool {
        !self.unsent.is_empty() && self.in_flight.len() < self.window
    }

    /// What the node announced.
    pub(super) fn set_window(&mut self, window: u32) {
        self.window = usize::try_from(window).unwrap_or(usize::MAX).max(1);
    }

    pub(super) fn push(&mut self, op: Op) {
        self.unsent.push_back(op);
    }

    /// Before everything else: nothing of a session goes before its binding.
    pub(super) fn push_first(&mut self, op: Op) {
        self.unsent.push_front(op);
    }

    pub(super) fn next(&mut self) -> Option<Op> {
        if self.in_flight.len() >= self.window { None } else { self.unsent.pop_front() }
    }

    /// A tag for a sending at `sent`.
    pub(super) fn sent(&mut self, mut op: Op, sent: Moment) -> u64 {
        if let Op::Ask(ask) = &mut op {
            ask.first_sent.get_or_insert(sent);
        }
        let tag = self.next_tag;
        self.next_tag += 1;
        self.in_flight.insert(tag, InFlight { op, sent });
        tag
    }

    /// None for an answer to a copy that was given up for a newer one.
    pub(super) fn answered(&mut self, tag: u64) -> Option<InFlight> {
        self.in_flight.remove(&tag)
    }

    /// Rests, to be repeated under the same number.
    pub(super) fn park(&mut self, op: Op, after: Option<Duration>, now: Instant) {
        self.parked.push(op);
        if self.parked_until.is_none() {
            self.parked_until =
                Some(now + self.spread_out(after.unwrap_or_default().clamp(self.rest, REST_MAX)));
            self.rest = (self.rest * 2).min(REST_MAX);
        }
    }

    /// The whole of `rest` to half as much again.
    fn spread_out(&mut self, rest: Duration) -> Duration {
        // The next of a sequence whose high bits are as good as drawn (Knuth's MMIX generator).
        self.spread =
            self.spread.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        rest.mul_f64(1.0 + f64::from((self.spread >> 33) as u32) / f64::from(u32::MAX))
    }

    /// Repeats what has rested.
    pub(super) fn unpark(&mut self, now: Instant) {
        if self.parked_until.is_some_and(|until| until <= now) {
            self.parked_until = None;
            self.unsent.extend(self.parked.drain(..));
        }
    }

    /// A request was decided: the cluster works, and the next rest is short.
    pub(super) fn decided(&mut self) {
        self.rest = REST_MIN;
    }

    /// Everything unanswered is to be sent again, first and in its order. Bindings are not: they belonged to what is past.
    pub(super) fn reset(&mut self) {
        let sent = std::mem::take(&mut self.in_flight);
        self.unsent.extend(self.parked.drain(..));
        self.parked_until = None;
        for in_flight in sent.into_values().rev() {
            self.unsent.push_front(in_flight.op);
        }
        self.unsent.retain(|op| !matches!(op, Op::Bind { .. }));
    }

    /// Answers impatient callers, and forgets what is `wanted` no more.
    pub(super) fn sweep(&mut self, now: Instant, last: &str, wanted: impl Fn(&Op) -> bool) {
        self.unsent.retain_mut(|op| op.patient(now, last) && wanted(op));
        self.parked.retain_mut(|op| op.patient(now, last) && wanted(op));
        // What is in flight keeps its place until it is answered: the node counts it in the window.
        for in_flight in self.in_flight.values_mut() {
            in_flight.op.patient(now, last);
        }
    }
}
