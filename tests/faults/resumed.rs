//! A process dies and is started again: it goes on where it stopped, under new tokens, without waiting for its own lease.

use std::time::Duration;

use palisade_client::{Client, ClientConfig, KeptState, LockGuard, Session, TakenOver};
use palisade_host::{Host, OwnFile};
use tokio::runtime::{Builder, Runtime};

use crate::live::{Live, eventually, hold, holder, name, soon};

/// A process, which ends as `kill -9` ends one.
struct Process {
    runtime: Option<Runtime>,
}

impl Process {
    fn start() -> Self {
        Self { runtime: Some(Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()) }
    }

    async fn run<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> T {
        soon("the process does its work", self.runtime.as_ref().unwrap().spawn(work)).await.unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Resumes the session of a state file.
async fn resume(config: ClientConfig) -> (Client, Session, TakenOver) {
    let client = Client::new(config, Host::system()).unwrap();
    let (session, taken) = client.resume_session().await.unwrap();
    (client, session, taken)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_process_has_what_it_held_under_new_tokens_and_keeps_its_place() {
    let live = Live::start(3).await;
    let path = live.cluster.directory().join("client-state");
    let mut config = ClientConfig::new(live.cluster.endpoints()).state_file(&path);
    // Far longer than this test: nothing here waits for a lease to end.
    config.ttl = Duration::from_secs(3_600);
    let other = live.client(Duration::from_secs(60));
    let others = other.open_session().await.unwrap();
    let awaited: LockGuard = hold(&others, "awaited").await;

    let first = Process::start();
    let begun = config.clone();
    let (client, session, taken, guard) = first
        .run(async move {
            let (client, session, taken) = resume(begun).await;
            let guard = session.lock(name("held")).metadata("first").acquire().await.unwrap();
            let waits = session.lock(name("awaited"));
            tokio::spawn(waits.acquire());
            (client, session, taken, guard)
        })
        .await;
    assert_eq!(taken.replaced(), None);
    let (old, old_token) = (session.id(), guard.token());
    eventually("it waits", async || {
        let view = other.lock_view(&name("awaited")).await.unwrap();
        view.queue.first().and_then(|waiter| waiter.acquisition).filter(|id| id.session == old.0)
    })
    .await;
    // Somebody who comes later.
    let later = tokio::spawn(others.lock(name("awaited")).acquire());
    eventually("two wait", async || {
        let view = other.lock_view(&name("awaited")).await.unwrap();
        (view.queue.len() == 2).then_some(())
    })
    .await;
    drop(first);
    drop((client, session, taken, guard));
    eventually("its file is free", async || OwnFile::take(&path).ok().map(drop)).await;

    let second = Process::start();
    let (_client, session, mut taken) = second.run(resume(config)).await;
    assert_eq!(taken.replaced(), Some(old));
    let states: Vec<KeptState> = taken.kept().iter().map(|kept| kept.state).collect();
    assert_eq!(states, [KeptState::Holds, KeptState::Waits]);
    let (adopted, mut taken) =
        second.run(async move { (taken.adopt(&name("held")).await.unwrap(), taken) }).await;
    let guard = adopted.unwrap().into_guards().remove(0);
    assert!(guard.token() > old_token && guard.check().is_ok());
    let view = other.lock_view(&name("held")).await.unwrap();
    assert_eq!(holder(&view).unwrap().0.session, session.id().0);

    // It is granted before the one that came later.
    awaited.release().await.unwrap();
    let adopted = second.run(async move { taken.adopt(&name("awaited")).await.unwrap() }).await;
    let before = adopted.unwrap().into_guards().remove(0);
    let token = before.token();
    before.release().await.unwrap();
    let after = soon("the later one is granted", later).await.unwrap().unwrap();
    assert!(after.token() > token);
}
