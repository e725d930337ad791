//! The task that drives the lease clock: it reads time, asks what is due, and proposes it until it is decided.

use std::sync::Arc;
use std::time::Duration;

use palisade_core::command::Command;
use palisade_host::PauseMeter;
use palisade_raft::{Outcome, Proposal, Sink};

use crate::coordinator::Coordinator;

/// How often it looks; also how finely the node's own pauses are seen.
const TICK: Duration = Duration::from_millis(50);
/// The same on a node that does not serve, where nothing becomes due.
const TICK_FOLLOWING: Duration = Duration::from_millis(250);
/// A tick that comes later than this is a pause of the node's own, which is not billed to clients.
const PAUSE_MIN: Duration = Duration::from_millis(100);

/// Runs for ever.
pub(crate) async fn run(coordinator: Arc<Coordinator>) {
    let mut meter = PauseMeter::default();
    let mut held_back = false;
    loop {
        let serving = coordinator.serving().is_some();
        let rest = if serving { TICK } else { TICK_FOLLOWING };
        tokio::select! {
            () = tokio::time::sleep(rest) => {}
            _ = coordinator.starts_serving(), if !serving => {}
        }
        let now = coordinator.host.clock.now();
        let late = meter.tick(now, rest);
        coordinator.watch_quorum();
        coordinator.rejections.look(now, &coordinator.metrics);
        if late >= PAUSE_MIN {
            let extended = coordinator.clock.lock().paused(now, late);
            coordinator.metrics.paused(late);
            coordinator.metrics.extended(extended);
            if coordinator.serving().is_some() {
                tracing::warn!(?late, "this node stood still; leases were extended by as much");
            }
            // What waits in the sockets is read before anything expires. Once: a node that is always late must still
            // expire those who are gone.
            held_back = !held_back;
            if held_back {
                continue;
            }
        } else {
            held_back = false;
        }
        propose_due(&coordinator).await;
    }
}

async fn propose_due(coordinator: &Arc<Coordinator>) {
    if coordinator.serving().is_none() || !coordinator.has_quorum() {
        return;
    }
    let now = coordinator.host.clock.now();
    let due = coordinator.clock.lock().due(now);
    if due.is_empty() {
        return;
    }
    let Some(replica) = coordinator.replica() else { return };
    let proposals = due.into_iter().map(|command| proposal(coordinator, command));
    // What a stopped replica, or a log without room, does not take is dropped: the sinks make it due again. This loop
    // also watches the quorum, and must not wait for room that only a quorum can make.
    let _ = tokio::time::timeout(TICK, replica.submit(proposals.collect())).await;
}

fn proposal(coordinator: &Arc<Coordinator>, command: Command) -> Proposal {
    let decided = coordinator.clone();
    let named = command.clone();
    let sink = Sink::new(move |outcome| {
        let now = decided.host.clock.now();
        let mut clock = decided.clock.lock();
        match outcome {
            Outcome::Decided(_) => clock.decided(now, &named),
            Outcome::NotAppended { .. } | Outcome::Unknown => clock.undecided(now, &named),
        }
    });
    Proposal { command, sink }
}
