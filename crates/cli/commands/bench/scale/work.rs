//! What crowds do: hold locks, queue for them, hand them on, and take and release them beside all that.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use palisade_proto::v1;
use palisade_proto::v1::request::Op;
use palisade_proto::v1::response::Result as Answer;
use tokio::time::Instant;

use super::crowd::{Ask, Work, expected};

/// Numbers of a member below this many before its newest are not repeated, unless they hold.
const REPEATED: u64 = 1_000;

/// The name of a lock of this run; all of one story have the same length.
pub(super) fn name(story: &str, lock: usize) -> String {
    format!("scale/{story}/{lock:07}")
}

/// Bytes of such a name.
pub(super) fn name_bytes(story: &str) -> u64 {
    name(story, 0).len() as u64
}

/// An acquire of one lock, exclusively, as long as the session lives.
fn acquire(member: usize, number: u64, lock: String, lock_delay_ms: Option<u64>) -> Ask {
    let part = v1::AcquirePart {
        lock,
        mode: v1::Mode::Exclusive.into(),
        capacity: 0,
        permits: 0,
        lock_delay_ms,
        fenced_by: Vec::new(),
    };
    let acquire = v1::Acquire {
        number,
        mark: number.saturating_sub(REPEATED).max(1),
        parts: vec![part],
        wait: Some(v1::Wait { kind: Some(v1::wait::Kind::Session(true)) }),
        ..v1::Acquire::default()
    };
    Ask { member, op: Op::Acquire(acquire), repeated: false }
}

fn release(member: usize, grant: &v1::Grant) -> Ask {
    let release =
        v1::Release { acquisition: grant.acquisition, lock: String::new(), slot: 0, token: token(grant) };
    Ask { member, op: Op::Release(release), repeated: false }
}

/// Of its first part; 0 of a grant without one.
fn token(grant: &v1::Grant) -> u64 {
    grant.parts.first().map_or(0, |part| part.token)
}

fn number(grant: &v1::Grant) -> u64 {
    grant.acquisition.map_or(0, |acquisition| acquisition.number)
}

/// Tokens in the order in which they came: that of the log.
#[derive(Default)]
pub(super) struct Rising {
    last: u64,
    pub(super) checked: u64,
    pub(super) broken: u64,
}

impl Rising {
    fn look(&mut self, token: u64, repeated: bool) {
        self.checked += 1;
        // A repeat is answered with the grant that its first copy made.
        self.broken += u64::from(token <= self.last && !repeated);
        self.last = self.last.max(token);
    }
}

/// Holds each of so many locks, spread over so many members.
pub(super) struct Holding<'a> {
    pub(super) story: &'static str,
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) members: usize,
    pub(super) delay_ms: Option<u64>,
    /// What each was granted under, by its number.
    pub(super) tokens: &'a mut Vec<u64>,
    pub(super) rising: &'a mut Rising,
}

impl Holding<'_> {
    fn lock_of(&self, member: usize, number: u64) -> usize {
        usize::try_from(number - 1).unwrap_or(usize::MAX).saturating_mul(self.members) + member
    }
}

impl Work for Holding<'_> {
    fn next(&mut self) -> Option<Ask> {
        let lock = (self.from < self.to).then_some(self.from)?;
        self.from += 1;
        let (member, number) = (lock % self.members, (lock / self.members + 1) as u64);
        Some(acquire(member, number, name(self.story, lock), self.delay_ms))
    }

    fn answered(&mut self, ask: &Ask, answer: &Answer) -> anyhow::Result<()> {
        if let Answer::Granted(grant) = answer {
            let lock = self.lock_of(ask.member, number(grant));
            self.tokens.resize(self.tokens.len().max(lock + 1), 0);
            self.tokens[lock] = token(grant);
            self.rising.look(token(grant), ask.repeated);
            return Ok(());
        }
        expected(matches!(answer, Answer::Bound(_)), answer)
    }

    fn is_over(&self) -> bool {
        self.from == self.to
    }
}

/// Some members take and release a lock of their own each, until they are told to stop. What else they did has lower
/// numbers, and is not repeated afterwards.
pub(super) struct Cycles<'a> {
    /// Members that have not begun.
    lanes: Range<usize>,
    /// The next number; all members share them, so that none uses one twice.
    number: u64,
    until: &'a dyn Fn() -> bool,
    next: VecDeque<Ask>,
    pub(super) done: u64,
    rising: &'a mut Rising,
}

impl<'a> Cycles<'a> {
    /// `number`: the first that no member has used.
    pub(super) fn new(
        lanes: Range<usize>,
        number: u64,
        until: &'a dyn Fn() -> bool,
        rising: &'a mut Rising,
    ) -> Self {
        Self { lanes, number, until, next: VecDeque::new(), done: 0, rising }
    }

