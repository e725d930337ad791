//! The three nodes of `docker-compose.yml`, under a project name and on ports of their own.

use std::net::TcpListener;
use std::time::Duration;

use palisade_client::{Client, ClientConfig};
use palisade_host::Host;
use palisade_proto::v1;
use tokio::time::timeout;

use crate::engine::{self, docker, finally, said};
use crate::image::Image;
use crate::until;

pub(crate) const NODES: [&str; 3] = ["n1", "n2", "n3"];
/// A node that runs answers at once; one that is paused or cut off, not at all.
const ANSWER: Duration = Duration::from_secs(2);

/// A project of three nodes. Dropped, it takes everything of it away.
pub(crate) struct Three {
    program: Vec<&'static str>,
    project: String,
    ports: Vec<u16>,
    pub(crate) image: Image,
}

impl Three {
    pub(crate) async fn new(image: Image) -> Self {
        let plugin = engine::run("docker", &["compose", "version"], &[]).await.status.success();
        let program = if plugin { vec!["docker", "compose"] } else { vec!["docker-compose"] };
        // All are held before one is given back, or the same one would be found again.
        let held: Vec<_> = NODES.map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).into();
        let ports = held.iter().map(|listener| listener.local_addr().unwrap().port()).collect();
        Self { program, project: format!("palisade-test-{}", std::process::id()), ports, image }
    }

    fn environment(&self) -> Vec<(String, String)> {
        let ports = NODES.iter().zip(&self.ports);
        let ports =
            ports.map(|(node, port)| (format!("PALISADE_{}_PORT", node.to_uppercase()), port.to_string()));
        ports.chain([("PALISADE_IMAGE".to_owned(), self.image.name.clone())]).collect()
    }

    fn arguments<'a>(&'a self, arguments: &[&'a str]) -> Vec<&'a str> {
        let project = ["--project-name", &self.project];
        self.program[1..].iter().copied().chain(project).chain(arguments.iter().copied()).collect()
    }

    /// What a compose command that succeeded printed.
    pub(crate) async fn compose(&self, arguments: &[&str]) -> String {
        said(self.program[0], &self.arguments(arguments), &self.environment()).await
    }

    /// Every compose of this machine reads the file, and warns of nothing.
    pub(crate) async fn check(&self) {
        for program in [self.program.as_slice(), &["docker-compose"]] {
            let arguments: Vec<_> = program[1..].iter().copied().chain(["config", "--quiet"]).collect();
            let output = engine::run(program[0], &arguments, &self.environment()).await;
            let printed = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success() && printed.is_empty(), "{program:?}: {printed}");
        }
    }

    /// Starts what does not run, and waits until all three are healthy.
    pub(crate) async fn up(&self) {
        self.compose(&["up", "--detach"]).await;
        for node in NODES {
            self.healthy(node).await;
        }
    }

    /// Waits until the engine's own check finds the node healthy.
    pub(crate) async fn healthy(&self, node: &str) {
        let container = self.container(node).await;
        until(&format!("{node} is healthy"), async || {
            docker(&["inspect", "--format", "{{.State.Health.Status}}", &container]).await == "healthy"
        })
        .await;
    }

    /// The id of a node's container, whatever it does.
    pub(crate) async fn container(&self, node: &str) -> String {
        let project = format!("label=com.docker.compose.project={}", self.project);
        let service = format!("label=com.docker.compose.service={node}");
        let found = docker(&["ps", "--all", "--quiet", "--filter", &project, "--filter", &service]).await;
        assert!(!found.is_empty() && !found.contains('\n'), "containers of {node}: {found:?}");
        found
    }

    pub(crate) fn network(&self) -> String {
        format!("{}_default", self.project)
    }

    /// The address of a node on the network of all.
    pub(crate) async fn address(&self, node: &str) -> String {
        let format = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}";
        docker(&["inspect", "--format", format, &self.container(node).await]).await
    }

    /// Where the host reaches a node.
    pub(crate) fn endpoint(&self, node: &str) -> String {
        let at = NODES.iter().position(|known| *known == node).unwrap();
        format!("127.0.0.1:{}", self.ports[at])
    }

    pub(crate) fn endpoints(&self) -> Vec<String> {
        NODES.iter().map(|node| self.endpoint(node)).collect()
    }

    /// One node's view of the cluster, if it answers.
    pub(crate) async fn view(&self, node: &str) -> Option<v1::StatusAnswer> {
        let client = Client::new(ClientConfig::new([self.endpoint(node)]), Host::system()).unwrap();
        timeout(ANSWER, client.status(false)).await.ok()?.ok()
    }

    /// The node that leads with a quorum, and its term.
    pub(crate) async fn leader(&self) -> (&'static str, u64) {
        let mut leader = None;
        until("a node leads", async || {
            for node in NODES {
                let view = self.view(node).await.filter(|view| view.healthy);
                let here = view.filter(|view| view.leader.as_ref().is_some_and(|leader| leader.here));
                // One that was replaced and does not know it yet is of an earlier term.
                leader = leader.max(here.map(|view| (view.term, node)));
            }
            leader.is_some()
        })
        .await;
        leader.map(|(term, node)| (node, term)).unwrap()
    }

    /// Waits until the cluster has all three, as `node` sees it, and each has applied what is committed.
    pub(crate) async fn complete(&self, node: &str) {
        until("all three nodes are in", async || {
            self.view(node).await.is_some_and(|view| {
                let committed = view.nodes.iter().map(|node| node.committed).max().unwrap_or(0);
                let in_time =
                    |node: &v1::NodeStatus| node.role != "unreachable" && node.applied + 100 > committed;
                view.healthy && view.nodes.len() == NODES.len() && view.nodes.iter().all(in_time)
            })
        })
        .await;
    }
}

impl Drop for Three {
    fn drop(&mut self) {
        let environment = self.environment();
        let program = self.program[0];
        if std::thread::panicking() {
            eprintln!("{}", finally(program, &self.arguments(&["logs", "--tail", "60"]), &environment));
        }
        // Not only the nodes: a worker of a test that failed is still there.
        let network = format!("network={}", self.network());
        let all = finally("docker", &["ps", "--all", "--quiet", "--filter", &network], &[]);
        for container in all.split_whitespace() {
            finally("docker", &["rm", "--force", "--volumes", container], &[]);
        }
        finally(program, &self.arguments(&["down", "--volumes", "--remove-orphans"]), &environment);
    }
}
