//! Verifies sequencers, and signed floors, offline: signature, purpose, cluster (SPEC 7, way 1).
//!
//! Proves that the cluster granted this token for this lock and slot. It does not prove that no newer token exists:
//! only the comparison with the mark, in one step with the write, does. No clock is read.

use std::collections::BTreeMap;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use ed25519_dalek::{Signature, VerifyingKey};
use palisade_core::holding::{Holding, NotHolding};
use palisade_core::ids::{AcquisitionId, ClientName, ClusterId, LockName, Slot};
use palisade_core::mode::Mode;
use palisade_core::sequencer::{ALGORITHM, FLOOR_TYPE, SEQUENCER_TYPE, Sequencer, SequencerHeader, issuer};
use palisade_core::sequencer_text::{self, Compact};
use palisade_core::signed_floor::FloorStatement;
use palisade_core::token::Token;
use sha2::{Digest, Sha256};

use crate::error::FenceError;
use crate::keys::KeySet;

/// Verified texts that are remembered: a holder presents the same one with every write of a grant.
pub const REMEMBERED_MAX: usize = 8_192;

/// Verifies the sequencers of one cluster. Shared by any number of threads.
#[derive(Debug)]
pub struct Verifier {
    issuer: String,
    keys: RwLock<Arc<KeySet>>,
    remembered: Mutex<Remembered>,
}

impl Verifier {
    /// Of the cluster that this resource serves.
    pub fn new(cluster: ClusterId, keys: KeySet) -> Self {
        Self { issuer: issuer(cluster), keys: RwLock::new(Arc::new(keys)), remembered: Mutex::default() }
    }

    /// Takes newly fetched keys. Sequencers of a key that is gone are refused from now on.
    pub fn replace_keys(&self, keys: KeySet) {
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys);
    }

    /// The keys as they were last taken.
    pub fn keys(&self) -> Arc<KeySet> {
        Arc::clone(&self.keys.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Verifies a sequencer that came with a request.
    ///
    /// Its lock, slot and mode are the signed ones, and are compared by the [`Guard`](crate::guard::Guard).
    pub fn verify(&self, text: &str) -> Result<Presented, FenceError> {
        let keys = self.keys();
        let digest = Sha256::digest(text).into();
        if let Some(proved) = self.remembered().find(&digest, &keys) {
            return Ok(Presented::new(proved));
        }
        let (compact, key) = signed(text, &keys, SEQUENCER_TYPE)?;
        let claims = compact.sequencer_claims().map_err(malformed)?;
        self.expect_issuer(&claims.iss)?;
        let sequencer = claims.try_into().map_err(malformed)?;
        let proved = Arc::new(Proved {
            issuer: self.issuer.clone(),
            text: text.to_owned(),
            kid: compact.header.kid,
            key,
            sequencer,
        });
        self.remembered().insert(digest, Arc::clone(&proved));
        Ok(Presented::new(proved))
    }

    /// Verifies a floor that the cluster signed as one: what raises a mark without a holder (SPEC 8).
    ///
    /// # Errors
    ///
    /// A sequencer is refused as [`FenceError::WrongPurpose`], like everything else that is no floor.
    pub fn floor(&self, text: &str) -> Result<SignedFloor, FenceError> {
        let keys = self.keys();
        let (compact, _) = signed(text, &keys, FLOOR_TYPE)?;
        let claims = compact.floor_claims().map_err(malformed)?;
        self.expect_issuer(&claims.iss)?;
        Ok(SignedFloor { statement: claims.try_into().map_err(malformed)? })
    }

    fn expect_issuer(&self, presented: &str) -> Result<(), FenceError> {
        if presented == self.issuer {
            return Ok(());
        }
        let presented = presented.to_owned();
        Err(FenceError::WrongCluster { presented, expected: self.issuer.clone() })
    }

    /// Texts that are remembered.
    #[cfg(test)]
    pub(crate) fn remembered_count(&self) -> usize {
        let remembered = self.remembered();
        remembered.new.len() + remembered.old.len()
    }

    fn remembered(&self) -> std::sync::MutexGuard<'_, Remembered> {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A text that the cluster signed for this purpose, taken apart, and the key that did.
fn signed<'a>(
    text: &'a str,
    keys: &KeySet,
    purpose: &'static str,
) -> Result<(Compact<'a>, VerifyingKey), FenceError> {
    let compact = sequencer_text::parse(text).map_err(malformed)?;
    let unknown = || FenceError::UnknownKey { kid: compact.header.kid.clone() };
    let key = *keys.get(&compact.header.kid).ok_or_else(unknown)?;
    // Strict: no weak key, one encoding of each signature (SPEC 7).
    key.verify_strict(compact.signing_input.as_bytes(), &Signature::from_bytes(&compact.signature))
        .map_err(|_| FenceError::Forged)?;
    if compact.header.alg != ALGORITHM || compact.header.typ != purpose {
        let SequencerHeader { typ, alg, .. } = compact.header;
        return Err(FenceError::WrongPurpose { expected: purpose, typ, alg });
    }
    Ok((compact, key))
}

fn malformed(error: impl ToString) -> FenceError {
    FenceError::Malformed(error.to_string())
}

/// A floor that the cluster signed. Only a [`Verifier`] makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedFloor {
    statement: FloorStatement,
}

