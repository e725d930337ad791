//! What a holder asks beside acquire, release and cancel. `number` is the acquisition's, `token` one that it holds.

use serde::Deserialize;

use super::{Bytes, Secret, Wide};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct Downgrade {
    pub(in crate::http) session: Wide,
    pub(in crate::http) secret: Secret,
    pub(in crate::http) number: Wide,
    pub(in crate::http) lock: String,
    pub(in crate::http) token: Wide,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct HandOver {
    pub(in crate::http) session: Wide,
    pub(in crate::http) secret: Secret,
    pub(in crate::http) number: Wide,
    pub(in crate::http) lock: String,
    #[serde(default)]
    pub(in crate::http) slot: u32,
    pub(in crate::http) token: Wide,
    /// A session; without it, the head of the queue.
    #[serde(default)]
    pub(in crate::http) to: Wide,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct SetMetadata {
    pub(in crate::http) session: Wide,
    pub(in crate::http) secret: Secret,
    pub(in crate::http) number: Wide,
    pub(in crate::http) token: Wide,
    /// 0: the next; such a call cannot be repeated. So below.
    #[serde(default)]
    pub(in crate::http) revision: Wide,
    pub(in crate::http) metadata: Bytes,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct SetBaton {
    pub(in crate::http) session: Wide,
    pub(in crate::http) secret: Secret,
    pub(in crate::http) number: Wide,
    pub(in crate::http) lock: String,
    #[serde(default)]
    pub(in crate::http) slot: u32,
    pub(in crate::http) token: Wide,
    #[serde(default)]
    pub(in crate::http) revision: Wide,
    pub(in crate::http) baton: Bytes,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct ReportProgress {
    pub(in crate::http) session: Wide,
    pub(in crate::http) secret: Secret,
    pub(in crate::http) number: Wide,
    pub(in crate::http) token: Wide,
    /// The report's own.
    #[serde(default)]
    pub(in crate::http) report: Wide,
}
