//! This node's signing key, and the sequencers and floors that it signs (SPEC 7, 8 and 13).
//!
//! The key lives in a file of its own and never enters the log, a snapshot or a backup; what the cluster knows is its
//! public half. Whether the key may sign is the table's word, not this file's: ask `may_sign` first.

mod verifier;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ed25519_dalek::pkcs8::spki::der::pem::LineEnding;
use ed25519_dalek::pkcs8::{DecodePrivateKey, EncodePrivateKey};
use ed25519_dalek::{Signer as _, SigningKey};
use palisade_core::command::PublishKey;
use palisade_core::ids::{AcquisitionId, KeyId, NameError, NodeId};
use palisade_core::lock::SlotState;
use palisade_core::sequencer::{
    ALGORITHM, FLOOR_TYPE, SEQUENCER_TYPE, Sequencer, SequencerClaims, SequencerHeader,
};
use palisade_core::sequencer_text;
use palisade_core::signed_floor::{FloorClaims, FloorStatement};
use palisade_core::table::{KeyState, LockTable};
use palisade_host::Entropy;
use sha2::{Digest, Sha256};

pub use self::verifier::{KeySet, SequencerError, SequencerVerifier, Verified, jwks};

/// The key's file in the data directory.
pub const KEY_FILE: &str = "signing.key";

/// Why there is no key to sign with.
#[derive(Debug, thiserror::Error)]
pub enum SignerError {
    /// The file could not be read or written.
    #[error("cannot {what} the signing key {path}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Others than its owner and group may use the file.
    #[error(
        "the signing key {path} has mode {mode:04o}: everybody on this machine may use it; set it to 0600"
    )]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// Not an Ed25519 key in PKCS#8.
    #[error(
        "the signing key {path} is not an Ed25519 key in PKCS#8 PEM ({why}): put the right file back, or move it away \
         and the node draws a new key, which other nodes must publish before it signs"
    )]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What the parser says.
        why: String,
    },
    /// The id of the key is no key id.
    #[error("the signing key has no id: {0}")]
    Id(#[from] NameError),
}

/// This node's key.
pub struct Signer {
    key: SigningKey,
    id: KeyId,
}

impl Signer {
    /// Reads the key from `directory`, or draws it at the first start: then the file is there, whole and on the disk,
    /// with mode 0600, before this returns.
    pub fn open(directory: &Path, entropy: &dyn Entropy) -> Result<Self, SignerError> {
        let path = directory.join(KEY_FILE);
        match fs::read_to_string(&path) {
            Ok(pem) => Self::from_pem(&path, &pem),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::draw(&path, entropy),
            Err(source) => Err(SignerError::Io { what: "read", path, source }),
        }
    }

    /// A key that is gone with the process.
    pub fn drawn(entropy: &dyn Entropy) -> Result<Self, SignerError> {
        let mut secret = [0; 32];
        entropy.fill(&mut secret);
        Self::from_key(SigningKey::from_bytes(&secret))
    }

    fn from_pem(path: &Path, pem: &str) -> Result<Self, SignerError> {
        let metadata = fs::metadata(path).map_err(|source| io_error("read", path, source))?;
        let mode = metadata.permissions().mode() & 0o7777;
        if mode & 0o007 != 0 {
            return Err(SignerError::Exposed { path: path.to_owned(), mode });
        }
        let key = SigningKey::from_pkcs8_pem(pem)
            .map_err(|error| SignerError::Malformed { path: path.to_owned(), why: error.to_string() })?;
        Self::from_key(key)
    }

    fn draw(path: &Path, entropy: &dyn Entropy) -> Result<Self, SignerError> {
        let mut secret = [0; 32];
        entropy.fill(&mut secret);
        let key = SigningKey::from_bytes(&secret);
        let pem = key
            .to_pkcs8_pem(LineEnding::LF)
            .map_err(|error| SignerError::Malformed { path: path.to_owned(), why: error.to_string() })?;
        write_whole(path, pem.as_bytes()).map_err(|source| io_error("write", path, source))?;
        Self::from_key(key)
    }

