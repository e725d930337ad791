//! Many sessions, delays and waits; new leaders, old ones, and leaders that stood still.

use std::time::Duration;

use palisade_core::command::{Command, OpenSession, Wait};
use palisade_core::ids::{AcquisitionId, Millis, RequestNumber, SecretHash, Slot};
use palisade_core::reply::Reply;

use super::super::{Extended, LeaseClock, LeaseConfig};
use super::{LEASE, Leader, MILLISECOND, TTL, cancel, expired, lock, open};

#[test]
fn expiries_go_out_in_batches() {
    let mut leader = Leader::ready();
    for _ in 0..600 {
        let mut secret = [0; 32];
        secret[..8].copy_from_slice(&leader.table.header().applied.0.to_le_bytes());
        let Command::OpenSession(open) = open(0, Millis(10_000)) else { panic!("an open") };
        leader.apply(Command::OpenSession(OpenSession { secret: SecretHash(secret), ..open }));
    }
    leader.pass(LEASE);
    let commands = leader.due();
    let sizes: Vec<_> = commands.iter().map(|command| expired(std::slice::from_ref(command)).len()).collect();
    assert_eq!(sizes, [256, 256, 88]);
    for command in &commands {
        leader.apply(command.clone());
        leader.clock.decided(leader.now, command);
    }
    assert_eq!((leader.table.session_count(), leader.clock.next_due()), (0, None));
}

#[test]
fn what_is_due_at_one_time_is_bounded_and_the_rest_stays_due() {
    let mut leader = Leader::ready();
    leader.clock =
        LeaseClock::new(LeaseConfig { commands_max: 2, expire_batch: 1, ..LeaseConfig::default() });
    let sessions: Vec<_> = (0..5).map(|_| leader.open()).collect();
    leader.lead(2);
    leader.pass(LEASE);
    let mut seen = Vec::new();
    for expected in [2, 2, 1, 0] {
        let commands = leader.due();
        assert_eq!(commands.len(), expected);
        seen.extend(expired(&commands));
    }
    assert_eq!(seen, sessions);
}

#[test]
fn an_expired_holder_leaves_a_delay_and_its_end_grants_the_waiter() {
    let mut leader = Leader::ready();
    let holder = leader.open();
    assert!(matches!(leader.acquire(holder, 1, Wait::Session, 15_000), Reply::Granted(_)));
    leader.pass(Duration::from_secs(5));
    let waiter = leader.open_with(Duration::from_secs(60));
    assert!(matches!(leader.acquire(waiter, 1, Wait::Session, 0), Reply::Queued { .. }));
    leader.pass(LEASE - Duration::from_secs(5));
    assert_eq!(leader.decide(), 1);
    let delay = Duration::from_millis(15_150);
    assert_eq!(leader.clock.delay_left(&lock(), Slot(0), leader.now), Some(delay));
    leader.pass(delay - MILLISECOND);
    assert_eq!(leader.due(), []);
    leader.pass(MILLISECOND);
    assert_eq!(leader.decide(), 1);
    assert_eq!(leader.clock.delay_left(&lock(), Slot(0), leader.now), None);
    let id = AcquisitionId { session: waiter, number: RequestNumber(1) };
    assert!(leader.table.grant(id).is_some());
}

#[test]
fn a_bounded_wait_ends_unless_it_was_granted() {
    let mut leader = Leader::ready();
    let holder = leader.open();
    leader.acquire(holder, 1, Wait::Session, 0);
    leader.acquire(holder, 2, Wait::Bounded(Millis(1_000)), 0);
    leader.acquire(holder, 3, Wait::Bounded(Millis(2_000)), 0);
    leader.pass(Duration::from_millis(999));
    assert_eq!(leader.due(), []);
    leader.pass(MILLISECOND);
    assert_eq!(leader.decide(), 1);
    assert_eq!(leader.table.counts().waiting, 1);
    // The holder gives up: the other one is granted, and its bound is gone.
    leader.apply(cancel(holder, 1));
    leader.pass(Duration::from_secs(2));
    assert_eq!(leader.due(), []);
}

#[test]
fn b19_a_bound_counts_once_however_often_the_lock_changes_hands() {
    let mut leader = Leader::ready();
    let session = leader.open();
    for number in 1..=3 {
        leader.acquire(session, number, Wait::Session, 0);
    }
    leader.acquire(session, 4, Wait::Bounded(Millis(2_000)), 0);
    for holder in 1..=2 {
        leader.pass(Duration::from_millis(900));
        leader.apply(cancel(session, holder));
        assert_eq!(leader.due(), []);
    }
    leader.pass(Duration::from_millis(199));
    assert_eq!(leader.due(), []);
    leader.pass(MILLISECOND);
    assert_eq!(leader.decide(), 1);
    assert_eq!((leader.table.counts().held, leader.table.counts().waiting), (1, 0));
}

