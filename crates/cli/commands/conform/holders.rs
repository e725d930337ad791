//! True holders, one after the other, and what others than the cluster make of their sequencers.

use std::time::Duration;

use anyhow::Context;
use ed25519_dalek::{Signer, SigningKey};
use palisade_client::{AcquireBuilder, AcquireError, Client, LockGuard, Session};
use palisade_core::ids::{ClusterId, LockName};
use palisade_core::sequencer::{SequencerClaims, SequencerHeader, issuer};
use palisade_core::sequencer_text::{attach, parse, unsigned};
use palisade_fence::keys::key_id;
use palisade_host::SharedEntropy;

use super::super::Failure;
use crate::exit::Exit;

/// One grant, as its holder shows it. It stays what it is when the lock has long gone to another.
#[derive(Clone, Debug)]
pub(super) struct Holder {
    pub(super) token: u64,
    pub(super) sequencer: String,
}

/// The session that acquires the lock again and again.
pub(super) struct Holders {
    session: Session,
    lock: LockName,
    held: Option<LockGuard>,
    patience: Duration,
}

impl Holders {
    pub(super) async fn new(client: &Client, lock: LockName, patience: Duration) -> Result<Self, Failure> {
        Ok(Self { session: client.open_session().await?, lock, held: None, patience })
    }

    /// A number that no other run has.
    pub(super) fn run(&self) -> u64 {
        self.session.id().0
    }

    /// The next holder of the lock. Whoever was before it has released.
    pub(super) async fn next(&mut self) -> Result<Holder, Failure> {
        self.succeeded_by(self.session.lock(self.lock.clone())).await
    }

    /// The next holder, in shared mode.
    pub(super) async fn next_shared(&mut self) -> Result<Holder, Failure> {
        self.succeeded_by(self.session.lock(self.lock.clone()).shared()).await
    }

    async fn succeeded_by(&mut self, asked: AcquireBuilder) -> Result<Holder, Failure> {
        if let Some(held) = self.held.take() {
            held.release().await.map_err(|error| Failure::new(Exit::UNAVAILABLE, error))?;
        }
        let (guard, holder) = acquire(asked, self.patience).await?;
        self.held = Some(guard);
        Ok(holder)
    }

    /// A holder of another lock.
    pub(super) async fn of_another(&self, lock: LockName) -> Result<Holder, Failure> {
        let (guard, holder) = acquire(self.session.lock(lock), self.patience).await?;
        guard.release().await.map_err(|error| Failure::new(Exit::UNAVAILABLE, error))?;
        Ok(holder)
    }
}

async fn acquire(asked: AcquireBuilder, patience: Duration) -> Result<(LockGuard, Holder), Failure> {
    let asked = asked.wait_for(patience).lock_delay(Duration::ZERO).with_sequencer();
    let guard = asked.acquire().await.map_err(not_acquired)?;
    let holder = Holder { token: guard.token().get(), sequencer: guard.sequencer().await? };
    Ok((guard, holder))
}

fn not_acquired(error: AcquireError) -> Failure {
    let exit =
        if matches!(error, AcquireError::BadArgument { .. }) { Exit::USAGE } else { Exit::UNAVAILABLE };
    Failure::new(
        exit,
        anyhow::Error::from(error).context("the lock that guards the service was not acquired"),
    )
}

/// Somebody with a key that is not the cluster's.
pub(super) struct Forger {
    key: SigningKey,
    cluster: ClusterId,
}

impl Forger {
    pub(super) fn new(entropy: &SharedEntropy) -> Self {
        let (mut seed, mut cluster) = ([0; 32], [0; 16]);
        entropy.fill(&mut seed);
        entropy.fill(&mut cluster);
        Self { key: SigningKey::from_bytes(&seed), cluster: ClusterId(cluster) }
    }

    /// A claim changed and the signature kept. The token is larger by one only: a service that takes it is shut until
    /// the next grants, not for ever.
    pub(super) fn altered(&self, text: &str) -> Result<String, Failure> {
        let compact = parse(text).context("the cluster's own sequencer")?;
        let (header, claims) = raised(text)?;
        Ok(attach(&unsigned(&header, &claims), &compact.signature))
    }

    /// One byte of the signature changed.
    pub(super) fn damaged(&self, text: &str) -> Result<String, Failure> {
        let compact = parse(text).context("the cluster's own sequencer")?;
        let mut signature = compact.signature;
        signature[0] ^= 1;
        Ok(attach(compact.signing_input, &signature))
    }

    /// Signed with the forger's key, under the name of the cluster's.
    pub(super) fn under_the_cluster_s_key(&self, text: &str) -> Result<String, Failure> {
        let (header, claims) = raised(text)?;
        Ok(self.sign(&header, &claims))
    }

    /// Signed with the forger's key, which no resource knows, under its own name.
    pub(super) fn under_its_own_key(&self, text: &str) -> Result<String, Failure> {
        let (header, claims) = raised(text)?;
        Ok(self.sign(&self.own(header), &claims))
    }

    /// What another cluster signed for its own lock of the same name.
    pub(super) fn of_another_cluster(&self, text: &str) -> Result<String, Failure> {
        let (header, mut claims) = raised(text)?;
        claims.iss = issuer(self.cluster);
        Ok(self.sign(&self.own(header), &claims))
    }

    fn own(&self, header: SequencerHeader) -> SequencerHeader {
        SequencerHeader { kid: key_id(self.key.verifying_key().as_bytes()), ..header }
    }

    fn sign(&self, header: &SequencerHeader, claims: &SequencerClaims) -> String {
        let input = unsigned(header, claims);
        attach(&input, &self.key.sign(input.as_bytes()).to_bytes())
    }
}

/// What a sequencer says, with the next token.
fn raised(text: &str) -> Result<(SequencerHeader, SequencerClaims), Failure> {
    let compact = parse(text).context("the cluster's own sequencer")?;
    let mut claims = compact.sequencer_claims().context("the cluster's own sequencer")?;
    claims.token += 1;
    Ok((compact.header, claims))
}
