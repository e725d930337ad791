//! Random entries: the table, a replica of it, and the reference must agree after each one.

use std::collections::BTreeMap;

use palisade_core::command::{ClusterVersion, Command, Envelope, Found, LeaderReady};
use palisade_core::event::Event;
use palisade_core::history::EndedHold;
use palisade_core::ids::{
    ClusterId, ClusterName, Incarnation, LockName, LogIndex, NodeId, Slot, Term, WallTime,
};
use palisade_core::limits::Limits;
use palisade_core::lock::SlotState;
use palisade_core::mode::Mode;
use palisade_core::reply::{Applied, Ended};
use palisade_core::table::{LockTable, Presented, Verdict};
use palisade_core::token::{Token, TokenBase};
use palisade_raft::codec::{decode_table, encode_table};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};

use super::commands::{LOCKS, Past, Step, limits, lock, step};
use super::reference::{Happened, Reference, State, Truth};

struct Run {
    table: LockTable,
    /// Gets the same entries, and goes through its bytes on the way.
    replica: LockTable,
    model: Reference,
    past: Past,
    index: u64,
    tokens: BTreeMap<LockName, Token>,
}

type Checked = Result<(), TestCaseError>;

impl Run {
    fn begin(limits: Limits, base: TokenBase) -> Result<Self, TestCaseError> {
        let model = Reference::new(limits.clone(), base);
        let (table, replica) = (LockTable::new(), LockTable::new());
        let mut run =
            Self { table, replica, model, past: Past::default(), index: 0, tokens: BTreeMap::new() };
        run.apply(Command::Found(Found {
            cluster: ClusterId([1; 16]),
            name: ClusterName::new("property").expect("a cluster name"),
            incarnation: Incarnation([2; 16]),
            limits,
            token_base: base,
            version: ClusterVersion::CURRENT,
            members: Vec::new(),
        }))?;
        run.apply(Command::LeaderReady(LeaderReady { term: Term(1), node: NodeId(1), nonce: 0 }))?;
        Ok(run)
    }

    fn step(&mut self, step: &Step, gap: bool) -> Checked {
        // Entries of the log's own (blank ones, memberships) take indexes too.
        self.index += u64::from(gap);
        let command = self.past.command(step, &self.model);
        self.apply(command)
    }

