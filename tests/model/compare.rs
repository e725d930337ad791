//! What is compared after each entry, and at the end of a story.

use std::collections::BTreeSet;

use palisade_core::command::{Command, Terms};
use palisade_core::event::Event;
use palisade_core::history::EndedHold;
use palisade_core::ids::{AcquisitionId, LockName, Slot};
use palisade_core::lock::SlotState;
use palisade_core::mode::Mode;
use palisade_core::reply::{Applied, Cycle, Ended, Refusal, Reply};
use palisade_core::session::{AcquisitionState, Reports};
use palisade_core::table::{HoldView, Presented, SlotView, Verdict};
use palisade_core::token::Token;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use super::commands::lock;
use super::property::{Checked, Run};
use super::reference::{Happened, State};
use super::steps::LOCKS;
use super::truths::Truth;

/// More slots than any lock of the stories has.
const SLOTS: u32 = 5;

fn locks() -> impl Iterator<Item = LockName> {
    (0..LOCKS.len() as u8).map(lock)
}

impl Run {
    pub(super) fn check_all(&mut self) -> Checked {
        for name in locks() {
            self.check_lock(&name)?;
            for slot in (0..SLOTS).map(Slot) {
                self.check_slot(&name, slot)?;
            }
        }
        prop_assert_eq!(self.table.lock_count(), self.model.locks().len());
        self.check_sessions()?;
        self.check_cluster()?;
        self.check_history()
    }

    fn check_lock(&self, name: &LockName) -> Checked {
        let lock = self.table.lock(name);
        let queue = lock.map(|lock| lock.queue.iter().map(|(_, id)| id).collect::<Vec<_>>());
        prop_assert_eq!(queue.unwrap_or_default(), self.model.waiters(name), "who waits for {}", name);
        let capacity = self.model.capacity(name).map(|capacity| (capacity.slots, capacity.set));
        let told = lock.map(|lock| (lock.capacity, lock.capacity_set));
        prop_assert_eq!(told, capacity, "what {} has room for", name);
        let busy = lock.map(|lock| lock.slots.keys().copied().collect::<Vec<_>>());
        prop_assert_eq!(busy.unwrap_or_default(), self.model.busy(name), "what slots of {} are busy", name);
        Ok(())
    }

    fn check_slot(&mut self, name: &LockName, slot: Slot) -> Checked {
        let state = self.table.lock(name).and_then(|lock| lock.slots.get(&slot));
        let tenure = state.and_then(SlotState::tenure);
        let holders = self.model.holders(name, slot).iter().map(|request| request.id).collect::<Vec<_>>();
        let told: Vec<_> = tenure.iter().flat_map(|tenure| tenure.holders.keys().copied()).collect();
        prop_assert_eq!(told, holders, "who holds slot {} of {}", slot, name);
        let held = tenure.map(|tenure| (tenure.mode, tenure.token));
        prop_assert_eq!(held, self.model.tenure(name, slot), "how slot {} of {} is held", slot, name);
        let delay = match state {
            Some(SlotState::Delayed(delay)) => {
                let confirmed: Vec<_> = delay.confirmed.iter().cloned().collect();
                let rest = (delay.ended, delay.guards.clone(), confirmed, delay.kept_for);
                Some((delay.began, delay.delay, rest))
            }
            _ => None,
        };
        let expected = self.model.delay(name, slot).map(|delay| {
            let mut confirmed = delay.confirmed.clone();
            confirmed.sort();
            let rest = (delay.ended, delay.guards.clone(), confirmed, delay.kept_for);
            (delay.began, delay.delay, rest)
        });
        prop_assert_eq!(delay, expected, "what delay slot {} of {} is in", slot, name);
        let memory = self.table.slot_memory(name, slot);
        prop_assert_eq!(memory, self.model.slots.get(name, slot), "what slot {} of {} leaves", slot, name);
        self.check_token(name, slot, held.map(|(mode, token)| (token, mode)))
    }

