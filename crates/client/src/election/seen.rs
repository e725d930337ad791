//! What an observer makes of the news of a lock: who leads, in order, each once.

use palisade_core::ids::{ClientName, LockName, SessionId};
use palisade_core::mode::Mode;
use palisade_core::token::Token;
use palisade_proto::convert::words;
use palisade_proto::v1;
use palisade_proto::v1::lock_event::Kind;
use palisade_proto::v1::slot_view::State;

use super::Leader;
use crate::watch::Watched;

/// What an observer has been told.
#[derive(Debug)]
pub(super) struct Seen {
    lock: LockName,
    /// None before the first news.
    told: Option<Option<Leader>>,
    /// Of the last leader that was told, or that held before it was seen to end.
    highest: Option<Token>,
}

impl Seen {
    pub(super) fn new(lock: LockName) -> Self {
        Self { lock, told: None, highest: None }
    }

    pub(super) fn take(&mut self, watched: Watched) -> Vec<Option<Leader>> {
        let mut news = Vec::new();
        match watched {
            Watched::Progress => {}
            Watched::Snapshot { locks, .. } => {
                let view = locks.iter().find(|view| view.lock == self.lock.as_str());
                self.tell(view.and_then(leading), &mut news);
            }
            Watched::Entry(entry) => {
                let mut present = self.told.clone().flatten();
                for event in &entry.events {
                    if event.lock != self.lock.as_str() {
                        continue;
                    }
                    let granted = event.kind() == Kind::Granted;
                    follow(&mut present, event);
                    // Each leader is told, also one that did not outlast its entry.
                    if granted {
                        self.tell(present.clone(), &mut news);
                    }
                }
                self.tell(present, &mut news);
            }
        }
        news
    }

    fn tell(&mut self, leader: Option<Leader>, news: &mut Vec<Option<Leader>>) {
        // A node that is behind would say so; nobody is told of an earlier leader after a later one.
        if let Some(leader) = &leader {
            if self.highest.is_some_and(|highest| leader.token < highest) {
                return;
            }
            self.highest = Some(leader.token);
        }
        if self.told.as_ref() != Some(&leader) {
            self.told = Some(leader.clone());
            news.push(leader);
        }
    }
}

/// What an event does to who leads.
fn follow(present: &mut Option<Leader>, event: &v1::LockEvent) {
    let leads = |leader: &Leader| event.acquisition.as_ref().is_some_and(|id| id.session == leader.session.0);
    match event.kind() {
        Kind::Granted if event.slot == 0 => *present = granted(event).or(present.take()),
        Kind::HoldEnded if present.as_ref().is_some_and(|leader| leader.token.get() == event.token) => {
            *present = None;
        }
        Kind::Metadata => {
            if let Some(leader) = present.as_mut().filter(|leader| leads(leader)) {
                leader.value.clone_from(&event.metadata);
            }
        }
        Kind::Unspecified
        | Kind::Queued
        | Kind::Granted
        | Kind::HoldEnded
        | Kind::WaitEnded
        | Kind::DelayStarted
        | Kind::DelayEnded
        | Kind::Broken
        | Kind::Capacity
        | Kind::Confirmed => {}
    }
}

/// Who leads by a grant; none by a shared one.
fn granted(event: &v1::LockEvent) -> Option<Leader> {
    exclusive(event.mode)?;
    Some(Leader {
        token: Token::new(event.token)?,
        value: event.metadata.clone(),
        client: ClientName::new(&event.client).ok()?,
        session: SessionId(event.acquisition?.session),
    })
}

/// Who leads, as a view of the lock has it.
pub(super) fn leading(view: &v1::LockView) -> Option<Leader> {
    let slot = view.slots.iter().find(|slot| slot.slot == 0)?;
    let Some(State::Held(tenure)) = &slot.state else { return None };
    exclusive(tenure.mode)?;
    let holder = tenure.holders.first()?;
    Some(Leader {
        token: Token::new(tenure.token)?,
        value: holder.metadata.clone(),
        client: ClientName::new(&holder.client).ok()?,
        session: SessionId(holder.acquisition?.session),
    })
}

fn exclusive(mode: i32) -> Option<()> {
    (words::mode_from(mode).ok()? == Mode::Exclusive).then_some(())
}

#[cfg(test)]
mod tests {
    use palisade_proto::v1::resynchronise::Reason;

    use super::*;

    fn seen() -> Seen {
        Seen::new(LockName::new("leader").expect("a name"))
    }

