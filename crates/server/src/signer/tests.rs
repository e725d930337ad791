//! The key's file, and what becomes of sequencers.

use palisade_core::command::{
    Acquire, AcquirePart, ClusterVersion, Command, Envelope, Found, LockDelay, Member, OpenSession, Wait,
};
use palisade_core::ids::{
    ClientName, ClusterId, ClusterName, Incarnation, LockName, LogIndex, Millis, NodeName, Principal,
    RequestNumber, SecretHash, SessionId, WallTime,
};
use palisade_core::limits::Limits;
use palisade_core::mode::Mode;
use palisade_core::token::TokenBase;
use palisade_host::SystemEntropy;
use tempfile::TempDir;

use super::*;

const NODE: NodeId = NodeId(7);
const CLUSTER: ClusterId = ClusterId([1; 16]);

fn signer() -> (TempDir, Signer) {
    let directory = TempDir::new().expect("a directory");
    let signer = Signer::open(directory.path(), &SystemEntropy).expect("drawn");
    (directory, signer)
}

fn apply(table: &mut LockTable, command: Command) -> LogIndex {
    let index = LogIndex(table.header().applied.0 + 1);
    table.apply(index, &Envelope { wall: WallTime(1_700_000_000_000_000), node: NODE, command });
    index
}

fn founded() -> LockTable {
    let mut table = LockTable::new();
    let found = Found {
        cluster: CLUSTER,
        name: ClusterName::new("test").expect("a name"),
        incarnation: Incarnation([2; 16]),
        limits: Limits::default(),
        token_base: TokenBase::default(),
        version: ClusterVersion::CURRENT,
        members: vec![Member { node: NODE, name: NodeName::new("a").expect("a name") }],
    };
    apply(&mut table, Command::Found(found));
    table
}

/// A table in which somebody holds a lock, and its sequencer.
fn held() -> (LockTable, Sequencer) {
    let mut table = founded();
    let open = OpenSession {
        secret: SecretHash([3; 32]),
        owner: Principal::anonymous(),
        client: ClientName::new("billing-3").expect("a name"),
        ttl: Millis(10_000),
        replaces: None,
    };
    let session = SessionId(apply(&mut table, Command::OpenSession(open)).0);
    let part = AcquirePart {
        lock: LockName::new("orders/7").expect("a name"),
        mode: Mode::Exclusive,
        capacity: 1,
        permits: 1,
        delay: LockDelay::Default(Millis(15_000)),
        fenced_by: Vec::new(),
    };
    let acquire = Acquire {
        session,
        number: Some(RequestNumber(1)),
        mark: RequestNumber(0),
        parts: vec![part],
        wait: Wait::Try,
        owner: None,
    };
    apply(&mut table, Command::Acquire(acquire));
    let acquisition = AcquisitionId { session, number: RequestNumber(1) };
    let mut sequencers = sequencers(&table, acquisition);
    assert_eq!(sequencers.len(), 1);
    let sequencer = sequencers.remove(0);
    (table, sequencer)
}

fn publish(table: &mut LockTable, signer: &Signer) {
    apply(table, Command::PublishKey(signer.publish(NODE)));
}

#[test]
fn a_key_is_drawn_once_and_only_its_owner_may_read_it() {
    let (directory, first) = signer();
    let path = directory.path().join(KEY_FILE);
    let mode = fs::metadata(&path).expect("a file").permissions().mode() & 0o7777;
    assert_eq!(mode, 0o600);
    assert!(fs::read_to_string(&path).expect("text").starts_with("-----BEGIN PRIVATE KEY-----"));
    assert_eq!(fs::read_dir(directory.path()).expect("a directory").count(), 1);
    let again = Signer::open(directory.path(), &SystemEntropy).expect("read");
    assert_eq!((again.id(), again.public()), (first.id(), first.public()));
}

#[test]
fn a_first_start_that_was_cut_off_leaves_nothing_that_is_taken_for_a_key() {
    let directory = TempDir::new().expect("a directory");
    fs::write(directory.path().join("signing.key.new"), "-----BEGIN PRI").expect("written");
    assert!(Signer::open(directory.path(), &SystemEntropy).is_ok());
}

#[test]
fn a_key_that_everybody_may_read_is_refused() {
    let (directory, _) = signer();
    let path = directory.path().join(KEY_FILE);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("set");
    let refused = Signer::open(directory.path(), &SystemEntropy);
    assert!(matches!(refused, Err(SignerError::Exposed { mode: 0o644, .. })), "{refused:?}");
}

#[test]
fn a_damaged_key_is_refused_and_kept() {
    let (directory, _) = signer();
    let path = directory.path().join(KEY_FILE);
    fs::write(&path, "not a key").expect("written");
    let refused = Signer::open(directory.path(), &SystemEntropy);
    assert!(matches!(refused, Err(SignerError::Malformed { .. })), "{refused:?}");
    assert_eq!(fs::read_to_string(&path).expect("text"), "not a key");
}

#[test]
fn the_id_is_the_thumbprint_of_the_standard() {
    // RFC 8037, appendices A.1 and A.3.
    let secret = URL_SAFE_NO_PAD.decode("nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A").expect("base64");
    let key = SigningKey::from_bytes(&secret.try_into().expect("32 bytes"));
    let signer = Signer::from_key(key).expect("an id");
    assert_eq!(signer.id().as_str(), "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k");
}

#[test]
fn a_sequencer_says_what_is_held() {
    let (_, sequencer) = held();
    assert_eq!((sequencer.cluster, sequencer.token.get(), sequencer.grant_index), (CLUSTER, 3, 3));
    assert_eq!((sequencer.lock.as_str(), sequencer.client.as_str()), ("orders/7", "billing-3"));
    assert_eq!(sequencer.granted_at, WallTime(1_700_000_000_000_000));
}

