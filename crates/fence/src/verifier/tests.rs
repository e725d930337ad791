use palisade_core::sequencer::FLOOR_TYPE;

use super::*;
use crate::conformance::SigningCluster;
use crate::keys::key_id;

const LOCK: &str = "orders/shard-7";

/// Signed with the Ed25519 key whose 32 secret bytes are all 1, and checked with another implementation.
const KNOWN: &str = include_str!("known_sequencer.txt");

fn text(cluster: &SigningCluster) -> String {
    cluster.sign(&cluster.header(), &cluster.statement(LOCK, 0, Mode::Exclusive, 34))
}

#[test]
fn the_known_sequencer_is_read_as_what_it_is() {
    let cluster = SigningCluster::new(1);
    assert_eq!(KNOWN.trim_end(), text(&cluster), "the format changed: resources in the field read this one");
    let presented = cluster.verifier().verify(KNOWN.trim_end()).unwrap();
    assert_eq!(presented.statement(), &cluster.statement(LOCK, 0, Mode::Exclusive, 34));
    assert_eq!(presented.issuer(), Some("palisade:01010101010101010101010101010101"));
    assert_eq!(presented.lock().as_str(), LOCK);
    assert_eq!(presented.token().get(), 34);
    assert_eq!(presented.sequencer(), Some(KNOWN.trim_end()));
    assert!(presented.check().is_ok());
}

#[test]
fn a_sequencer_altered_in_any_byte_is_refused() {
    let cluster = SigningCluster::new(1);
    let text = text(&cluster);
    // Also once the true one is remembered.
    cluster.verifier().verify(&text).unwrap();
    for at in 0..text.len() {
        for flip in (0..7).map(|bit| 1_u8 << bit) {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= flip;
            let altered = String::from_utf8(bytes).unwrap();
            assert!(cluster.verifier().verify(&altered).is_err(), "byte {at}: {altered}");
        }
        let mut shorter = text.clone();
        shorter.remove(at);
        assert!(cluster.verifier().verify(&shorter).is_err(), "without byte {at}");
    }
}

#[test]
fn an_unknown_key_is_told_apart_from_a_forgery() {
    let (ours, theirs) = (SigningCluster::new(1), SigningCluster::new(2));
    let statement = ours.statement(LOCK, 0, Mode::Exclusive, 34);
    let unknown = theirs.sign(&theirs.header(), &statement);
    match ours.verifier().verify(&unknown) {
        Err(FenceError::UnknownKey { kid }) => assert_eq!(kid, theirs.header().kid),
        other => panic!("{other:?}"),
    }
    let forged = theirs.sign(&ours.header(), &statement);
    assert!(matches!(ours.verifier().verify(&forged), Err(FenceError::Forged)));
}

#[test]
fn another_purpose_or_algorithm_is_no_sequencer() {
    let cluster = SigningCluster::new(1);
    let statement = cluster.statement(LOCK, 0, Mode::Exclusive, 34);
    let headers =
        [(FLOOR_TYPE, "EdDSA"), ("JWT", "EdDSA"), (SEQUENCER_TYPE, "none"), (SEQUENCER_TYPE, "HS256")];
    for (typ, alg) in headers {
        let mut header = cluster.header();
        (header.typ, header.alg) = (typ.to_owned(), alg.to_owned());
        let outcome = cluster.verifier().verify(&cluster.sign(&header, &statement));
        assert!(matches!(outcome, Err(FenceError::WrongPurpose { .. })), "{typ} {alg}: {outcome:?}");
    }
    let unsigned = text(&cluster).rsplit_once('.').map(|(input, _)| format!("{input}.")).unwrap();
    assert!(matches!(cluster.verifier().verify(&unsigned), Err(FenceError::Malformed(_))));
}

#[test]
fn a_floor_is_no_sequencer_and_a_sequencer_is_no_floor() {
    let cluster = SigningCluster::new(1);
    let floor = cluster.floor(LOCK, 0, 35);
    let verified = cluster.verifier().floor(&floor).unwrap();
    assert_eq!((verified.statement().lock.as_str(), verified.statement().floor.get()), (LOCK, 35));
    assert!(matches!(cluster.verifier().verify(&floor), Err(FenceError::WrongPurpose { .. })));
    assert!(matches!(cluster.verifier().floor(&text(&cluster)), Err(FenceError::WrongPurpose { .. })));
    let theirs = SigningCluster::new(2).floor(LOCK, 0, 35);
    assert!(matches!(cluster.verifier().floor(&theirs), Err(FenceError::UnknownKey { .. })));
    // One cluster's key, another's name.
    let mut other = cluster.floor_statement(LOCK, 0, 35);
    other.cluster = ClusterId([9; 16]);
    let refused = cluster.verifier().floor(&cluster.sign_floor(&other));
    assert!(matches!(refused, Err(FenceError::WrongCluster { .. })));
}

