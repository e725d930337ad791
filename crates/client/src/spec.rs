//! What an acquire asks for, kept so that it can be asked again, word for word, under the same number.

use std::time::Duration;

use palisade_core::ids::{GuardName, LockName, OwnerLabel};
use palisade_core::limits::{
    CAPACITY_MAX, DEADLINE_MAX, DEADLINE_MIN, GUARDS_MAX, LOCK_DELAY_MAX, PARTS_MAX, WAIT_MAX,
};
use palisade_core::mode::Mode;
use palisade_core::payload::Payload;
use palisade_proto::convert::words;
use palisade_proto::v1;

use crate::error::{AcquireError, AskedFor};

/// One lock of an acquire: exclusive, one permit of a capacity of 1, unless told otherwise.
#[derive(Clone, Debug)]
pub struct Part {
    pub(crate) lock: LockName,
    pub(crate) mode: Mode,
    pub(crate) capacity: u32,
    pub(crate) permits: u32,
    pub(crate) lock_delay: Option<Duration>,
    pub(crate) fenced_by: Vec<GuardName>,
}

impl From<LockName> for Part {
    fn from(lock: LockName) -> Self {
        Self { lock, mode: Mode::Exclusive, capacity: 1, permits: 1, lock_delay: None, fenced_by: Vec::new() }
    }
}

impl Part {
    /// This lock, exclusively.
    pub fn new(lock: LockName) -> Self {
        Self::from(lock)
    }

    /// Shared with other shared holders. They all carry the same token.
    pub fn shared(mut self) -> Self {
        self.mode = Mode::Shared;
        self
    }

    /// How many slots the lock has. Whoever asks for it names the same number while it is in use.
    pub fn capacity(mut self, slots: u32) -> Self {
        self.capacity = slots;
        self
    }

    /// How many of its slots are wanted.
    pub fn permits(mut self, permits: u32) -> Self {
        self.permits = permits;
        self
    }

    /// How long each slot stays closed if the session expires while it holds: 0 to 60 s. Unnamed: the cluster's default.
    pub fn lock_delay(mut self, delay: Duration) -> Self {
        self.lock_delay = Some(delay);
        self
    }

    /// Names the guards that cover *everything* that the lock protects: once each has confirmed that it accepts nothing
    /// older, the rest of a lock-delay is skipped (SPEC 5).
    pub fn fenced_by(mut self, guards: impl IntoIterator<Item = GuardName>) -> Self {
        self.fenced_by = guards.into_iter().collect();
        self
    }

    fn message(&self) -> v1::AcquirePart {
        v1::AcquirePart {
            lock: self.lock.as_str().to_owned(),
            mode: words::mode(self.mode).into(),
            capacity: self.capacity,
            permits: self.permits,
            lock_delay_ms: self.lock_delay.map(millis),
            fenced_by: self.fenced_by.iter().map(|guard| guard.as_str().to_owned()).collect(),
        }
    }

    fn check(&self) -> Result<(), String> {
        let Self { lock, mode, capacity, permits, lock_delay, fenced_by } = self;
        if !(1..=CAPACITY_MAX).contains(capacity) {
            return Err(format!("a capacity is 1 to {CAPACITY_MAX}, not {capacity}"));
        }
        if !(1..=*capacity).contains(permits) {
            return Err(format!("{permits} permits of {lock}, which has {capacity} slots"));
        }
        if *capacity > 1 && *mode == Mode::Shared {
            return Err(format!(
                "{lock} has {capacity} slots, and a capacity above 1 knows the exclusive mode only"
            ));
        }
        if let Some(delay) = lock_delay
            && millis(*delay) > LOCK_DELAY_MAX.0
        {
            return Err(format!("a lock-delay is at most {LOCK_DELAY_MAX} ms, not {delay:?}"));
        }
        if fenced_by.len() > GUARDS_MAX {
            return Err(format!("at most {GUARDS_MAX} guards can be named, not {}", fenced_by.len()));
        }
        Ok(())
    }
}

/// The whole request.
#[derive(Clone, Debug)]
pub(crate) struct AcquireSpec {
    pub(crate) parts: Vec<Part>,
    pub(crate) wait: WaitFor,
    pub(crate) with_sequencer: bool,
    pub(crate) hold_max: Option<Duration>,
    pub(crate) progress_every: Option<Duration>,
    pub(crate) metadata: Vec<u8>,
    pub(crate) owner: Option<OwnerLabel>,
}

