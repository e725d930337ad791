//! The signals that the wrapper passes on instead of dying of them.

use std::fs;
use std::future::poll_fn;
use std::io;
use std::task::Poll;

use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind};

/// Every signal that a shell, a terminal or a supervisor sends on purpose.
const PASSED_ON: [Signal; 10] = [
    Signal::TERM,
    Signal::INT,
    Signal::HUP,
    Signal::QUIT,
    Signal::USR1,
    Signal::USR2,
    Signal::ALARM,
    Signal::TSTP,
    Signal::CONT,
    Signal::WINCH,
];

/// Catches signals from its making on; none is lost in between.
pub(crate) struct Signals {
    caught: Vec<(Signal, unix::Signal)>,
}

impl Signals {
    /// Catches all that are passed on, but those that this process was told to ignore (as `nohup` does): the command
    /// inherits that.
    pub(crate) fn catch() -> io::Result<Self> {
        let ignored = ignored();
        let wanted = PASSED_ON.into_iter().filter(|signal| ignored & bit(*signal) == 0);
        let caught = wanted.map(|signal| Ok((signal, unix::signal(SignalKind::from_raw(signal.as_raw()))?)));
        Ok(Self { caught: caught.collect::<io::Result<_>>()? })
    }

    /// The next one. Cancel safe.
    pub(crate) async fn next(&mut self) -> Signal {
        poll_fn(|context| {
            for (signal, stream) in &mut self.caught {
                if let Poll::Ready(Some(())) = stream.poll_recv(context) {
                    return Poll::Ready(*signal);
                }
            }
            Poll::Pending
        })
        .await
    }

    /// The next one that asks to end, for a process that has no command yet.
    pub(crate) async fn next_ending(&mut self) -> Signal {
        loop {
            match self.next().await {
                ending @ (Signal::TERM | Signal::INT | Signal::HUP | Signal::QUIT) => return ending,
                Signal::TSTP => stop_self(),
                _ => {}
            }
        }
    }
}

/// Stops this process, as the signal that it caught would have.
pub(crate) fn stop_self() {
    // Nothing else can be done about a failure, and going on is right then.
    let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::STOP);
}

fn bit(signal: Signal) -> u64 {
    1 << (signal.as_raw() - 1)
}

/// The mask of ignored signals; empty where the system does not tell.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
