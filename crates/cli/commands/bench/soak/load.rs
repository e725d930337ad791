//! The load of a soak, and the book of what the cluster acknowledged to it.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use palisade_client::{Client, LockGuard, ReleaseError, Session, SessionState};
use palisade_core::ids::LockName;
use palisade_proto::v1;
use palisade_proto::v1::check_item::What;
use palisade_proto::v1::verdict::State;
use tokio::task::{JoinHandle, spawn_local, yield_now};
use tokio::time::{Instant, sleep};

use super::super::check::plain;
use super::super::place::{self, Opened, Place};
use super::super::report::Latencies;
use super::super::tasks::{self, Tasks, count};
use super::super::tokens::{Lock, Tokens, locks};
use super::{PATIENCE, RETRY};
use crate::cluster::NODES;
use crate::commands::Failure;

/// Of the tasks, one in so many shares its lock with others, and queues for it.
const SHARES: usize = 8;
/// Tasks to a shared lock.
const TOGETHER: usize = 8;
/// Locks that are taken at each look and then held to the end.
const KEPT_EACH: usize = 16;
/// Sequencers of one check.
const CHECKED_TOGETHER: usize = 128;

/// What the tasks have in common.
#[derive(Default)]
pub(super) struct Shared {
    pub(super) tasks: Tasks,
    pub(super) tokens: Tokens,
    pub(super) cycles: Cell<u64>,
    pub(super) overlapping: Cell<u64>,
    /// Acknowledged, and then not so.
    pub(super) lost: Cell<u64>,
    pub(super) latencies: RefCell<[Latencies; 1]>,
}

/// A lock of the tasks, and what its users know of it.
struct Used {
    lock: Rc<Lock>,
    holders: Cell<u32>,
    /// What was held last, and acknowledged as released.
    released: RefCell<Option<v1::CheckItem>>,
}

pub(super) struct Load {
    pub(super) shared: Rc<Shared>,
    sessions: Vec<Opened>,
    used: Vec<Rc<Used>>,
    running: Vec<JoinHandle<()>>,
    kept: VecDeque<LockGuard>,
    /// One client for each node, which stays there.
    lookers: Vec<Client>,
}

impl Load {
    /// Every third connection stays with the node where it begins, and moves only when that is gone.
    pub(super) async fn start(place: &Place<'_>, tasks: u32, connections: u32) -> Result<Self, Failure> {
        let mut sessions = Vec::new();
        for number in 0..connections as usize {
            let client = place.client(number, |settings| settings.follow_leader = number % NODES != 0)?;
            let session = client.open_session().await?;
            sessions.push(Opened { client, session });
        }
        let lookers = (0..NODES)
            .map(|node| {
                place.client(node, |settings| {
                    settings.follow_leader = false;
                    settings.endpoints.truncate(1);
                })
            })
            .collect::<Result<_, _>>()?;
        let shared = Rc::new(Shared::default());
        let used: Vec<Rc<Used>> = locks(tasks, "soak")?
            .into_iter()
            .map(|lock| Rc::new(Used { lock, holders: Cell::new(0), released: RefCell::default() }))
            .collect();
        let running = (0..tasks as usize)
            .map(|task| {
                let session = sessions[task % sessions.len()].session.clone();
                spawn_local(cycles(session, used[lock_of(task)].clone(), shared.clone()))
            })
            .collect();
        Ok(Self { shared, sessions, used, running, kept: VecDeque::new(), lookers })
    }

    /// Takes some more locks, to be held to the end.
    pub(super) async fn keep(&mut self) -> Result<(), Failure> {
        let from = self.kept.len();
        for number in from..from + KEPT_EACH {
            let name = format!("bench/{}/soak/kept/{number}", std::process::id());
            let name = LockName::new(&name).map_err(anyhow::Error::new)?;
            let session = &self.sessions[number % self.sessions.len()].session;
            let guard = session.lock(name).acquire().await.map_err(anyhow::Error::new)?;
            self.kept.push_back(guard);
        }
        Ok(())
    }

    pub(super) fn kept(&self) -> usize {
        self.kept.len()
    }

    /// Sessions that are not what they were: none of them should have noticed anything.
    pub(super) fn sessions_lost(&self) -> u64 {
        let lost = |opened: &&Opened| matches!(opened.session.state(), SessionState::Lost(_));
        self.sessions.iter().filter(lost).count() as u64
    }