#[test]
fn other_claims_are_refused_though_signed() {
    let cluster = SigningCluster::new(1);
    let statement = cluster.statement(LOCK, 0, Mode::Exclusive, 34);
    let alterations = [
        (r#"{"iss""#, r#"{"exp":4102444800,"iss""#),
        (r#"{"iss""#, r#"{"token":35,"iss""#),
        (r#""mode":"x""#, r#""mode":"exclusive""#),
        (r#""sub":"orders/shard-7""#, r#""sub":"""#),
        (r#""slot":0"#, r#""slot":"0""#),
        (r#""inc":"01"#, r#""inc":"zz"#),
    ];
    for (from, to) in alterations {
        let text = cluster.sign_altered(&statement, |claims| {
            assert!(claims.contains(from), "{from} in {claims}");
            claims.replacen(from, to, 1)
        });
        let outcome = cluster.verifier().verify(&text);
        assert!(matches!(outcome, Err(FenceError::Malformed(_))), "{to}: {outcome:?}");
    }
}

#[test]
fn another_clusters_sequencer_is_refused_even_under_a_known_key() {
    let cluster = SigningCluster::new(1);
    let mut statement = cluster.statement(LOCK, 0, Mode::Exclusive, 34);
    statement.cluster = ClusterId([9; 16]);
    match cluster.verifier().verify(&cluster.sign(&cluster.header(), &statement)) {
        Err(FenceError::WrongCluster { presented, .. }) => assert_eq!(presented, issuer(ClusterId([9; 16]))),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_dropped_key_verifies_nothing_that_it_did_before() {
    let cluster = SigningCluster::new(1);
    let text = text(&cluster);
    cluster.verifier().verify(&text).unwrap();
    let other = SigningCluster::new(2);
    let key = ed25519_dalek::SigningKey::from_bytes(&[2; 32]).verifying_key();
    assert_eq!(other.header().kid, key_id(key.as_bytes()));
    cluster.verifier().replace_keys(KeySet::of([key.as_bytes()]).unwrap());
    assert!(matches!(cluster.verifier().verify(&text), Err(FenceError::UnknownKey { .. })));
    // The same id for other bytes is another key, also for what is remembered.
    let jwks =
        KeySet::of([key.as_bytes()]).unwrap().to_jwks().replace(&other.header().kid, &cluster.header().kid);
    cluster.verifier().replace_keys(KeySet::from_jwks(&jwks).unwrap());
    assert!(matches!(cluster.verifier().verify(&text), Err(FenceError::Forged)));
}

#[test]
fn what_is_remembered_is_bounded_and_what_is_used_stays() {
    let cluster = SigningCluster::new(1);
    let key = ed25519_dalek::SigningKey::from_bytes(&[1; 32]).verifying_key();
    let keys = KeySet::of([key.as_bytes()]).unwrap();
    let presented = cluster.exclusive(LOCK, 34);
    let mut remembered = Remembered::default();
    let digest = |number: u32| -> [u8; 32] { Sha256::digest(number.to_be_bytes()).into() };
    for number in 0..u32::try_from(3 * REMEMBERED_MAX).unwrap() {
        remembered.insert(digest(number), Arc::clone(&presented.proved));
        assert!(remembered.find(&digest(0), &keys).is_some(), "forgotten after {number}");
        assert!(remembered.new.len() + remembered.old.len() <= REMEMBERED_MAX);
    }
    assert!(remembered.find(&digest(1), &keys).is_none());
}

#[test]
fn a_refusal_is_shared_by_clones_and_not_by_a_later_presentation() {
    let cluster = SigningCluster::new(1);
    let presented = cluster.exclusive(LOCK, 34);
    let clone = presented.clone();
    presented.rejected(Token::new(41).unwrap());
    assert!(matches!(clone.check(), Err(NotHolding::Rejected { mark, .. }) if mark.get() == 41));
    // The mark decides about that one: an operator may have reset it.
    assert!(cluster.exclusive(LOCK, 34).check().is_ok());
}

#[test]
fn a_handler_can_ask_for_its_lock() {
    let presented = SigningCluster::new(1).exclusive(LOCK, 34);
    assert!(presented.expect_lock(&LockName::new(LOCK).unwrap()).is_ok());
    let other = LockName::new("orders/shard-8").unwrap();
    assert!(matches!(presented.expect_lock(&other), Err(FenceError::WrongLock { .. })));
}
