//! The text of a sequencer, or of a signed floor: a JWS in its compact form (RFC 7515), without any cryptography.
//!
//! The signer writes it and the resource reads it, so both use this file. Reading is strict: one text stands for one
//! statement, and what is not exactly a sequencer's is refused. Neither signing nor verifying happens here, nor is a
//! claim believed: whoever reads decides by the signature first.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::ids::KeyId;
use crate::sequencer::{ALGORITHM, SequencerClaims, SequencerHeader};
use crate::signed_floor::FloorClaims;

/// Bytes of a whole text. The largest that the limits on names allow is about half of it.
pub const TEXT_BYTES_MAX: usize = 4_096;

/// Why a text is not a sequencer's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// Longer than [`TEXT_BYTES_MAX`].
    #[error("it has {0} bytes; at most {TEXT_BYTES_MAX} are allowed")]
    TooLong(usize),
    /// Not `header.claims.signature`.
    #[error("it does not have exactly three parts")]
    Parts,
    /// Padding, a foreign character, or bits that no byte needs.
    #[error("its {0} is not canonical base64url")]
    Base64(&'static str),
    /// Missing, unknown or repeated fields, or values of another type.
    #[error("its {what} is not what is expected here: {why}")]
    Json {
        /// Which part.
        what: &'static str,
        /// What the parser says.
        why: String,
    },
    /// Not 64 bytes.
    #[error("its signature has {0} bytes, not 64")]
    Signature(usize),
}

/// A text taken apart. Nothing in it is proved yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compact<'a> {
    /// Which key, algorithm and purpose it names.
    pub header: SequencerHeader,
    /// The claims as JSON, not yet read: a statement for another purpose has others.
    pub claims: Vec<u8>,
    /// What the signature covers.
    pub signing_input: &'a str,
    /// Ed25519.
    pub signature: [u8; 64],
}

impl Compact<'_> {
    /// Reads the claims: each of a sequencer's once, and no other.
    pub fn sequencer_claims(&self) -> Result<SequencerClaims, TextError> {
        read("claims", &self.claims)
    }

    /// Reads the claims: each of a floor's once, and no other.
    pub fn floor_claims(&self) -> Result<FloorClaims, TextError> {
        read("claims", &self.claims)
    }
}

/// What is to be signed.
pub fn unsigned(header: &SequencerHeader, claims: &SequencerClaims) -> String {
    format!("{}.{}", part(header), part(claims))
}

/// What is to be signed of a floor.
pub fn unsigned_floor(header: &SequencerHeader, claims: &FloorClaims) -> String {
    format!("{}.{}", part(header), part(claims))
}

/// The whole text, from what was signed and its signature.
pub fn attach(signing_input: &str, signature: &[u8; 64]) -> String {
    format!("{signing_input}.{}", URL_SAFE_NO_PAD.encode(signature))
}

/// Takes a text apart.
pub fn parse(text: &str) -> Result<Compact<'_>, TextError> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(TextError::TooLong(text.len()));
    }
    let (signing_input, signature) = text.rsplit_once('.').ok_or(TextError::Parts)?;
    let (header, claims) = signing_input.split_once('.').ok_or(TextError::Parts)?;
    if claims.contains('.') {
        return Err(TextError::Parts);
    }
    let signature = decode("signature", signature)?;
    let bytes = signature.len();
    Ok(Compact {
        header: read("header", &decode("header", header)?)?,
        claims: decode("claims", claims)?,
        signing_input,
        signature: signature.try_into().map_err(|_| TextError::Signature(bytes))?,
    })
}

/// The JSON whose SHA-256, as base64url, is the id of an Ed25519 key (RFC 7638 and RFC 8037, appendix A.3).
pub fn thumbprint_input(public: &[u8; 32]) -> String {
    format!(r#"{{"crv":"Ed25519","kty":"OKP","x":"{}"}}"#, URL_SAFE_NO_PAD.encode(public))
}

/// The public keys as a JWKS document (RFC 7517).
pub fn jwks<'a>(keys: impl IntoIterator<Item = (&'a KeyId, &'a [u8; 32])>) -> String {
    #[derive(Serialize)]
    struct Key<'a> {
        kty: &'static str,
        crv: &'static str,
        alg: &'static str,
        r#use: &'static str,
        kid: &'a str,
        x: String,
    }
    #[derive(Serialize)]
    struct Document<'a> {
        keys: Vec<Key<'a>>,
    }
    let keys = keys.into_iter().map(|(id, public)| Key {
        kty: "OKP",
        crv: "Ed25519",
        alg: ALGORITHM,
        r#use: "sig",
        kid: id.as_str(),
        x: URL_SAFE_NO_PAD.encode(public),
    });
    json(&Document { keys: keys.collect() })
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("text and numbers always have a JSON form")
}

fn part(value: &impl Serialize) -> String {
    URL_SAFE_NO_PAD.encode(json(value))
}

fn decode(what: &'static str, text: &str) -> Result<Vec<u8>, TextError> {
    URL_SAFE_NO_PAD.decode(text).map_err(|_| TextError::Base64(what))
}

