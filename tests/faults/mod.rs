//! Real processes that are killed, stopped and woken: what was acknowledged must still be true afterwards.
//!
//! One file for each story. Each starts a cluster, works, hurts it, heals it, and looks. A fault only counts when it
//! struck, so each story first sees that it did.

mod dead_waiter;
mod election;
mod expired_holder;
mod grant_everywhere;
mod holders;
mod identity;
mod isolated_leader;
mod killed_leaders;
mod late_release;
mod limits;
pub(crate) mod load;
mod long_queue;
mod next_leader;
mod one_frame;
mod overload;
mod panicked_log;
mod paused_leader;
mod power_loss;
mod repeats;
mod replicated_limits;
mod resumed;
mod scheduler;
mod sequencers;
mod stopped_cluster;
