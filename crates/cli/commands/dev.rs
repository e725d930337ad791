//! `palisade dev`: three nodes in this process, for trying things out.

use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use palisade_core::ids::{ClusterName, NodeName};
use palisade_host::Host;
use palisade_server::{InitialMember, Node, ServerConfig, Storage};
use tokio::signal::unix::{SignalKind, signal};

use super::Failure;
use crate::exit::Exit;

/// `palisade dev`
#[derive(Debug, Args)]
pub(crate) struct DevArgs {
    /// Clients connect here, and to the ports 10 and 20 above it; peers to the ports one above each
    #[arg(long, default_value_t = 7_170)]
    pub(crate) port_base: u16,
    /// Keep the data here; without it everything is in memory, and gone with the process
    #[arg(long)]
    pub(crate) data_dir: Option<PathBuf>,
    /// Log one line for each grant, end and rejection (target `audit`)
    #[arg(long)]
    pub(crate) audit: bool,
}

const NODES: u16 = 3;

pub(crate) async fn run(arguments: &DevArgs) -> Result<Exit, Failure> {
    let cluster = ClusterName::new("dev").context("the cluster's name")?;
    let name = |number| NodeName::new(&format!("n{number}"));
    let port = |number: u16, offset: u16| arguments.port_base.checked_add((number - 1) * 10 + offset);
    let address = |number, offset| {
        let port = port(number, offset).context("--port-base is too high for three nodes")?;
        Ok::<_, anyhow::Error>(format!("{}:{port}", IpAddr::V4(Ipv4Addr::LOCALHOST)))
    };
    let mut members = Vec::new();
    for number in 1..=NODES {
        let name = name(number).context("a node's name")?;
        members.push(InitialMember { name, peer_address: address(number, 1)? });
    }
    let mut nodes = Vec::new();
    for number in 1..=NODES {
        let mut config =
            ServerConfig::new(name(number).context("a node's name")?, cluster.clone(), members.clone());
        config.listen = address(number, 0)?;
        config.peer_listen = address(number, 1)?;
        if let Some(directory) = &arguments.data_dir {
            let directory = directory.join(format!("n{number}"));
            config.storage = Storage::Disk { directory, engine: None };
        }
        nodes.push(Node::start(config, Host::system()).await?);
    }
    announce(arguments, &nodes).await;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let failure = {
        let [first, second, third] = nodes.as_mut_slice() else {
            return Err(anyhow::anyhow!("not three nodes").into());
        };
        tokio::select! {
            failure = first.failed() => Some(failure),
            failure = second.failed() => Some(failure),
            failure = third.failed() => Some(failure),
            _ = terminate.recv() => None,
            _ = interrupt.recv() => None,
        }
    };
    if let Some(failure) = failure {
        return Err(failure.into());
    }
    for node in nodes {
        node.stop().await;
    }
    Ok(Exit::OK)
}

async fn announce(arguments: &DevArgs, nodes: &[Node]) {
    while !nodes.iter().all(Node::is_ready) {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let endpoints: Vec<_> = nodes.iter().map(|node| node.client_address().to_string()).collect();
    let kept = match &arguments.data_dir {
        Some(directory) => format!("data in {}", directory.display()),
        None => "everything in memory".to_owned(),
    };
    let words = format!(
        "palisade dev · 3 nodes in this process · {kept} · stop with Ctrl-C

  export PALISADE_ENDPOINTS={}
  palisade status
  palisade lock nightly -- sh -c 'echo token $PALISADE_TOKEN'
  curl http://{}/metrics
",
        endpoints.join(","),
        endpoints[0]
    );
    // The nodes serve, also when nobody reads where.
    let _ = io::stdout().lock().write_all(words.as_bytes());
}