    /// Asks every node in turn for every acknowledged hold and, where tasks have ended, for the last release of each lock.
    /// Counts what is not so.
    pub(super) async fn look_back(&self) -> Result<(), Failure> {
        let held: Vec<v1::CheckItem> = self.kept.iter().map(item).collect();
        let released: Vec<v1::CheckItem> =
            self.used.iter().filter_map(|used| used.released.borrow().clone()).collect();
        for looker in &self.lookers {
            self.ask(looker, &held, |state| state == State::Current).await?;
            self.ask(looker, &released, |state| matches!(state, State::Ended | State::Superseded)).await?;
        }
        Ok(())
    }

    async fn ask(
        &self,
        looker: &Client,
        items: &[v1::CheckItem],
        right: impl Fn(State) -> bool,
    ) -> Result<(), Failure> {
        for some in items.chunks(CHECKED_TOGETHER) {
            for (item, verdict) in some.iter().zip(insist(looker, some).await?) {
                if !right(verdict.state()) {
                    count(&self.shared.lost);
                    tracing::error!(lock = %item.lock, verdict = ?verdict.state(), "an acknowledgement is lost");
                }
            }
        }
        Ok(())
    }

    /// Lets every task end its cycle.
    pub(super) async fn stop(&mut self, patience: Duration) -> Result<(), Failure> {
        self.shared.tasks.stop();
        tasks::end(std::mem::take(&mut self.running), patience).await
    }

    /// Gives back what was kept, which must still be there, and leaves.
    pub(super) async fn end(mut self) {
        while let Some(guard) = self.kept.pop_front() {
            if let Err(error) = guard.release().await {
                count(&self.shared.lost);
                tracing::error!(%error, "a lock that was held to the end was not there to release");
            }
        }
        for looker in self.lookers {
            looker.close().await;
        }
        place::close(self.sessions).await;
    }
}

/// A node that has just started again may need a moment.
async fn insist(looker: &Client, items: &[v1::CheckItem]) -> Result<Vec<v1::Verdict>, Failure> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        // It gives up by itself.
        match looker.check(items.to_vec()).await {
            Ok(verdicts) => return Ok(verdicts),
            Err(error) if Instant::now() >= deadline => return Err(error.into()),
            Err(_) => sleep(RETRY).await,
        }
    }
}

/// Whose lock a task uses: its own, or that of the first of those who share one.
fn lock_of(task: usize) -> usize {
    if task.is_multiple_of(SHARES) { task - task % (SHARES * TOGETHER) } else { task }
}

fn item(guard: &LockGuard) -> v1::CheckItem {
    v1::CheckItem { what: Some(What::Plain(plain(guard))), lock: guard.lock().as_str().to_owned() }
}

async fn cycles(session: Session, used: Rc<Used>, shared: Rc<Shared>) {
    while shared.tasks.go_on() {
        let (asked, before) = (Instant::now(), shared.tokens.highest());
        let guard = match session.lock(used.lock.name.clone()).acquire().await {
            Ok(guard) => guard,
            Err(error) => {
                shared.tasks.failed(error).await;
                continue;
            }
        };
        shared.tokens.check(&used.lock, before, &guard);
        if used.holders.replace(used.holders.get() + 1) > 0 {
            count(&shared.overlapping);
            tracing::error!(lock = %used.lock.name, "two hold at a time");
        }
        let was = item(&guard);
        // Another holder, if there is one, has its turn to be seen.
        yield_now().await;
        used.holders.set(used.holders.get() - 1);
        match guard.release().await {
            Ok(_) => {
                used.released.replace(Some(was));
                count(&shared.cycles);
                if shared.tasks.counts(asked) {
                    shared.latencies.borrow_mut()[0].record(asked.elapsed());
                }
            }
            Err(error @ ReleaseError::NotHeld { .. }) => {
                count(&shared.lost);
                tracing::error!(lock = %used.lock.name, %error, "a granted lock was not there to release");
            }
            Err(error) => shared.tasks.failed(error).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_task_in_eight_shares_its_lock_with_seven_others() {
        let mut users = std::collections::BTreeMap::<usize, usize>::new();
        (0..256).for_each(|task| *users.entry(lock_of(task)).or_default() += 1);
        assert_eq!([0, 64, 128, 192].map(|lock| users[&lock]), [8; 4]);
        assert_eq!(users.values().filter(|count| **count == 1).count(), 224);
        assert_eq!(users.len(), 228);
    }
}
