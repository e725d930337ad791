use palisade_core::ids::Slot;
use palisade_core::limits::REPORTED_HOLDERS_MAX;
use palisade_core::rejections::Above;

use super::*;

fn lock(name: &str) -> LockName {
    LockName::new(name).unwrap()
}

fn client(name: &str) -> ClientName {
    ClientName::new(name).unwrap()
}

fn stale(client: &str, presented: u64, mark: u64) -> Decision {
    let token = |number| Token::new(number).unwrap();
    let holder = StaleHolder {
        lock: lock("a"),
        slot: Slot(0),
        presented: token(presented),
        client: ClientName::new(client).ok(),
        acquisition: None,
    };
    Decision::Stale(holder, Refused { count: 1, mark: token(mark), above: Above::Mark })
}

#[test]
fn each_client_of_each_lock_is_counted_apart_with_its_gap() {
    let tally = Tally::default();
    let (a, b) = (lock("a"), lock("b"));
    let one = client("vm/1");
    for decision in [
        Decision::Claimed,
        Decision::Written,
        Decision::Written,
        stale("vm/1", 34, 74),
        stale("vm/1", 36, 41),
    ] {
        tally.count(Some(&a), Some(&one), decision);
    }
    tally.count(Some(&b), Some(&one), Decision::Other(Reason::WrongMode));
    tally.count(None, None, Decision::Other(Reason::Forged));
    let list = tally.list();
    let named: Vec<_> = list.iter().map(|one| (one.lock.clone(), one.client.clone())).collect();
    assert_eq!(named, [(None, None), (Some(a), Some(one.clone())), (Some(b), Some(one))]);
    assert_eq!(list[1].counts, Counts { claimed: 1, written: 2, stale: 2, other: 0 });
    let gap = list[1].gap.unwrap();
    assert_eq!((gap.presented.get(), gap.mark.get(), gap.largest), (36, 41, 40));
    assert_eq!((list[2].counts, list[2].gap), (Counts { other: 1, ..Counts::default() }, None));
    assert_eq!(tally.counts(), Counts { claimed: 1, written: 2, stale: 2, other: 2 });
}

#[test]
fn names_that_are_invented_fill_no_memory() {
    let tally = Tally::default();
    let (a, b) = (lock("a"), lock("b"));
    for number in 0..3 * CLIENTS_MAX {
        let name = format!("client {number}");
        tally.count(Some(&a), Some(&client(&name)), stale(&name, 34, 41));
    }
    tally.count(Some(&b), Some(&client("late")), Decision::Written);
    let list = tally.list();
    assert_eq!(list.len(), CLIENTS_MAX + 2);
    let of =
        |lock: &LockName| list.iter().find(|one| one.lock.as_ref() == Some(lock) && one.client.is_none());
    assert_eq!(of(&a).unwrap().counts.stale, 2 * CLIENTS_MAX as u64);
    assert_eq!(of(&b).unwrap().counts.written, 1);
    assert_eq!(list.iter().map(|one| one.counts.stale).sum::<u64>(), 3 * CLIENTS_MAX as u64);
    let untold = tally.take_rejections();
    assert_eq!(untold.stale.len(), REPORTED_HOLDERS_MAX);
    assert_eq!(untold.unnamed, (3 * CLIENTS_MAX - REPORTED_HOLDERS_MAX) as u64);
}

#[test]
fn what_was_taken_is_told_once_and_stays_counted() {
    let tally = Tally::default();
    tally.count(Some(&lock("a")), Some(&client("vm/1")), stale("vm/1", 34, 41));
    tally.count(Some(&lock("a")), Some(&client("vm/1")), stale("vm/1", 34, 41));
    tally.count(None, None, Decision::Other(Reason::NoSequencer));
    let taken = tally.take_rejections();
    assert_eq!(taken.stale.values().map(|refused| refused.count).collect::<Vec<_>>(), [2]);
    assert_eq!(taken.others, BTreeMap::from([(Reason::NoSequencer, 1)]));
    assert!(tally.take_rejections().is_empty());
    assert_eq!((tally.counts().stale, tally.counts().other), (2, 1));
}

#[test]
fn labels_are_a_closed_list_and_escaped() {
    let tally = Tally::named(GuardName::new("orders\"db\\").unwrap());
    tally.count(Some(&lock("orders/7")), Some(&client("vm/1")), stale("vm/1", 34, 41));
    tally.count(Some(&lock("orders/7")), Some(&client("vm/1")), stale("vm/1", 34, 40_000_000));
    let text = tally.metrics();
    for line in [
        r#"palisade_fence_decisions_total{guard="orders\"db\\",decision="stale"} 2"#,
        r#"palisade_fence_decisions_total{guard="orders\"db\\",decision="forged"} 0"#,
        r#"palisade_fence_gap_entries_bucket{guard="orders\"db\\",le="10"} 1"#,
        r#"palisade_fence_gap_entries_bucket{guard="orders\"db\\",le="1000000"} 1"#,
        r#"palisade_fence_gap_entries_bucket{guard="orders\"db\\",le="+Inf"} 2"#,
        r#"palisade_fence_gap_entries_sum{guard="orders\"db\\"} 39999973"#,
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
    assert!(!text.contains("orders/7") && !text.contains("vm/1"), "{text}");
}
