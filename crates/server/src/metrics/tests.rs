//! What is registered is described, and what happens is counted.

use std::collections::BTreeSet;

use palisade_core::command::{Cancel, Command, HandOver, Release};
use palisade_core::event::Event;
use palisade_core::ids::{AcquisitionId, LockName, LogIndex, RequestNumber, SessionId, Slot, Term};
use palisade_core::reply::{Applied, Cycle, Ended, Grant, Refusal, Reply};
use palisade_core::token::Token;
use palisade_raft::FlushTimes;

use super::*;

fn status() -> RaftStatus {
    RaftStatus {
        term: Term(3),
        role: Role::Leader,
        leader: None,
        last_log: LogIndex(61),
        committed: LogIndex(60),
        applied: LogIndex(59),
        snapshot: LogIndex(0),
        flush: FlushTimes { count: 2, p50_micros: 800, p99_micros: 9_000 },
    }
}

fn acquisition() -> AcquisitionId {
    AcquisitionId { session: SessionId(7), number: RequestNumber(1) }
}

fn token() -> Token {
    Token::new(34).expect("a token")
}

fn applied(reply: Reply, events: Vec<Event>) -> Applied {
    Applied { reply, events, renewed: None }
}

#[test]
fn what_is_exposed_is_what_is_described() {
    let metrics = Metrics::new();
    metrics.look(&status(), &LockTable::new());
    let text = metrics.text();
    let described: BTreeSet<&str> = METRICS.iter().map(|(name, ..)| *name).collect();
    assert_eq!(described.len(), METRICS.len());
    let exposed: BTreeSet<String> = text
        .lines()
        .filter_map(|line| {
            let mut words = line.strip_prefix("# TYPE ")?.split(' ');
            let (stem, kind) = (words.next()?, words.next()?);
            Some(match kind {
                "counter" => format!("{stem}_total"),
                "info" => format!("{stem}_info"),
                _ => stem.to_owned(),
            })
        })
        .collect();
    assert_eq!(exposed.iter().map(String::as_str).collect::<BTreeSet<_>>(), described);
    for (name, unit, help) in METRICS {
        assert!(!unit.is_empty() && text.contains(help), "{name}");
        assert!(text.lines().any(|line| line.starts_with(name)), "{name} has no sample");
    }
    assert!(text.ends_with("# EOF\n"));
}

