//! `palisade locks`: locks that are held, awaited or in lock-delay, by prefix and page.

use serde_json::{Value, json};

use super::{Failure, client, view};
use crate::args::{Globals, LocksArgs};
use crate::exit::Exit;
use crate::output::{Output, table, wide};

const HEADER: [&str; 7] = ["LOCK", "MODE", "TOKEN", "HOLDER", "HELD", "LEASE", "QUEUE"];

/// An empty list is an answer, too.
pub(crate) async fn run(globals: &Globals, arguments: &LocksArgs) -> Result<Exit, Failure> {
    let list = client(globals)?.list_locks(&arguments.prefix, arguments.limit, &arguments.after).await?;
    let people = |_: Output| {
        let mut text = table(&HEADER, list.locks.iter().flat_map(view::rows));
        if list.more
            && let Some(last) = list.locks.last()
        {
            text.push_str(&format!("\nmore follow: --after {}", last.lock));
        }
        text
    };
    let scripts = || {
        let locks: Vec<Value> = list.locks.iter().map(view::json).collect();
        json!({ "locks": locks, "more": list.more, "applied": wide(list.index) })
    };
    Output::new(globals).answer("palisade.locks/1", people, scripts)?;
    Ok(Exit::OK)
}