impl SignedFloor {
    /// What the cluster signed.
    pub fn statement(&self) -> &FloorStatement {
        &self.statement
    }
}

#[derive(Debug)]
struct Proved {
    issuer: String,
    text: String,
    kid: String,
    key: VerifyingKey,
    sequencer: Sequencer,
}

/// Two halves: what is used moves to the new one, and the old one is forgotten when the new one is full. Only what was
/// verified gets in, so that forgeries push nothing out.
#[derive(Debug, Default)]
struct Remembered {
    new: BTreeMap<[u8; 32], Arc<Proved>>,
    old: BTreeMap<[u8; 32], Arc<Proved>>,
}

impl Remembered {
    /// None also where the key that proved it is no longer the cluster's.
    fn find(&mut self, digest: &[u8; 32], keys: &KeySet) -> Option<Arc<Proved>> {
        let known = |proved: &Arc<Proved>| keys.get(&proved.kid) == Some(&proved.key);
        if let Some(proved) = self.new.get(digest) {
            return known(proved).then(|| Arc::clone(proved));
        }
        let proved = self.old.remove(digest).filter(known)?;
        self.insert(*digest, Arc::clone(&proved));
        Some(proved)
    }

    fn insert(&mut self, digest: [u8; 32], proved: Arc<Proved>) {
        if self.new.len() >= REMEMBERED_MAX / 2 {
            self.old = mem::take(&mut self.new);
        }
        self.new.insert(digest, proved);
    }
}

/// A verified sequencer that came with a request. Clones share their refusal.
#[derive(Clone, Debug)]
pub struct Presented {
    proved: Arc<Proved>,
    /// The mark that refused it; 0 while none did.
    refused_by: Arc<AtomicU64>,
}

impl Presented {
    fn new(proved: Arc<Proved>) -> Self {
        Self { proved, refused_by: Arc::default() }
    }

    /// What the cluster signed.
    pub fn statement(&self) -> &Sequencer {
        &self.proved.sequencer
    }

    /// An error unless it is of this lock: for handlers whose path depends on the lock.
    pub fn expect_lock(&self, lock: &LockName) -> Result<(), FenceError> {
        let presented = &self.proved.sequencer.lock;
        if presented == lock {
            return Ok(());
        }
        Err(FenceError::WrongLock { presented: presented.clone(), expected: lock.to_string() })
    }
}

impl Holding for Presented {
    fn issuer(&self) -> Option<&str> {
        Some(&self.proved.issuer)
    }

    fn lock(&self) -> &LockName {
        &self.proved.sequencer.lock
    }

    fn slot(&self) -> Slot {
        self.proved.sequencer.slot
    }

    fn mode(&self) -> Mode {
        self.proved.sequencer.mode
    }

    fn token(&self) -> Token {
        self.proved.sequencer.token
    }

    fn sequencer(&self) -> Option<&str> {
        Some(&self.proved.text)
    }

    fn client(&self) -> Option<&ClientName> {
        Some(&self.proved.sequencer.client)
    }

    fn acquisition(&self) -> Option<AcquisitionId> {
        Some(self.proved.sequencer.acquisition)
    }

    fn check(&self) -> Result<(), NotHolding> {
        match Token::new(self.refused_by.load(Ordering::Acquire)) {
            None => Ok(()),
            Some(mark) => Err(NotHolding::Rejected { lock: self.lock().clone(), token: self.token(), mark }),
        }
    }

    fn rejected(&self, mark: Token) {
        self.refused_by.fetch_max(mark.get(), Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests;
