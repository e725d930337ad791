//! What people and tools are shown.

use palisade_core::ids::{ClientName, LockName, LogIndex, SessionId, Slot};
use palisade_core::lock::Predecessor;
use palisade_core::session::{Acquisition, AcquisitionState, Session};
use palisade_core::table::{Baton, HoldView, LockView, SlotView, WaiterView};
use palisade_core::token::TokenBase;
use prost::Message;

use super::{BadArgument, words};
use crate::v1;

/// Locks of one list.
pub const LIST_MAX: u32 = 1_000;

/// Which locks are listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// A byte prefix of their names; may be empty.
    pub prefix: String,
    /// How many at most.
    pub limit: u32,
    /// Names after this one; empty for all.
    pub after: String,
}

/// From the wire.
pub fn get_lock(message: &v1::GetLock) -> Result<LockName, BadArgument> {
    Ok(LockName::new(&message.lock)?)
}

/// From the wire. A limit of 0, or above the most, is the most.
pub fn list_locks(message: &v1::ListLocks) -> Result<Listing, BadArgument> {
    for text in [&message.prefix, &message.after] {
        if !text.is_empty() {
            LockName::new(text)?;
        }
    }
    let limit = if message.limit == 0 { LIST_MAX } else { message.limit.min(LIST_MAX) };
    Ok(Listing { prefix: message.prefix.clone(), limit, after: message.after.clone() })
}

/// Which sessions are listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionListing {
    /// A byte prefix of the clients' names; may be empty.
    pub client: String,
    /// How many at most.
    pub limit: u32,
    /// Sessions after this one.
    pub after: SessionId,
}

/// From the wire. A limit of 0, or above the most, is the most.
pub fn list_sessions(message: &v1::ListSessions) -> Result<SessionListing, BadArgument> {
    ClientName::new(&message.client)?;
    let limit = if message.limit == 0 { LIST_MAX } else { message.limit.min(LIST_MAX) };
    Ok(SessionListing { client: message.client.clone(), limit, after: SessionId(message.after) })
}

/// To the wire. The leader puts in what only it knows: the rest of the lease, and what the holder told of itself.
pub fn session_view(id: SessionId, session: &Session) -> v1::SessionView {
    let count = |holding: bool| {
        // One that is not whole is a plain hold.
        let holds = |whole: Option<&Acquisition>| {
            whole.is_none_or(|whole| matches!(whole.state, AcquisitionState::Holding { .. }))
        };
        let those = session.acquisitions.iter_whole().filter(|(_, whole)| holds(*whole) == holding);
        u32::try_from(those.count()).unwrap_or(u32::MAX)
    };
    v1::SessionView {
        session: id.0,
        client: session.client.as_str().to_owned(),
        owner: session.owner.as_str().to_owned(),
        ttl_ms: session.ttl.0,
        opened_at_us: session.opened_at.0,
        lease_left_ms: 0,
        holds: count(true),
        waits: count(false),
        signals: None,
    }
}

/// To the wire, as the state at `applied` has it. The leader puts in what only it knows: the rest of leases and
/// delays, and what resources reported. Free slots are left out where the capacity is above 1.
pub fn lock_view(view: &LockView, base: TokenBase, applied: LogIndex) -> v1::LockView {
    let mut slots: Vec<_> = view.slots.iter().map(|slot| slot_view(slot, base)).collect();
    if slots.is_empty() && view.capacity == 1 {
        slots.push(v1::SlotView { slot: 0, state: Some(v1::slot_view::State::Free(true)) });
    }
    v1::LockView {
        lock: view.lock.as_str().to_owned(),
        capacity: view.capacity,
        slots,
        queue: view.queue.iter().map(|waiter| waiter_view(waiter, base)).collect(),
        predecessor: view.predecessor.as_ref().map(|predecessor| predecessor_view(predecessor, base)),
        token_base: base.get(),
        index: base.at(applied),
        capacity_set: view.capacity_set,
        batons: view.batons.iter().map(|(slot, baton)| baton_view(*slot, baton)).collect(),
        rejections: Vec::new(),
    }
}

/// Bytes of a lock on the wire, so that lists of them can be cut.
pub fn size(view: &v1::LockView) -> usize {
    view.encoded_len()
}

