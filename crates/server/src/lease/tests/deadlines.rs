//! Holders' own deadlines: from the first report, from the last, and from the grant where none came.

use std::time::Duration;

use palisade_core::command::{
    Acquire, AcquireOnTerms, AcquirePart, Command, Downgrade, EndOverdue, LockDelay, Overdue, Release,
    ReportProgress, Terms, Wait,
};
use palisade_core::ids::{AcquisitionId, LogIndex, Millis, RequestNumber, SessionId, Slot};
use palisade_core::mode::Mode;
use palisade_core::reply::{Applied, Reply};
use palisade_core::token::Token;

use super::super::Hold;
use super::{Leader, MILLISECOND, lock};

const SECOND: Duration = Duration::from_secs(1);

/// A holder in a session that outlives every story, and its token.
struct Holder {
    id: AcquisitionId,
    token: Token,
}

fn terms(hold_max: Option<u64>, progress_every: Option<u64>) -> Terms {
    let seconds = |bound: Option<u64>| bound.map(|seconds| Millis(seconds * 1_000));
    Terms { hold_max: seconds(hold_max), progress_every: seconds(progress_every), ..Terms::default() }
}

/// With the drift bound.
fn stretched(seconds: u64) -> Duration {
    Duration::from_millis(seconds * 1_010)
}

impl Leader {
    fn ask(&mut self, session: SessionId, number: u64, mode: Mode, terms: Terms) -> Reply {
        let part = AcquirePart {
            lock: lock(),
            mode,
            capacity: 1,
            permits: 1,
            delay: LockDelay::Named(Millis(15_000)),
            fenced_by: Vec::new(),
        };
        let acquire = Acquire {
            session,
            number: Some(RequestNumber(number)),
            mark: RequestNumber(0),
            parts: vec![part],
            wait: Wait::Session,
            owner: None,
        };
        self.apply(Command::AcquireOnTerms(AcquireOnTerms { acquire, terms })).reply
    }

    fn holds(&mut self, terms: Terms) -> Holder {
        let session = self.open_with(Duration::from_secs(86_400));
        assert!(self.clock.renew(session, self.now));
        let reply = self.ask(session, 1, Mode::Exclusive, terms);
        let Reply::Granted(grant) = reply else { panic!("{reply:?}") };
        Holder { id: grant.acquisition, token: grant.parts[0].token }
    }

    /// A report that comes in now; it is decided when it is given to `decided`.
    fn report(&mut self, holder: &Holder) -> Hold {
        self.clock.hold_report(holder.id, self.now).expect("not marked")
    }

    fn decided(&mut self, holder: &Holder, hold: Hold, number: u64) -> Applied {
        let (acquisition, token) = (holder.id, holder.token);
        let applied = self.apply(Command::ReportProgress(ReportProgress { acquisition, token, number }));
        let index = self.table.header().applied;
        self.clock.reported(&hold, index);
        self.clock.settle(hold, applied.renewed.is_some());
        applied
    }

    /// What ends holders. Their sessions are kept alive.
    fn overdue(&mut self) -> Vec<EndOverdue> {
        let sessions: Vec<_> = self.table.sessions().map(|(id, _)| id).collect();
        for session in sessions {
            self.clock.renew(session, self.now);
        }
        let due = self.due();
        let overdue = due.into_iter().filter_map(|command| match command {
            Command::EndOverdue(end) => Some(end),
            _ => None,
        });
        overdue.collect()
    }

    /// Nothing is due before `at`, and this is then.
    fn due_at(&mut self, at: palisade_host::Moment, overdue: Overdue) -> EndOverdue {
        self.now = at - MILLISECOND;
        assert_eq!(self.overdue(), []);
        self.now = at;
        let due = self.overdue();
        assert_eq!(due.iter().map(|end| end.overdue).collect::<Vec<_>>(), [overdue]);
        due[0].clone()
    }

    fn strikes(&mut self, end: EndOverdue) -> bool {
        let held = self.table.counts().held;
        let command = Command::EndOverdue(end);
        self.apply(command.clone());
        self.clock.decided(self.now, &command);
        self.table.counts().held < held
    }
}