    fn from_key(key: SigningKey) -> Result<Self, SignerError> {
        let id = key_id(key.verifying_key().as_bytes())?;
        Ok(Self { key, id })
    }

    /// Names the key in each signature.
    pub fn id(&self) -> &KeyId {
        &self.id
    }

    /// The public half.
    pub fn public(&self) -> [u8; 32] {
        self.key.verifying_key().to_bytes()
    }

    /// What makes the key known to the cluster.
    pub fn publish(&self, node: NodeId) -> PublishKey {
        PublishKey { node, key: self.id.clone(), public: self.public() }
    }

    /// Whether the state that this node has applied lets the key sign. A node whose key may not passes the request
    /// on.
    pub fn may_sign(&self, table: &LockTable) -> bool {
        table.keys().get(&self.id).is_some_and(|known| match known.state {
            KeyState::Signing => known.public == self.public(),
            KeyState::Published | KeyState::Retired | KeyState::Dropped => false,
        })
    }

    /// The compact JWS of a sequencer.
    pub fn sign(&self, sequencer: &Sequencer) -> String {
        let header = self.header(SEQUENCER_TYPE);
        self.attach(&sequencer_text::unsigned(&header, &SequencerClaims::from(sequencer)))
    }

    /// The compact JWS of a floor.
    pub fn sign_floor(&self, floor: &FloorStatement) -> String {
        let header = self.header(FLOOR_TYPE);
        self.attach(&sequencer_text::unsigned_floor(&header, &FloorClaims::from(floor)))
    }

    fn header(&self, purpose: &str) -> SequencerHeader {
        let kid = self.id.as_str().to_owned();
        SequencerHeader { alg: ALGORITHM.to_owned(), typ: purpose.to_owned(), kid }
    }

    fn attach(&self, input: &str) -> String {
        sequencer_text::attach(input, &self.key.sign(input.as_bytes()).to_bytes())
    }
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Signer").field("id", &self.id).finish_non_exhaustive()
    }
}

/// The sequencers of what an acquisition holds, one a part, in the order of its grant. Empty when it holds nothing.
pub fn sequencers(table: &LockTable, acquisition: AcquisitionId) -> Vec<Sequencer> {
    let Some(founding) = &table.header().founding else { return Vec::new() };
    let Some(session) = table.session(acquisition.session) else { return Vec::new() };
    let Some(grant) = table.grant(acquisition) else { return Vec::new() };
    let parts = grant.parts.into_iter().filter_map(|part| {
        let state = table.lock(&part.lock)?.slots.get(&part.slot)?;
        let SlotState::Held(tenure) = state else { return None };
        let holder = tenure.holders.get(&acquisition)?;
        Some(Sequencer {
            cluster: founding.cluster,
            incarnation: founding.incarnation,
            lock: part.lock,
            slot: part.slot,
            mode: part.mode,
            token: part.token,
            grant_index: grant.grant_index,
            acquisition,
            client: session.client.clone(),
            granted_at: holder.granted_at,
        })
    });
    parts.collect()
}

/// RFC 7638: the same key has the same id everywhere.
fn key_id(public: &[u8; 32]) -> Result<KeyId, NameError> {
    let digest = Sha256::digest(sequencer_text::thumbprint_input(public));
    KeyId::new(&URL_SAFE_NO_PAD.encode(digest))
}

/// All of it under its name, or nothing: written beside, made durable, then moved.
fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let beside = path.with_extension("key.new");
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    match path.parent() {
        Some(directory) => File::open(directory)?.sync_all(),
        None => Ok(()),
    }
}

fn io_error(what: &'static str, path: &Path, source: io::Error) -> SignerError {
    SignerError::Io { what, path: path.to_owned(), source }
}

#[cfg(test)]
mod tests;