    fn apply(&mut self, command: Command) -> Checked {
        self.index += 1;
        let (index, wall) = (LogIndex(self.index), WallTime(1_000 * self.index));
        let envelope = Envelope { wall, node: NodeId(1), command };
        let applied = self.table.apply(index, &envelope);
        let again = self.replica.apply(index, &envelope);
        prop_assert_eq!(&applied, &again, "two replicas answered {:?} differently", &envelope.command);
        let (reply, happened) = self.model.apply(index, wall, &envelope.command);
        prop_assert_eq!(&applied.reply, &reply, "the reply to {:?}", &envelope.command);
        prop_assert_eq!(happenings(&applied), happened.clone(), "what {:?} did", &envelope.command);
        self.past.remember(&envelope.command, &happened, &self.model);
        for event in &happened {
            if let Happened::Granted(_, lock, token) = event {
                let before = self.tokens.insert(lock.clone(), *token);
                prop_assert!(before < Some(*token), "token {} of {} after {:?}", token, lock, before);
            }
        }
        prop_assert_eq!(self.table.check_invariants(), Ok(()), "after {:?}", &envelope.command);
        self.check_locks()?;
        self.check_sessions()?;
        self.check_history()
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
    fn check_pages(&self) -> Checked {
        for pick in 0..LOCKS.len() as u8 {
            let name = lock(pick);
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

    fn check_locks(&self) -> Checked {
        for pick in 0..LOCKS.len() as u8 {
            let name = lock(pick);
            let state = self.table.lock(&name).and_then(|lock| lock.slots.get(&Slot(0)));
            let holder = state
                .and_then(SlotState::tenure)
                .map(|tenure| (tenure.token, tenure.holders.keys().copied().collect::<Vec<_>>()));
            let expected = self.model.holder(&name).and_then(|request| match request.state {
                State::Holds { token, .. } => Some((token, vec![request.id])),
                _ => None,
            });
            prop_assert_eq!(holder, expected, "who holds {}", &name);
            let delay = match state {
                Some(SlotState::Delayed(delay)) => Some((delay.began, delay.delay)),
                _ => None,
            };
            prop_assert_eq!(delay, self.model.delay(&name).map(|delay| (delay.began, delay.delay)));
            let queue =
                self.table.lock(&name).map(|lock| lock.queue.iter().map(|(_, id)| id).collect::<Vec<_>>());
            prop_assert_eq!(queue.unwrap_or_default(), self.model.waiters(&name), "who waits for {}", &name);
        }
        prop_assert_eq!(self.table.lock_count(), self.model.locks().len());
        Ok(())
    }

    fn check_sessions(&self) -> Checked {
        let mut live = 0;
        for known in self.model.sessions.iter().filter(|session| session.end.is_none()) {
            live += 1;
            let Some(session) = self.table.session(known.id) else {
                return Err(TestCaseError::fail(format!("session {} is live", known.id)));
            };
            let (mark, last, highest) = (session.mark, session.last_command, session.highest);
            prop_assert_eq!((mark, last, highest), (known.mark, known.last_command, known.highest));
        }
        prop_assert_eq!(self.table.session_count(), live);
        Ok(())
    }

    /// Every grant that ever was, and claims near it, against the truth.
    fn check_verdicts(&self) -> Checked {
        for claim in &self.past.grants {
            self.check_verdict(claim)?;
            for number in 0..4 {
                let mut acquisition = claim.acquisition;
                acquisition.number.0 = number;
                self.check_verdict(&Presented { acquisition, ..claim.clone() })?;
            }
            // Of what is over, the mode is not remembered.
            let shared = self.table.verdict(&Presented { mode: Mode::Shared, ..claim.clone() });
            prop_assert_ne!(shared, Verdict::Current, "{:?} in another mode", claim);
            self.check_verdict(&Presented { lock: lock(1), ..claim.clone() })?;
            let later = Token::new(claim.token.get() + 1).expect("a token");
            self.check_verdict(&Presented { token: later, ..claim.clone() })?;
        }
        Ok(())
    }

    fn check_verdict(&self, claim: &Presented) -> Checked {
        let truth = self.model.truth(claim);
        let remembered = self.model.is_remembered(claim.acquisition);
        let verdict = self.table.verdict(claim);
        let (token, delayed) = match self.table.lock(&claim.lock).and_then(|lock| lock.slots.get(&claim.slot))
        {
            Some(SlotState::Held(tenure)) => (Some(tenure.token), false),
            Some(SlotState::Delayed(_)) => (None, true),
            None => (None, false),
        };
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
            (Truth::Never, Verdict::Over { .. }) => !remembered,
        };
        prop_assert!(right, "{:?} of {:?}, the truth being {:?}", verdict, claim, truth);
        Ok(())
    }

    /// The replica is taken to its bytes and back, as by a snapshot.
    fn through_bytes(&mut self) -> Checked {
        let bytes = encode_table(&self.replica);
        prop_assert!(bytes == encode_table(&self.table), "equal replicas have different bytes");
        let copy = match decode_table(&bytes) {
            Ok(copy) => copy,
            Err(why) => return Err(TestCaseError::fail(format!("the bytes of a table are refused: {why}"))),
        };
        prop_assert!(copy == self.table, "the copy that a snapshot made is another table");
        self.replica = copy;
        Ok(())
    }
}

/// The events of an entry as the reference tells them.
fn happenings(applied: &Applied) -> Vec<Happened> {
    let told = |event: &Event| match event {
        Event::SessionOpened { session, .. } => Some(Happened::Opened(*session)),
        Event::SessionEnded { session, ended } => Some(Happened::SessionEnded(*session, *ended)),
        Event::Queued { acquisition, .. } => Some(Happened::Queued(*acquisition)),
        Event::Granted { grant, .. } => {
            Some(Happened::Granted(grant.acquisition, grant.parts[0].lock.clone(), grant.parts[0].token))
        }
        Event::HoldEnded { acquisition, lock, token, ended, .. } => {
            Some(Happened::HoldEnded(*acquisition, lock.clone(), *token, *ended))
        }
        Event::WaitEnded { acquisition, ended, .. } => Some(Happened::WaitEnded(*acquisition, *ended)),
        Event::DelayStarted { lock, delay, .. } => Some(Happened::DelayStarted(lock.clone(), *delay)),
        Event::DelayEnded { lock, began, .. } => Some(Happened::DelayEnded(lock.clone(), *began)),
        Event::Founded
        | Event::LeaderReady { .. }
        | Event::Contended { .. }
        | Event::Refused { .. }
        | Event::KeyPublished { .. }
        | Event::MetadataSet { .. }
        | Event::ProgressReported { .. }
        | Event::SessionKept { .. }
        | Event::Ticked
        | Event::Broken { .. }
        | Event::SessionTakenOver { .. }
        | Event::CapacitySet { .. }
        | Event::FloorConfirmed { .. }
        | Event::CycleSearchGivenUp { .. }
        | Event::VersionSet { .. } => None,
    };
    let mut happened: Vec<_> = applied.events.iter().filter_map(told).collect();
    happened.sort();
    happened
}

/// What one case draws.
#[derive(Clone, Debug)]
struct Story {
    limits: Limits,
    base: TokenBase,
    /// Each with whether the log takes an index for itself before it.
    steps: Vec<(Step, bool)>,
    /// Before which step the replica goes through its bytes, which take most of the time; often none.
    snapshot: usize,
}

impl Story {
    fn new((limits, restored, steps, snapshot): (u64, bool, Vec<u64>, usize)) -> Self {
        let base = if restored { 1 << 50 } else { 0 };
        Self {
            limits: self::limits(limits),
            base: TokenBase::new(base).expect("a base"),
            steps: steps.into_iter().map(|number| (step(number / 8), number % 8 == 7)).collect(),
            snapshot,
        }
    }

    fn run(self) -> Checked {
        let mut run = Run::begin(self.limits, self.base)?;
        for (at, (step, gap)) in self.steps.iter().enumerate() {
            if at == self.snapshot {
                run.through_bytes()?;
            }
            run.step(step, *gap)?;
        }
        run.check_verdicts()?;
        run.check_pages()?;
        prop_assert!(run.table == run.replica, "the replicas hold different tables");
        Ok(())
    }
}

#[test]
fn the_table_does_what_the_reference_does() {
    let cases =
        std::env::var("PALISADE_PROPERTY_CASES").map_or(20_000, |cases| cases.parse().expect("a number"));
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 20_000, ..Config::default() };
    let drawn = (any::<u64>(), any::<bool>(), prop::collection::vec(any::<u64>(), 1..60), 0..120_usize);
    match TestRunner::new(config).run(&drawn, |drawn| Story::new(drawn).run()) {
        Ok(()) => {}
        Err(TestError::Fail(why, drawn)) => panic!("{why}\nin {:#?}", Story::new(drawn)),
        Err(TestError::Abort(why)) => panic!("the test gave up: {why}"),
    }
}
