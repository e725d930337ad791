//! What resources report of what they refused.

use palisade_proto::v1;
use serde::Deserialize;

use super::Wide;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct Report {
    guard: String,
    #[serde(default)]
    stale: Vec<Stale>,
    #[serde(default)]
    unnamed: Wide,
    #[serde(default)]
    others: Vec<Other>,
    #[serde(default)]
    ago_ms: Wide,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Stale {
    lock: String,
    #[serde(default)]
    slot: u32,
    presented: Wide,
    mark: Wide,
    #[serde(default)]
    by_floor: bool,
    #[serde(default)]
    client: String,
    /// Of the sequencer; both or none.
    session: Option<Wide>,
    number: Option<Wide>,
    count: Option<Wide>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Other {
    reason: String,
    count: Option<Wide>,
}

impl From<Report> for v1::RejectionReport {
    fn from(asked: Report) -> Self {
        let stale = asked.stale.into_iter().map(|of| v1::StaleRefusal {
            acquisition: (of.session.is_some() || of.number.is_some()).then(|| v1::AcquisitionId {
                session: of.session.unwrap_or_default().0,
                number: of.number.unwrap_or_default().0,
            }),
            lock: of.lock,
            slot: of.slot,
            presented: of.presented.0,
            client: of.client,
            mark: of.mark.0,
            by_floor: of.by_floor,
            count: of.count.map_or(1, |count| count.0),
        });
        let others = asked
            .others
            .into_iter()
            .map(|of| v1::OtherRefusal { reason: of.reason, count: of.count.map_or(1, |count| count.0) });
        Self {
            guard: asked.guard,
            stale: stale.collect(),
            unnamed: asked.unnamed.0,
            others: others.collect(),
            ago_ms: asked.ago_ms.0,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct List {
    #[serde(default)]
    pub(in crate::http) prefix: String,
    #[serde(default)]
    pub(in crate::http) since_us: Wide,
    #[serde(default)]
    pub(in crate::http) limit: u32,
}
