//! `palisade who`: who holds a lock, who waits, and who held it before.

use palisade_core::ids::LockName;
use palisade_proto::convert::json;

use super::again::again;
use super::{Failure, client, view};
use crate::args::{Globals, WhoArgs};
use crate::exit::Exit;

/// Yes when the lock is held.
pub(crate) async fn run(globals: &Globals, arguments: &WhoArgs) -> Result<Exit, Failure> {
    let name = LockName::new(&arguments.name).map_err(|error| Failure::new(Exit::USAGE, error))?;
    let client = client(globals)?;
    again(globals, &arguments.again, async |output| {
        let lock = client.lock_view(&name).await?;
        output.answer("palisade.who/1", |_| view::lines(&lock), || json::lock(&lock))?;
        Ok(if lock.slots.iter().any(|slot| view::tenure(slot).is_some()) { Exit::OK } else { Exit::NO })
    })
    .await
}