    fn event(kind: Kind, session: u64, token: u64) -> v1::LockEvent {
        v1::LockEvent {
            kind: kind.into(),
            lock: "leader".to_owned(),
            acquisition: Some(v1::AcquisitionId { session, number: 1 }),
            token,
            mode: v1::Mode::Exclusive.into(),
            metadata: format!("address of {session}").into_bytes(),
            ..v1::LockEvent::default()
        }
    }

    fn entry(events: Vec<v1::LockEvent>) -> Watched {
        Watched::Entry(v1::WatchEntry { index: 1, wall_us: 0, events })
    }

    fn held(session: u64, token: u64) -> v1::LockView {
        let holder = v1::Holder {
            acquisition: Some(v1::AcquisitionId { session, number: 1 }),
            metadata: format!("address of {session}").into_bytes(),
            ..v1::Holder::default()
        };
        let mode = v1::Mode::Exclusive.into();
        let tenure = v1::Tenure { token, mode, holders: vec![holder], ..v1::Tenure::default() };
        let slot = v1::SlotView { slot: 0, state: Some(State::Held(tenure)) };
        v1::LockView { lock: "leader".to_owned(), slots: vec![slot], ..v1::LockView::default() }
    }

    fn snapshot(locks: Vec<v1::LockView>, missing: Option<Reason>) -> Watched {
        Watched::Snapshot { missing, locks }
    }

    /// Tokens of who leads; 0 where nobody does.
    fn tokens(news: &[Option<Leader>]) -> Vec<u64> {
        news.iter().map(|leader| leader.as_ref().map_or(0, |leader| leader.token.get())).collect()
    }

    #[test]
    fn the_first_news_is_how_it_stands_also_when_nobody_leads() {
        assert_eq!(tokens(&seen().take(snapshot(Vec::new(), None))), [0]);
        let news = seen().take(snapshot(vec![held(3, 40)], None));
        assert_eq!(tokens(&news), [40]);
        assert_eq!(news[0].as_ref().map(|leader| leader.value.as_slice()), Some(b"address of 3".as_slice()));
    }

    #[test]
    fn one_leader_follows_another_without_a_gap_in_one_entry() {
        let mut seen = seen();
        seen.take(snapshot(vec![held(3, 40)], None));
        let handed = vec![event(Kind::HoldEnded, 3, 40), event(Kind::Granted, 4, 45)];
        assert_eq!(tokens(&seen.take(entry(handed))), [45]);
        assert_eq!(tokens(&seen.take(entry(vec![event(Kind::HoldEnded, 4, 45)]))), [0]);
        assert_eq!(tokens(&seen.take(entry(vec![event(Kind::Granted, 5, 50)]))), [50]);
    }

    #[test]
    fn a_value_that_is_proclaimed_is_told_under_the_same_token() {
        let mut seen = seen();
        seen.take(snapshot(vec![held(3, 40)], None));
        let other = v1::LockEvent { metadata: b"elsewhere".to_vec(), ..event(Kind::Metadata, 3, 0) };
        let news = seen.take(entry(vec![other]));
        assert_eq!(tokens(&news), [40]);
        assert_eq!(news[0].as_ref().map(|leader| leader.value.as_slice()), Some(b"elsewhere".as_slice()));
        assert!(seen.take(entry(vec![event(Kind::Metadata, 9, 0)])).is_empty(), "of a waiter");
    }

    #[test]
    fn what_did_not_change_over_a_resynchronisation_is_not_told_again() {
        let mut seen = seen();
        seen.take(snapshot(vec![held(3, 40)], None));
        assert!(seen.take(snapshot(vec![held(3, 40)], Some(Reason::TooOld))).is_empty());
        assert_eq!(tokens(&seen.take(snapshot(vec![held(4, 60)], Some(Reason::TooOld)))), [60]);
        assert_eq!(tokens(&seen.take(snapshot(Vec::new(), Some(Reason::Incarnation)))), [0]);
    }

    #[test]
    fn nobody_is_told_of_an_earlier_leader_after_a_later_one() {
        let mut seen = seen();
        seen.take(snapshot(vec![held(4, 60)], None));
        assert!(seen.take(snapshot(vec![held(3, 40)], Some(Reason::Gap))).is_empty());
        assert!(seen.take(entry(vec![event(Kind::HoldEnded, 3, 40)])).is_empty(), "a late end of another");
    }

    #[test]
    fn shared_holders_and_other_locks_lead_nothing() {
        let mut seen = seen();
        seen.take(snapshot(Vec::new(), None));
        let shared = v1::LockEvent { mode: v1::Mode::Shared.into(), ..event(Kind::Granted, 3, 40) };
        let other = v1::LockEvent { lock: "leaders".to_owned(), ..event(Kind::Granted, 3, 41) };
        assert!(seen.take(entry(vec![shared, other])).is_empty());
    }
}
