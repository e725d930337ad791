//! The storage of a node: its directory, its log, its snapshots, and whose they are. The signing key is `signer`'s.

mod log;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use palisade_core::ids::NodeId;
use palisade_host::Host;
use palisade_raft::{Engine, FileSnapshots, Identity, MemoryEngine, MemorySnapshots, SnapshotStore};

pub use self::log::{Converted, convert};
use crate::config::{ServerConfig, Storage};
use crate::failure::NodeError;

/// Log, vote and snapshots of a node.
#[derive(Clone)]
pub struct NodeStorage {
    /// Log, vote, identity.
    pub engine: Arc<dyn Engine>,
    /// Snapshots.
    pub snapshots: Arc<dyn SnapshotStore>,
}

impl NodeStorage {
    /// Opens what the configuration says.
    ///
    /// # Errors
    ///
    /// When data is damaged, in use, or of a newer version; says which file and how to rejoin.
    pub fn open(storage: &Storage) -> Result<Self, NodeError> {
        match storage {
            Storage::Memory => Ok(Self {
                engine: Arc::new(MemoryEngine::new(Duration::ZERO)),
                snapshots: Arc::new(MemorySnapshots::default()),
            }),
            Storage::Disk { directory, engine } => {
                make_directory(directory)?;
                let engine = log::open(directory, *engine)?;
                let snapshots = Arc::new(FileSnapshots::open(&directory.join("snapshots"))?);
                Ok(Self { engine, snapshots })
            }
        }
    }
}

/// The node id of this data directory, drawn and made durable at its first start.
pub(crate) async fn identity(
    config: &ServerConfig,
    host: &Host,
    storage: &NodeStorage,
) -> Result<NodeId, NodeError> {
    if let Some(recorded) = storage.engine.identity() {
        if recorded.name == config.name && recorded.cluster == config.cluster {
            return Ok(recorded.node);
        }
        let path = match &config.storage {
            Storage::Disk { directory, .. } => directory.clone(),
            Storage::Memory => PathBuf::from("(memory)"),
        };
        let cluster = recorded.cluster.as_str().to_owned();
        return Err(NodeError::OtherNode { path, recorded: recorded.name.as_str().to_owned(), cluster });
    }
    // Not 0, and small enough for JSON numbers.
    let node = NodeId((host.entropy.number() >> 11).max(1));
    let identity = Identity {
        node,
        name: config.name.clone(),
        cluster: config.cluster.clone(),
        cluster_id: None,
        incarnation: None,
    };
    palisade_raft::save_identity(&storage.engine, identity)
        .await
        .map_err(|source| NodeError::Io { path: PathBuf::from("identity"), source })?;
    Ok(node)
}

fn make_directory(directory: &Path) -> Result<(), NodeError> {
    let io = |source| NodeError::Io { path: directory.to_owned(), source };
    let missing: Vec<_> = directory.ancestors().skip(1).take_while(|ancestor| !ancestor.exists()).collect();
    fs::create_dir_all(directory).map_err(io)?;
    // A node that comes back from a power failure without its directory would draw a new id under its old name.
    for made in std::iter::once(directory).chain(missing) {
        let Some(parent) = made.parent() else { continue };
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        File::open(parent).and_then(|parent| parent.sync_all()).map_err(io)?;
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(directory, fs::Permissions::from_mode(0o700)).map_err(io)?;
    }
    Ok(())
}
