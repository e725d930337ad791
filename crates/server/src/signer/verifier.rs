//! Verifies sequencers against the keys that the cluster has published, and remembers which it verified.
//!
//! What is remembered is bounded, and good only as long as the key is: a key that is dropped takes its sequencers with
//! it. Whether what a sequencer says is still so is the table's verdict, not asked here.

use std::collections::{BTreeMap, HashMap};

use ed25519_dalek::{Signature, VerifyingKey};
use palisade_core::ids::{ClusterId, KeyId};
use palisade_core::sequencer::{ALGORITHM, SEQUENCER_TYPE, Sequencer};
use palisade_core::sequencer_text;
use palisade_core::table::{KeyState, LockTable};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};

/// The keys that verify, as one state of the table has them. Small; made anew when a key changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeySet {
    cluster: Option<ClusterId>,
    keys: BTreeMap<KeyId, [u8; 32]>,
}

impl KeySet {
    /// Of this state: keys that were published, sign or are retired. Dropped ones verify nothing.
    pub fn of(table: &LockTable) -> Self {
        let keys = table.keys().iter().filter(|(_, key)| match key.state {
            KeyState::Published | KeyState::Signing | KeyState::Retired => true,
            KeyState::Dropped => false,
        });
        Self {
            cluster: table.header().founding.as_ref().map(|founding| founding.cluster),
            keys: keys.map(|(id, key)| (id.clone(), key.public)).collect(),
        }
    }
}

/// The keys that verify, as a JWKS document (RFC 7517).
pub fn jwks(keys: &KeySet) -> String {
    sequencer_text::jwks(&keys.keys)
}

/// Why a text is not a sequencer of this cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SequencerError {
    /// It names a key that this state does not know, or has dropped.
    #[error("the key {0:?} is not known here")]
    UnknownKey(String),
    /// Malformed, for another purpose, of another cluster, or not signed by the key that it names.
    #[error("forged: {0}")]
    Forged(String),
}

/// A sequencer whose signature is good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// What it says.
    pub sequencer: Sequencer,
    /// Who signed it.
    pub key: KeyId,
}

/// Verifies, and remembers.
#[derive(Debug)]
pub struct SequencerVerifier {
    remembered: Mutex<Remembered>,
    half_max: usize,
}

/// Two halves: when the newer is full, the older is forgotten.
#[derive(Debug, Default)]
struct Remembered {
    newer: HashMap<[u8; 32], (Verified, [u8; 32])>,
    older: HashMap<[u8; 32], (Verified, [u8; 32])>,
}

impl SequencerVerifier {
    /// Remembers at most `max` sequencers.
    pub fn new(max: usize) -> Self {
        Self { remembered: Mutex::default(), half_max: (max / 2).max(1) }
    }

    /// A sequencer that was verified before, under a key that still verifies. Cheap, where `verify` costs a signature.
    pub fn recall(&self, text: &str, keys: &KeySet) -> Option<Verified> {
        let name: [u8; 32] = Sha256::digest(text).into();
        let mut remembered = self.remembered.lock();
        let (verified, public) = match remembered.newer.get(&name) {
            Some(found) => found.clone(),
            None => {
                let found = remembered.older.remove(&name)?;
                remembered.keep(name, found.clone(), self.half_max);
                found
            }
        };
        (keys.keys.get(&verified.key) == Some(&public) && keys.cluster == Some(verified.sequencer.cluster))
            .then_some(verified)
    }

    /// Verifies a text, if it is not remembered. Takes as long as checking a signature does: off the reactor.
    pub fn verify(&self, text: &str, keys: &KeySet) -> Result<Verified, SequencerError> {
        if let Some(verified) = self.recall(text, keys) {
            return Ok(verified);
        }
        let (verified, public) = verify(text, keys)?;
        let name = Sha256::digest(text).into();
        self.remembered.lock().keep(name, (verified.clone(), public), self.half_max);
        Ok(verified)
    }
}

impl Remembered {
    fn keep(&mut self, name: [u8; 32], found: (Verified, [u8; 32]), half_max: usize) {
        if self.newer.len() >= half_max {
            self.older = std::mem::take(&mut self.newer);
        }
        self.newer.insert(name, found);
    }
}

fn verify(text: &str, keys: &KeySet) -> Result<(Verified, [u8; 32]), SequencerError> {
    let forged = |why: &dyn ToString| SequencerError::Forged(why.to_string());
    let compact = sequencer_text::parse(text).map_err(|error| forged(&error))?;
    if compact.header.alg != ALGORITHM {
        return Err(forged(&"its algorithm is not EdDSA"));
    }
    if compact.header.typ != SEQUENCER_TYPE {
        return Err(forged(&"it is a statement for another purpose"));
    }
    let unknown = || SequencerError::UnknownKey(compact.header.kid.clone());
    let key = KeyId::new(&compact.header.kid).map_err(|_| unknown())?;
    let public = *keys.keys.get(&key).ok_or_else(unknown)?;
    let verifying = VerifyingKey::from_bytes(&public).map_err(|error| forged(&error))?;
    // Strict: no weak keys, and one signature for one statement.
    verifying
        .verify_strict(compact.signing_input.as_bytes(), &Signature::from_bytes(&compact.signature))
        .map_err(|_| forged(&"its signature is not of the key that it names"))?;
    let claims = compact.sequencer_claims().map_err(|error| forged(&error))?;
    let sequencer = Sequencer::try_from(claims).map_err(|error| forged(&error))?;
    if keys.cluster != Some(sequencer.cluster) {
        return Err(forged(&format!("it is of the cluster {}", sequencer.cluster)));
    }
    Ok((Verified { sequencer, key }, public))
}
