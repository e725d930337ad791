//! Work in proportion to the table: on a thread of its own, and after everybody else.

use std::io;
use std::thread;

use tokio::sync::oneshot;

/// How far such a thread stands back where cores are few; the largest is 19.
const NICENESS: i32 = 10;

/// Runs `work` on a thread of its own if it may wait for a disk, and here if not: a simulation has no threads.
///
/// # Errors
///
/// When there is no thread, or `work` panicked.
pub(crate) async fn off_reactor<T: Send + 'static>(
    blocks: bool,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    if !blocks {
        return Ok(work());
    }
    let (done, result) = oneshot::channel();
    thread::Builder::new().name("snapshot".to_owned()).spawn(move || {
        stand_back();
        // Nobody waits any more when the node ends.
        let _ = done.send(work());
    })?;
    result.await.map_err(|_| io::Error::other("the work on a snapshot panicked"))
}

/// Where that is not possible, the thread runs like all others.
fn stand_back() {
    // On Linux a thread has a priority of its own.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICENESS);
}