#[test]
fn without_a_report_the_shorter_of_the_two_counts_from_the_grant() {
    for (hold_max, every, shorter) in
        [(Some(60), Some(5), 5), (Some(5), Some(60), 5), (Some(7), None, 7), (None, Some(9), 9)]
    {
        let mut leader = Leader::ready();
        let holder = leader.holds(terms(hold_max, every));
        let granted = leader.now;
        let end = leader.due_at(granted + stretched(shorter), Overdue::Progress { report: None });
        assert_eq!((end.acquisition, end.grant), (holder.id, LogIndex(holder.token.get())));
        assert!(leader.strikes(end), "{hold_max:?} {every:?}");
        leader.pass(Duration::from_secs(600));
        assert_eq!(leader.overdue(), [], "it is forgotten");
    }
}

#[test]
fn the_interval_counts_from_the_arrival_of_the_last_report() {
    let mut leader = Leader::ready();
    let holder = leader.holds(terms(None, Some(5)));
    leader.pass(4 * SECOND);
    let received = leader.now;
    let hold = leader.report(&holder);
    leader.pass(3 * SECOND);
    leader.decided(&holder, hold, 0);
    let report = Some(leader.table.header().applied);
    let end = leader.due_at(received + stretched(5), Overdue::Progress { report });
    assert!(leader.strikes(end));
}

#[test]
fn the_maximum_counts_from_the_arrival_of_the_first_report_and_no_other_puts_it_off() {
    let mut leader = Leader::ready();
    let holder = leader.holds(terms(Some(20), Some(5)));
    let hold = leader.report(&holder);
    let received = leader.now;
    leader.pass(SECOND);
    leader.decided(&holder, hold, 0);
    for _ in 0..6 {
        leader.pass(3 * SECOND);
        assert_eq!(leader.overdue(), []);
        let hold = leader.report(&holder);
        leader.decided(&holder, hold, 0);
    }
    let end = leader.due_at(received + stretched(20), Overdue::Maximum);
    // A report that comes now is too late for it.
    let hold = leader.report(&holder);
    leader.decided(&holder, hold, 0);
    assert!(leader.strikes(end));
}

#[test]
fn a_report_that_came_in_before_the_deadline_holds_the_end_back_until_it_is_decided() {
    let mut leader = Leader::ready();
    let holder = leader.holds(terms(None, Some(5)));
    leader.pass(stretched(5) - MILLISECOND);
    let hold = leader.report(&holder);
    leader.pass(3 * SECOND);
    assert_eq!(leader.overdue(), []);
    // Its fate is unknown: nothing was reported.
    leader.clock.settle(hold, false);
    let due = leader.overdue();
    assert_eq!(due.len(), 1);
    // A report that outran the end makes it past, and begins the interval anew.
    let hold = leader.report(&holder);
    leader.decided(&holder, hold, 0);
    let (last, report) = (leader.now, Some(leader.table.header().applied));
    assert!(!leader.strikes(due[0].clone()));
    assert_eq!(leader.overdue(), []);
    leader.due_at(last + stretched(5), Overdue::Progress { report });
}

#[test]
fn a_copy_of_a_report_puts_nothing_off() {
    let mut leader = Leader::ready();
    let holder = leader.holds(terms(None, Some(5)));
    let hold = leader.report(&holder);
    leader.decided(&holder, hold, 1);
    let (first, report) = (leader.now, Some(leader.table.header().applied));
    leader.pass(4 * SECOND);
    let hold = leader.report(&holder);
    leader.decided(&holder, hold, 1);
    leader.due_at(first + stretched(5), Overdue::Progress { report });
}

#[test]
fn a_new_leader_counts_in_full_and_knows_what_was_reported() {
    let mut leader = Leader::ready();
    let holder = leader.holds(terms(Some(20), Some(5)));
    leader.pass(4 * SECOND);
    leader.lead(2);
    let second = leader.now;
    leader.pass(4 * SECOND);
    assert_eq!(leader.overdue(), []);
    let hold = leader.report(&holder);
    leader.decided(&holder, hold, 0);
    let report = Some(leader.table.header().applied);
    leader.pass(SECOND);
    leader.lead(3);
    let third = leader.now;
    assert!(third > second);
    let end = leader.due_at(third + stretched(5), Overdue::Progress { report });
    leader.lead(4);
    assert!(!leader.strikes(end), "an earlier clock ends nobody");
}

