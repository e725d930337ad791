//! Whether grants come in the order of the queue, as far as a client can tell.
//!
//! Who came first is known to the cluster alone: two requests on two connections may overtake each other on their way.
//! So the queue is looked at now and then. Who stands in it is granted in its order, and before all who asked later than
//! that answer came.

use std::collections::{BTreeMap, VecDeque};

use palisade_core::ids::{AcquisitionId, RequestNumber, SessionId};
use palisade_core::token::Token;
use tokio::time::Instant;

/// The order of one lock's grants. All its users belong to this process, so they see grants in the order of the cluster:
/// the next one follows on the release.
#[derive(Default)]
pub(super) struct Order {
    /// Who stood in the queue at the last look, and was not granted since.
    line: VecDeque<AcquisitionId>,
    /// When that answer came.
    seen: Option<Instant>,
    /// The last grant of each session.
    granted: BTreeMap<SessionId, (RequestNumber, Token)>,
    /// Somebody gave up: whether the others may pass is not known any more.
    blind: bool,
    pub(super) checked: u64,
    pub(super) broken: u64,
}

impl Order {
    /// Whether the last look at the queue is used up.
    pub(super) fn wants(&self) -> bool {
        self.line.is_empty() && !self.blind
    }

    /// The queue, foremost first, in an answer that came at `at`.
    pub(super) fn saw(&mut self, queue: impl IntoIterator<Item = AcquisitionId>, at: Instant) {
        let mut last = None;
        for acquisition in queue {
            // Some may have been granted while the answer was on its way.
            match self.granted.get(&acquisition.session) {
                Some((number, token)) if *number >= acquisition.number => {
                    let exact = (*number == acquisition.number).then_some(*token);
                    let passed = !self.line.is_empty() || exact.is_some_and(|token| Some(token) < last);
                    last = exact.or(last);
                    self.look(!passed);
                }
                Some(_) | None => self.line.push_back(acquisition),
            }
        }
        self.seen = Some(at);
    }

    /// `asked`: when its request was sent.
    pub(super) fn granted(&mut self, acquisition: AcquisitionId, token: Token, asked: Instant) {
        self.granted.insert(acquisition.session, (acquisition.number, token));
        if self.blind || self.line.is_empty() {
            return;
        }
        match self.line.iter().position(|waiting| *waiting == acquisition) {
            Some(place) => {
                self.line.remove(place);
                self.look(place == 0);
            }
            None if self.seen.is_some_and(|seen| seen < asked) => self.look(false),
            None => {}
        }
    }

    /// An acquisition failed, and may have left the queue.
    pub(super) fn lose_track(&mut self) {
        self.blind = true;
        self.line.clear();
    }

    fn look(&mut self, right: bool) {
        self.checked += 1;
        if !right {
            self.broken += 1;
            tracing::error!("a grant did not come in the order of the queue");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn of(session: u64, number: u64) -> AcquisitionId {
        AcquisitionId { session: SessionId(session), number: RequestNumber(number) }
    }

    fn token(number: u64) -> Token {
        Token::new(number).unwrap()
    }

    /// Grants in this order, to requests that were sent at one time, after a look at a queue of 1, 2 and 3.
    fn after_a_look(grants: [u64; 3]) -> (u64, u64) {
        let (mut order, now) = (Order::default(), Instant::now());
        order.saw([of(1, 1), of(2, 1), of(3, 1)], now);
        for (at, session) in (1..).zip(grants) {
            order.granted(of(session, 1), token(at), now);
        }
        (order.checked, order.broken)
    }

    #[test]
    fn who_was_seen_in_the_queue_is_granted_in_its_order() {
        assert_eq!(after_a_look([1, 2, 3]), (3, 0));
        assert_eq!(after_a_look([2, 1, 3]), (3, 1));
    }

    #[test]
    fn nobody_passes_who_asked_after_the_look() {
        let (mut order, now) = (Order::default(), Instant::now());
        order.saw([of(1, 1)], now);
        order.granted(of(2, 1), token(1), now - Duration::from_secs(1));
        assert_eq!(order.broken, 0, "it may have come before");
        order.granted(of(3, 1), token(2), now + Duration::from_secs(1));
        assert_eq!(order.broken, 1);
    }

    #[test]
    fn a_grant_that_overtook_the_look_counts_with_its_token() {
        let (mut order, now) = (Order::default(), Instant::now());
        order.granted(of(1, 4), token(8), now);
        order.granted(of(2, 4), token(9), now);
        order.saw([of(1, 4), of(2, 4), of(3, 4)], now);
        assert_eq!((order.checked, order.broken), (2, 0));
        let mut order = Order { granted: order.granted, ..Order::default() };
        order.saw([of(2, 4), of(1, 4)], now);
        assert_eq!((order.checked, order.broken), (2, 1));
        order.saw([of(3, 4), of(2, 4)], now);
        assert_eq!(order.broken, 2, "2 was granted, and 3, before it, was not");
    }

    #[test]
    fn after_a_failure_nothing_is_claimed() {
        let (mut order, now) = (Order::default(), Instant::now());
        order.saw([of(1, 1), of(2, 1)], now);
        order.lose_track();
        order.granted(of(2, 1), token(1), now);
        assert!(!order.wants());
        assert_eq!((order.checked, order.broken), (0, 0));
    }
}
