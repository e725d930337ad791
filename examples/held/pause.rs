//! A pause at the worst moment, so that nobody has to hit it by hand.

use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Signal, getpid, kill_process};

/// Stops the process once, as SIGSTOP, a suspended machine or a throttled container does.
#[derive(Debug)]
pub(crate) struct Pause {
    armed: AtomicBool,
}

impl Pause {
    /// Of a drill's two runs the first one is stopped.
    pub(crate) fn new(wanted: bool) -> Self {
        let second = std::env::var("PALISADE_DRILL").is_ok_and(|run| run == "second");
        Self { armed: AtomicBool::new(wanted && !second) }
    }

    /// Here it may happen. Whoever wakes the process finds it where it was.
    ///
    /// Called on the main thread, which takes the signal before it goes on.
    pub(crate) fn here(&self) {
        if self.armed.swap(false, Ordering::Relaxed) {
            let me = getpid();
            println!("stopped right before a write; wake it with: kill -CONT {}", me.as_raw_nonzero());
            if let Err(error) = kill_process(me, Signal::STOP) {
                eprintln!("not stopped: {error}");
            }
        }
    }
}
