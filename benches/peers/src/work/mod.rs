//! The workloads, the same for every service.

mod check;
mod failover;
mod grant;
mod handoff;
mod keepalive;
mod tasks;

pub(crate) use check::check;
pub(crate) use failover::failover;
pub(crate) use grant::{Place, grant};
pub(crate) use handoff::handoff;
pub(crate) use keepalive::keepalive;

use std::sync::Arc;

use anyhow::Result;

use crate::backend::{Backend, Session};

/// Tasks share connections as a service with so many tasks would have them: one for each sixteen, and three at least.
fn connections_for(tasks: usize) -> usize {
    match tasks {
        0..=2 => tasks,
        3..=48 => 3,
        _ => (tasks / 16 / 3 * 3).clamp(6, 66),
    }
}

/// One session on each of so many connections, spread over the nodes, or all at `node`.
async fn open(backend: &dyn Backend, count: usize, node: Option<usize>) -> Result<Vec<Arc<dyn Session>>> {
    let mut sessions = Vec::with_capacity(count);
    for connection in 0..count {
        sessions.push(backend.open(node.unwrap_or(connection)).await?);
    }
    Ok(sessions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_share_connections_by_sixteen() {
        assert_eq!([1, 3, 16, 64, 256, 1_024].map(connections_for), [1, 3, 3, 6, 15, 63]);
    }
}