fn slot_view(view: &SlotView, base: TokenBase) -> v1::SlotView {
    use v1::slot_view::State;
    match view {
        SlotView::Held { slot, token, mode, begun, begun_at, holders } => v1::SlotView {
            slot: slot.0,
            state: Some(State::Held(v1::Tenure {
                token: token.get(),
                mode: words::mode(*mode).into(),
                begin_index: begun.0,
                begun_at_us: begun_at.0,
                holders: holders.iter().map(|hold| hold_view(hold, base)).collect(),
                lease_left_ms: 0,
            })),
        },
        SlotView::Delayed { slot, delay } => v1::SlotView {
            slot: slot.0,
            state: Some(State::Delayed(v1::Delay {
                began: base.at(delay.began),
                ended_token: delay.ended.get(),
                delay_ms: delay.delay.0,
                left_ms: 0,
                guards: delay.guards.iter().map(|guard| guard.as_str().to_owned()).collect(),
                confirmed: delay.confirmed.iter().map(|guard| guard.as_str().to_owned()).collect(),
                kept_for: delay.kept_for.map(words::acquisition),
            })),
        },
    }
}

fn waiter_view(view: &WaiterView, base: TokenBase) -> v1::WaiterView {
    let several = if view.locks.len() > 1 { view.locks.as_slice() } else { &[] };
    v1::WaiterView {
        acquisition: Some(words::acquisition(view.acquisition)),
        client: view.client.as_str().to_owned(),
        enqueued_at_us: view.arrived_at.0,
        enqueue_index: base.at(view.arrived),
        owner: view.owner.as_ref().map(|owner| owner.as_str().to_owned()).unwrap_or_default(),
        mode: words::mode(view.mode).into(),
        permits: view.permits,
        locks: several.iter().map(|lock| lock.as_str().to_owned()).collect(),
    }
}

fn hold_view(view: &HoldView, base: TokenBase) -> v1::Holder {
    v1::Holder {
        metadata: view.terms.metadata.as_bytes().to_vec(),
        hold_max_ms: words::millis(view.terms.hold_max),
        progress_every_ms: words::millis(view.terms.progress_every),
        reported_index: view.reports.last.map_or(0, |last| base.at(last)),
        ..words::holder(&view.holder)
    }
}

fn baton_view(slot: Slot, baton: &Baton) -> v1::BatonView {
    v1::BatonView { slot: slot.0, baton: baton.left.as_bytes().to_vec(), token: baton.token.get() }
}

fn predecessor_view(predecessor: &Predecessor, base: TokenBase) -> v1::Predecessor {
    v1::Predecessor {
        acquisition: Some(words::acquisition(predecessor.acquisition)),
        client: predecessor.client.as_str().to_owned(),
        token: predecessor.token.get(),
        ended: words::ended(predecessor.ended).into(),
        ended_at_us: predecessor.ended_at.0,
        end_index: base.at(predecessor.end),
    }
}

#[cfg(test)]
mod tests {
    use palisade_core::command::Terms;
    use palisade_core::ids::{
        AcquisitionId, ClientName, Millis, OwnerLabel, RequestNumber, SessionId, Slot, WallTime,
    };
    use palisade_core::lock::Delay;
    use palisade_core::mode::Mode;
    use palisade_core::payload::Payload;
    use palisade_core::reply::{Ended, HolderView};
    use palisade_core::session::Reports;
    use palisade_core::token::Token;

    use super::*;

    fn view() -> LockView {
        LockView {
            lock: LockName::new("orders/7").expect("a name"),
            capacity: 1,
            capacity_set: false,
            delay_rule: None,
            slots: Vec::new(),
            queue: Vec::new(),
            predecessor: None,
            batons: Vec::new(),
        }
    }

    fn id(number: u64) -> AcquisitionId {
        AcquisitionId { session: SessionId(1_007), number: RequestNumber(number) }
    }

    fn base() -> TokenBase {
        TokenBase::new(1_000).expect("a base")
    }

    #[test]
    fn a_name_that_was_never_used_is_a_free_lock() {
        let shown = lock_view(&view(), base(), LogIndex(60));
        assert_eq!((shown.capacity, shown.index, shown.token_base), (1, 1_060, 1_000));
        assert_eq!(shown.slots[0].state, Some(v1::slot_view::State::Free(true)));
    }