    /// The first number that it has not used.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    fn acquire(&mut self, member: usize) -> Ask {
        self.number += 1;
        acquire(member, self.number - 1, name("cycle", member), None)
    }
}

impl Work for Cycles<'_> {
    fn next(&mut self) -> Option<Ask> {
        if let Some(ask) = self.next.pop_front() {
            return Some(ask);
        }
        if (self.until)() {
            return None;
        }
        let member = self.lanes.next()?;
        Some(self.acquire(member))
    }

    fn answered(&mut self, ask: &Ask, answer: &Answer) -> anyhow::Result<()> {
        match answer {
            Answer::Granted(grant) => {
                self.rising.look(token(grant), ask.repeated);
                self.next.push_back(release(ask.member, grant));
            }
            Answer::Released(_) => {
                self.done += 1;
                if !(self.until)() {
                    let ask = self.acquire(ask.member);
                    self.next.push_back(ask);
                }
            }
            other => expected(matches!(other, Answer::Bound(_)), other)?,
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.next.is_empty() && (self.until)()
    }
}

/// Who waits for which lock, in the order in which they asked.
pub(super) type Queues = BTreeMap<String, VecDeque<(usize, u64)>>;

/// Some members queue for locks that others hold.
pub(super) struct Queueing<'a> {
    pub(super) from: usize,
    pub(super) to: usize,
    /// The first member that queues, and how many do.
    pub(super) first: usize,
    pub(super) members: usize,
    pub(super) over: usize,
    pub(super) queues: &'a mut Queues,
}

impl Work for Queueing<'_> {
    fn next(&mut self) -> Option<Ask> {
        let waiter = (self.from < self.to).then_some(self.from)?;
        self.from += 1;
        // A member queues for a lock once at most: for one after the other, beginning at one of its own.
        let (member, turn) = (waiter % self.members, waiter / self.members);
        let lock = name("queue", (member * self.over / self.members + turn) % self.over);
        let (member, number) = (self.first + member, turn as u64 + 1);
        self.queues.entry(lock.clone()).or_default().push_back((member, number));
        Some(acquire(member, number, lock, None))
    }

    fn answered(&mut self, _ask: &Ask, answer: &Answer) -> anyhow::Result<()> {
        expected(matches!(answer, Answer::Queued(_) | Answer::Bound(_)), answer)
    }

    fn is_over(&self) -> bool {
        self.from == self.to
    }
}

/// Whoever is granted a lock releases it at once, until nobody waits.
pub(super) struct HandingOn<'a> {
    /// The releases that begin it.
    pub(super) next: VecDeque<Ask>,
    pub(super) left: usize,
    pub(super) last: Instant,
    pub(super) queues: &'a mut Queues,
    /// After a change of leader the order of repeated requests is not known.
    pub(super) blind: bool,
    pub(super) out_of_order: u64,
    pub(super) rising: &'a mut Rising,
}

impl HandingOn<'_> {
    fn granted(&mut self, member: usize, grant: &v1::Grant) {
        let lock = grant.parts.first().map(|part| part.lock.as_str()).unwrap_or_default();
        let turn = (member, number(grant));
        let Some(queue) = self.queues.get_mut(lock) else { return };
        let Some(place) = queue.iter().position(|waiting| *waiting == turn) else { return };
        queue.remove(place);
        self.out_of_order += u64::from(place > 0 && !self.blind);
        self.rising.look(token(grant), self.blind);
        self.left -= 1;
        self.last = Instant::now();
        self.next.push_back(release(member, grant));
    }
}

impl Work for HandingOn<'_> {
    fn next(&mut self) -> Option<Ask> {
        self.next.pop_front()
    }

    fn answered(&mut self, ask: &Ask, answer: &Answer) -> anyhow::Result<()> {
        if let Answer::Bound(bound) = answer {
            self.blind = true;
            for grant in bound.acquisitions.iter().filter_map(|one| one.grant.as_ref()) {
                self.granted(ask.member, grant);
            }
            return Ok(());
        }
        expected(matches!(answer, Answer::Released(_)), answer)
    }

    fn told(&mut self, member: usize, event: &v1::Event) -> anyhow::Result<()> {
        if let Some(v1::event::What::Granted(grant)) = &event.what {
            self.granted(member, grant);
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.left == 0 && self.next.is_empty()
    }
}

/// Releases of so many locks, which members hold by their numbers.
pub(super) fn releases(
    locks: usize,
    members: usize,
    session: impl Fn(usize) -> u64,
    tokens: &[u64],
) -> VecDeque<Ask> {
    let one = |lock: usize| {
        let (member, number) = (lock % members, (lock / members + 1) as u64);
        let acquisition = Some(v1::AcquisitionId { session: session(member), number });
        let release = v1::Release { acquisition, lock: String::new(), slot: 0, token: tokens[lock] };
        Ask { member, op: Op::Release(release), repeated: false }
    };
    (0..locks).map(one).collect()
}
