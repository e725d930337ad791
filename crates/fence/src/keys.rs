//! The cluster's public keys, as read from its JWKS document.
//!
//! Leaves out where the document comes from: a file, a node's HTTP port, a client's call. Whoever meets
//! [`FenceError::UnknownKey`](crate::error::FenceError::UnknownKey) fetches it again, rate-limited: [`KeyRefresh`].

mod refresh;

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ed25519_dalek::VerifyingKey;
use palisade_core::ids::KeyId;
use palisade_core::sequencer_text;
use serde::Deserialize;
use sha2::{Digest, Sha256};

pub use self::refresh::{AGE_MAX, KeyRefresh, PAUSE, Pace};

/// Bytes of a JWKS document.
pub const DOCUMENT_BYTES_MAX: usize = 64 * 1_024;
/// Keys of a document, those of foreign types included.
pub const KEYS_MAX: usize = 256;

/// Public keys by their id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeySet(BTreeMap<KeyId, VerifyingKey>);

/// Why a JWKS document, or a key, was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Longer than [`DOCUMENT_BYTES_MAX`].
    #[error("the key document has {0} bytes; at most {DOCUMENT_BYTES_MAX} are allowed")]
    TooLong(usize),
    /// More than [`KEYS_MAX`].
    #[error("the key document has {0} keys; at most {KEYS_MAX} are allowed")]
    TooMany(usize),
    /// Not `{"keys": […]}`.
    #[error("this is not a JWKS document: {0}")]
    Document(String),
    /// An Ed25519 key whose bytes are not one, or a weak one.
    #[error("key {0:?} is not a usable Ed25519 public key")]
    Key(String),
    /// One id for two keys.
    #[error("key {0:?} stands twice, with different bytes")]
    Repeated(String),
}

#[derive(Deserialize)]
struct Document {
    keys: Vec<Jwk>,
}

// Other fields, such as `alg`, are not looked at: which algorithm is verified is not the document's choice.
#[derive(Deserialize)]
struct Jwk {
    kty: Option<String>,
    crv: Option<String>,
    r#use: Option<String>,
    kid: Option<String>,
    x: Option<String>,
}

/// The id of a public key: its RFC 7638 thumbprint.
pub fn key_id(public: &[u8; 32]) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(sequencer_text::thumbprint_input(public)))
}

impl KeySet {
    /// Reads a JWKS document. Keys of other types, for other uses or without an id are ignored.
    pub fn from_jwks(document: &str) -> Result<Self, KeyError> {
        if document.len() > DOCUMENT_BYTES_MAX {
            return Err(KeyError::TooLong(document.len()));
        }
        let document: Document =
            serde_json::from_str(document).map_err(|error| KeyError::Document(error.to_string()))?;
        if document.keys.len() > KEYS_MAX {
            return Err(KeyError::TooMany(document.keys.len()));
        }
        let mut keys = Self::default();
        for key in document.keys {
            let ours = key.kty.as_deref() == Some("OKP") && key.crv.as_deref() == Some("Ed25519");
            let signs = key.r#use.as_deref().is_none_or(|purpose| purpose == "sig");
            let Some(kid) = key.kid.filter(|_| ours && signs) else { continue };
            let public = key.x.and_then(|x| URL_SAFE_NO_PAD.decode(x).ok()?.try_into().ok());
            keys.insert(&kid, &public.ok_or_else(|| KeyError::Key(kid.clone()))?)?;
        }
        Ok(keys)
    }

