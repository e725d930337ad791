//! A floor as the cluster signs it: what raises a resource's mark without a holder (SPEC 8).
//!
//! Its purpose is signed too, so that no floor can be taken for a sequencer, nor a sequencer for a floor. No
//! cryptography here; the text form is that of [`sequencer_text`](crate::sequencer_text).

use serde::{Deserialize, Serialize};

use crate::ids::{ClusterId, Incarnation, LockName, Slot};
use crate::sequencer::{ClaimError, issuer};
use crate::token::Token;

/// No lower token of this slot can be valid, now or ever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FloorStatement {
    /// Which cluster says so.
    pub cluster: ClusterId,
    /// Its incarnation at the time.
    pub incarnation: Incarnation,
    /// Which lock.
    pub lock: LockName,
    /// Which slot.
    pub slot: Slot,
    /// The lowest token that can still be valid.
    pub floor: Token,
}

/// The claims as they stand in the JWT.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FloorClaims {
    /// `palisade:<cluster id>`
    pub iss: String,
    /// Incarnation.
    pub inc: String,
    /// Lock.
    pub sub: String,
    /// Slot.
    pub slot: u32,
    /// Floor.
    pub floor: u64,
}

impl From<&FloorStatement> for FloorClaims {
    fn from(statement: &FloorStatement) -> Self {
        Self {
            iss: issuer(statement.cluster),
            inc: statement.incarnation.to_string(),
            sub: statement.lock.as_str().to_owned(),
            slot: statement.slot.0,
            floor: statement.floor.get(),
        }
    }
}

impl TryFrom<FloorClaims> for FloorStatement {
    type Error = ClaimError;

    fn try_from(claims: FloorClaims) -> Result<Self, ClaimError> {
        let cluster = claims.iss.strip_prefix("palisade:").and_then(|id| id.parse().ok());
        Ok(Self {
            cluster: cluster.ok_or(ClaimError("iss"))?,
            incarnation: claims.inc.parse().map_err(|_| ClaimError("inc"))?,
            lock: LockName::new(&claims.sub).map_err(|_| ClaimError("sub"))?,
            slot: Slot(claims.slot),
            floor: Token::new(claims.floor).ok_or(ClaimError("floor"))?,
        })
    }
}
