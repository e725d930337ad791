//! A cluster as a resource sees it: an id and a key that signs.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ed25519_dalek::{Signer, SigningKey};
use palisade_core::ids::{AcquisitionId, ClientName, ClusterId, Incarnation, LockName, RequestNumber};
use palisade_core::ids::{SessionId, Slot, WallTime};
use palisade_core::mode::Mode;
use palisade_core::sequencer::{ALGORITHM, FLOOR_TYPE, SEQUENCER_TYPE, Sequencer, SequencerHeader};
use palisade_core::sequencer_text::{attach, unsigned, unsigned_floor};
use palisade_core::signed_floor::FloorStatement;
use palisade_core::token::Token;

use crate::keys::{KeySet, key_id};
use crate::verifier::{Presented, Verifier};

/// Signs sequencers with a fixed key, for tests.
#[derive(Debug)]
pub struct SigningCluster {
    id: ClusterId,
    incarnation: Incarnation,
    key: SigningKey,
    verifier: Verifier,
}

impl SigningCluster {
    /// Id and key are drawn from `seed`.
    pub fn new(seed: u8) -> Self {
        let key = SigningKey::from_bytes(&[seed; 32]);
        let keys = KeySet::of([key.verifying_key().as_bytes()]).expect("a drawn key is usable");
        let id = ClusterId([seed; 16]);
        Self { id, incarnation: Incarnation([seed; 16]), key, verifier: Verifier::new(id, keys) }
    }

    /// The same after a restore: the id is kept, the incarnation is new.
    #[must_use]
    pub fn restored(mut self) -> Self {
        self.incarnation = Incarnation(self.incarnation.0.map(|byte| byte.wrapping_add(1)));
        self
    }

    /// The same cluster, where another node signs: with the key that is drawn from `seed`, and known to its verifier alone.
    #[must_use]
    pub fn with_key_of(self, seed: u8) -> Self {
        let Self { key, verifier, .. } = Self::new(seed);
        let keys = KeySet::clone(&verifier.keys());
        Self { verifier: Verifier::new(self.id, keys), key, ..self }
    }

    /// Its id.
    pub fn id(&self) -> ClusterId {
        self.id
    }

    /// Verifies its sequencers.
    pub fn verifier(&self) -> &Verifier {
        &self.verifier
    }

    /// A statement of this cluster.
    pub fn statement(&self, lock: &str, slot: u32, mode: Mode, token: u64) -> Sequencer {
        Sequencer {
            cluster: self.id,
            incarnation: self.incarnation,
            lock: LockName::new(lock).expect("a scenario's lock has a valid name"),
            slot: Slot(slot),
            mode,
            token: Token::new(token).expect("a scenario's token is valid"),
            grant_index: token,
            acquisition: AcquisitionId { session: SessionId(7), number: RequestNumber(1) },
            client: ClientName::unnamed(),
            granted_at: WallTime(0),
        }
    }

    /// The header of its sequencers.
    pub fn header(&self) -> SequencerHeader {
        SequencerHeader {
            alg: ALGORITHM.to_owned(),
            typ: SEQUENCER_TYPE.to_owned(),
            kid: key_id(self.key.verifying_key().as_bytes()),
        }
    }

    /// The text of a sequencer.
    pub fn sign(&self, header: &SequencerHeader, statement: &Sequencer) -> String {
        self.sign_text(&unsigned(header, &statement.into()))
    }

    /// The text of a sequencer whose claims, as JSON, are changed before they are signed.
    pub fn sign_altered(&self, statement: &Sequencer, alter: impl FnOnce(String) -> String) -> String {
        let input = unsigned(&self.header(), &statement.into());
        let (header, claims) = input.split_once('.').expect("a signing input has two parts");
        let claims = URL_SAFE_NO_PAD.decode(claims).expect("a signing input is base64url");
        let claims = alter(String::from_utf8(claims).expect("JSON is text"));
        self.sign_text(&format!("{header}.{}", URL_SAFE_NO_PAD.encode(claims)))
    }

    /// A floor of this cluster.
    pub fn floor_statement(&self, lock: &str, slot: u32, floor: u64) -> FloorStatement {
        FloorStatement {
            cluster: self.id,
            incarnation: self.incarnation,
            lock: LockName::new(lock).expect("a scenario's lock has a valid name"),
            slot: Slot(slot),
            floor: Token::new(floor).expect("a scenario's floor is a token"),
        }
    }

    /// The text of a floor.
    pub fn sign_floor(&self, statement: &FloorStatement) -> String {
        let header = SequencerHeader { typ: FLOOR_TYPE.to_owned(), ..self.header() };
        self.sign_text(&unsigned_floor(&header, &statement.into()))
    }

    /// The text of a floor of this cluster.
    pub fn floor(&self, lock: &str, slot: u32, floor: u64) -> String {
        self.sign_floor(&self.floor_statement(lock, slot, floor))
    }

    /// Signs any text and attaches the signature.
    pub fn sign_text(&self, input: &str) -> String {
        attach(input, &self.key.sign(input.as_bytes()).to_bytes())
    }

    /// What the holder of this statement presents, signed and verified.
    pub fn present(&self, statement: &Sequencer) -> Presented {
        let text = self.sign(&self.header(), statement);
        self.verifier.verify(&text).expect("a cluster verifies its own sequencers")
    }

    /// What an exclusive holder of slot 0 presents.
    pub fn exclusive(&self, lock: &str, token: u64) -> Presented {
        self.presented(lock, 0, Mode::Exclusive, token)
    }

    /// What any holder presents, signed and verified.
    pub fn presented(&self, lock: &str, slot: u32, mode: Mode, token: u64) -> Presented {
        self.present(&self.statement(lock, slot, mode, token))
    }
}
