//! The story as the README tells it, and what its verdicts say.

use super::*;

fn event(ms: u64, who: Who, what: What) -> Event {
    Event { at: Duration::from_millis(ms), who, what }
}

fn wrote(text: &str, token: u64, fenced: bool, stale: bool) -> What {
    What::Wrote { text: text.to_owned(), token, mark: fenced.then_some(token), stale }
}

/// The round as the README tells it.
pub(in super::super) fn round(fencing: Fencing) -> Round {
    let fenced = fencing == Fencing::Fenced;
    let (a, b) = if fenced { (35, 36) } else { (33, 34) };
    let line = |text: &str, token| Line { text: text.to_owned(), token };
    let mut lines = vec![line("A1", a), line("B1", b)];
    let late = if fenced {
        What::Refused { text: "A2".to_owned(), token: a, mark: b }
    } else {
        lines.push(line("A2", a));
        wrote("A2", a, false, true)
    };
    let claim = if fenced { What::Claimed { mark: b } } else { What::NothingToClaim };
    let refused = What::ReleaseRefused { reason: "session expired".to_owned(), superseded_by: Some(b) };
    let events = vec![
        event(0, Who::A, What::Acquired { token: a }),
        event(200, Who::A, wrote("A1", a, fenced, false)),
        event(400, Who::A, What::Stopped),
        event(610, Who::B, What::Queued),
        event(2_030, Who::Server, What::Expired { token: a }),
        event(2_040, Who::B, What::Acquired { token: b }),
        event(2_050, Who::B, claim),
        event(2_260, Who::B, wrote("B1", b, fenced, false)),
        event(4_400, Who::A, What::Continued),
        event(4_410, Who::A, late),
        event(4_420, Who::A, refused),
        event(4_430, Who::Server, What::StillHeld { by: Who::B, token: b }),
    ];
    Round { fencing, events, lines, node_errors: 0 }
}

pub(in super::super) fn story() -> Story {
    Story {
        lock: "shard-7".to_owned(),
        leader: "n2".to_owned(),
        term: 1,
        ttl: Duration::from_secs(2),
        pause: Duration::from_secs(4),
        rounds: vec![round(Fencing::Unfenced), round(Fencing::Fenced)],
    }
}

#[test]
fn the_file_decides_whether_it_is_corrupt() {
    assert!(round(Fencing::Unfenced).is_corrupt());
    assert!(!round(Fencing::Fenced).is_corrupt());
    assert_eq!(story().check(), Ok(()));
}

#[test]
fn a_fenced_round_that_lets_a_stale_write_in_fails() {
    let mut broken = round(Fencing::Fenced);
    broken.lines.push(Line { text: "A2".to_owned(), token: 35 });
    assert!(broken.check().is_err_and(|reason| reason.contains("let a stale write in")));
}

#[test]
fn a_round_that_shows_nothing_fails() {
    let mut silent = round(Fencing::Unfenced);
    silent.lines.pop();
    assert!(silent.check().is_err());
    let mut silent = round(Fencing::Fenced);
    silent.events.retain(|event| !matches!(event.what, What::Refused { .. }));
    assert!(silent.check().is_err());
}

#[test]
fn a_line_survives_the_file() {
    let line = Line { text: "A1".to_owned(), token: 33 };
    assert_eq!(Line::decode(&Line::encode("A1", 33)), Some(line));
    assert_eq!(Line::decode("A1"), None);
}

#[test]
fn scripts_read_wide_numbers_as_strings() {
    let value = story().json();
    assert_eq!(value["ok"], true);
    assert_eq!(value["rounds"][0]["verdict"], "corrupt");
    assert_eq!(value["rounds"][1]["stale_write"], "refused");
    assert_eq!(value["rounds"][1]["events"][9]["mark"], "36");
    assert_eq!(value["rounds"][1]["events"][9]["at_ms"], "4410");
}
