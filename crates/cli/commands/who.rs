//! `palisade who`: who holds a lock, who waits, and who held it before.

use palisade_core::ids::LockName;

use super::{Failure, client, view};
use crate::args::{Globals, WhoArgs};
use crate::exit::Exit;
use crate::output::Output;

/// Yes when the lock is held.
pub(crate) async fn run(globals: &Globals, arguments: &WhoArgs) -> Result<Exit, Failure> {
    let name = LockName::new(&arguments.name).map_err(|error| Failure::new(Exit::USAGE, error))?;
    let lock = client(globals)?.lock_view(&name).await?;
    Output::new(globals).answer("palisade.who/1", |_| view::lines(&lock), || view::json(&lock))?;
    Ok(if lock.slots.iter().any(|slot| view::tenure(slot).is_some()) { Exit::OK } else { Exit::NO })
}