#[test]
fn a_new_leader_arms_everything_in_full() {
    let mut leader = Leader::ready();
    let holder = leader.open();
    leader.acquire(holder, 1, Wait::Session, 15_000);
    leader.pass(LEASE);
    leader.decide();
    let waiter = leader.open();
    leader.acquire(waiter, 1, Wait::Bounded(Millis(8_000)), 0);
    leader.pass(Duration::from_secs(7));
    leader.clock.follow();
    assert_eq!((leader.due(), leader.clock.next_due()), (Vec::new(), None));
    leader.lead(2);
    let full = leader.now;
    assert_eq!(leader.clock.deadline(waiter), Some(full + LEASE));
    assert_eq!(leader.clock.delay_left(&lock(), Slot(0), full), Some(Duration::from_millis(15_150)));
    assert_eq!(leader.clock.next_due(), Some(full + Duration::from_secs(8)));
}

#[test]
fn a_deposed_leader_expires_nobody() {
    let mut leader = Leader::ready();
    let session = leader.open();
    leader.pass(LEASE);
    let late = leader.due();
    assert_eq!(expired(&late), [session]);
    leader.lead(2);
    leader.apply(late[0].clone());
    leader.clock.decided(leader.now, &late[0]);
    assert!(leader.table.session(session).is_some());
    assert!(leader.clock.may_serve(session));
    assert_eq!(leader.clock.deadline(session), Some(leader.now + LEASE));
}

#[test]
fn a_hold_of_an_earlier_clock_releases_nothing_of_this_one() {
    let mut leader = Leader::ready();
    let session = leader.open();
    let old = leader.clock.hold(session, leader.now).expect("not marked");
    leader.lead(2);
    leader.pass(LEASE - MILLISECOND);
    let new = leader.clock.hold(session, leader.now).expect("not marked");
    leader.pass(MILLISECOND);
    leader.clock.settle(old, false);
    assert_eq!(leader.due(), []);
    leader.clock.settle(new, false);
    assert_eq!(expired(&leader.due()), [session]);
}

#[test]
fn a_pause_of_the_leader_is_not_billed_to_the_session() {
    let mut leader = Leader::ready();
    let session = leader.open();
    leader.pass(Duration::from_secs(8));
    let gap = Duration::from_secs(5);
    leader.pass(gap);
    let extended = leader.clock.paused(leader.now, gap);
    assert_eq!(extended, Extended { sessions: 1, longest: gap, total: gap });
    assert_eq!(leader.due(), []);
    leader.pass(LEASE - Duration::from_secs(8));
    assert_eq!(expired(&leader.due()), [session]);
}

#[test]
fn a_pause_never_extends_a_lease_beyond_a_full_one_from_now() {
    let mut leader = Leader::ready();
    let session = leader.open();
    let gap = Duration::from_secs(600);
    leader.pass(gap);
    leader.clock.paused(leader.now, gap);
    // A pause longer than the TTL may add one TTL only: the session was due in the pause, and stays due.
    assert_eq!(expired(&leader.due()), [session]);

    let fresh = leader.open();
    leader.clock.paused(leader.now, gap);
    assert_eq!(leader.clock.deadline(fresh), Some(leader.now + LEASE));
}

#[test]
fn many_pauses_between_two_renewals_add_one_ttl_in_sum() {
    let mut leader = Leader::ready();
    let session = leader.open();
    let opened = leader.now;
    let gap = Duration::from_secs(3);
    let mut granted = Duration::ZERO;
    for _ in 0..8 {
        leader.pass(gap);
        granted += leader.clock.paused(leader.now, gap).total;
    }
    assert_eq!(granted, LEASE);
    assert_eq!(leader.clock.deadline(session), Some(opened + LEASE + LEASE));
    // A renewal gives the room back.
    assert!(leader.clock.renew(session, leader.now));
    leader.pass(gap);
    assert_eq!(leader.clock.paused(leader.now, gap).total, gap);
}

#[test]
fn a_pause_does_not_bring_a_marked_session_back() {
    let mut leader = Leader::ready();
    let session = leader.open();
    leader.pass(LEASE);
    assert_eq!(expired(&leader.due()), [session]);
    assert_eq!(leader.clock.paused(leader.now, TTL), Extended::default());
    assert!(!leader.clock.may_serve(session));
}
