//! A holder that takes one grant after the other, and how long it ever had to wait for the next.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use palisade_client::{Client, ClientConfig};
use palisade_core::ids::LockName;
use palisade_host::Host;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::{three::Three, until};

/// While one node of three is lost, in whatever way. An election takes well under one second; the rest is the time in
/// which a client with the default lease of 10 s finds that its connection is dead, and slack for a busy machine.
const INTERRUPTION_MAX: Duration = Duration::from_secs(5);
/// Between two grants.
const REST: Duration = Duration::from_millis(10);
/// As many grants in a row say that things go on.
const GOES_ON: usize = 20;

/// Grants of one client, from the host, through all nodes.
pub(crate) struct Grants {
    /// When each came, with its token.
    seen: Arc<Mutex<Vec<(Instant, u64)>>>,
    task: JoinHandle<()>,
}

impl Grants {
    pub(crate) fn start(three: &Three) -> Self {
        let client = Client::new(ClientConfig::new(three.endpoints()), Host::system()).unwrap();
        let seen = Arc::default();
        let task = tokio::spawn(take(client, Arc::clone(&seen)));
        Self { seen, task }
    }

    fn count(&self) -> usize {
        assert!(!self.task.is_finished(), "the holder has ended");
        self.seen.lock().unwrap().len()
    }

    /// Waits until grants come again.
    pub(crate) async fn go_on(&self) {
        let before = self.count();
        until("grants go on", async || self.count() >= before + GOES_ON).await;
    }

    /// From `fault` until now, grants were never interrupted for long. Tells the longest interruption.
    pub(crate) fn hardly_interrupted_since(&self, fault: Instant, what: &str) {
        let seen = self.seen.lock().unwrap();
        let before = seen.iter().rev().find(|(at, _)| *at <= fault).map_or(fault, |(at, _)| *at);
        let after = seen.iter().map(|(at, _)| *at).filter(|at| *at > fault);
        let ends: Vec<_> = [before].into_iter().chain(after).chain([Instant::now()]).collect();
        let longest = ends.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default();
        println!("{what}: the longest interruption of grants took {longest:.1?}");
        assert!(longest < INTERRUPTION_MAX, "{what}: no grant for {longest:?}");
    }

    /// Ends. Every token was higher than the one before.
    pub(crate) fn end(self) {
        self.task.abort();
        let seen = self.seen.lock().unwrap();
        assert!(seen.windows(2).all(|pair| pair[0].1 < pair[1].1), "a token went back");
        println!("{} grants in all", seen.len());
    }
}

async fn take(client: Client, seen: Arc<Mutex<Vec<(Instant, u64)>>>) {
    let lock = LockName::new("grants").unwrap();
    loop {
        let Ok(session) = client.open_session().await else { continue };
        // An outcome that is unknown, or a session that is lost: from the beginning.
        while let Ok(guard) = session.lock(lock.clone()).lock_delay(Duration::ZERO).acquire().await {
            seen.lock().unwrap().push((Instant::now(), guard.token().get()));
            let _ = guard.release().await;
            sleep(REST).await;
        }
    }
}
