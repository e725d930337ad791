//! Fetches the cluster's keys again: when a key id is met that nobody knows, and when the keys are old.
//!
//! One fetch at a time, and a pause after each, however many ask: whoever invents key ids makes no more of them, and
//! leaves nothing behind. What is fetched, and how, is the caller's: this crate brings no network.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{fmt, io, thread};

use super::KeySet;
use crate::verifier::Verifier;

/// Between two fetches, at least, unless told otherwise.
pub const PAUSE: Duration = Duration::from_secs(2);
/// How old keys get, unless told otherwise.
///
/// As long is a key trusted here that the cluster has dropped. It is shorter than the 15 minutes for which a node's new key
/// is published before it signs (SPEC 7), so that no holder brings one that is not known here yet.
pub const AGE_MAX: Duration = Duration::from_secs(300);

/// How often the keys are fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Between the end of one fetch and the begin of the next, at least. A fetch that failed is tried again after it.
    pub pause: Duration,
    /// Fetched after this time also where nobody asked.
    pub age_max: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self { pause: PAUSE, age_max: AGE_MAX }
    }
}

/// Keeps the keys of a [`Verifier`] fresh, in a thread of its own. Ends when it is dropped.
pub struct KeyRefresh {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    asked: bool,
    ended: bool,
    fetches: u64,
}

impl KeyRefresh {
    /// Begins, with what `verifier` has. `fetch` gets the cluster's JWKS document from any node and may block; None where it
    /// got none: it says why, in its log. What has no key in it is not taken either: the keys that were there stay.
    ///
    /// # Errors
    ///
    /// The system has no thread left.
    pub fn start(
        verifier: Arc<Verifier>,
        pace: Pace,
        fetch: impl FnMut() -> Option<KeySet> + Send + 'static,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let of_the_thread = Arc::clone(&shared);
        // Not waited for at the end: it may be in the middle of a fetch, which the one who ends it may have to drive.
        thread::Builder::new()
            .name("palisade-keys".to_owned())
            .spawn(move || of_the_thread.run(pace, &verifier, fetch))?;
        Ok(Self { shared })
    }

    /// Asks for a fetch, and returns at once: what [`FenceError::UnknownKey`](crate::error::FenceError::UnknownKey) calls for.
    pub fn ask(&self) {
        let mut state = self.shared.state();
        // Whoever asks in a flood has nobody to wake.
        if !state.asked {
            state.asked = true;
            self.shared.changed.notify_all();
        }
    }

    /// Fetches so far, those that failed included.
    pub fn fetches(&self) -> u64 {
        self.shared.state().fetches
    }
}

impl Drop for KeyRefresh {
    fn drop(&mut self) {
        self.shared.state().ended = true;
        self.shared.changed.notify_all();
    }
}

