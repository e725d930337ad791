//! Whether tokens rise: those of one lock, and all of them in the order in which requests were sent after grants.

use std::cell::Cell;
use std::rc::Rc;

use anyhow::Context;
use palisade_client::LockGuard;
use palisade_core::ids::LockName;

use super::tasks::count;

/// A lock, and its highest token so far.
pub(super) struct Lock {
    pub(super) name: LockName,
    last: Cell<u64>,
}

/// So many locks of this run; `part` tells measurements apart.
pub(super) fn locks(count: u32, part: &str) -> anyhow::Result<Vec<Rc<Lock>>> {
    let run = std::process::id();
    let lock = |number| {
        let name = LockName::new(&format!("bench/{run}/{part}/{number}")).context("the name of a lock")?;
        Ok(Rc::new(Lock { name, last: Cell::new(0) }))
    };
    (0..count).map(lock).collect()
}

/// All tokens of one measurement, those of the warm-up included.
#[derive(Default)]
pub(super) struct Tokens {
    checked: Cell<u64>,
    not_rising: Cell<u64>,
    highest: Cell<u64>,
}

impl Tokens {
    /// The highest that was granted so far. A request that is sent now is granted a higher one, whatever its lock:
    /// tokens are places in one log.
    pub(super) fn highest(&self) -> u64 {
        self.highest.get()
    }

    /// Looks at a grant; `before` was the highest token when it was asked for.
    pub(super) fn check(&self, lock: &Lock, before: u64, guard: &LockGuard) {
        self.look(lock, before, guard.token().get());
    }

    fn look(&self, lock: &Lock, before: u64, token: u64) {
        let last = lock.last.get().max(before);
        count(&self.checked);
        if token <= last {
            count(&self.not_rising);
            tracing::error!(lock = %lock.name, token, before = last, "a token did not rise");
        }
        lock.last.set(token.max(lock.last.get()));
        self.highest.set(token.max(self.highest.get()));
    }

    pub(super) fn checked(&self) -> u64 {
        self.checked.get()
    }

    pub(super) fn not_rising(&self) -> u64 {
        self.not_rising.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_above_those_of_its_lock_and_those_known_when_it_was_asked_for() {
        let (locks, tokens) = (locks(2, "test").unwrap(), Tokens::default());
        tokens.look(&locks[0], 0, 7);
        let before = tokens.highest();
        // Asked for before 7 was known, of another lock.
        tokens.look(&locks[1], 0, 6);
        assert_eq!((tokens.checked(), tokens.not_rising()), (2, 0));
        tokens.look(&locks[1], before, 7);
        tokens.look(&locks[0], 0, 7);
        assert_eq!((tokens.checked(), tokens.not_rising()), (4, 2));
    }
}