    /// Tokens rise from tenure to tenure, whatever the reference says.
    fn check_token(&mut self, name: &LockName, slot: Slot, held: Option<(Token, Mode)>) -> Checked {
        let last = self.tenures.get_mut(&(name.clone(), slot));
        match (held, last) {
            (None, Some((_, _, over))) => *over = true,
            (None, None) => {}
            (Some((token, mode)), last) => {
                if let Some((before, same, over)) = last {
                    let goes_on = token == *before && mode == *same && !*over;
                    prop_assert!(goes_on || token > *before, "token {} of {} after {}", token, name, before);
                }
                self.tenures.insert((name.clone(), slot), (token, mode, false));
            }
        }
        Ok(())
    }

    fn check_sessions(&self) -> Checked {
        let mut live = 0;
        for known in self.model.sessions.iter().filter(|session| session.end.is_none()) {
            live += 1;
            let Some(session) = self.table.session(known.id) else {
                return Err(TestCaseError::fail(format!("session {} is live", known.id)));
            };
            let told = (session.mark, session.last_command, session.highest, session.ticks);
            let expected = (known.mark, known.last_command, known.highest, known.ticks);
            prop_assert_eq!(told, expected, "what session {} did", known.id);
        }
        prop_assert_eq!(self.table.session_count(), live);
        for request in self.model.requests.iter().filter(|request| request.is_open()) {
            let session = self.table.session(request.id.session);
            let Some(told) = session.and_then(|session| session.acquisitions.get(request.id.number)) else {
                return Err(TestCaseError::fail(format!("what {} is: it is open", request.id)));
            };
            let metadata = (&told.terms.metadata, told.metadata_revision);
            let expected = (&request.metadata, request.metadata_revision);
            prop_assert_eq!(metadata, expected, "what {} shows", request.id);
            let grant = (request.state == State::Holds).then(|| self.model.told(request));
            prop_assert_eq!(self.table.grant(request.id), grant, "what {} holds", request.id);
            let reports = match &told.state {
                AcquisitionState::Holding { reports, .. } => (reports.first, reports.last, reports.number),
                _ => (None, None, 0),
            };
            prop_assert_eq!(reports, request.reports, "what {} reported", request.id);
        }
        Ok(())
    }

    fn check_cluster(&self) -> Checked {
        let (table, model) = (&self.table, &self.model);
        let told = (table.ticks(), table.header().version, &table.header().limits, table.more_limits());
        let expected = (model.ticks, model.version, &model.limits, &model.more);
        prop_assert_eq!(told, expected, "what is in force");
        let rules: Vec<_> = table.delay_rules().iter().map(|(a, b)| (a.clone(), b.clone())).collect();
        let mut expected = model.rules.clone();
        expected.sort_by(|a, b| a.0.cmp(&b.0));
        prop_assert_eq!(rules, expected, "what rules there are");
        Ok(())
    }

    fn check_history(&self) -> Checked {
        let history = self.table.history();
        let past = &self.model.past;
        prop_assert!(history.expired().eq(&past.lost.holds), "what is known of what expired");
        prop_assert!(history.others().eq(&past.given.holds), "what is known of what was released");
        let known_after = (history.expired_known_after(), history.others_known_after());
        prop_assert_eq!(known_after, (past.lost.known_after, past.given.known_after));
        Ok(())
    }

    /// What a lock's history tells, page by page, is what both lists have of it, the newest first.
    pub(super) fn check_pages(&self) -> Checked {
        for name in locks() {
            let past = &self.model.past;
            let both = past.lost.holds.iter().chain(&past.given.holds);
            let mut expected: Vec<_> = both.filter(|hold| hold.lock == name).cloned().collect();
            expected.sort_by_key(|hold| std::cmp::Reverse(hold.number));
            let mut told = Vec::new();
            loop {
                let before = told.last().map(|hold: &EndedHold| hold.number);
                let page = self.table.history().of_lock(&name, before, 2);
                told.extend(page.holds);
                if !page.more {
                    break;
                }
            }
            prop_assert_eq!(told, expected, "the history of {}", name);
        }
        Ok(())
    }

