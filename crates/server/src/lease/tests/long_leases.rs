//! Leases of more than a minute: kept in the log, and counted on over leaders by their minutes.

use std::time::Duration;

use palisade_core::command::{Command, KeepSessions, Tick};
use palisade_core::ids::SessionId;

use super::{LEASE, Leader, MILLISECOND, expired};

const HOUR: Duration = Duration::from_secs(3_600);
/// A minute, and what is counted for one.
const MINUTE: Duration = Duration::from_secs(60);
const COUNTED: Duration = Duration::from_millis(60_600);

fn stretched(time: Duration) -> Duration {
    time + time / 100
}

impl Leader {
    fn keep(&mut self, session: SessionId) {
        let hold = self.clock.hold(session, self.now).expect("not marked");
        self.apply(Command::KeepSessions(KeepSessions { sessions: vec![session] }));
        self.clock.settle(hold, true);
    }

    /// So many minutes pass, each of which is logged.
    fn minutes(&mut self, count: u64) {
        for _ in 0..count {
            self.pass(COUNTED);
            let before = self.table.ticks().count;
            self.due();
            assert_eq!(self.table.ticks().count, before + 1);
        }
    }

    fn lease_left(&self, session: SessionId) -> Duration {
        self.clock.deadline(session).expect("it is counted").since(self.now)
    }
}

#[test]
fn a_minute_is_logged_when_it_has_passed_by_the_slowest_clock_and_names_the_one_before() {
    let mut leader = Leader::ready();
    let epoch = leader.table.header().applied;
    leader.pass(COUNTED - MILLISECOND);
    assert_eq!(leader.clock.due(leader.now), []);
    leader.pass(MILLISECOND);
    let first = Command::Tick(Tick { epoch, previous: None });
    assert_eq!(leader.clock.due(leader.now), std::slice::from_ref(&first));
    assert_eq!(leader.clock.due(leader.now), [], "it is out");
    leader.clock.undecided(leader.now, &first);
    leader.pass(Duration::from_millis(50));
    assert_eq!(leader.clock.due(leader.now), std::slice::from_ref(&first));
    leader.apply(first.clone());
    let previous = Some(leader.table.header().applied);
    leader.clock.decided(leader.now, &first);
    leader.apply(first);
    assert_eq!(leader.table.ticks().count, 1, "told twice, it counts once");
    leader.pass(COUNTED - MILLISECOND);
    assert_eq!(leader.clock.due(leader.now), []);
    leader.pass(MILLISECOND);
    assert_eq!(leader.clock.due(leader.now), [Command::Tick(Tick { epoch, previous })]);
}

#[test]
fn a_new_leader_s_first_minute_begins_when_it_leads() {
    let mut leader = Leader::ready();
    leader.minutes(2);
    leader.pass(COUNTED - MILLISECOND);
    leader.lead(2);
    let epoch = leader.table.header().lease.expect("a leader").epoch;
    leader.pass(COUNTED - MILLISECOND);
    assert_eq!(leader.clock.due(leader.now), []);
    leader.pass(MILLISECOND);
    assert_eq!(leader.clock.due(leader.now), [Command::Tick(Tick { epoch, previous: None })]);
    leader.clock.follow();
    leader.pass(HOUR);
    assert_eq!(leader.clock.due(leader.now), []);
}

#[test]
fn only_a_lease_of_more_than_a_minute_is_kept_in_the_log() {
    let mut leader = Leader::ready();
    let (short, long) = (leader.open_with(MINUTE), leader.open_with(MINUTE + MILLISECOND));
    assert_eq!((leader.clock.is_kept_in_log(short), leader.clock.is_kept_in_log(long)), (false, true));
    assert!(!leader.clock.is_kept_in_log(SessionId(99)));
    leader.clock.follow();
    assert!(!leader.clock.is_kept_in_log(long));
}

#[test]
fn a_kept_lease_counts_from_the_receipt_of_its_keepalive_and_outlives_an_expiry_before_it() {
    let mut leader = Leader::ready();
    let session = leader.open_with(HOUR);
    leader.keep(session);
    assert_eq!(leader.lease_left(session), stretched(HOUR));
    leader.pass(stretched(HOUR));
    let due = leader.due();
    assert_eq!(expired(&due), [session]);
    // A keepalive that was under way for too long, and still came before the expiry.
    leader.apply(Command::KeepSessions(KeepSessions { sessions: vec![session] }));
    leader.apply(due[0].clone());
    leader.clock.decided(leader.now, &due[0]);
    assert!(leader.table.session(session).is_some());
    assert!(leader.clock.may_serve(session));
    assert_eq!(leader.lease_left(session), stretched(HOUR));
}

#[test]
fn a_new_leader_takes_off_the_minutes_since_the_last_entry_but_the_first() {
    let mut leader = Leader::ready();
    let session = leader.open_with(HOUR);
    for (minutes, left) in [(0, HOUR), (1, HOUR), (2, HOUR - MINUTE), (10, HOUR - 9 * MINUTE)] {
        leader.keep(session);
        leader.minutes(minutes);
        leader.lead(minutes + 2);
        assert_eq!(leader.lease_left(session), stretched(left), "{minutes}");
    }
}

#[test]
fn a_dead_holder_s_long_lease_costs_a_minute_more_for_each_leader() {
    let mut leader = Leader::ready();
    let session = leader.open_with(5 * MINUTE);
    leader.keep(session);
    let mut waited = Duration::ZERO;
    for term in 2..5 {
        leader.minutes(1);
        leader.lead(term);
        waited += COUNTED;
    }
    assert_eq!(leader.lease_left(session), stretched(3 * MINUTE), "but the first of three");
    leader.pass(stretched(3 * MINUTE));
    waited += stretched(3 * MINUTE);
    assert_eq!(expired(&leader.due()), [session]);
    assert!(waited <= stretched(5 * MINUTE) + 3 * COUNTED, "never more than a minute a leader");
    assert!(waited >= stretched(5 * MINUTE), "never less than was promised");
}

#[test]
fn a_short_lease_starts_over_whatever_passed() {
    let mut leader = Leader::ready();
    let session = leader.open();
    for _ in 0..10 {
        leader.pass(Duration::from_secs(9));
        assert!(leader.clock.renew(session, leader.now));
        leader.due();
    }
    leader.lead(2);
    assert_eq!(leader.lease_left(session), LEASE);
}
