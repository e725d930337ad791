//! What a guard decided, by lock and client: for whoever watches the resource.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};

use palisade_core::ids::{ClientName, LockName};

/// Clients that are counted apart, over all locks of a guard. Further ones are counted together, as if nobody knew them.
pub const CLIENTS_MAX: usize = 1_024;

/// How often a guard decided what, since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Claims that were admitted.
    pub claimed: u64,
    /// Writes that were admitted, also those that then failed by themselves.
    pub written: u64,
    /// Stale tokens that were refused.
    pub stale: u64,
    /// What was refused or failed for any other reason.
    pub other: u64,
}

/// The counts of one client at one lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted {
    /// The lock; none for all that do not guard this resource.
    pub lock: Option<LockName>,
    /// What the holder calls itself; none where nobody knows, and for those beyond [`CLIENTS_MAX`].
    pub client: Option<ClientName>,
    /// What was decided.
    pub counts: Counts,
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    Claimed,
    Written,
    Stale,
    Other,
}

impl Counts {
    fn count(&mut self, decision: Decision) {
        *match decision {
            Decision::Claimed => &mut self.claimed,
            Decision::Written => &mut self.written,
            Decision::Stale => &mut self.stale,
            Decision::Other => &mut self.other,
        } += 1;
    }

    pub(super) fn plus(self, other: &Self) -> Self {
        Self {
            claimed: self.claimed + other.claimed,
            written: self.written + other.written,
            stale: self.stale + other.stale,
            other: self.other + other.other,
        }
    }

    fn named(&self) -> [(&'static str, u64); 4] {
        [("claimed", self.claimed), ("written", self.written), ("stale", self.stale), ("other", self.other)]
    }
}

type Key = (Option<LockName>, Option<ClientName>);

/// The counts of a guard.
#[derive(Debug, Default)]
pub(super) struct Tally(Mutex<BTreeMap<Key, Counts>>);

impl Tally {
    pub(super) fn count(&self, lock: Option<&LockName>, client: Option<&ClientName>, decision: Decision) {
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut key = (lock.cloned(), client.cloned());
        if counted.len() >= CLIENTS_MAX && !counted.contains_key(&key) {
            // One more for each lock: those are the guard's own, and none.
            key.1 = None;
        }
        counted.entry(key).or_default().count(decision);
    }

    pub(super) fn list(&self) -> Vec<Counted> {
        let counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let list = counted.iter().map(|((lock, client), counts)| Counted {
            lock: lock.clone(),
            client: client.clone(),
            counts: *counts,
        });
        list.collect()
    }
}

/// In the text format of Prometheus.
pub(super) fn exposition(list: &[Counted]) -> String {
    let mut text = "# HELP palisade_fence_decisions_total What the fence decided, by lock and client.\n\
                    # TYPE palisade_fence_decisions_total counter\n"
        .to_owned();
    for Counted { lock, client, counts } in list {
        let lock = escaped(lock.as_ref().map_or("", LockName::as_str));
        let client = escaped(client.as_ref().map_or("", ClientName::as_str));
        for (decision, count) in counts.named() {
            // Writing into a text does not fail.
            let _ = writeln!(
                text,
                "palisade_fence_decisions_total{{lock=\"{lock}\",client=\"{client}\",decision=\"{decision}\"}} {count}"
            );
        }
    }
    text
}

fn escaped(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(name: &str) -> LockName {
        LockName::new(name).unwrap()
    }

    fn client(name: &str) -> ClientName {
        ClientName::new(name).unwrap()
    }

    #[test]
    fn each_client_of_each_lock_is_counted_apart() {
        let tally = Tally::default();
        let (a, b) = (lock("a"), lock("b"));
        for decision in [Decision::Claimed, Decision::Written, Decision::Written, Decision::Stale] {
            tally.count(Some(&a), Some(&client("vm/1")), decision);
        }
        tally.count(Some(&b), Some(&client("vm/1")), Decision::Other);
        tally.count(None, None, Decision::Other);
        let list = tally.list();
        let named: Vec<_> = list.iter().map(|one| (one.lock.clone(), one.client.clone())).collect();
        assert_eq!(named, [(None, None), (Some(a), Some(client("vm/1"))), (Some(b), Some(client("vm/1")))]);
        assert_eq!(list[1].counts, Counts { claimed: 1, written: 2, stale: 1, other: 0 });
        assert_eq!(list[2].counts, Counts { other: 1, ..Counts::default() });
    }

    #[test]
    fn names_that_are_invented_fill_no_memory() {
        let tally = Tally::default();
        let (a, b) = (lock("a"), lock("b"));
        for number in 0..3 * CLIENTS_MAX {
            tally.count(Some(&a), Some(&client(&format!("client {number}"))), Decision::Stale);
        }
        tally.count(Some(&b), Some(&client("late")), Decision::Written);
        let list = tally.list();
        assert_eq!(list.len(), CLIENTS_MAX + 2);
        let of =
            |lock: &LockName| list.iter().find(|one| one.lock.as_ref() == Some(lock) && one.client.is_none());
        assert_eq!(of(&a).unwrap().counts.stale, 2 * CLIENTS_MAX as u64);
        assert_eq!(of(&b).unwrap().counts.written, 1);
        assert_eq!(list.iter().map(|one| one.counts.stale).sum::<u64>(), 3 * CLIENTS_MAX as u64);
    }

    #[test]
    fn labels_are_escaped() {
        let counts = Counts { stale: 2, ..Counts::default() };
        let text = exposition(&[Counted { lock: Some(lock("a\"b\\c")), client: Some(client("")), counts }]);
        let line = r#"palisade_fence_decisions_total{lock="a\"b\\c",client="",decision="stale"} 2"#;
        assert!(text.lines().any(|found| found == line), "{text}");
        assert_eq!(text.lines().count(), 6);
    }
}
