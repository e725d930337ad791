//! The labels, each a closed list: nothing that a client chooses becomes a label.

use std::marker::PhantomData;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

/// The values of one label.
pub trait Label: Copy + 'static {
    /// The label.
    const NAME: &'static str;
    /// Every value, so that each series is there from the start, at zero.
    const ALL: &'static [Self];

    /// As it stands in the exposition.
    fn value(self) -> &'static str;
}

pub(super) type Series = Family<[(&'static str, &'static str); 1], Counter>;

/// A counter for each value of a label.
#[derive(Clone, Debug)]
pub struct Counters<L> {
    pub(super) series: Series,
    label: PhantomData<L>,
}

impl<L: Label> Default for Counters<L> {
    fn default() -> Self {
        let counters = Self { series: Series::default(), label: PhantomData };
        for label in L::ALL {
            counters.add(*label, 0);
        }
        counters
    }
}

impl<L: Label> Counters<L> {
    /// One more.
    pub fn count(&self, label: L) {
        self.add(label, 1);
    }

    /// So many more.
    pub fn add(&self, label: L, number: u64) {
        self.series.get_or_create(&[(L::NAME, label.value())]).inc_by(number);
    }

    /// How many so far.
    pub fn get(&self, label: L) -> u64 {
        self.series.get_or_create(&[(L::NAME, label.value())]).get()
    }
}

macro_rules! label {
    ($(#[$doc:meta])* $name:ident, $label:literal, { $($(#[$value_doc:meta])* $variant:ident => $value:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$value_doc])* $variant),+
        }

        impl Label for $name {
            const NAME: &'static str = $label;
            const ALL: &'static [Self] = &[$(Self::$variant),+];

            fn value(self) -> &'static str {
                match self {
                    $(Self::$variant => $value),+
                }
            }
        }
    };
}

label! {
    /// How a grant came about.
    How, "how", {
        /// Nobody was in the way.
        AtOnce => "at_once",
        /// After a wait.
        Waited => "waited",
    }
}

label! {
    /// What a release met.
    ReleaseResult, "result", {
        /// It freed what was held.
        Released => "released",
        /// A repeat: it had ended already.
        Repeated => "repeated",
        /// Not held by this acquisition under this token: the late release of a stale holder, mostly.
        NotHeld => "not_held",
    }
}

label! {
    /// How a hold of a slot ended.
    HoldEnd, "how", {
        /// By its holder.
        Released => "released",
        /// To a waiter.
        HandedOver => "handed_over",
        /// By a caller that gave up.
        Cancelled => "cancelled",
        /// With its session, which was closed.
        Closed => "closed",
        /// With its session, which was not heard from.
        Expired => "expired",
        /// By a restarted process.
        TakenOver => "taken_over",
        /// With its session, which an operator ended.
        ByOperator => "by_operator",
        /// By an operator.
        Broken => "broken",
        /// Its own deadline passed.
        Overdue => "overdue",
        /// In no way that this version knows.
        Otherwise => "otherwise",
    }
}

label! {
    /// What met a wait cycle.
    CycleMet, "met", {
        /// An acquire, which was refused.
        Acquire => "acquire",
        /// A handover, which was refused.
        HandOver => "hand_over",
        /// A waiter, when a grant closed the cycle.
        Waiter => "waiter",
    }
}

label! {
    /// Why a proposal failed.
    Failure, "why", {
        /// Not appended: another node leads, or none.
        NotLeader => "not_leader",
        /// Not appended: no room.
        Overloaded => "overloaded",
        /// Appended, and its fate is not known.
        OutcomeUnknown => "outcome_unknown",
        /// Anything else, such as a command that is too large.
        Other => "other",
    }
}

label! {
    /// What a check of a sequencer found.
    CheckResult, "result", {
        /// It holds.
        Current => "current",
        /// Another tenure has the slot.
        Superseded => "superseded",
        /// It ended.
        Ended => "ended",
        /// Signed by a key that is not known here.
        UnknownKey => "unknown_key",
        /// Not signed by this cluster.
        Forged => "forged",
        /// Not the lock that the resource expects.
        WrongLock => "wrong_lock",
        /// Nothing like it was ever granted here.
        NeverGranted => "never_granted",
    }
}

label! {
    /// What was asked.
    Op, "op", {
        /// Opens a session.
        Open => "open",
        /// Binds a session to a stream.
        Bind => "bind",
        /// Closes a session.
        Close => "close",
        /// Keeps sessions alive; one for each `Renew`, however many it names.
        Renew => "renew",
        /// Asks for a lock.
        Acquire => "acquire",
        /// Frees one.
        Release => "release",
        /// Ends an acquisition.
        Cancel => "cancel",
        /// Asks for a sequencer.
        Sequencer => "sequencer",
        /// Checks sequencers.
        Check => "check",
        /// Asks for the public keys.
        Keys => "keys",
        /// Shows a lock.
        GetLock => "get_lock",
        /// Lists locks.
        ListLocks => "list_locks",
        /// Asks how the holds of a lock ended.
        History => "history",
        /// Asks where tenures ended without their holders' doing.
        Audit => "audit",
        /// Watches.
        Watch => "watch",
        /// Lists sessions.
        ListSessions => "list_sessions",
        /// Shows the cluster.
        Status => "status",
        /// Makes an exclusive hold a shared one.
        Downgrade => "downgrade",
        /// Gives a slot to a waiter.
        HandOver => "hand_over",
        /// Replaces a holder's metadata.
        SetMetadata => "set_metadata",
        /// Replaces a baton.
        SetBaton => "set_baton",
        /// Reports progress.
        ReportProgress => "report_progress",
        /// A guard confirms a floor.
        ConfirmFloor => "confirm_floor",
        /// An operator breaks a lock.
        BreakLock => "break_lock",
        /// An operator ends a session.
        EndSession => "end_session",
        /// An operator sets a capacity.
        SetCapacity => "set_capacity",
        /// An operator bounds lock-delays.
        SetDelayRule => "set_delay_rule",
        /// An operator sets bounds.
        SetSettings => "set_settings",
        /// Shows them.
        GetSettings => "get_settings",
        /// A resource tells what it refused.
        ReportRejections => "report_rejections",
        /// Lists what resources told.
        ListRejections => "list_rejections",
    }
}

label! {
    /// Why a resource refused something, as it reported it.
    RejectionWhy, "why", {
        /// Stale: below the mark of a newer holder.
        Mark => "mark",
        /// Stale: below a floor that the cluster told.
        Floor => "floor",
        /// Stale, of a holder that its report had no place for.
        Unnamed => "unnamed",
        /// The holder itself no longer believed in its lock.
        NotHolding => "not_holding",
        /// It brought no sequencer.
        NoSequencer => "no_sequencer",
        /// What it brought is none.
        Malformed => "malformed",
        /// The signature is not the key's.
        Forged => "forged",
        /// No such key is known there.
        UnknownKey => "unknown_key",
        /// Signed for another purpose.
        WrongPurpose => "wrong_purpose",
        /// Of another cluster.
        WrongCluster => "wrong_cluster",
        /// Of a lock that does not guard the resource.
        WrongLock => "wrong_lock",
        /// Of a slot beyond the capacity.
        WrongSlot => "wrong_slot",
        /// A shared holder may not write.
        WrongMode => "wrong_mode",
        /// The resource could not decide.
        Undecided => "undecided",
    }
}
