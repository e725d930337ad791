//! A node under strace, and what its trace says about its files.

use std::fs;
use std::path::{Path, PathBuf};

use palisade_testkit::cluster::ProcessCluster;

use super::strace::{self, Call};
use super::until;

/// The trace of one node.
pub(crate) struct Trace {
    pub(crate) calls: Vec<Call>,
}

/// Has a node run under strace from its next start on; the trace goes to the returned file. `more` are further flags.
pub(crate) fn wrap(cluster: &mut ProcessCluster, node: usize, more: &[&str]) -> PathBuf {
    let file = cluster.directory().join(format!("{}.strace", cluster.nodes()[node].name));
    // -D: the node stays our child and strace hangs on beside it, so that a signal reaches the node.
    let flags = ["strace", "-D", "-f", "-yy", "-xx", "-s", "16777216", "--seccomp-bpf", "-o"];
    let mut words: Vec<_> = flags.iter().map(|&flag| flag.to_owned()).collect();
    words.extend([file.display().to_string(), "-e".to_owned(), format!("trace={}", strace::traced())]);
    words.extend(more.iter().map(|&flag| flag.to_owned()));
    cluster.wrap(node, words);
    file
}

impl Trace {
    /// Reads the trace of a node that has ended, once strace has written its end.
    pub(crate) async fn read(file: &Path) -> Self {
        let whole = || {
            let text = fs::read_to_string(file).unwrap_or_default();
            // The thread that began it all ends last.
            let node = text.split(' ').next().unwrap_or_default().to_owned();
            let ends = |line: &str| {
                let mut words = line.split_whitespace();
                words.next() == Some(&*node)
                    && words.next() == Some("+++")
                    && words.next_back() == Some("+++")
            };
            text.lines().last().is_some_and(ends).then_some(text)
        };
        let text = until("strace writes the end of the node", whole).await;
        Self { calls: strace::parse(&text) }
    }

    /// The first write to `file`, entered after line `after`, that holds `marker`.
    pub(crate) fn written(&self, file: &Path, marker: &[u8], after: usize) -> Option<&Call> {
        let mut writes = self.calls.iter().filter(|call| call.writes() && call.on == path(file));
        writes.find(|call| call.began > after && holds(call.bytes(), marker))
    }

    /// The line at which `file` or directory was durable: the return of the first flush that was entered after `after`.
    pub(crate) fn flushed(&self, file: &Path, after: usize) -> Option<usize> {
        let flushes = self.calls.iter().filter(|call| matches!(call.name.as_str(), "fdatasync" | "fsync"));
        let mut good = flushes.filter(|call| call.on == path(file) && call.result == 0 && call.began > after);
        good.next().map(|call| call.ended)
    }

    /// The line at which what `marker` names was durable in `file`, if it was written after line `after`.
    pub(crate) fn durable(&self, file: &Path, marker: &[u8], after: usize) -> Option<usize> {
        self.durable_write(file, self.written(file, marker, after)?)
    }

    /// The line at which what `write` wrote to `file` was durable.
    pub(crate) fn durable_write(&self, file: &Path, write: &Call) -> Option<usize> {
        if write.durable { Some(write.ended) } else { self.flushed(file, write.ended) }
    }
}

fn path(file: &Path) -> &str {
    file.to_str().expect("a path in UTF-8")
}

/// Whether `bytes` hold `marker`.
pub(crate) fn holds(bytes: &[u8], marker: &[u8]) -> bool {
    bytes.windows(marker.len()).any(|window| window == marker)
}