    /// What people are shown of each lock.
    pub(super) fn check_views(&self) -> Checked {
        for name in locks() {
            let view = self.table.view(&name);
            let queue: Vec<_> = view.queue.iter().map(|waiter| waiter.acquisition).collect();
            prop_assert_eq!(queue, self.model.waiters(&name), "who is shown to wait for {}", &name);
            let rule = self.model.rule(&name).cloned();
            prop_assert_eq!(view.delay_rule, rule, "what rule is shown of {}", &name);
            for (slot, baton) in view.batons {
                let left = self.model.slots.get(&name, slot).and_then(|memory| memory.baton.clone());
                prop_assert_eq!(Some(baton), left, "what is shown to be left of {}", &name);
            }
            let busy = self.model.busy(&name);
            prop_assert_eq!(view.slots.len(), busy.len(), "what is shown of {}", &name);
            for (shown, slot) in view.slots.iter().zip(busy) {
                let holders = self.model.holders(&name, slot);
                let expected = holders.iter().filter_map(|request| {
                    let holder = self.model.view(request, request.holds_slot(&name, slot)?);
                    let metadata = request.metadata.clone();
                    let (first, last, number) = request.reports;
                    Some(HoldView {
                        holder,
                        terms: Terms { metadata, ..request.terms() },
                        reports: Reports { first, last, number },
                    })
                });
                let expected: Vec<_> = expected.collect();
                match shown {
                    SlotView::Held { slot: at, holders, .. } => {
                        prop_assert_eq!((*at, holders), (slot, &expected), "who is shown to hold {}", &name);
                    }
                    SlotView::Delayed { slot: at, delay } => {
                        let began = self.model.delay(&name, slot).map(|delay| delay.began);
                        prop_assert_eq!((*at, Some(delay.began)), (slot, began), "what delay is shown");
                    }
                }
            }
        }
        Ok(())
    }

    /// Every grant that ever was, and claims near it, against the truth.
    pub(super) fn check_verdicts(&self) -> Checked {
        for claim in &self.past.grants {
            self.check_verdict(claim)?;
            for number in 0..4 {
                let mut acquisition = claim.acquisition;
                acquisition.number.0 = number;
                self.check_verdict(&Presented { acquisition, ..claim.clone() })?;
            }
            for mode in [Mode::Exclusive, Mode::Shared] {
                self.check_verdict(&Presented { mode, ..claim.clone() })?;
            }
            self.check_verdict(&Presented { lock: lock(1), ..claim.clone() })?;
            self.check_verdict(&Presented { slot: Slot(1), ..claim.clone() })?;
            let later = Token::new(claim.token.get() + 1).expect("a token");
            self.check_verdict(&Presented { token: later, ..claim.clone() })?;
        }
        Ok(())
    }

    fn check_verdict(&self, claim: &Presented) -> Checked {
        let truth = self.model.truth(claim);
        let remembered =
            self.model.is_remembered(claim.acquisition) && !self.model.lost_parts(claim.acquisition);
        let verdict = self.table.verdict(claim);
        let token = self.model.tenure(&claim.lock, claim.slot).map(|(_, token)| token);
        let delayed = self.model.delay(&claim.lock, claim.slot).is_some();
        let right = match (&truth, verdict) {
            (Truth::Current, verdict) => verdict == Verdict::Current,
            (_, Verdict::Current) => false,
            (Truth::Over(how), Verdict::Over { ended, superseded_by, in_lock_delay }) => {
                let told = ended == *how || (ended == Ended::Forgotten && !remembered);
                told && superseded_by == token.filter(|now| *now > claim.token) && in_lock_delay == delayed
            }
            (Truth::Over(_), Verdict::NeverGranted) => false,
            (Truth::Never, Verdict::NeverGranted) => true,
            // Who has forgotten the details cannot tell.
            (Truth::Never, Verdict::Over { ended, .. }) => {
                !remembered || (ended == Ended::Forgotten && self.model.held_something(claim))
            }
        };
        prop_assert!(right, "{:?} of {:?}, the truth being {:?}", verdict, claim, truth);
        Ok(())
    }

