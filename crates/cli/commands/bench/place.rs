//! Where it is measured: a cluster that was named, or three processes of its own; and the clients.

use std::time::Duration;

use palisade_client::{Client, ClientConfig, Session};
use palisade_host::Host;
use tempfile::TempDir;
use tokio::task::LocalSet;

use super::Common;
use super::report::{Files, Measured, Report, Shape};
use crate::args::Globals;
use crate::cluster::Cluster;
use crate::commands::{Failure, client_config};
use crate::exit::Exit;
use crate::output::Output;
use crate::process::Process;

/// The cluster that is measured.
pub(super) struct Place<'a> {
    pub(super) globals: &'a Globals,
    endpoints: Vec<String>,
    own: Option<(Cluster, TempDir)>,
}

/// A connection and its session.
pub(super) struct Opened {
    pub(super) client: Client,
    pub(super) session: Session,
}

/// Measures, ends what it started, and answers whether all that was looked at was right.
pub(super) async fn run<const F: usize, const L: usize, const R: usize>(
    globals: &Globals,
    common: &Common,
    shape: &'static Shape<F, L, R>,
    each: Option<Duration>,
    measure: impl AsyncFnOnce(&mut Place<'_>) -> Result<Vec<Measured<F, L, R>>, Failure>,
) -> Result<Exit, Failure> {
    run_with(globals, common, &[], shape, each, measure).await
}

/// The same; nodes of its own are started with more flags.
pub(super) async fn run_with<const F: usize, const L: usize, const R: usize>(
    globals: &Globals,
    common: &Common,
    flags: &[String],
    shape: &'static Shape<F, L, R>,
    each: Option<Duration>,
    measure: impl AsyncFnOnce(&mut Place<'_>) -> Result<Vec<Measured<F, L, R>>, Failure>,
) -> Result<Exit, Failure> {
    let files = Files::create(common)?;
    let mut place = Place::find(globals, common, flags).await?;
    // Tasks share counters without any locking: they all run on this thread.
    let measured = LocalSet::new().run_until(measure(&mut place)).await;
    place.end().await;
    let report = Report::new(shape, each, measured?);
    Output::new(globals).answer(shape.schema, |_| report.lines(), || report.json())?;
    files.write(&report)?;
    Ok(if report.is_right() { Exit::OK } else { Exit::NO })
}

impl<'a> Place<'a> {
    async fn find(globals: &'a Globals, common: &Common, flags: &[String]) -> Result<Self, Failure> {
        if !globals.endpoints.is_empty() {
            return Ok(Self { globals, endpoints: globals.endpoints.clone(), own: None });
        }
        Self::own_with(globals, common, flags).await
    }

    /// A cluster of its own, with more arguments for each node.
    pub(super) async fn own_with(
        globals: &'a Globals,
        common: &Common,
        more: &[String],
    ) -> Result<Self, Failure> {
        let folder = match &common.data_dir {
            Some(folder) => tempfile::tempdir_in(folder),
            None => tempfile::tempdir(),
        }?;
        let mut cluster = Cluster::start_with(folder.path(), "bench", more)?;
        cluster.ready().await?;
        Ok(Self { globals, endpoints: cluster.endpoints().to_vec(), own: Some((cluster, folder)) })
    }

    /// The cluster, where it is its own.
    pub(super) fn own(&mut self) -> Option<&mut Cluster> {
        self.own.as_mut().map(|(cluster, _)| cluster)
    }

    /// Where clients reach the nodes.
    pub(super) fn endpoints(&self) -> &[String] {
        &self.endpoints
    }

    /// The most memory of its own that any node has, where they are its own.
    pub(super) fn memory(&self) -> Option<u64> {
        let (cluster, _) = self.own.as_ref()?;
        cluster.nodes().iter().filter_map(Process::memory).max()
    }

    /// Processor time of the nodes, where they are its own.
    pub(super) fn cpu(&self) -> Option<Duration> {
        self.own.as_ref().and_then(|(cluster, _)| cluster.cpu())
    }

    /// A client that begins at the node with this number, counted around.
    pub(super) fn client(
        &self,
        number: usize,
        set: impl FnOnce(&mut ClientConfig),
    ) -> Result<Client, Failure> {
        let mut settings = self.settings()?;
        let nodes = settings.endpoints.len();
        settings.endpoints.rotate_left(number % nodes.max(1));
        set(&mut settings);
        Ok(Client::new(settings, Host::system())?)
    }

    /// How a client of this cluster is set.
    pub(super) fn settings(&self) -> Result<ClientConfig, Failure> {
        let mut settings = client_config(self.globals, None)?;
        settings.endpoints.clone_from(&self.endpoints);
        Ok(settings)
    }

    /// So many connections with a session each; they begin at the nodes in turn.
    pub(super) async fn sessions(&self, count: u32) -> Result<Vec<Opened>, Failure> {
        let mut opened = Vec::with_capacity(count as usize);
        for number in 0..count as usize {
            let client = self.client(number, |_| {})?;
            let session = client.open_session().await?;
            opened.push(Opened { client, session });
        }
        Ok(opened)
    }

    pub(super) async fn end(self) {
        if let Some((cluster, _folder)) = self.own {
            cluster.stop().await;
        }
    }
}

/// As many as a service with so many tasks would have: one for each sixteen, and three at least.
pub(super) fn connections_for(tasks: u32) -> u32 {
    match tasks {
        1..3 => tasks,
        3..=48 => 3,
        _ => (tasks / 16 / 3 * 3).clamp(6, 66),
    }
}

pub(super) async fn close(sessions: Vec<Opened>) {
    for opened in sessions {
        drop(opened.session);
        opened.client.close().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_share_connections_by_sixteen() {
        assert_eq!([1, 3, 16, 64, 256, 1_024].map(connections_for), [1, 3, 3, 6, 15, 63]);
    }
}