    #[test]
    fn a_held_lock_shows_holder_queue_and_predecessor() {
        let token = Token::new(1_034).expect("a token");
        let client = ClientName::new("billing-3").expect("a name");
        let holder = HolderView {
            acquisition: id(1),
            client: client.clone(),
            mode: Mode::Exclusive,
            token,
            grant_index: 1_034,
            granted_at: WallTime(5),
        };
        let metadata = Payload::new(b"10.0.0.7").expect("short");
        let terms = Terms { hold_max: Some(Millis(60_000)), progress_every: None, metadata };
        let held = SlotView::Held {
            slot: Slot(0),
            token,
            mode: Mode::Exclusive,
            begun: LogIndex(34),
            begun_at: WallTime(5),
            holders: vec![HoldView { holder, terms, reports: Reports::default() }],
        };
        let waiter = WaiterView {
            acquisition: id(2),
            client: client.clone(),
            arrived: LogIndex(36),
            arrived_at: WallTime(6),
            owner: OwnerLabel::new("task").ok(),
            mode: Mode::Shared,
            permits: 1,
            locks: vec![LockName::new("orders/7").expect("a name")],
        };
        let predecessor = Predecessor {
            slot: Slot(0),
            acquisition: id(3),
            client,
            token: Token::new(1_020).expect("a token"),
            ended: Ended::Expired,
            end: LogIndex(30),
            ended_at: WallTime(4),
        };
        let left = Payload::new(b"page 7").expect("short");
        let view = LockView {
            slots: vec![held],
            queue: vec![waiter],
            predecessor: Some(predecessor),
            batons: vec![(Slot(0), Baton { token, left })],
            ..view()
        };
        let shown = lock_view(&view, base(), LogIndex(60));
        let Some(v1::slot_view::State::Held(tenure)) = &shown.slots[0].state else { panic!("{shown:?}") };
        assert_eq!((tenure.token, tenure.begin_index), (1_034, 34));
        assert_eq!(tenure.holders[0].client, "billing-3");
        assert_eq!(
            (tenure.holders[0].metadata.as_slice(), tenure.holders[0].hold_max_ms),
            (&b"10.0.0.7"[..], 60_000)
        );
        assert_eq!((shown.batons[0].baton.as_slice(), shown.batons[0].token), (&b"page 7"[..], 1_034));
        assert_eq!((shown.queue[0].mode(), shown.queue[0].locks.len()), (v1::Mode::Shared, 0));
        assert_eq!((shown.queue[0].enqueue_index, shown.queue[0].owner.as_str()), (1_036, "task"));
        let before = shown.predecessor.expect("a predecessor");
        assert_eq!((before.token, before.ended(), before.end_index), (1_020, v1::Ended::Expired, 1_030));
    }

    #[test]
    fn a_closed_slot_shows_its_delay() {
        let delay = Delay {
            began: LogIndex(40),
            began_at: WallTime(7),
            ended: Token::new(1_034).expect("a token"),
            delay: Millis(15_000),
            guards: Vec::new(),
            confirmed: Default::default(),
            kept_for: None,
        };
        let view = LockView { slots: vec![SlotView::Delayed { slot: Slot(0), delay }], ..view() };
        let shown = lock_view(&view, base(), LogIndex(60));
        let Some(v1::slot_view::State::Delayed(delay)) = &shown.slots[0].state else { panic!("{shown:?}") };
        assert_eq!((delay.began, delay.ended_token, delay.delay_ms), (1_040, 1_034, 15_000));
    }

    #[test]
    fn a_list_is_bounded() {
        let of = |prefix: &str, limit| {
            list_locks(&v1::ListLocks { prefix: prefix.to_owned(), limit, after: String::new() })
        };
        assert_eq!(of("", 0).map(|listing| listing.limit), Ok(1_000));
        assert_eq!(of("orders/", 5).map(|listing| listing.limit), Ok(5));
        assert_eq!(of("", 5_000).map(|listing| listing.limit), Ok(1_000));
        assert!(of("a\nb", 5).is_err());
        assert!(get_lock(&v1::GetLock { lock: String::new() }).is_err());
    }
}