/// How long to wait in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitFor {
    Nothing,
    Bounded(Duration),
    Session,
}

impl AcquireSpec {
    pub(crate) fn new(parts: Vec<Part>) -> Self {
        Self {
            parts,
            wait: WaitFor::Session,
            with_sequencer: false,
            hold_max: None,
            progress_every: None,
            metadata: Vec::new(),
            owner: None,
        }
    }

    pub(crate) fn asked_for(&self) -> AskedFor {
        AskedFor(self.parts.iter().map(|part| part.lock.clone()).collect())
    }

    pub(crate) fn message(&self, number: u64, mark: u64) -> v1::Acquire {
        let kind = match self.wait {
            WaitFor::Nothing => v1::wait::Kind::None(true),
            WaitFor::Bounded(bound) => v1::wait::Kind::BoundedMs(millis(bound)),
            WaitFor::Session => v1::wait::Kind::Session(true),
        };
        v1::Acquire {
            number,
            mark,
            parts: self.parts.iter().map(Part::message).collect(),
            wait: Some(v1::Wait { kind: Some(kind) }),
            owner: self.owner.as_ref().map_or_else(String::new, |owner| owner.as_str().to_owned()),
            want_sequencer: self.with_sequencer,
            hold_max_ms: self.hold_max.map_or(0, millis),
            progress_every_ms: self.progress_every.map_or(0, millis),
            metadata: self.metadata.clone(),
        }
    }

    /// Before anything is sent.
    pub(crate) fn check(&self) -> Result<(), AcquireError> {
        self.bounds().map_err(|message| AcquireError::BadArgument { message })
    }

    fn bounds(&self) -> Result<(), String> {
        if let WaitFor::Bounded(bound) = self.wait
            && (millis(bound) == 0 || millis(bound) > WAIT_MAX.0)
        {
            return Err(format!("a bounded wait is 1 ms to a day, not {bound:?}"));
        }
        if self.parts.is_empty() || self.parts.len() > PARTS_MAX {
            return Err(format!("1 to {PARTS_MAX} locks are asked for at once, not {}", self.parts.len()));
        }
        for deadline in [self.hold_max, self.progress_every].into_iter().flatten() {
            if !(DEADLINE_MIN.0..=DEADLINE_MAX.0).contains(&millis(deadline)) {
                return Err(format!(
                    "a holding time or progress interval is {DEADLINE_MIN} to {DEADLINE_MAX} ms, not {deadline:?}"
                ));
            }
        }
        Payload::new(&self.metadata).map_err(|error| format!("metadata: {error}"))?;
        self.parts.iter().try_for_each(Part::check)
    }
}

pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part() -> Part {
        Part::new(LockName::new("orders").expect("a name"))
    }

    fn refused(spec: &AcquireSpec) -> bool {
        matches!(spec.check(), Err(AcquireError::BadArgument { .. }))
    }

    #[test]
    fn an_explicit_zero_delay_is_zero_and_an_unnamed_one_is_absent() {
        let delay_of = |part| AcquireSpec::new(vec![part]).message(1, 1).parts[0].lock_delay_ms;
        assert_eq!(delay_of(part()), None);
        assert_eq!(delay_of(part().lock_delay(Duration::ZERO)), Some(0));
    }

    #[test]
    fn bounds_are_checked_before_anything_is_sent() {
        let asked = |part| AcquireSpec::new(vec![part]);
        assert!(asked(part()).check().is_ok());
        assert!(refused(&AcquireSpec::new(Vec::new())));
        assert!(refused(&AcquireSpec { wait: WaitFor::Bounded(Duration::ZERO), ..asked(part()) }));
        assert!(refused(&asked(part().lock_delay(Duration::from_secs(61)))));
        assert!(refused(&asked(part().capacity(0))));
        assert!(refused(&asked(part().capacity(3).permits(4))));
        assert!(refused(&asked(part().capacity(3).shared())));
        assert!(asked(part().capacity(3).permits(3)).check().is_ok());
        assert!(refused(&AcquireSpec { hold_max: Some(Duration::from_millis(10)), ..asked(part()) }));
        assert!(refused(&AcquireSpec { metadata: vec![0; 4_097], ..asked(part()) }));
    }
}