#[test]
fn each_series_is_there_from_the_start() {
    let metrics = Metrics::new();
    let text = metrics.text();
    for line in [
        "palisade_grants_total{how=\"waited\"} 0",
        "palisade_sequencer_checks_total{result=\"forged\"} 0",
        "palisade_proposals_failed_total{why=\"outcome_unknown\"} 0",
        concat!("palisade_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1"),
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
}

#[test]
fn a_release_that_ends_a_hold_grants_the_next() {
    let metrics = Metrics::new();
    let lock = LockName::new("orders/7").expect("a name");
    let release = Command::Release(Release { acquisition: acquisition(), part: None, token: token() });
    let grant = Grant {
        acquisition: acquisition(),
        grant_index: 40,
        parts: Vec::new(),
        hold_max: None,
        progress_every: None,
    };
    let ended = Ended::Released;
    let held = Event::HoldEnded { acquisition: acquisition(), lock, slot: Slot(0), token: token(), ended };
    metrics.applied(
        &release,
        &applied(Reply::Released(ended), vec![held, Event::Granted { grant, waited: true }]),
    );
    metrics.applied(&release, &applied(Reply::Released(ended), Vec::new()));
    let late = Reply::Refused(Refusal::NotHeld { superseded: None });
    metrics.applied(&release, &applied(late, Vec::new()));
    for result in ReleaseResult::ALL {
        assert_eq!(metrics.releases.get(*result), 1, "{result:?}");
    }
    assert_eq!((metrics.grants.get(How::Waited), metrics.grants.get(How::AtOnce)), (1, 0));
}

#[test]
fn each_end_of_a_hold_counts_under_its_name_and_each_cycle_under_what_met_it() {
    let metrics = Metrics::new();
    let command = Command::Cancel(Cancel { acquisition: acquisition() });
    let lock = || LockName::new("orders/7").expect("a name");
    let (acquisition, slot, token) = (acquisition(), Slot(0), token());
    for ended in [Ended::Overdue, Ended::Broken, Ended::Broken, Ended::HandedOver, Ended::TakenOver] {
        let event = Event::HoldEnded { acquisition, lock: lock(), slot, token, ended };
        metrics.applied(&command, &applied(Reply::Done, vec![event]));
    }
    let counted = [HoldEnd::Overdue, HoldEnd::Broken, HoldEnd::HandedOver, HoldEnd::TakenOver];
    assert_eq!(counted.map(|how| metrics.holds_ended.get(how)), [1, 2, 1, 1]);

    let refusal = Refusal::WouldDeadlock(Cycle { steps: Vec::new() });
    let hand_over = Command::HandOver(HandOver { acquisition, lock: lock(), slot, token, to: None });
    metrics.applied(&hand_over, &applied(Reply::Refused(refusal.clone()), Vec::new()));
    let (session, ended) = (acquisition.session, Ended::Deadlocked);
    let events = vec![
        Event::Refused { session, refusal },
        Event::WaitEnded { acquisition, locks: vec![lock()], ended, cycle: None },
        Event::CycleSearchGivenUp { acquisition },
        Event::SessionTakenOver { session, by: SessionId(8) },
    ];
    metrics.applied(&command, &applied(Reply::Done, events));
    for met in CycleMet::ALL {
        assert_eq!(metrics.wait_cycles.get(*met), 1, "{met:?}");
    }
    assert_eq!((metrics.cycle_searches_given_up.get(), metrics.takeovers.get()), (1, 1));
}

#[test]
fn a_session_that_closed_did_not_expire() {
    let metrics = Metrics::new();
    let command = Command::Cancel(Cancel { acquisition: acquisition() });
    for ended in [Ended::Closed, Ended::Expired] {
        let event = Event::SessionEnded { session: SessionId(7), ended };
        metrics.applied(&command, &applied(Reply::Done, vec![event]));
    }
    assert_eq!(metrics.session_expirations.get(), 1);
}

#[test]
fn times_are_in_seconds() {
    let metrics = Metrics::new();
    metrics.paused(Duration::from_millis(1_500));
    metrics.paused(Duration::from_millis(1));
    let extended =
        Extended { sessions: 2, longest: Duration::from_millis(250), total: Duration::from_millis(400) };
    metrics.extended(extended);
    metrics.round(Duration::from_millis(2));
    metrics.look(&status(), &LockTable::new());
    let text = metrics.text();
    for line in [
        "palisade_leader_pause_seconds_sum 1.5",
        "palisade_leader_pause_seconds_count 1",
        "palisade_lease_extension_seconds_total 0.25",
        "palisade_keepalive_round_seconds_count 1",
        "palisade_flush_seconds{quantile=\"0.99\"} 0.009",
        "palisade_raft_is_leader 1",
        "palisade_raft_committed_index 60",
        "palisade_raft_applied_index 59",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
}

#[test]
fn what_is_named_is_counted_under_its_name() {
    let metrics = Metrics::new();
    for op in Op::ALL {
        metrics.request(op.value());
    }
    metrics.request("of_a_later_version");
    for name in ErrorName::ALL {
        metrics.proposal_failed(name.as_str());
    }
    metrics.sequencer_checked(State::Superseded);
    assert!(Op::ALL.iter().all(|op| metrics.requests.get(*op) == 1));
    assert_eq!(metrics.proposals_failed.get(Failure::OutcomeUnknown), 1);
    assert_eq!(metrics.proposals_failed.get(Failure::NotLeader), 2);
    assert_eq!(metrics.sequencer_checks.get(CheckResult::Superseded), 1);
}