    /// A cycle that a refusal tells is one: each step waits for the next one's owner, before the refused entry.
    pub(super) fn check_cycle(&self, command: &Command, reply: &Reply) -> Checked {
        let Reply::Refused(Refusal::WouldDeadlock(cycle)) = reply else { return Ok(()) };
        prop_assert!(!cycle.steps.is_empty(), "what cycle {:?} closes", command);
        let mut seen = BTreeSet::new();
        for step in &cycle.steps {
            let first = seen.insert((step.acquisition.session, step.owner.clone()));
            prop_assert!(first, "what cycle {:?} closes, twice through one owner", command);
        }
        Ok(())
    }
}

/// A reply without the steps of a cycle: the reference knows only whether there is one.
pub(super) fn without_cycle(reply: Reply) -> Reply {
    match reply {
        Reply::Refused(Refusal::WouldDeadlock(_)) => {
            Reply::Refused(Refusal::WouldDeadlock(Cycle { steps: Vec::new() }))
        }
        reply => reply,
    }
}

/// Whose waits an entry ended to break cycles.
pub(super) fn deadlocked(applied: &Applied) -> Vec<AcquisitionId> {
    let ended = applied.events.iter().filter_map(|event| match event {
        Event::WaitEnded { acquisition, ended: Ended::Deadlocked, .. } => Some(*acquisition),
        _ => None,
    });
    ended.collect()
}

/// The events of an entry as the reference tells them.
pub(super) fn happenings(applied: &Applied) -> Vec<Happened> {
    let mut happened: Vec<_> = applied.events.iter().filter_map(told).collect();
    happened.sort();
    happened
}

fn told(event: &Event) -> Option<Happened> {
    Some(match event.clone() {
        Event::SessionOpened { session, .. } => Happened::Opened(session),
        Event::SessionEnded { session, ended } => Happened::SessionEnded(session, ended),
        Event::SessionTakenOver { session, by } => Happened::TakenOver(session, by),
        Event::SessionKept { session } => Happened::Kept(session),
        Event::Queued { acquisition, locks, .. } => Happened::Queued(acquisition, locks),
        Event::Granted { grant, .. } => {
            let parts = grant.parts.into_iter().map(|part| (part.lock, part.slot, part.mode, part.token));
            Happened::Granted(grant.acquisition, parts.collect())
        }
        Event::HoldEnded { acquisition, lock, slot, token, ended } => {
            Happened::HoldEnded(acquisition, lock, slot, token, ended)
        }
        Event::WaitEnded { acquisition, ended, .. } => Happened::WaitEnded(acquisition, ended),
        Event::DelayStarted { lock, slot, delay, .. } => Happened::DelayStarted(lock, slot, delay),
        Event::DelayEnded { lock, slot, began } => Happened::DelayEnded(lock, slot, began),
        Event::MetadataSet { acquisition, metadata, .. } => Happened::Metadata(acquisition, metadata),
        Event::ProgressReported { acquisition } => Happened::Progress(acquisition),
        Event::Ticked => Happened::Ticked,
        Event::Broken { lock, slot, token, by } => Happened::Broken(lock, slot, token, by),
        Event::CapacitySet { lock, capacity } => Happened::CapacitySet(lock, capacity),
        Event::FloorConfirmed { lock, slot, guard } => Happened::Confirmed(lock, slot, guard),
        Event::VersionSet { version } => Happened::Version(version),
        Event::Founded
        | Event::LeaderReady { .. }
        | Event::Contended { .. }
        | Event::Refused { .. }
        | Event::CycleSearchGivenUp { .. }
        | Event::KeyPublished { .. } => return None,
    })
}
