use palisade_core::ids::{ClientName, LockPrefix, Millis, Slot};
use palisade_core::rejections::{Above, Reason};
use palisade_core::token::Token;

use super::*;

fn now(seconds: u64) -> Now {
    let moment = Moment::from_nanos(0) + Duration::from_secs(1_000 + seconds);
    Now { moment, wall: WallTime((2_000 + seconds) * 1_000_000) }
}

fn token(number: u64) -> Token {
    Token::new(number).expect("a token")
}

fn report(lock: &str, client: &str, presented: u64, mark: u64, count: u64) -> Report {
    let holder = StaleHolder {
        lock: LockName::new(lock).expect("a name"),
        slot: Slot(0),
        presented: token(presented),
        client: ClientName::new(client).ok(),
        acquisition: None,
    };
    let mut rejections = palisade_core::rejections::Rejections::default();
    rejections.add_stale(holder, Refused { count, mark: token(mark), above: Above::Mark });
    Report { guard: GuardName::new("orders-db").expect("a name"), rejections, ago: Millis(0) }
}

fn all(rejections: &Rejections, at: Now) -> v1::RejectionList {
    let prefix = LockPrefix::new("").expect("a prefix");
    rejections.list(&Listing { prefix, since: WallTime(0), limit: 1_000 }, at.moment)
}

#[test]
fn reports_of_one_holder_are_summed_and_the_worst_gap_stays() {
    let (rejections, metrics) = (Rejections::new(RejectionLimits::default()), Metrics::new());
    rejections.begin(now(0).wall, &metrics);
    rejections.report(now(1), report("orders/7", "worker-a", 34, 74, 2), &metrics);
    rejections.report(now(3), report("orders/7", "worker-a", 34, 41, 1), &metrics);
    rejections.report(now(2), report("orders/8", "worker-b", 36, 37, 1), &metrics);
    let lock = LockName::new("orders/7").expect("a name");
    let [one] = &rejections.of(&lock, now(5).moment)[..] else { panic!("one holder") };
    let refusal = one.refusal.as_ref().expect("a refusal");
    assert_eq!((refusal.presented, refusal.mark, refusal.count, one.gap_max), (34, 41, 3, 40));
    assert_eq!((refusal.client.as_str(), one.guard.as_str(), one.storm), ("worker-a", "orders-db", false));
    assert_eq!((one.last_ago_ms, one.first_at_us, one.last_at_us), (2_000, 2_001_000_000, 2_003_000_000));
    let list = all(&rejections, now(5));
    let locks: Vec<_> = list.rejections.iter().filter_map(|one| Some(&*one.refusal.as_ref()?.lock)).collect();
    assert_eq!((locks, list.known_since_us, list.more), (vec!["orders/7", "orders/8"], 2_000_000_000, false));
    rejections.begin(now(6).wall, &metrics);
    assert!(all(&rejections, now(6)).rejections.is_empty());
}

#[test]
fn a_list_is_of_a_prefix_and_a_time_and_bounded() {
    let (rejections, metrics) = (Rejections::new(RejectionLimits::default()), Metrics::new());
    for (second, lock) in [(1, "orders/7"), (2, "orders/8"), (3, "bills/1")] {
        rejections.report(now(second), report(lock, "w", 34, 41, 1), &metrics);
    }
    let list = |prefix: &str, since: Now, limit| {
        let prefix = LockPrefix::new(prefix).expect("a prefix");
        let list = rejections.list(&Listing { prefix, since: since.wall, limit }, now(4).moment);
        (list.rejections.len(), list.more)
    };
    assert_eq!(list("orders/", now(0), 10), (2, false));
    assert_eq!(list("orders/", now(2), 10), (1, false));
    assert_eq!(list("", now(0), 2), (2, true));
}

#[test]
fn what_is_remembered_is_bounded_and_the_oldest_goes_first() {
    let limits = RejectionLimits { kept_max: 3, ..RejectionLimits::default() };
    let (rejections, metrics) = (Rejections::new(limits), Metrics::new());
    for second in 1..=5 {
        rejections.report(now(second), report(&format!("lock/{second}"), "w", 34, 41, 1), &metrics);
        rejections.report(now(second), report("lock/1", "w", 34, 41, 1), &metrics);
    }
    let list = all(&rejections, now(6));
    let mut locks: Vec<_> =
        list.rejections.iter().filter_map(|one| Some(one.refusal.as_ref()?.lock.clone())).collect();
    locks.sort();
    assert_eq!((locks, list.forgotten), (["lock/1", "lock/4", "lock/5"].map(str::to_owned).to_vec(), 2));
}

#[test]
fn a_storm_is_flagged_and_counted_and_ends() {
    let (rejections, metrics) = (Rejections::new(RejectionLimits::default()), Metrics::new());
    let storm = |at: Now| all(&rejections, at).rejections.iter().filter(|one| one.storm).count();
    rejections.report(now(1), report("orders/7", "worker-a", 34, 41, 9), &metrics);
    assert_eq!(storm(now(1)), 0);
    rejections.report(now(2), report("orders/7", "worker-a", 34, 41, 1), &metrics);
    rejections.report(now(3), report("orders/7", "worker-b", 36, 41, 1), &metrics);
    assert_eq!((storm(now(3)), metrics.storms_now(), metrics.storms_so_far()), (1, 1, 1));
    rejections.look(now(9).moment, &metrics);
    assert_eq!(storm(now(9)), 1);
    rejections.look(now(20).moment, &metrics);
    assert_eq!((storm(now(20)), metrics.storms_now(), metrics.storms_so_far()), (0, 0, 1));
    rejections.report(now(30), report("orders/7", "worker-a", 34, 41, 10), &metrics);
    assert_eq!((storm(now(30)), metrics.storms_so_far()), (1, 2));
    rejections.begin(now(31).wall, &metrics);
    assert_eq!((storm(now(31)), metrics.storms_now()), (0, 0));
}

#[test]
fn a_report_that_was_under_way_says_when_it_was() {
    let (rejections, metrics) = (Rejections::new(RejectionLimits::default()), Metrics::new());
    let late = Report { ago: Millis(8_000), ..report("orders/7", "w", 34, 41, 1) };
    rejections.report(now(10), late, &metrics);
    let of = |at: Now| all(&rejections, at).rejections[0].last_ago_ms;
    assert_eq!(of(now(10)), 8_000);
    rejections.report(now(11), report("orders/7", "w", 34, 41, 1), &metrics);
    let lost = Report { ago: Millis(u64::MAX), ..report("orders/7", "w", 34, 41, 1) };
    rejections.report(now(12), lost, &metrics);
    assert_eq!(of(now(12)), 1_000, "an older one does not set it back");
}

#[test]
fn everything_else_is_counted_by_its_reason() {
    let (rejections, metrics) = (Rejections::new(RejectionLimits::default()), Metrics::new());
    let mut told = report("orders/7", "w", 34, 41, 3);
    told.rejections.unnamed = 5;
    told.rejections.add_other(Reason::Forged, 2);
    rejections.report(now(1), told, &metrics);
    use crate::metrics::RejectionWhy;
    let of = |why| metrics.rejections_so_far(why);
    assert_eq!((of(RejectionWhy::Mark), of(RejectionWhy::Unnamed), of(RejectionWhy::Forged)), (3, 5, 2));
    assert_eq!(of(RejectionWhy::Floor), 0);
}
