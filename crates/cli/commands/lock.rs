//! `palisade lock`: runs a command while holding a lock, or several, and stops it when one is lost.

use palisade_client::Part;
use palisade_core::ids::LockName;

use super::Failure;
use super::under::{self, Asked};
use crate::args::{Globals, LockArgs};
use crate::exit::Exit;

/// Must run on the process's main thread (see [`crate::child::spawn`]).
///
/// # Errors
///
/// Whatever keeps palisade itself from doing its part; the caller turns each into 125.
pub(crate) async fn run(globals: &Globals, arguments: &LockArgs) -> Result<Exit, Failure> {
    let usage = |error: anyhow::Error| Failure::new(Exit::USAGE, error);
    if arguments.baton && arguments.names.len() > 1 {
        return Err(usage(anyhow::anyhow!(
            "--baton is of one lock, and {} are named",
            arguments.names.len()
        )));
    }
    let parts = arguments.names.iter().map(|name| {
        let mut part = Part::new(LockName::new(name).map_err(|error| usage(error.into()))?);
        if arguments.shared {
            part = part.shared();
        }
        if let Some(capacity) = arguments.capacity {
            part = part.capacity(capacity).permits(arguments.permits.unwrap_or(1));
        }
        Ok(part)
    });
    let asked = Asked {
        shown: arguments.names.join(", "),
        parts: parts.collect::<Result<_, Failure>>()?,
        metadata: &arguments.metadata,
        baton: arguments.baton,
        command: &arguments.command,
        acquired: "acquired",
    };
    under::run(globals, &asked, &arguments.under).await
}
