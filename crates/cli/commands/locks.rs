//! `palisade locks`: locks that are held, awaited or in lock-delay, by prefix and page.

use palisade_proto::convert::json;
use palisade_proto::v1;

use super::again::again;
use super::{Failure, client, view};
use crate::args::{Globals, LocksArgs};
use crate::exit::Exit;
use crate::output::table;

const HEADER: [&str; 7] = ["LOCK", "MODE", "TOKEN", "HOLDER", "HELD", "LEASE", "QUEUE"];

/// An empty list is an answer, too.
pub(crate) async fn run(globals: &Globals, arguments: &LocksArgs) -> Result<Exit, Failure> {
    let client = client(globals)?;
    again(globals, &arguments.again, async |output| {
        let list = client.list_locks(&arguments.prefix, arguments.limit, &arguments.after).await?;
        output.answer("palisade.locks/1", |_| lines(&list), || json::locks(&list))?;
        Ok(Exit::OK)
    })
    .await
}

fn lines(list: &v1::LockList) -> String {
    let mut text = table(&HEADER, list.locks.iter().flat_map(view::rows));
    if list.more
        && let Some(last) = list.locks.last()
    {
        text.push_str(&format!("\nmore follow: --after {}", last.lock));
    }
    text
}
