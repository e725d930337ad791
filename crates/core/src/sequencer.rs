//! The sequencer: the claims of one part of an acquisition, without any cryptography.
//!
//! Signed by `server/signer.rs`, verified by `fence/verifier.rs`. Both sides name the claims as this file does.

use serde::{Deserialize, Serialize};

use crate::ids::{AcquisitionId, ClientName, ClusterId, Incarnation, LockName, Slot, WallTime};
use crate::mode::Mode;
use crate::token::Token;

/// `typ` of a sequencer's header. The purpose is signed too, so that no other statement can be taken for one.
pub const SEQUENCER_TYPE: &str = "palisade-sequencer+jwt";
/// `typ` of a floor's header.
pub const FLOOR_TYPE: &str = "palisade-floor+jwt";
/// The one algorithm.
pub const ALGORITHM: &str = "EdDSA";

/// What a sequencer says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequencer {
    /// The granting cluster.
    pub cluster: ClusterId,
    /// Its incarnation at the time.
    pub incarnation: Incarnation,
    /// Which lock.
    pub lock: LockName,
    /// Which slot.
    pub slot: Slot,
    /// How it is held.
    pub mode: Mode,
    /// Under which token.
    pub token: Token,
    /// The entry that gave the acquisition its tenure, with the token base.
    pub grant_index: u64,
    /// Which acquisition.
    pub acquisition: AcquisitionId,
    /// What the holder calls itself.
    pub client: ClientName,
    /// Wall time of the grant. For display; no resource decides by it.
    pub granted_at: WallTime,
}

/// The claims as they stand in the JWT (SPEC 13). No `exp`, `nbf`, `iat` or `aud`: stock libraries act on them, and a
/// resource with a wrong clock would refuse true holders.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SequencerClaims {
    /// `palisade:<cluster id>`
    pub iss: String,
    /// Incarnation.
    pub inc: String,
    /// Lock.
    pub sub: String,
    /// Slot.
    pub slot: u32,
    /// `x` or `s`
    pub mode: String,
    /// Token.
    pub token: u64,
    /// Grant index.
    pub grant: u64,
    /// Session.
    pub sid: u64,
    /// Request number.
    pub num: u64,
    /// Client name.
    pub client: String,
    /// Wall time of the grant, microseconds since 1970. For display.
    pub granted_at_us: u64,
}

/// The header of the JWT.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SequencerHeader {
    /// `EdDSA`
    pub alg: String,
    /// The purpose.
    pub typ: String,
    /// Which key.
    pub kid: String,
}

/// `iss` of a cluster's statements.
pub fn issuer(cluster: ClusterId) -> String {
    format!("palisade:{cluster}")
}

impl From<&Sequencer> for SequencerClaims {
    fn from(sequencer: &Sequencer) -> Self {
        Self {
            iss: issuer(sequencer.cluster),
            inc: sequencer.incarnation.to_string(),
            sub: sequencer.lock.as_str().to_owned(),
            slot: sequencer.slot.0,
            mode: sequencer.mode.letter().to_owned(),
            token: sequencer.token.get(),
            grant: sequencer.grant_index,
            sid: sequencer.acquisition.session.0,
            num: sequencer.acquisition.number.0,
            client: sequencer.client.as_str().to_owned(),
            granted_at_us: sequencer.granted_at.0,
        }
    }
}

/// Which claim is not a sequencer's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the claim {0:?} is not a sequencer's")]
pub struct ClaimError(pub &'static str);

impl TryFrom<SequencerClaims> for Sequencer {
    type Error = ClaimError;

    fn try_from(claims: SequencerClaims) -> Result<Self, ClaimError> {
        let cluster = claims.iss.strip_prefix("palisade:").and_then(|id| id.parse().ok());
        let mode = match claims.mode.as_str() {
            "x" => Mode::Exclusive,
            "s" => Mode::Shared,
            _ => return Err(ClaimError("mode")),
        };
        Ok(Self {
            cluster: cluster.ok_or(ClaimError("iss"))?,
            incarnation: claims.inc.parse().map_err(|_| ClaimError("inc"))?,
            lock: LockName::new(&claims.sub).map_err(|_| ClaimError("sub"))?,
            slot: Slot(claims.slot),
            mode,
            token: Token::new(claims.token).ok_or(ClaimError("token"))?,
            grant_index: claims.grant,
            acquisition: AcquisitionId {
                session: crate::ids::SessionId(claims.sid),
                number: crate::ids::RequestNumber(claims.num),
            },
            client: ClientName::new(&claims.client).map_err(|_| ClaimError("client"))?,
            granted_at: WallTime(claims.granted_at_us),
        })
    }
}