impl fmt::Debug for KeyRefresh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyRefresh").field("fetches", &self.fetches()).finish()
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, pace: Pace, verifier: &Verifier, mut fetch: impl FnMut() -> Option<KeySet>) {
        while self.until_asked(pace.age_max) {
            // A fetch that panics is one that failed: the next may go well.
            let fetched = catch_unwind(AssertUnwindSafe(&mut fetch)).ok().flatten();
            match fetched.filter(|keys| !keys.is_empty()) {
                Some(keys) => verifier.replace_keys(keys),
                None => self.state().asked = true,
            }
            self.pause(pace.pause);
        }
    }

    /// Waits for who asks, or for the keys to be old. False where it ended.
    fn until_asked(&self, age_max: Duration) -> bool {
        let idle = |state: &mut State| !state.asked && !state.ended;
        let waited = self.changed.wait_timeout_while(self.state(), age_max, idle);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.asked = false;
        state.fetches += u64::from(!state.ended);
        !state.ended
    }

    fn pause(&self, pause: Duration) {
        drop(self.changed.wait_timeout_while(self.state(), pause, |state| !state.ended));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use std::sync::mpsc;

    use super::*;
    use crate::conformance::SigningCluster;
    use crate::error::FenceError;

    const LONG: Duration = Duration::from_secs(3_600);
    const PATIENCE: Duration = Duration::from_secs(30);
    const SELDOM: Pace = Pace { pause: LONG, age_max: LONG };

    fn keys(clusters: &[&SigningCluster]) -> KeySet {
        let documents = clusters.iter().map(|cluster| cluster.verifier().keys());
        KeySet(documents.flat_map(|keys| keys.0.clone()).collect())
    }

    fn text(cluster: &SigningCluster, token: u64) -> String {
        let statement = cluster.statement("a", 0, palisade_core::mode::Mode::Exclusive, token);
        cluster.sign(&cluster.header(), &statement)
    }

    /// The same cluster, with the keys of its nodes.
    fn node(key: u8) -> SigningCluster {
        SigningCluster::new(1).with_key_of(key)
    }

    #[test]
    fn a_flood_of_unknown_keys_makes_one_fetch_and_leaves_nothing_behind() {
        let known = node(1);
        let verifier = Arc::new(Verifier::new(known.id(), keys(&[&known])));
        let (began, begins) = mpsc::channel();
        let fetched = keys(&[&known]);
        let refresh = KeyRefresh::start(Arc::clone(&verifier), SELDOM, move || {
            began.send(()).unwrap();
            Some(fetched.clone())
        })
        .unwrap();
        thread::scope(|threads| {
            for flooder in 0..4_u8 {
                let (verifier, refresh) = (&verifier, &refresh);
                threads.spawn(move || {
                    for key in 0..60 {
                        let stranger = node(10 + flooder * 60 + key);
                        for token in 1..=10 {
                            let refused = verifier.verify(&text(&stranger, token));
                            assert!(matches!(refused, Err(FenceError::UnknownKey { .. })), "{refused:?}");
                            refresh.ask();
                        }
                    }
                });
            }
        });
        begins.recv_timeout(PATIENCE).unwrap();
        assert_eq!(refresh.fetches(), 1, "2,400 unknown keys, and an hour's pause after the first fetch");
        assert_eq!((verifier.keys().len(), verifier.remembered_count()), (1, 0));
        assert!(verifier.verify(&text(&known, 34)).is_ok());
        drop(refresh);
        assert!(begins.recv_timeout(PATIENCE).is_err_and(|end| end == mpsc::RecvTimeoutError::Disconnected));
    }

    #[test]
    fn who_asks_during_a_fetch_gets_one_more_after_it() {
        let known = node(1);
        let (began, begins) = mpsc::channel();
        let (go, goes) = mpsc::channel();
        let fetched = keys(&[&known]);
        let verifier = Arc::new(Verifier::new(known.id(), KeySet::default()));
        let pace = Pace { pause: Duration::ZERO, age_max: LONG };
        let refresh = KeyRefresh::start(Arc::clone(&verifier), pace, move || {
            began.send(()).unwrap();
            goes.recv().unwrap();
            Some(fetched.clone())
        })
        .unwrap();
        refresh.ask();
        begins.recv_timeout(PATIENCE).unwrap();
        (0..1_000).for_each(|_| refresh.ask());
        assert_eq!(refresh.fetches(), 1, "one at a time");
        go.send(()).unwrap();
        begins.recv_timeout(PATIENCE).unwrap();
        assert!(verifier.verify(&text(&known, 34)).is_ok(), "the first one's keys are in force");
        assert_eq!(refresh.fetches(), 2, "a thousand asked, and share the next");
        go.send(()).unwrap();
        assert!(begins.recv_timeout(Duration::from_millis(100)).is_err(), "nobody has asked since");
    }

    #[test]
    fn what_fails_leaves_the_keys_as_they_are_and_is_tried_again() {
        let (known, new) = (node(1), node(2));
        let verifier = Arc::new(Verifier::new(known.id(), keys(&[&known])));
        let mut answers = vec![Some(keys(&[&known, &new])), None, Some(KeySet::default())];
        let (done, ends) = mpsc::channel();
        let pace = Pace { pause: Duration::ZERO, age_max: LONG };
        let of_the_fetch = Arc::clone(&verifier);
        let refresh = KeyRefresh::start(Arc::clone(&verifier), pace, move || {
            // What the ones before left.
            done.send(of_the_fetch.keys().len()).unwrap();
            answers.pop().unwrap_or_else(|| panic!("the network is gone"))
        })
        .unwrap();
        refresh.ask();
        for _ in 0..3 {
            assert_eq!(ends.recv_timeout(PATIENCE), Ok(1), "nobody asked again");
        }
        refresh.ask();
        for _ in 0..2 {
            assert_eq!(ends.recv_timeout(PATIENCE), Ok(2), "one that panics is tried again too");
        }
    }

    /// Keys come, sign, retire and go while a thousand sequencers and more are verified in each step.
    #[test]
    fn keys_change_under_load_and_no_true_holder_is_refused() {
        let (old, new) = (node(1), node(2));
        // What the nodes tell: the old key; the new one as well; the new one alone, once the old was dropped.
        let told = Arc::new(Mutex::new(keys(&[&old])));
        let verifier = Arc::new(Verifier::new(old.id(), keys(&[&old])));
        let document = Arc::clone(&told);
        let pace = Pace { pause: Duration::from_millis(1), age_max: Duration::from_millis(1) };
        let fetch = move || Some(document.lock().unwrap().clone());
        let refresh = KeyRefresh::start(Arc::clone(&verifier), pace, fetch).unwrap();
        let texts =
            |cluster: &SigningCluster| (1..=200).map(|token| text(cluster, token)).collect::<Vec<_>>();
        let (of_old, of_new) = (texts(&old), texts(&new));
        let (signs_new, old_is_dropped, over) =
            (AtomicBool::new(false), AtomicBool::new(false), AtomicBool::new(false));
        let verified = AtomicU64::new(0);
        let steps = |count: u64| {
            let before = verified.load(Ordering::Relaxed);
            while verified.load(Ordering::Relaxed) < before + count {
                thread::yield_now();
            }
        };
        let told = |clusters: &[&SigningCluster]| {
            *told.lock().unwrap() = keys(clusters);
            while *verifier.keys() != keys(clusters) {
                thread::yield_now();
            }
        };
        thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| {
                    while !over.load(Ordering::Acquire) {
                        let dropping = old_is_dropped.load(Ordering::Acquire);
                        let is_new = signs_new.load(Ordering::Acquire);
                        for text in of_old.iter().filter(|_| !dropping) {
                            let outcome = verifier.verify(text);
                            // It may have been dropped since.
                            assert!(outcome.is_ok() || old_is_dropped.load(Ordering::Acquire), "{outcome:?}");
                            verified.fetch_add(1, Ordering::Relaxed);
                        }
                        for text in of_new.iter().filter(|_| is_new) {
                            let outcome = verifier.verify(text);
                            assert!(outcome.is_ok(), "{outcome:?}");
                            verified.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
            steps(1_000);
            told(&[&old, &new]);
            signs_new.store(true, Ordering::Release);
            // The old one is retired: it signs no more, and verifies.
            steps(2_000);
            old_is_dropped.store(true, Ordering::Release);
            told(&[&new]);
            steps(1_000);
            over.store(true, Ordering::Release);
        });
        let dropped = verifier.verify(&of_old[0]);
        assert!(matches!(dropped, Err(FenceError::UnknownKey { .. })), "also one that was verified before");
        assert!(verifier.remembered_count() <= 400, "no text stands twice");
        drop(refresh);
    }
}
