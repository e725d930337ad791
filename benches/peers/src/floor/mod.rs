//! The floor: the least that a replicated log of three nodes must do for a lock cycle, and nothing else.
//!
//! Three processes and a fixed leader. Each acquire and each release is one entry; a batch is written and flushed at the
//! leader and sent to both followers, which write and flush it; it is committed when two of three have it; then the lock
//! table is applied and the clients are answered. No elections, no terms, no snapshots: **not a lock service**, but a
//! yardstick of what disk, loopback and cores allow.

mod client;
mod log;
mod node;

pub(crate) use client::Floor;
pub(crate) use node::run as run_node;

/// Bytes of a request: id 8, operation 1, nothing 7, holder 8, token 8, hash of the lock's name 16, nothing 16.
const REQUEST: usize = 64;
/// Bytes of an answer: id 8, status 8 (0 is good), token 8.
const ANSWER: usize = 24;

const ACQUIRE: u8 = 1;
const RELEASE: u8 = 2;
const BEAT: u8 = 3;
/// Answered from the leader's state, as under a lease.
const CHECK: u8 = 4;
/// Answered after a round trip to a majority.
const CHECK_QUORUM: u8 = 5;

type Request = [u8; REQUEST];
type Answer = [u8; ANSWER];

/// The eight bytes from `at` on, as a number.
fn number(bytes: &[u8], at: usize) -> u64 {
    bytes[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

fn answer(id: u64, status: u64, token: u64) -> Answer {
    let mut answer = [0; ANSWER];
    answer[..8].copy_from_slice(&id.to_le_bytes());
    answer[8..16].copy_from_slice(&status.to_le_bytes());
    answer[16..].copy_from_slice(&token.to_le_bytes());
    answer
}
