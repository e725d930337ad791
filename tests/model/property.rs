//! Random entries: the table, a replica of it, and the reference must agree after each one.

use std::collections::BTreeMap;

use palisade_core::command::{ClusterVersion, Command, Envelope, Found, LeaderReady};
use palisade_core::ids::{
    ClusterId, ClusterName, Incarnation, LockName, LogIndex, NodeId, Slot, Term, WallTime,
};
use palisade_core::limits::Limits;
use palisade_core::mode::Mode;
use palisade_core::table::LockTable;
use palisade_core::token::{Token, TokenBase};
use palisade_raft::codec::{decode_table, encode_table};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};

use super::commands::Past;
use super::compare::{deadlocked, happenings, without_cycle};
use super::reference::Reference;
use super::steps::{Step, limits, step};

pub(super) struct Run {
    pub(super) table: LockTable,
    /// Gets the same entries, and goes through its bytes on the way.
    replica: LockTable,
    pub(super) model: Reference,
    pub(super) past: Past,
    index: u64,
    /// The last tenure of each slot, and whether it has ended.
    pub(super) tenures: BTreeMap<(LockName, Slot), (Token, Mode, bool)>,
}

pub(super) type Checked = Result<(), TestCaseError>;

impl Run {
    fn begin(limits: Limits, base: TokenBase, version: ClusterVersion) -> Result<Self, TestCaseError> {
        let mut run = Self {
            table: LockTable::new(),
            replica: LockTable::new(),
            model: Reference::new(limits.clone(), base, version),
            past: Past::default(),
            index: 0,
            tenures: BTreeMap::new(),
        };
        run.apply(Command::Found(Found {
            cluster: ClusterId([1; 16]),
            name: ClusterName::new("property").expect("a cluster name"),
            incarnation: Incarnation([2; 16]),
            limits,
            token_base: base,
            version,
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
        self.check_cycle(&envelope.command, &applied.reply)?;
        self.model.deadlocked = deadlocked(&applied);
        let (reply, happened) = self.model.apply(index, wall, &envelope.command);
        let told = without_cycle(applied.reply.clone());
        prop_assert_eq!(told, reply, "the reply to {:?}", &envelope.command);
        prop_assert_eq!(happenings(&applied), happened.clone(), "what {:?} did", &envelope.command);
        self.past.remember(&envelope.command, &happened, &self.model);
        prop_assert_eq!(self.table.check_invariants(), Ok(()), "after {:?}", &envelope.command);
        self.check_all()
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
        prop_assert!(encode_table(&copy) == bytes, "the copy that a snapshot made has other bytes");
        self.replica = copy;
        Ok(())
    }
}

/// What one case draws.
#[derive(Clone, Debug)]
struct Story {
    limits: Limits,
    base: TokenBase,
    version: ClusterVersion,
    /// Each with whether the log takes an index for itself before it.
    steps: Vec<(Step, bool)>,
    /// Before which step the replica goes through its bytes, which take most of the time; often none.
    snapshot: usize,
}

type Drawn = (u64, bool, Vec<u128>, usize);

impl Story {
    fn new((founding, restored, steps, snapshot): Drawn) -> Self {
        let base = if restored { 1 << 50 } else { 0 };
        // Few clusters are still of version 1.
        let version = ClusterVersion(if founding % 12 == 11 { 1 } else { 2 });
        Self {
            limits: limits((founding / 12).into()),
            base: TokenBase::new(base).expect("a base"),
            version,
            steps: steps.into_iter().map(|number| (step(number / 8), number % 8 == 7)).collect(),
            snapshot,
        }
    }

    fn run(self) -> Checked {
        let mut run = Run::begin(self.limits, self.base, self.version)?;
        for (at, (step, gap)) in self.steps.iter().enumerate() {
            if at == self.snapshot {
                run.through_bytes()?;
            }
            run.step(step, *gap)?;
        }
        run.check_verdicts()?;
        run.check_views()?;
        run.check_pages()?;
        prop_assert!(run.table == run.replica, "the replicas hold different tables");
        Ok(())
    }
}

#[test]
fn the_table_does_what_the_reference_does() {
    let cases =
        std::env::var("PALISADE_PROPERTY_CASES").map_or(10_000, |cases| cases.parse().expect("a number"));
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 20_000, ..Config::default() };
    let drawn = (any::<u64>(), any::<bool>(), prop::collection::vec(any::<u128>(), 1..60), 0..120_usize);
    match TestRunner::new(config).run(&drawn, |drawn| Story::new(drawn).run()) {
        Ok(()) => {}
        Err(TestError::Fail(why, drawn)) => panic!("{why}\nin {:#?}", Story::new(drawn)),
        Err(TestError::Abort(why)) => panic!("the test gave up: {why}"),
    }
}
