//! Every bound, its unit and its reason.
//!
//! Constants bound what a message may carry; `Limits` are replicated, because apply enforces them.

use serde::{Deserialize, Serialize};

use crate::ids::Millis;

/// Bytes of a lock name (SPEC 12).
pub const NAME_BYTES_MAX: usize = 512;
/// Bytes of a client name: it is shown in tables and carried in sequencers.
pub const CLIENT_NAME_BYTES_MAX: usize = 128;
/// Bytes of owner labels, guard names, node names and other words of people.
pub const LABEL_BYTES_MAX: usize = 128;
/// Parts of one acquire.
pub const PARTS_MAX: usize = 64;
/// Guards that one part may name.
pub const GUARDS_MAX: usize = 16;
/// Stale holders that one report of a resource names; further refusals are counted together.
pub const REPORTED_HOLDERS_MAX: usize = 256;
/// Permits of one lock.
pub const CAPACITY_MAX: u32 = 10_000;
/// Bytes of a holder's metadata and of a baton (SPEC 4).
pub const PAYLOAD_BYTES_MAX: usize = 4_096;
/// Sessions that one `KeepSessions` names.
pub const KEEP_BATCH_MAX: usize = 4_096;
/// Shortest holding time and progress interval that can be asked for: below it the way to the leader is most of it.
pub const DEADLINE_MIN: Millis = Millis(1_000);
/// Longest of either: 30 days.
pub const DEADLINE_MAX: Millis = Millis(30 * 24 * 3_600 * 1_000);
/// A lease above this goes through the log with each keepalive, and ticks count it (SPEC 3).
pub const LONG_LEASE: Millis = Millis(60_000);
/// What an operator may close a slot for: the longest TTL and the longest lock-delay.
pub const CLOSED_MAX: Millis = Millis(TTL_MAX.0 + LOCK_DELAY_MAX.0);
/// Sessions that one `ExpireSessions` ends, so that one entry stalls nobody.
pub const EXPIRE_BATCH_MAX: usize = 256;

/// Owners of a wait cycle that a refusal names. A search that finds a longer one is given up: no person reads it, and each
/// refusal is remembered.
pub const CYCLE_STEPS_MAX: usize = 64;

/// Holdings of an ended session that are remembered with it, to tell a late check how they ended.
pub const ENDED_HELD_MAX: usize = 16;

/// Ended holds that are remembered of those that expired, were broken or overdue (SPEC 10).
pub const HISTORY_EXPIRED_DEFAULT: u32 = 65_536;
/// Ended holds that are remembered of all others (SPEC 10).
pub const HISTORY_OTHERS_DEFAULT: u32 = 16_384;
/// The most that either may be set to: some 200 MB of names and numbers.
pub const HISTORY_MAX: u32 = 1 << 20;

/// Shortest lease, milliseconds (SPEC 3).
pub const TTL_MIN: Millis = Millis(2_000);
/// Longest lease: a day.
pub const TTL_MAX: Millis = Millis(24 * 3_600 * 1_000);
/// Lease when the client names none.
pub const TTL_DEFAULT: Millis = Millis(10_000);
/// A session not heard from after its opening ends after this or its TTL, whichever is shorter.
pub const FIRST_LEASE_MAX: Millis = Millis(60_000);
/// Longest lock-delay (SPEC 5; Burrows 2006, section 2.4: a minute).
pub const LOCK_DELAY_MAX: Millis = Millis(60_000);
/// Longest bounded wait: a day.
pub const WAIT_MAX: Millis = Millis(24 * 3_600 * 1_000);

/// Largest token: 2^53 - 1, so that tokens survive JSON numbers and signed columns (SPEC 2).
pub const TOKEN_MAX: u64 = (1 << 53) - 1;
/// Largest token base that a restore may set.
pub const TOKEN_BASE_MAX: u64 = (1 << 53) - (1 << 50);

const _: () = assert!(TTL_MIN.0 <= TTL_DEFAULT.0 && TTL_DEFAULT.0 <= TTL_MAX.0);
const _: () = assert!(HISTORY_EXPIRED_DEFAULT <= HISTORY_MAX && HISTORY_OTHERS_DEFAULT <= HISTORY_MAX);
const _: () = assert!(DEADLINE_MIN.0 < DEADLINE_MAX.0);
const _: () = assert!(FIRST_LEASE_MAX.0 > TTL_MIN.0);
const _: () = assert!(TOKEN_BASE_MAX < TOKEN_MAX);

/// The bounds that apply enforces. Replicated: set at founding, changed by a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Live sessions.
    pub sessions_max: u64,
    /// Locks that exist at one time.
    pub locks_max: u64,
    /// Acquisitions that one session may have waiting or holding.
    pub acquisitions_per_session_max: u32,
    /// Waiters of one lock (SPEC 12).
    pub waiters_per_lock_max: u32,
    /// Remembered outcomes of a session (SPEC 6).
    pub outcomes_per_session_max: u32,
    /// Ended sessions that are known as such (SPEC 10).
    pub ended_sessions_max: u32,
    /// Slots whose last holder and baton are remembered after they are free (SPEC 4).
    pub predecessors_max: u32,
    /// Signing keys.
    pub keys_max: u32,
    /// Lock-delay when the holder names none (SPEC 5).
    pub lock_delay_default: Millis,
}

/// Bounds that came after the first version. Replicated as `Limits` are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoreLimits {
    /// Bytes of all batons together, the oldest dropped first (SPEC 4).
    pub baton_bytes_max: u64,
    /// Rules of lock-delays by prefix.
    pub delay_rules_max: u32,
    /// Acquisitions that the searches of wait cycles in one entry look at; beyond it, a request just waits.
    pub cycle_search_max: u32,
}

impl Default for MoreLimits {
    fn default() -> Self {
        Self { baton_bytes_max: 16 << 20, delay_rules_max: 1_000, cycle_search_max: 10_000 }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            sessions_max: 200_000,
            locks_max: 2_000_000,
            acquisitions_per_session_max: 100_000,
            waiters_per_lock_max: 10_000,
            outcomes_per_session_max: 4_096,
            ended_sessions_max: 65_536,
            predecessors_max: 10_000,
            keys_max: 64,
            lock_delay_default: Millis(15_000),
        }
    }
}
