//! Who calls whom: every call between nodes says it, and what does not match is refused (SPEC 11).
//!
//! This catches wrong addresses, mixed clusters and data directories in the wrong place. It is no authentication.

use std::collections::BTreeSet;
use std::sync::Arc;

use palisade_core::ids::NodeId;
use palisade_core::table::LockTable;
use parking_lot::{Mutex, RwLock};
use tonic::Status;
use tonic::metadata::MetadataMap;

use crate::engine::{Engine, Identity};

const CLUSTER: &str = "palisade-cluster";
const CLUSTER_ID: &str = "palisade-cluster-id";
const FROM: &str = "palisade-from";
const TO: &str = "palisade-to";

/// Refusals that are logged; each text once.
const LOGGED_MAX: usize = 64;

/// A node's identity, as it shows it to its peers.
pub struct Credentials {
    identity: RwLock<Identity>,
    engine: Arc<dyn Engine>,
    logged: Mutex<BTreeSet<String>>,
}

impl Credentials {
    pub(crate) fn new(identity: Identity, engine: Arc<dyn Engine>) -> Self {
        Self { identity: RwLock::new(identity), engine, logged: Mutex::default() }
    }

    /// This node's identity.
    pub fn identity(&self) -> Identity {
        self.identity.read().clone()
    }

    /// Takes the cluster's id over from the table, and makes it durable with the next flush.
    pub(crate) fn founded(&self, table: &LockTable) {
        let Some(founding) = &table.header().founding else { return };
        let mut identity = self.identity.write();
        let known = (Some(founding.cluster), Some(founding.incarnation));
        if (identity.cluster_id, identity.incarnation) == known {
            return;
        }
        (identity.cluster_id, identity.incarnation) = known;
        // A failure reaches the node through the engine; a crash before it is durable loses nothing that matters.
        self.engine.save_identity(identity.clone(), Box::new(|_| {}));
    }

    /// Says in `metadata` who calls whom.
    pub fn stamp(&self, metadata: &mut MetadataMap, to: NodeId) {
        let identity = self.identity.read();
        let mut put = |key: &'static str, value: String| {
            if let Ok(value) = value.parse() {
                metadata.insert(key, value);
            }
        };
        put(CLUSTER, escape(identity.cluster.as_str()));
        put(FROM, identity.node.to_string());
        put(TO, to.to_string());
        if let Some(id) = identity.cluster_id {
            put(CLUSTER_ID, id.to_string());
        }
    }

    /// Who calls, if the call is for this node of this cluster.
    ///
    /// # Errors
    ///
    /// `FAILED_PRECONDITION`, with what does not match. Logged once.
    #[allow(clippy::result_large_err)]
    pub fn admit(&self, metadata: &MetadataMap) -> Result<NodeId, Status> {
        self.check(metadata).map_err(|why| {
            let mut logged = self.logged.lock();
            if logged.len() < LOGGED_MAX && logged.insert(why.clone()) {
                tracing::warn!(why, "refused a peer");
            }
            Status::failed_precondition(why)
        })
    }

    fn check(&self, metadata: &MetadataMap) -> Result<NodeId, String> {
        let get = |key| metadata.get(key).and_then(|value| value.to_str().ok());
        let said = |key| get(key).ok_or_else(|| format!("the call does not say {key}"));
        let identity = self.identity.read();
        let from: u64 = said(FROM)?.parse().map_err(|_| format!("{FROM} is no node id"))?;
        let cluster = said(CLUSTER)?;
        if cluster != escape(identity.cluster.as_str()) {
            return Err(format!("node {from} is of cluster {cluster}; this node is of {}", identity.cluster));
        }
        // A node that has not applied the founding does not know the id yet.
        if let (Some(theirs), Some(ours)) = (get(CLUSTER_ID), identity.cluster_id)
            && theirs != ours.to_string()
        {
            return Err(format!("node {from} is of cluster id {theirs}; this node is of {ours}"));
        }
        let to = said(TO)?;
        if to != identity.node.to_string() {
            return Err(format!("node {from} called node {to}; this is node {}", identity.node));
        }
        if from == identity.node.0 {
            return Err(format!("node {from} called itself, or two nodes share an id"));
        }
        Ok(NodeId(from))
    }
}

/// A name as header text: what is not plain ASCII stands as %XX.
fn escape(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_graphic() && byte != b'%' {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use palisade_core::ids::{ClusterId, ClusterName, NodeName};

    use super::*;
    use crate::MemoryEngine;

    fn of(node: u64, cluster: &str, id: Option<u8>) -> Credentials {
        let identity = Identity {
            node: NodeId(node),
            name: NodeName::new("a").expect("a name"),
            cluster: ClusterName::new(cluster).expect("a name"),
            cluster_id: id.map(|byte| ClusterId([byte; 16])),
            incarnation: None,
        };
        Credentials::new(identity, Arc::new(MemoryEngine::new(Duration::ZERO)))
    }

    fn call(from: &Credentials, to: u64, at: &Credentials) -> Result<NodeId, String> {
        let mut metadata = MetadataMap::new();
        from.stamp(&mut metadata, NodeId(to));
        at.admit(&metadata).map_err(|status| status.message().to_owned())
    }

    #[test]
    fn a_peer_is_admitted_and_a_stranger_is_not() {
        let us = of(2, "häuser one", Some(1));
        assert_eq!(call(&of(1, "häuser one", Some(1)), 2, &us), Ok(NodeId(1)));
        assert_eq!(call(&of(1, "häuser one", None), 2, &us), Ok(NodeId(1)));
        for (from, to) in [
            (of(1, "other", Some(1)), 2),
            (of(1, "häuser one", Some(9)), 2),
            (of(1, "häuser one", Some(1)), 3),
            (of(2, "häuser one", Some(1)), 2),
        ] {
            assert!(call(&from, to, &us).is_err());
        }
        let silent = us.admit(&MetadataMap::new()).expect_err("it says nothing");
        assert_eq!(silent.code(), tonic::Code::FailedPrecondition);
    }
}