#[test]
fn a_key_signs_once_the_state_says_so() {
    let (_directory, signer) = signer();
    let mut table = founded();
    assert!(!table.keys().contains_key(signer.id()) && !signer.may_sign(&table));
    publish(&mut table, &signer);
    assert!(table.keys().contains_key(signer.id()) && signer.may_sign(&table));
    // A later key of the same node settles first.
    let (_other_directory, second) = self::signer();
    publish(&mut table, &second);
    assert!(table.keys().contains_key(second.id()) && !second.may_sign(&table));
}

#[test]
fn what_was_signed_is_verified() {
    let (_directory, signer) = signer();
    let (mut table, sequencer) = held();
    publish(&mut table, &signer);
    let verifier = SequencerVerifier::new(16);
    let keys = KeySet::of(&table);
    let text = signer.sign(&sequencer);
    assert_eq!(verifier.recall(&text, &keys), None);
    let verified = verifier.verify(&text, &keys).expect("good");
    assert_eq!(verified, Verified { sequencer, key: signer.id().clone() });
    assert_eq!(verifier.recall(&text, &keys), Some(verified));
}

#[test]
fn an_unknown_key_is_not_a_forgery() {
    let (_directory, signer) = signer();
    let (table, sequencer) = held();
    let refused = SequencerVerifier::new(16).verify(&signer.sign(&sequencer), &KeySet::of(&table));
    assert_eq!(refused, Err(SequencerError::UnknownKey(signer.id().as_str().to_owned())));
}

#[test]
fn a_key_that_is_gone_takes_what_was_remembered_with_it() {
    let (_directory, signer) = signer();
    let (mut table, sequencer) = held();
    let without = KeySet::of(&table);
    publish(&mut table, &signer);
    let verifier = SequencerVerifier::new(16);
    let text = signer.sign(&sequencer);
    assert!(verifier.verify(&text, &KeySet::of(&table)).is_ok());
    assert!(matches!(verifier.verify(&text, &without), Err(SequencerError::UnknownKey(_))));
}

#[test]
fn what_was_altered_is_forged() {
    let (_directory, signer) = signer();
    let (mut table, sequencer) = held();
    publish(&mut table, &signer);
    let keys = KeySet::of(&table);
    let verifier = SequencerVerifier::new(16);
    let forged = |text: &str| matches!(verifier.verify(text, &keys), Err(SequencerError::Forged(_)));
    let text = signer.sign(&sequencer);
    let (input, signature) = text.rsplit_once('.').expect("three parts");
    let (header, _) = input.split_once('.').expect("two parts");

    // A higher token under the signature of a lower one.
    let higher =
        Sequencer { token: palisade_core::token::Token::new(1 << 40).expect("a token"), ..sequencer.clone() };
    let other = signer.sign(&higher);
    let other_claims = other.split('.').nth(1).expect("claims");
    assert!(forged(&format!("{header}.{other_claims}.{signature}")));
    assert!(forged(&text[..text.len() - 4]));
    assert!(forged(""));

    // Another algorithm and another purpose, each signed by the true key.
    for (alg, typ) in [("none", SEQUENCER_TYPE), (ALGORITHM, palisade_core::sequencer::FLOOR_TYPE)] {
        let kid = signer.id().as_str().to_owned();
        let header = SequencerHeader { alg: alg.to_owned(), typ: typ.to_owned(), kid };
        let input = sequencer_text::unsigned(&header, &SequencerClaims::from(&sequencer));
        let signature = signer.key.sign(input.as_bytes()).to_bytes();
        assert!(forged(&sequencer_text::attach(&input, &signature)), "{alg} {typ}");
    }

    // Another cluster.
    assert!(forged(&signer.sign(&Sequencer { cluster: ClusterId([9; 16]), ..sequencer })));
}

#[test]
fn another_key_under_the_same_id_is_forged() {
    let (_directory, signer) = signer();
    let (_other_directory, thief) = self::signer();
    let (mut table, sequencer) = held();
    publish(&mut table, &signer);
    let thief = Signer { key: thief.key, id: signer.id().clone() };
    let refused = SequencerVerifier::new(16).verify(&thief.sign(&sequencer), &KeySet::of(&table));
    assert!(matches!(refused, Err(SequencerError::Forged(_))), "{refused:?}");
}

#[test]
fn what_is_remembered_is_bounded_and_what_is_used_stays() {
    let (_directory, signer) = signer();
    let (mut table, sequencer) = held();
    publish(&mut table, &signer);
    let keys = KeySet::of(&table);
    let verifier = SequencerVerifier::new(4);
    let text = |number| {
        let acquisition = AcquisitionId { number: RequestNumber(number), ..sequencer.acquisition };
        signer.sign(&Sequencer { acquisition, ..sequencer.clone() })
    };
    for number in 1..=20 {
        assert!(verifier.verify(&text(number), &keys).is_ok());
        assert!(verifier.recall(&text(1), &keys).is_some(), "{number}");
    }
    let known = (1..=20).filter(|number| verifier.recall(&text(*number), &keys).is_some()).count();
    assert!((2..=4).contains(&known), "{known}");
}

#[test]
fn the_key_set_is_published_as_a_document() {
    let (_directory, signer) = signer();
    let mut table = founded();
    publish(&mut table, &signer);
    let document: serde_json::Value = serde_json::from_str(&jwks(&KeySet::of(&table))).expect("JSON");
    let key = &document["keys"][0];
    assert_eq!((key["kid"].as_str(), key["crv"].as_str()), (Some(signer.id().as_str()), Some("Ed25519")));
    assert_eq!(key["x"].as_str(), Some(URL_SAFE_NO_PAD.encode(signer.public()).as_str()));
}
