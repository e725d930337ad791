//! Renewals, marks and expiries of one session.

use std::time::Duration;

use palisade_core::command::{Command, ExpireSessions};
use palisade_core::ids::Millis;

use super::{LEASE, Leader, MILLISECOND, TTL, cancel, expired, open};

#[test]
fn a_session_is_due_when_its_stretched_ttl_has_passed_since_its_last_renewal_came_in() {
    let mut leader = Leader::ready();
    let session = leader.open();
    leader.pass(Duration::from_secs(4));
    let received = leader.now;
    leader.pass(Duration::from_secs(1));
    assert!(leader.clock.renew(session, received));
    assert_eq!(leader.clock.deadline(session), Some(received + LEASE));
    leader.now = received + LEASE - MILLISECOND;
    assert_eq!(leader.due(), []);
    leader.pass(MILLISECOND);
    let commands = leader.due();
    assert_eq!(expired(&commands), [session]);
    leader.apply(commands[0].clone());
    leader.clock.decided(leader.now, &commands[0]);
    assert!(leader.table.session(session).is_none());
    assert_eq!(leader.clock.next_due(), None);
}

#[test]
fn a_session_that_keeps_renewing_is_never_due_and_costs_one_place() {
    let mut leader = Leader::ready();
    let session = leader.open();
    for _ in 0..100 {
        leader.pass(Duration::from_secs(3));
        assert!(leader.clock.renew(session, leader.now));
        assert_eq!(leader.due(), []);
    }
    leader.pass(LEASE);
    assert_eq!(expired(&leader.due()), [session]);
}

#[test]
fn a_late_answer_to_an_early_keepalive_never_shortens_a_lease() {
    let mut leader = Leader::ready();
    let session = leader.open();
    let early = leader.now;
    leader.pass(Duration::from_secs(5));
    assert!(leader.clock.renew(session, leader.now));
    let deadline = leader.clock.deadline(session);
    assert!(leader.clock.renew(session, early));
    assert_eq!(leader.clock.deadline(session), deadline);
}

#[test]
fn a_session_not_heard_from_after_its_opening_ends_after_a_minute() {
    let mut leader = Leader::ready();
    let silent = leader.open_with(Duration::from_secs(3_600));
    let heard = leader.open_with(Duration::from_secs(3_600));
    assert!(leader.clock.renew(heard, leader.now));
    leader.pass(Duration::from_millis(60_600));
    assert_eq!(expired(&leader.due()), [silent]);
    leader.pass(Duration::from_secs(3_600));
    assert!(expired(&leader.due()).contains(&heard));
}

#[test]
fn b64_a_long_lease_that_came_first_does_not_hide_a_shorter_one() {
    let mut leader = Leader::ready();
    let long = leader.open_with(Duration::from_secs(50));
    assert!(leader.clock.renew(long, leader.now));
    leader.pass(Duration::from_secs(1));
    let short = leader.open();
    assert_eq!(leader.clock.next_due(), Some(leader.now + LEASE));
    leader.pass(LEASE);
    assert_eq!(expired(&leader.due()), [short]);
}

#[test]
fn a_repeated_open_renews() {
    let mut leader = Leader::ready();
    let session = leader.open();
    leader.pass(Duration::from_secs(9));
    let secret = leader.secrets;
    leader.apply(open(secret, Millis(10_000)));
    assert_eq!(leader.clock.deadline(session), Some(leader.now + LEASE));
}

#[test]
fn from_the_mark_until_the_decision_nothing_of_the_session_is_served() {
    let mut leader = Leader::ready();
    let session = leader.open();
    assert!(leader.clock.may_serve(session));
    leader.pass(LEASE);
    assert_eq!(expired(&leader.due()), [session]);
    assert!(!leader.clock.may_serve(session));
    assert!(!leader.clock.renew(session, leader.now));
    assert!(leader.clock.hold(session, leader.now).is_none());
    // Not even a keepalive that came in before the mark.
    assert!(!leader.clock.renew(session, leader.now - TTL));
}

