//! What a script asks, as JSON. Numbers of 64 bits may come as strings or as integers; a field that is not known is
//! refused, so that a slip of the pen does nothing else than was meant.

mod acquire;
mod holder;
mod operator;
mod rejections;
mod words;

use serde::Deserialize;

pub(super) use self::acquire::Acquire;
pub(super) use self::holder::{Downgrade, HandOver, ReportProgress, SetBaton, SetMetadata};
pub(super) use self::operator::{
    BreakLock, ConfirmFloor, EndSession, SetCapacity, SetDelayRule, SetSettings,
};
pub(super) use self::rejections::{List as ListRejections, Report as ReportRejections};
pub(super) use self::words::{Bytes, Secret, Wide, hex};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct Open {
    #[serde(default)]
    pub(in crate::http) ttl_ms: Wide,
    #[serde(default)]
    pub(in crate::http) client: String,
    /// Makes the open repeatable.
    pub(in crate::http) secret: Option<Secret>,
    pub(in crate::http) replaces: Option<Replaces>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct Replaces {
    pub(in crate::http) session: Wide,
    pub(in crate::http) secret: Secret,
    #[serde(default)]
    pub(in crate::http) proven_dead: bool,
}

/// Keepalive and close.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct OfSession {
    pub(in crate::http) session: Wide,
    pub(in crate::http) secret: Secret,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct Release {
    pub(in crate::http) session: Wide,
    pub(in crate::http) secret: Secret,
    pub(in crate::http) number: Wide,
    #[serde(default)]
    pub(in crate::http) lock: String,
    #[serde(default)]
    pub(in crate::http) slot: u32,
    pub(in crate::http) token: Wide,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct Cancel {
    pub(in crate::http) session: Wide,
    pub(in crate::http) secret: Secret,
    pub(in crate::http) number: Wide,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct Sequencer {
    pub(in crate::http) session: Wide,
    pub(in crate::http) secret: Secret,
    pub(in crate::http) number: Wide,
    #[serde(default)]
    pub(in crate::http) lock: String,
    #[serde(default)]
    pub(in crate::http) slot: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct Check {
    pub(in crate::http) sequencer: String,
    #[serde(default)]
    pub(in crate::http) lock: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct Who {
    pub(in crate::http) name: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct Locks {
    #[serde(default)]
    pub(in crate::http) prefix: String,
    #[serde(default)]
    pub(in crate::http) limit: u32,
    #[serde(default)]
    pub(in crate::http) after: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct Sessions {
    #[serde(default)]
    pub(in crate::http) client: String,
    #[serde(default)]
    pub(in crate::http) limit: u32,
    #[serde(default)]
    pub(in crate::http) after: Wide,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct Status {
    #[serde(default)]
    pub(in crate::http) local: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct History {
    pub(in crate::http) name: String,
    #[serde(default)]
    pub(in crate::http) limit: u32,
    #[serde(default)]
    pub(in crate::http) before: Wide,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct Audit {
    #[serde(default)]
    pub(in crate::http) prefix: String,
    #[serde(default)]
    pub(in crate::http) since_us: Wide,
    #[serde(default)]
    pub(in crate::http) limit: u32,
    #[serde(default)]
    pub(in crate::http) before: Wide,
}

/// Of one lock, or of all below a prefix.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct Watch {
    pub(in crate::http) name: Option<String>,
    pub(in crate::http) prefix: Option<String>,
    /// A position; `snapshot`; without it, what comes from now on.
    pub(in crate::http) from: Option<String>,
    /// How long a poll waits.
    pub(in crate::http) poll_ms: Option<Wide>,
}
