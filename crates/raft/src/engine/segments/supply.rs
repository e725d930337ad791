//! Slots for the next segments: those that a purge freed, and new ones, made on a thread of their own ahead of need.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use super::SPARES_MAX;
use super::slot::Slot;

enum Job {
    Make(u64),
    Remove(PathBuf),
}

pub(super) struct Supply {
    bytes: u64,
    free: VecDeque<Arc<Slot>>,
    next_name: u64,
    /// A slot is being made.
    asked: bool,
    jobs: Option<Sender<Job>>,
    made: Receiver<io::Result<Slot>>,
    thread: Option<JoinHandle<()>>,
}

impl Supply {
    /// `free` are slots that hold nothing that is needed, the ones to use first at the front.
    pub(super) fn start(
        dir: &Path,
        bytes: u64,
        free: impl IntoIterator<Item = Arc<Slot>>,
        next_name: u64,
    ) -> io::Result<Self> {
        let (jobs, todo) = channel();
        let (done, made) = channel();
        let dir = dir.to_owned();
        let work = move || {
            for job in todo {
                match job {
                    Job::Make(name) => {
                        // Nobody waits for it once the log is closed.
                        let _ = done.send(Slot::make(&dir, name, bytes));
                    }
                    Job::Remove(path) => {
                        if let Err(error) = fs::remove_file(&path) {
                            tracing::warn!(path = %path.display(), %error, "a spare segment was not removed");
                        }
                    }
                }
            }
        };
        let thread = std::thread::Builder::new().name("segments".into()).spawn(work)?;
        let mut supply = Self {
            bytes,
            free: VecDeque::new(),
            next_name,
            asked: false,
            jobs: Some(jobs),
            made,
            thread: Some(thread),
        };
        free.into_iter().for_each(|slot| supply.put(slot));
        Ok(supply)
    }

    /// Takes back a slot that holds nothing that is needed.
    pub(super) fn put(&mut self, slot: Arc<Slot>) {
        if slot.bytes != self.bytes || self.free.len() >= SPARES_MAX {
            self.ask(Job::Remove(slot.path.clone()));
        } else {
            self.free.push_back(slot);
        }
    }

    /// Has one made, if none is there.
    pub(super) fn want(&mut self) {
        if self.asked
            && let Ok(made) = self.made.try_recv()
        {
            self.asked = false;
            // One that could not be made is asked for again when it is needed, and its error told then.
            self.free.extend(made.ok().map(Arc::new));
        }
        if self.free.is_empty() && !self.asked {
            self.make();
        }
    }

    /// A slot. Waits for it if need be.
    pub(super) fn take(&mut self) -> io::Result<Arc<Slot>> {
        if let Some(slot) = self.free.pop_front() {
            return Ok(slot);
        }
        if !self.asked {
            self.make();
        }
        self.asked = false;
        let made = self.made.recv().map_err(io::Error::other)?;
        made.map(Arc::new)
    }

    fn make(&mut self) {
        self.asked = true;
        self.ask(Job::Make(self.next_name));
        self.next_name += 1;
    }

    fn ask(&self, job: Job) {
        if let Some(jobs) = &self.jobs {
            // The thread outlives the sender.
            let _ = jobs.send(job);
        }
    }
}

impl Drop for Supply {
    fn drop(&mut self) {
        self.jobs.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