#[test]
fn a_command_that_came_in_before_the_deadline_holds_the_expiry_back_until_it_is_decided() {
    let mut leader = Leader::ready();
    let session = leader.open();
    leader.pass(LEASE - MILLISECOND);
    let received = leader.now;
    let first = leader.clock.hold(session, received).expect("not marked");
    let second = leader.clock.hold(session, received).expect("not marked");
    leader.pass(Duration::from_secs(3));
    assert_eq!(leader.due(), []);
    leader.clock.settle(first, false);
    assert_eq!(leader.due(), []);
    leader.clock.settle(second, false);
    assert!(leader.clock.next_due().is_some_and(|due| due <= leader.now));
    assert_eq!(expired(&leader.due()), [session]);
}

#[test]
fn a_command_that_was_held_and_renewed_counts_from_its_receipt() {
    let mut leader = Leader::ready();
    let session = leader.open();
    leader.pass(LEASE - MILLISECOND);
    let received = leader.now;
    let hold = leader.clock.hold(session, received).expect("not marked");
    leader.pass(Duration::from_secs(3));
    assert_eq!(leader.due(), []);
    leader.apply(cancel(session, 1));
    leader.clock.settle(hold, true);
    assert_eq!(leader.clock.deadline(session), Some(received + LEASE));
    leader.now = received + LEASE;
    assert_eq!(expired(&leader.due()), [session]);
}

#[test]
fn a_hold_that_nobody_settles_lapses_with_the_deadline_of_a_proposal() {
    let mut leader = Leader::ready();
    let session = leader.open();
    leader.pass(LEASE - MILLISECOND);
    let _lost = leader.clock.hold(session, leader.now);
    leader.pass(Duration::from_secs(10) - MILLISECOND);
    assert_eq!(leader.due(), []);
    leader.pass(MILLISECOND);
    assert_eq!(expired(&leader.due()), [session]);
}

#[test]
fn a_session_that_spoke_after_the_mark_outlives_the_expiry() {
    let mut leader = Leader::ready();
    let session = leader.open();
    leader.pass(LEASE - MILLISECOND);
    let _lost = leader.clock.hold(session, leader.now);
    leader.pass(Duration::from_secs(10));
    let commands = leader.due();
    assert_eq!(expired(&commands), [session]);
    // Its command was under way longer than a proposal may be, and still came before the expiry.
    leader.apply(cancel(session, 1));
    leader.apply(commands[0].clone());
    leader.clock.decided(leader.now, &commands[0]);
    assert!(leader.table.session(session).is_some());
    assert!(leader.clock.may_serve(session));
    assert_eq!(leader.due(), []);
    // The next expiry names the newer command, and strikes.
    leader.pass(LEASE);
    assert_eq!(leader.decide(), 1);
    assert!(leader.table.session(session).is_none());
}

#[test]
fn an_expiry_names_the_last_command_that_was_applied() {
    let mut leader = Leader::ready();
    let session = leader.open();
    leader.command(session, 1);
    let last_command = leader.table.header().applied;
    leader.pass(LEASE);
    let epoch = leader.table.header().lease.expect("a leader").epoch;
    let expected = Command::ExpireSessions(ExpireSessions { epoch, sessions: vec![(session, last_command)] });
    assert_eq!(leader.due(), [expected]);
}

#[test]
fn what_is_out_is_not_due_again_until_it_is_undecided_or_too_long_out() {
    let mut leader = Leader::ready();
    let session = leader.open();
    leader.pass(LEASE);
    let first = leader.due();
    assert_eq!(expired(&first), [session]);
    assert_eq!(leader.due(), []);
    leader.clock.undecided(leader.now, &first[0]);
    assert!(!leader.clock.may_serve(session));
    assert_eq!(leader.due(), []);
    leader.pass(Duration::from_millis(50));
    assert_eq!(leader.due(), first);
    leader.pass(Duration::from_secs(5));
    assert_eq!(leader.due(), first);
}
