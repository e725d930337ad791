//! Founding by a static list (SPEC 11).
//!
//! A pristine node asks all listed peers who they are. Only if all answer, all are pristine, and with the same name
//! and list, does the one with the lowest name found the cluster, with the node id of each. So a node that lost its
//! data can never found a second cluster beside the first.

use std::collections::BTreeMap;
use std::time::Duration;

use palisade_core::ids::{NodeId, NodeName};
use palisade_host::Host;
use palisade_raft::{PeerNode, Replica, identify};

use crate::config::ServerConfig;

/// A peer that does not answer within this time is asked again.
const ANSWER_WAIT: Duration = Duration::from_secs(2);
/// Between two rounds of asking.
const RETRY: Duration = Duration::from_millis(200);

/// Why this node may not go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FoundingError {
    /// The configurations of two nodes do not fit.
    #[error(
        "{peer} at {address} was started with another list of initial members ({theirs}) than this node ({ours}); \
         give every node the same list"
    )]
    OtherList {
        /// The peer's name.
        peer: NodeName,
        /// Where it is.
        address: String,
        /// Its list.
        theirs: String,
        /// This node's.
        ours: String,
    },
    /// Two names for one node, or one address for two.
    #[error("at {address} answers node {found:?}, not {peer:?}; correct the list of initial members")]
    OtherNode {
        /// The expected name.
        peer: String,
        /// Where.
        address: String,
        /// The name that answered.
        found: String,
    },
    /// The data of this node is gone.
    #[error(
        "the cluster knows {name} as node {recorded}, and this data directory is node {own}: its data is gone. What \
         it had confirmed may be missing, so it must not go on under its name: start it under a new name and add it, \
         and remove {name}"
    )]
    DataGone {
        /// This node's name.
        name: NodeName,
        /// The recorded id.
        recorded: NodeId,
        /// This data directory's id.
        own: NodeId,
    },
}

/// Waits until this node is part of a cluster, and founds one if that is its part.
///
/// # Errors
///
/// When the configurations contradict each other, or this node's data is gone: nothing that waiting could mend.
pub(crate) async fn join(
    config: &ServerConfig,
    host: &Host,
    replica: &Replica,
    own: NodeId,
) -> Result<(), FoundingError> {
    let mut told = false;
    let mut leadership = replica.leadership();
    loop {
        if !replica.is_pristine() || leadership.borrow_and_update().leader.is_some() {
            return Ok(());
        }
        match ask_all(config, host, own).await? {
            Answers::AllPristine(members) => {
                let lowest = config.members.iter().map(|member| &member.name).min();
                if lowest == Some(&config.name) {
                    match replica.found(members).await {
                        Ok(()) => {
                            tracing::info!(node = %config.name, cluster = %config.cluster, "founded the cluster")
                        }
                        Err(why) => tracing::warn!(%why, "the cluster was not founded"),
                    }
                    return Ok(());
                }
            }
            Answers::Missing(missing) if !told => {
                tracing::info!(missing = missing.join(", "), "waits for all initial members to answer");
                told = true;
            }
            Answers::Missing(_) | Answers::Founded => {}
        }
        tokio::time::sleep(RETRY).await;
    }
}

enum Answers {
    AllPristine(BTreeMap<NodeId, PeerNode>),
    Missing(Vec<String>),
    Founded,
}

async fn ask_all(config: &ServerConfig, host: &Host, own: NodeId) -> Result<Answers, FoundingError> {
    let ours = list(config);
    let mut members = BTreeMap::new();
    let mut missing = Vec::new();
    let mut founded = false;
    for member in &config.members {
        let answer =
            match identify(host.net.clone(), &member.peer_address, &config.cluster, ANSWER_WAIT).await {
                Ok(answer) => answer,
                Err(why) => {
                    missing.push(why.to_string());
                    continue;
                }
            };
        let address = member.peer_address.clone();
        if answer.node_name != member.name.as_str() {
            let peer = member.name.as_str().to_owned();
            return Err(FoundingError::OtherNode { peer, address, found: answer.node_name });
        }
        if answer.members != ours {
            let theirs = answer.members.join(",");
            return Err(FoundingError::OtherList {
                peer: member.name.clone(),
                address,
                theirs,
                ours: ours.join(","),
            });
        }
        if let Some(recorded) = answer.recorded.iter().find(|known| known.name == config.name.as_str())
            && recorded.node_id != own.0
        {
            let recorded = NodeId(recorded.node_id);
            return Err(FoundingError::DataGone { name: config.name.clone(), recorded, own });
        }
        founded |= !answer.pristine;
        let peer =
            PeerNode { name: answer.node_name, peer_address: address, client_address: answer.client_address };
        members.insert(NodeId(answer.node_id), peer);
    }
    Ok(match (founded, missing.is_empty()) {
        (true, _) => Answers::Founded,
        (false, false) => Answers::Missing(missing),
        (false, true) => Answers::AllPristine(members),
    })
}

/// The list of initial members, as nodes compare it.
pub(crate) fn list(config: &ServerConfig) -> Vec<String> {
    let mut list: Vec<_> =
        config.members.iter().map(|member| format!("{}={}", member.name, member.peer_address)).collect();
    list.sort();
    list
}