    /// Keys under their own ids.
    pub fn of<'a>(public: impl IntoIterator<Item = &'a [u8; 32]>) -> Result<Self, KeyError> {
        let mut keys = Self::default();
        public.into_iter().try_for_each(|public| keys.insert(&key_id(public), public))?;
        Ok(keys)
    }

    fn insert(&mut self, kid: &str, public: &[u8; 32]) -> Result<(), KeyError> {
        let unusable = || KeyError::Key(kid.to_owned());
        let id = KeyId::new(kid).map_err(|_| unusable())?;
        let key = VerifyingKey::from_bytes(public).map_err(|_| unusable())?;
        if key.is_weak() {
            return Err(unusable());
        }
        match self.0.insert(id, key) {
            Some(other) if other != key => Err(KeyError::Repeated(kid.to_owned())),
            Some(_) | None => Ok(()),
        }
    }

    /// As a JWKS document.
    pub fn to_jwks(&self) -> String {
        sequencer_text::jwks(self.0.iter().map(|(id, key)| (id, key.as_bytes())))
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none, so that nothing can be verified.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The key of this id.
    pub(crate) fn get(&self, kid: &str) -> Option<&VerifyingKey> {
        self.0.get(&KeyId::new(kid).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // RFC 8037, appendix A.2 and A.3.
    const X: &str = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";
    const THUMBPRINT: &str = "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k";

    fn public() -> [u8; 32] {
        URL_SAFE_NO_PAD.decode(X).unwrap().try_into().unwrap()
    }

    #[test]
    fn a_key_is_named_by_its_thumbprint() {
        assert_eq!(key_id(&public()), THUMBPRINT);
    }

    #[test]
    fn a_key_set_survives_its_document() {
        let keys = KeySet::of([&public()]).unwrap();
        assert!(keys.get(THUMBPRINT).is_some());
        assert!(keys.get("other").is_none());
        assert_eq!(KeySet::from_jwks(&keys.to_jwks()), Ok(keys));
    }

    #[test]
    fn keys_of_other_types_and_uses_are_ignored() {
        let document = format!(
            r#"{{"keys":[{{"kty":"RSA","kid":"a","n":"AQAB"}},{{"kty":"OKP","crv":"X25519","kid":"b","x":"{X}"}},
            {{"kty":"OKP","crv":"Ed25519","use":"enc","kid":"c","x":"{X}"}},{{"kty":"OKP","crv":"Ed25519","x":"{X}"}},
            {{"kty":"OKP","crv":"Ed25519","kid":"mine","x":"{X}","note":1}}],"more":true}}"#
        );
        let keys = KeySet::from_jwks(&document).unwrap();
        assert_eq!(keys.len(), 1);
        assert!(keys.get("mine").is_some());
    }

    #[test]
    fn what_is_no_usable_key_is_refused() {
        let document =
            |x: &str| format!(r#"{{"keys":[{{"kty":"OKP","crv":"Ed25519","kid":"k","x":"{x}"}}]}}"#);
        let identity = URL_SAFE_NO_PAD.encode({
            let mut point = [0; 32];
            point[0] = 1;
            point
        });
        for bad in ["", "AAAA", &format!("{X}="), &identity] {
            assert_eq!(KeySet::from_jwks(&document(bad)), Err(KeyError::Key("k".into())), "{bad}");
        }
        assert!(matches!(KeySet::from_jwks("[]"), Err(KeyError::Document(_))));
        assert!(matches!(KeySet::from_jwks(&" ".repeat(DOCUMENT_BYTES_MAX + 1)), Err(KeyError::TooLong(_))));
        let many = format!(r#"{{"keys":[{}]}}"#, vec!["{}"; KEYS_MAX + 1].join(","));
        assert_eq!(KeySet::from_jwks(&many), Err(KeyError::TooMany(KEYS_MAX + 1)));
    }

    #[test]
    fn one_id_never_stands_for_two_keys() {
        let other = URL_SAFE_NO_PAD.encode(ed25519_dalek::SigningKey::from_bytes(&[7; 32]).verifying_key());
        let document = format!(
            r#"{{"keys":[{{"kty":"OKP","crv":"Ed25519","kid":"k","x":"{X}"}},
            {{"kty":"OKP","crv":"Ed25519","kid":"k","x":"{other}"}}]}}"#
        );
        assert_eq!(KeySet::from_jwks(&document), Err(KeyError::Repeated("k".into())));
    }
}
