//! Nodes that are not who they say they are, or whose data is gone: they refuse, and say what to do.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use palisade_testkit::cluster::ProcessCluster;

use crate::live::{Live, eventually};

/// A node that is started by hand, with whatever is wrong about it.
struct Odd {
    child: Child,
    log: std::path::PathBuf,
}

impl Odd {
    fn start(
        cluster: &ProcessCluster,
        node: usize,
        name: &str,
        group: &str,
        members: &[usize],
        data: &Path,
    ) -> Self {
        let nodes = cluster.nodes();
        let members: Vec<_> =
            members.iter().map(|at| format!("{}={}", nodes[*at].name, nodes[*at].peer_address)).collect();
        let log = cluster.directory().join(format!("odd-{name}-{group}.log"));
        let file = fs::File::create(&log).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_palisade"))
            .args(["serve", "--name", name, "--cluster", group, "--members", &members.join(",")])
            .args(["--listen", &nodes[node].client_address, "--peer-listen", &nodes[node].peer_address])
            .arg("--data-dir")
            .arg(data)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(file)
            .spawn()
            .unwrap();
        Self { child, log }
    }

    /// What it said, once it ended; it must not have ended well.
    fn refused(&mut self) -> Option<String> {
        let status = self.child.try_wait().unwrap()?;
        let said = fs::read_to_string(&self.log).unwrap();
        assert!(!status.success(), "{said}");
        Some(said)
    }
}

impl Drop for Odd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_data_is_gone_does_not_come_back_under_its_name() {
    let mut live = Live::start(3).await;
    let node = live.followers().await[0];
    live.cluster.kill(node);
    fs::remove_dir_all(live.cluster.data_directory(node)).unwrap();
    live.cluster.start_node(node).unwrap();
    let code = eventually("it refuses", async || live.cluster.ended(node)).await;
    assert!(code.is_some_and(|code| code != 0), "{code:?}");
    assert!(live.cluster.log(node).contains("its data is gone"), "{}", live.cluster.log(node));
    // The two that are left go on.
    let client = live.client(Duration::from_secs(10));
    let session = client.open_session().await.unwrap();
    crate::live::hold(&session, "orders").await.release().await.unwrap();
    client.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_of_another_node_or_cluster_is_refused() {
    let mut live = Live::start(3).await;
    live.cluster.kill(1);
    let data = live.cluster.data_directory(1);
    for (name, group) in [("n1", "test"), ("n2", "another")] {
        let mut odd = Odd::start(&live.cluster, 1, name, group, &[0, 1, 2], &data);
        let said = eventually("it refuses", async || odd.refused()).await;
        assert!(said.contains("holds the data of node n2 of cluster test"), "{said}");
    }
    live.cluster.start_node(1).unwrap();
    live.node_ready(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_with_different_lists_of_members_found_nothing() {
    let live = Live::prepare(4);
    let data = live.cluster.directory().join("lists");
    let mut one = Odd::start(&live.cluster, 0, "n1", "lists", &[0, 1, 2], &data.join("n1"));
    let mut two = Odd::start(&live.cluster, 1, "n2", "lists", &[0, 1, 3], &data.join("n2"));
    // The first to notice ends; the other then waits for it.
    let said = eventually("one refuses", async || one.refused().or_else(|| two.refused())).await;
    assert!(said.contains("another list of initial members"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_single_node_says_that_it_survives_nothing() {
    let live = Live::start(1).await;
    assert!(live.cluster.log(0).contains("survives nothing"), "{}", live.cluster.log(0));
    let client = live.client(Duration::from_secs(10));
    let session = client.open_session().await.unwrap();
    crate::live::hold(&session, "orders").await.release().await.unwrap();
    client.close().await;
}
