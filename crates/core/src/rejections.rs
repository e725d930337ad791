//! What a resource's guards refused, summed up and bounded: what is reported to the coordinator (SPEC 8).
//!
//! Plain data: the seam between the resource's library, which gathers it, and a client, which sends it. Neither knows the
//! other. Nothing is decided by it.

use std::collections::BTreeMap;

use crate::ids::{AcquisitionId, ClientName, LockName, Slot};
use crate::limits::REPORTED_HOLDERS_MAX;
use crate::token::Token;

/// A stale holder, as its refused token and what came with it name it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StaleHolder {
    /// Of which lock.
    pub lock: LockName,
    /// Of which slot.
    pub slot: Slot,
    /// The refused token.
    pub presented: Token,
    /// What the holder calls itself; none where nobody knows.
    pub client: Option<ClientName>,
    /// Its acquisition; none where a bare token came.
    pub acquisition: Option<AcquisitionId>,
}

/// What was above a stale token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Above {
    /// The resource's mark: a newer holder was here.
    Mark,
    /// A floor that the cluster told: no newer holder need have been here.
    Floor,
}

/// How one stale holder was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// How often.
    pub count: u64,
    /// The lowest token that was still accepted, at the last time.
    pub mark: Token,
    /// Which of the two that was.
    pub above: Above,
}

/// Why something was refused that was no stale token of this resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The holder itself no longer believed in its lock.
    NotHolding,
    /// It brought no sequencer.
    NoSequencer,
    /// What it brought is none.
    Malformed,
    /// The signature is not the key's.
    Forged,
    /// No such key is known.
    UnknownKey,
    /// Signed for another purpose.
    WrongPurpose,
    /// Of another cluster.
    WrongCluster,
    /// Of a lock that does not guard this resource.
    WrongLock,
    /// Of a slot beyond the capacity.
    WrongSlot,
    /// A shared holder may not write.
    WrongMode,
    /// The resource could not decide: no floor, no marks, a store that failed.
    Undecided,
}

impl Reason {
    /// All of them, in order.
    pub const ALL: [Self; 11] = [
        Self::NotHolding,
        Self::NoSequencer,
        Self::Malformed,
        Self::Forged,
        Self::UnknownKey,
        Self::WrongPurpose,
        Self::WrongCluster,
        Self::WrongLock,
        Self::WrongSlot,
        Self::WrongMode,
        Self::Undecided,
    ];

    /// As labels of metrics and documents have it.
    pub fn word(self) -> &'static str {
        match self {
            Self::NotHolding => "not_holding",
            Self::NoSequencer => "no_sequencer",
            Self::Malformed => "malformed",
            Self::Forged => "forged",
            Self::UnknownKey => "unknown_key",
            Self::WrongPurpose => "wrong_purpose",
            Self::WrongCluster => "wrong_cluster",
            Self::WrongLock => "wrong_lock",
            Self::WrongSlot => "wrong_slot",
            Self::WrongMode => "wrong_mode",
            Self::Undecided => "undecided",
        }
    }

    /// The inverse of [`Self::word`].
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.word() == word)
    }
}

/// Refusals of one guard, since they were last taken from it. At most [`REPORTED_HOLDERS_MAX`] stale holders are named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rejections {
    /// By stale holder.
    pub stale: BTreeMap<StaleHolder, Refused>,
    /// Refusals of stale holders that found no place.
    pub unnamed: u64,
    /// By any other reason.
    pub others: BTreeMap<Reason, u64>,
}

impl Rejections {
    /// Whether there is nothing to tell.
    pub fn is_empty(&self) -> bool {
        self.stale.is_empty() && self.unnamed == 0 && self.others.is_empty()
    }

    /// A stale holder was refused, so often.
    pub fn add_stale(&mut self, holder: StaleHolder, refused: Refused) {
        if let Some(known) = self.stale.get_mut(&holder) {
            *known = Refused { count: known.count.saturating_add(refused.count), ..refused };
        } else if self.stale.len() < REPORTED_HOLDERS_MAX {
            self.stale.insert(holder, refused);
        } else {
            self.unnamed = self.unnamed.saturating_add(refused.count);
        }
    }

    /// Something else was refused, so often.
    pub fn add_other(&mut self, reason: Reason, count: u64) {
        let known = self.others.entry(reason).or_default();
        *known = known.saturating_add(count);
    }

    /// What was refused later, added to this.
    pub fn add(&mut self, later: Self) {
        for (holder, refused) in later.stale {
            self.add_stale(holder, refused);
        }
        self.unnamed = self.unnamed.saturating_add(later.unnamed);
        for (reason, count) in later.others {
            self.add_other(reason, count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(number: u64) -> Token {
        Token::new(number).unwrap()
    }

    fn holder(presented: u64) -> StaleHolder {
        StaleHolder {
            lock: LockName::new("orders/7").unwrap(),
            slot: Slot(0),
            presented: token(presented),
            client: ClientName::new("billing-3").ok(),
            acquisition: None,
        }
    }

    fn refused(count: u64, mark: u64) -> Refused {
        Refused { count, mark: token(mark), above: Above::Mark }
    }

    #[test]
    fn refusals_of_one_holder_are_one_and_the_last_mark_counts() {
        let mut rejections = Rejections::default();
        assert!(rejections.is_empty());
        rejections.add_stale(holder(34), refused(1, 41));
        rejections.add_stale(holder(34), Refused { above: Above::Floor, ..refused(2, 52) });
        rejections.add_stale(holder(36), refused(1, 41));
        rejections.add_other(Reason::Forged, 3);
        let mut all = Rejections::default();
        all.add(rejections.clone());
        all.add(rejections);
        assert_eq!(all.stale[&holder(34)], Refused { count: 6, mark: token(52), above: Above::Floor });
        assert_eq!((all.stale[&holder(36)].count, all.others[&Reason::Forged], all.unnamed), (2, 6, 0));
    }

    #[test]
    fn names_that_are_invented_fill_no_memory_and_are_counted_all_the_same() {
        let mut rejections = Rejections::default();
        let invented = u64::try_from(REPORTED_HOLDERS_MAX).unwrap() + 5;
        for presented in 1..=invented {
            rejections.add_stale(holder(presented), refused(1, invented + 1));
        }
        rejections.add_stale(holder(1), refused(1, invented + 1));
        assert_eq!((rejections.stale.len(), rejections.unnamed), (REPORTED_HOLDERS_MAX, 5));
        assert_eq!(rejections.stale[&holder(1)].count, 2);
        rejections.add_stale(holder(1), refused(u64::MAX, invented + 1));
        assert_eq!(rejections.stale[&holder(1)].count, u64::MAX);
    }

    #[test]
    fn each_reason_has_a_word_of_its_own() {
        for reason in Reason::ALL {
            assert_eq!(Reason::parse(reason.word()), Some(reason));
        }
        assert_eq!(Reason::parse("stale"), None);
    }
}
