//! The hidden step `palisade exec-child`: becomes the command, and dies with the wrapper.
//!
//! The parent-death signal is set here, in the child, because the standard library offers no safe hook between fork and
//! exec. It survives the exec (but not that of a set-user-id program), and the command's own children do not inherit it.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::exit::Exit;

/// Becomes `command`. Returns only when that failed.
pub(crate) fn exec(parent: u32, command: &[OsString]) -> Exit {
    if let Err(error) = die_with(parent) {
        say!("palisade: {error}");
        return Exit::FAILED;
    }
    let Some((name, arguments)) = command.split_first() else { return Exit::FAILED };
    let error = Command::new(name).args(arguments).exec();
    say!("palisade: cannot run {}: {error}", name.display());
    if error.kind() == io::ErrorKind::NotFound { Exit::NO_SUCH_COMMAND } else { Exit::NOT_RUNNABLE }
}

/// From now on this process is killed when the thread that spawned it ends.
#[cfg(target_os = "linux")]
fn die_with(parent: u32) -> io::Result<()> {
    use rustix::process::{Signal, getppid, set_parent_process_death_signal};

    set_parent_process_death_signal(Some(Signal::KILL))?;
    // A parent that died before the call sent no signal; then we have been adopted by another process.
    let now = getppid().and_then(|pid| u32::try_from(pid.as_raw_nonzero().get()).ok());
    if now != Some(parent) {
        return Err(io::Error::other("the wrapper ended before the command began"));
    }
    Ok(())
}

/// There is no parent-death signal here: a wrapper that is killed leaves its command running, and the lease ends.
#[cfg(not(target_os = "linux"))]
fn die_with(_parent: u32) -> io::Result<()> {
    Ok(())
}