fn read<T: DeserializeOwned>(what: &'static str, bytes: &[u8]) -> Result<T, TextError> {
    serde_json::from_slice(bytes).map_err(|error| TextError::Json { what, why: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{AcquisitionId, ClientName, ClusterId, Incarnation, LockName, RequestNumber};
    use crate::ids::{SessionId, Slot, WallTime};
    use crate::limits::{CLIENT_NAME_BYTES_MAX, LABEL_BYTES_MAX, NAME_BYTES_MAX, TOKEN_MAX};
    use crate::mode::Mode;
    use crate::sequencer::{SEQUENCER_TYPE, Sequencer};
    use crate::signed_floor::FloorStatement;
    use crate::token::Token;

    fn header(key: &str) -> SequencerHeader {
        SequencerHeader { alg: ALGORITHM.into(), typ: SEQUENCER_TYPE.into(), kid: key.into() }
    }

    fn sequencer(lock: &str, client: &str) -> Sequencer {
        Sequencer {
            cluster: ClusterId([1; 16]),
            incarnation: Incarnation([2; 16]),
            lock: LockName::new(lock).unwrap(),
            slot: Slot(u32::MAX),
            mode: Mode::Exclusive,
            token: Token::new(TOKEN_MAX).unwrap(),
            grant_index: u64::MAX,
            acquisition: AcquisitionId { session: SessionId(u64::MAX), number: RequestNumber(u64::MAX) },
            client: ClientName::new(client).unwrap(),
            granted_at: WallTime(u64::MAX),
        }
    }

    fn with_claims(json: &str) -> String {
        attach(&format!("{}.{}", part(&header("k")), URL_SAFE_NO_PAD.encode(json)), &[9; 64])
    }

    #[test]
    fn what_was_written_is_read_back() {
        let sequencer = sequencer("orders/shard-7", "worker-3");
        let input = unsigned(&header("k"), &(&sequencer).into());
        let text = attach(&input, &[9; 64]);
        let compact = parse(&text).unwrap();
        assert_eq!(compact.header, header("k"));
        assert_eq!(compact.signing_input, input);
        assert_eq!(compact.signature, [9; 64]);
        assert_eq!(Sequencer::try_from(compact.sequencer_claims().unwrap()), Ok(sequencer));
    }

    #[test]
    fn the_largest_sequencer_fits() {
        // A quotation mark takes two bytes in JSON, more than any other character that a name may hold.
        let sequencer = sequencer(&"\"".repeat(NAME_BYTES_MAX), &"\"".repeat(CLIENT_NAME_BYTES_MAX));
        let text = attach(&unsigned(&header(&"\"".repeat(LABEL_BYTES_MAX)), &(&sequencer).into()), &[9; 64]);
        assert!(text.len() <= TEXT_BYTES_MAX, "{} bytes", text.len());
        assert!(parse(&text).is_ok());
    }

    #[test]
    fn only_three_canonical_parts_are_a_sequencer() {
        let text = attach(&unsigned(&header("k"), &(&sequencer("a", "")).into()), &[9; 64]);
        assert_eq!(parse(""), Err(TextError::Parts));
        assert_eq!(parse(&format!("{text}.")), Err(TextError::Parts));
        assert_eq!(parse(&format!("{text}=")), Err(TextError::Base64("signature")));
        assert_eq!(parse(&format!(" {text}")), Err(TextError::Base64("header")));
        assert_eq!(parse(&"x".repeat(TEXT_BYTES_MAX + 1)), Err(TextError::TooLong(TEXT_BYTES_MAX + 1)));
        // 64 bytes leave four bits over in the last character: another character there would decode to the same bytes.
        let altered = format!("{}R", &text[..text.len() - 1]);
        assert_eq!(parse(&altered), Err(TextError::Base64("signature")));
        let short = text.rsplit_once('.').unwrap().0;
        assert_eq!(parse(&format!("{short}.AAAA")), Err(TextError::Signature(3)));
    }

    #[test]
    fn each_claim_stands_once_and_no_other_does() {
        let claims = json(&SequencerClaims::from(&sequencer("a", "")));
        assert!(parse(&with_claims(&claims)).unwrap().sequencer_claims().is_ok());
        let altered = [
            claims.replacen('{', r#"{"exp":1,"#, 1),
            claims.replacen('{', r#"{"token":7,"#, 1),
            claims.replacen(r#""slot":4294967295,"#, "", 1),
            claims.replacen(r#""slot":4294967295,"#, r#""slot":4294967296,"#, 1),
            claims.replacen(r#""grant":18446744073709551615"#, r#""grant":-1"#, 1),
        ];
        for claims in altered {
            assert!(parse(&with_claims(&claims)).unwrap().sequencer_claims().is_err(), "{claims}");
        }
    }

    #[test]
    fn a_floor_is_read_back_and_is_no_sequencer() {
        let floor = FloorStatement {
            cluster: ClusterId([1; 16]),
            incarnation: Incarnation([2; 16]),
            lock: LockName::new("orders/shard-7").unwrap(),
            slot: Slot(3),
            floor: Token::new(TOKEN_MAX).unwrap(),
        };
        let text = attach(&unsigned_floor(&header("k"), &FloorClaims::from(&floor)), &[9; 64]);
        let compact = parse(&text).unwrap();
        assert!(compact.sequencer_claims().is_err());
        assert_eq!(FloorStatement::try_from(compact.floor_claims().unwrap()), Ok(floor));
        let sequencer = attach(&unsigned(&header("k"), &(&sequencer("a", "")).into()), &[9; 64]);
        assert!(parse(&sequencer).unwrap().floor_claims().is_err());
    }

    #[test]
    fn the_thumbprint_input_is_the_one_of_the_standard() {
        // RFC 8037, appendix A.3.
        let x = URL_SAFE_NO_PAD.decode("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo").unwrap();
        assert_eq!(
            thumbprint_input(&x.try_into().unwrap()),
            r#"{"crv":"Ed25519","kty":"OKP","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#
        );
    }
}
