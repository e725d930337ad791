use super::*;
use crate::command::{ClusterVersion, Command};
use crate::reply::{BadArgument, NotYet, Refusal, Reply};
use crate::table::story::{Story, lock, refusal};

fn sized(story: &mut Story, expired_max: u32, others_max: u32) {
    let sizes = HistorySizes { expired_max, others_max };
    assert_eq!(story.apply(Command::SetHistory(sizes)), Reply::Done);
}

/// A holder that releases; the index of the end.
fn release(story: &mut Story, name: &str) -> u64 {
    let session = story.open("a");
    let held = story.holds(session, 1, name);
    story.release(session, 1, name, held);
    story.index
}

/// A holder that expires; the index of the end.
fn expire(story: &mut Story, name: &str) -> u64 {
    let session = story.open("a");
    story.holds(session, 1, name);
    story.expire(&[session]);
    let end = story.index;
    story.end_lock_delay(story.epoch(), name, end);
    end
}

fn ends(story: &Story, name: &str) -> Vec<(Ended, u64)> {
    let page = story.table.history().of_lock(&lock(name), None, 100);
    page.holds.iter().map(|hold| (hold.ended, hold.end.0)).collect()
}

#[test]
fn a_tenure_is_told_with_token_holder_begin_end_and_reason() {
    let mut story = Story::begin();
    let a = story.open("billing-3");
    let held = story.holds(a, 1, "l");
    let begun = story.index;
    story.expire(&[a]);
    let page = story.table.history().of_lock(&lock("l"), None, 10);
    let [hold] = &page.holds[..] else { panic!("{page:?}") };
    assert_eq!((hold.token, hold.client.as_str(), hold.ended), (held, "billing-3", Ended::Expired));
    assert_eq!((hold.grant, hold.end), (LogIndex(begun), LogIndex(story.index)));
    assert!(hold.granted_at < hold.ended_at && !page.more);
    assert!(story.table.history().of_lock(&lock("m"), None, 10).holds.is_empty());
}

#[test]
fn releases_do_not_drive_out_what_expired() {
    let mut story = Story::begin();
    sized(&mut story, 2, 2);
    let expired = expire(&mut story, "l");
    let released: Vec<u64> = (0..5).map(|_| release(&mut story, "l")).collect();
    let expected =
        [(Ended::Released, released[4]), (Ended::Released, released[3]), (Ended::Expired, expired)];
    assert_eq!(ends(&story, "l"), expected);
    // What fell out is told as such.
    assert_eq!(story.table.history().others_known_after(), LogIndex(released[2]));
    assert_eq!(story.table.history().expired_known_after(), LogIndex(0));
}

#[test]
fn a_smaller_history_forgets_at_once_and_a_larger_one_brings_nothing_back() {
    let mut story = Story::begin();
    let first = expire(&mut story, "l");
    let second = expire(&mut story, "l");
    sized(&mut story, 1, 0);
    assert_eq!(ends(&story, "l"), [(Ended::Expired, second)]);
    sized(&mut story, 9, 9);
    assert_eq!(ends(&story, "l"), [(Ended::Expired, second)]);
    assert_eq!(story.table.history().expired_known_after(), LogIndex(first));
    let too_many = HistorySizes { expired_max: 1, others_max: crate::limits::HISTORY_MAX + 1 };
    let refused = refusal(story.apply(Command::SetHistory(too_many)));
    assert_eq!(refused, Refusal::BadArgument(BadArgument::HistorySize));
    assert_eq!(story.table.history().sizes(), HistorySizes { expired_max: 9, others_max: 9 });
}

#[test]
fn a_page_goes_on_before_the_last_number() {
    let mut story = Story::begin();
    let all: Vec<u64> = (0..4).map(|_| release(&mut story, "l")).collect();
    let first = story.table.history().of_lock(&lock("l"), None, 3);
    assert!(first.more && first.holds.len() == 3);
    let rest = story.table.history().of_lock(&lock("l"), Some(first.holds[2].number), 3);
    assert!(!rest.more && rest.holds[0].end == LogIndex(all[0]) && rest.holds.len() == 1);
}

#[test]
fn a_cluster_of_version_1_has_no_history_and_says_so() {
    let mut story = Story::begin();
    story.with_version(ClusterVersion(1));
    let end = expire(&mut story, "l");
    assert_eq!(ends(&story, "l"), []);
    assert_eq!(story.table.history().expired_known_after(), LogIndex(end));
    let sizes = HistorySizes { expired_max: 1, others_max: 1 };
    let refused = refusal(story.apply(Command::SetHistory(sizes)));
    assert_eq!(refused, Refusal::NotYet(NotYet::ThisCommand));
}

fn hold(end: u64, ended: Ended) -> EndedHold {
    EndedHold {
        number: 0,
        lock: lock("l"),
        slot: Slot(0),
        mode: Mode::Exclusive,
        acquisition: crate::table::story::id(crate::ids::SessionId(1), end),
        client: ClientName::unnamed(),
        token: Token::new(end).expect("a token"),
        grant: LogIndex(end - 1),
        granted_at: WallTime(0),
        ended,
        end: LogIndex(end),
        ended_at: WallTime(0),
    }
}

#[test]
fn a_clone_keeps_what_it_saw_and_shares_the_rest() {
    let mut history = History::default();
    let chunk = u32::try_from(CHUNK).expect("small");
    history.resize(HistorySizes { expired_max: 1, others_max: 3 * chunk });
    for end in 1..=4 * u64::from(chunk) {
        history.remember(hold(end, Ended::Released));
    }
    let before = history.clone();
    history.remember(hold(5_000, Ended::Released));
    let ends = |history: &History| {
        let mut ends = history.others().map(|hold| hold.end.0);
        (ends.next(), ends.next_back(), history.others().count())
    };
    assert_eq!(ends(&before), (Some(u64::from(chunk) + 1), Some(4 * u64::from(chunk)), 3 * CHUNK));
    assert_eq!(ends(&history), (Some(u64::from(chunk) + 2), Some(5_000), 3 * CHUNK));
    let shared = |at: usize| Arc::ptr_eq(&before.others.chunks[at], &history.others.chunks[at]);
    assert!(!shared(0) && shared(1) && shared(2), "only the ends were copied");
    assert_eq!(history.check(LogIndex(5_000)), Ok(()));
    assert!(history.check(LogIndex(4_999)).is_err(), "ended in the future");
    history.resize(HistorySizes { expired_max: 1, others_max: chunk });
    assert_eq!(history.others.chunks.len(), 2, "a chunk that is empty is given back");
}