#[test]
fn a_pause_of_the_leader_puts_the_next_report_off_by_as_much_and_the_maximum_not_at_all() {
    let mut leader = Leader::ready();
    let holder = leader.holds(terms(Some(20), Some(5)));
    let hold = leader.report(&holder);
    leader.decided(&holder, hold, 0);
    let (first, report) = (leader.now, Some(leader.table.header().applied));
    leader.pass(6 * SECOND);
    leader.clock.paused(leader.now, 4 * SECOND);
    assert_eq!(leader.overdue(), []);
    leader.due_at(first + stretched(5) + 4 * SECOND, Overdue::Progress { report });
    for _ in 0..2 {
        let hold = leader.report(&holder);
        leader.decided(&holder, hold, 0);
        leader.pass(5 * SECOND);
        leader.clock.paused(leader.now, 5 * SECOND);
    }
    leader.now = first + stretched(20);
    assert_eq!(leader.overdue().iter().map(|end| end.overdue).collect::<Vec<_>>(), [Overdue::Maximum]);
}

#[test]
fn what_no_longer_holds_is_never_overdue() {
    let mut leader = Leader::ready();
    let holder = leader.holds(terms(Some(20), Some(5)));
    let (acquisition, token) = (holder.id, holder.token);
    leader.apply(Command::Release(Release { acquisition, part: None, token }));
    leader.pass(Duration::from_secs(60));
    assert_eq!(leader.overdue(), []);
    assert_eq!(leader.table.counts().held, 0);
}

#[test]
fn a_waiter_has_no_deadline_until_it_is_granted() {
    let mut leader = Leader::ready();
    let first = leader.holds(Terms::default());
    let waiter = leader.ask(first.id.session, 2, Mode::Exclusive, terms(None, Some(5)));
    assert!(matches!(waiter, Reply::Queued { .. }), "{waiter:?}");
    leader.pass(Duration::from_secs(60));
    assert_eq!(leader.overdue(), []);
    let (acquisition, token) = (first.id, first.token);
    leader.apply(Command::Release(Release { acquisition, part: Some((lock(), Slot(0))), token }));
    let granted = leader.now;
    let end = leader.due_at(granted + stretched(5), Overdue::Progress { report: None });
    assert_eq!(end.acquisition.number, RequestNumber(2));
}

#[test]
fn what_is_out_is_not_due_again_until_it_is_undecided_or_too_long_out() {
    let mut leader = Leader::ready();
    leader.holds(terms(None, Some(5)));
    leader.pass(stretched(5));
    let first = leader.overdue();
    assert_eq!((first.len(), leader.overdue().len()), (1, 0));
    leader.clock.undecided(leader.now, &Command::EndOverdue(first[0].clone()));
    leader.pass(Duration::from_millis(50));
    assert_eq!(leader.overdue(), first);
    leader.pass(Duration::from_secs(5));
    assert_eq!(leader.overdue(), first);
}

#[test]
fn a_downgrade_is_of_the_same_hold_and_its_end_names_the_present_grant() {
    let mut leader = Leader::ready();
    let holder = leader.holds(terms(Some(20), None));
    let hold = leader.report(&holder);
    leader.decided(&holder, hold, 0);
    let first = leader.now;
    leader.pass(10 * SECOND);
    let (acquisition, token) = (holder.id, holder.token);
    let reply = leader.apply(Command::Downgrade(Downgrade { acquisition, lock: lock(), token })).reply;
    let Reply::Downgraded(grant) = reply else { panic!("{reply:?}") };
    let end = leader.due_at(first + stretched(20), Overdue::Maximum);
    assert_eq!(end.grant, LogIndex(grant.grant_index));
    assert!(leader.strikes(end));
}
