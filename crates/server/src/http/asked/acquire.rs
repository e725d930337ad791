//! What is asked for with a lock.

use palisade_proto::v1;
use serde::Deserialize;

use super::{Bytes, Secret, Wide};
use crate::error;

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::http) enum Mode {
    Exclusive,
    Shared,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::http) enum Wait {
    None,
    Session,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct Part {
    lock: String,
    mode: Option<Mode>,
    #[serde(default)]
    capacity: u32,
    #[serde(default)]
    permits: u32,
    lock_delay_ms: Option<Wide>,
    #[serde(default)]
    fenced_by: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct Acquire {
    pub(in crate::http) session: Wide,
    pub(in crate::http) secret: Secret,
    #[serde(default)]
    number: Wide,
    #[serde(default)]
    mark: Wide,
    /// One lock, in short.
    lock: Option<String>,
    mode: Option<Mode>,
    capacity: Option<u32>,
    permits: Option<u32>,
    lock_delay_ms: Option<Wide>,
    #[serde(default)]
    fenced_by: Vec<String>,
    /// Or its parts at length.
    #[serde(default)]
    parts: Vec<Part>,
    wait: Option<Wait>,
    wait_ms: Option<Wide>,
    #[serde(default)]
    owner: String,
    #[serde(default)]
    hold_max_ms: Wide,
    #[serde(default)]
    progress_every_ms: Wide,
    #[serde(default)]
    metadata: Bytes,
    sequencer: Option<bool>,
    /// How long this call waits for its answer.
    pub(in crate::http) poll_ms: Option<Wide>,
}

impl Acquire {
    /// As gRPC's call has it.
    pub(in crate::http) fn message(self) -> Result<v1::Acquire, v1::Error> {
        let mut parts = self.parts;
        match self.lock {
            Some(lock) => parts.push(Part {
                lock,
                mode: self.mode,
                capacity: self.capacity.unwrap_or(0),
                permits: self.permits.unwrap_or(0),
                lock_delay_ms: self.lock_delay_ms,
                fenced_by: self.fenced_by,
            }),
            None if self.mode.is_some()
                || self.capacity.is_some()
                || self.permits.is_some()
                || self.lock_delay_ms.is_some()
                || !self.fenced_by.is_empty() =>
            {
                return Err(error::bad_argument(
                    "mode, capacity, permits, lock_delay_ms and fenced_by go with lock; in parts, each has its own",
                ));
            }
            None => {}
        }
        let kind = match (self.wait, self.wait_ms) {
            (None | Some(Wait::None), None) => v1::wait::Kind::None(true),
            (Some(Wait::Session), None) => v1::wait::Kind::Session(true),
            (None, Some(Wide(bounded))) => v1::wait::Kind::BoundedMs(bounded),
            (Some(_), Some(_)) => {
                return Err(error::bad_argument("wait and wait_ms exclude each other"));
            }
        };
        let parts = parts.into_iter().map(|part| v1::AcquirePart {
            lock: part.lock,
            mode: part
                .mode
                .map_or(v1::Mode::Unspecified, |mode| match mode {
                    Mode::Exclusive => v1::Mode::Exclusive,
                    Mode::Shared => v1::Mode::Shared,
                })
                .into(),
            capacity: part.capacity,
            permits: part.permits,
            lock_delay_ms: part.lock_delay_ms.map(|delay| delay.0),
            fenced_by: part.fenced_by,
        });
        Ok(v1::Acquire {
            number: self.number.0,
            mark: self.mark.0,
            parts: parts.collect(),
            wait: Some(v1::Wait { kind: Some(kind) }),
            owner: self.owner,
            want_sequencer: self.sequencer.unwrap_or(true),
            hold_max_ms: self.hold_max_ms.0,
            progress_every_ms: self.progress_every_ms.0,
            metadata: self.metadata.0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acquire(more: &str) -> Result<v1::Acquire, String> {
        let body = format!(r#"{{"session":"7","secret":"00ff"{more}}}"#);
        let asked: Acquire = serde_json::from_str(&body).map_err(|bad| bad.to_string())?;
        asked.message().map_err(|bad| bad.message)
    }

    #[test]
    fn a_wait_is_none_bounded_or_as_long_as_the_session() {
        let kind = |more: &str| acquire(more).map(|message| message.wait.and_then(|wait| wait.kind));
        assert_eq!(kind(r#","lock":"a""#), Ok(Some(v1::wait::Kind::None(true))));
        assert_eq!(kind(r#","lock":"a","wait_ms":"500""#), Ok(Some(v1::wait::Kind::BoundedMs(500))));
        assert_eq!(kind(r#","lock":"a","wait":"session""#), Ok(Some(v1::wait::Kind::Session(true))));
        assert!(kind(r#","lock":"a","wait":"session","wait_ms":5"#).is_err());
    }

    #[test]
    fn a_slip_of_the_pen_is_refused() {
        assert!(acquire(r#","lock":"a","waitms":5"#).is_err());
        assert!(acquire(r#","lock":"a","mode":"exclusiv""#).is_err());
        assert!(acquire(r#","mode":"shared""#).is_err());
        let message =
            acquire(r#","parts":[{"lock":"a","lock_delay_ms":0},{"lock":"b"}]"#).expect("it is fine");
        assert_eq!(message.parts.len(), 2);
        assert_eq!((message.parts[0].lock_delay_ms, message.parts[1].lock_delay_ms), (Some(0), None));
    }

    #[test]
    fn a_lock_in_short_has_what_a_part_has_and_terms_are_of_all_parts() {
        let more = r#","lock":"pool","capacity":4,"permits":2,"fenced_by":["db"],"hold_max_ms":"60000","progress_every_ms":5000,"metadata":"10.0.0.7:80","owner":"a task""#;
        let message = acquire(more).expect("it is fine");
        let part = &message.parts[0];
        assert_eq!((part.capacity, part.permits, &part.fenced_by[..]), (4, 2, &["db".to_owned()][..]));
        assert_eq!((message.hold_max_ms, message.progress_every_ms), (60_000, 5_000));
        assert_eq!((&message.metadata[..], message.owner.as_str()), (&b"10.0.0.7:80"[..], "a task"));
        assert!(acquire(r#","parts":[{"lock":"a"}],"permits":2"#).is_err());
    }
}
