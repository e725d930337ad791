//! A log from one engine into another.

use std::io;
use std::path::Path;
use std::sync::mpsc::{Sender, channel};

use super::{Done, Engine, EngineKind, Recovered};
use crate::error::OpenError;

/// Bytes of entries that are carried over at a time.
const CARRY_BYTES: usize = 1 << 20;

/// Writes the log in the directory `from`, kept by `kind`, into the directory `to`, kept by `other`, and reads it back.
///
/// `from` holds the same afterwards. Answers the number of entries.
///
/// # Errors
///
/// When `from` is in use or damaged, or `to` cannot be written, or does not hold the same afterwards.
pub fn convert_log(
    (from, kind): (&Path, EngineKind),
    (to, other): (&Path, EngineKind),
) -> Result<u64, OpenError> {
    let source = kind.open(from)?;
    let held = source.load()?;
    let failed = |why| OpenError::io(to, why);
    let target = other.open(to)?;
    copy(&*source, &held, &*target).map_err(failed)?;
    target.close();
    drop(target);
    let target = other.open(to)?;
    let written = target.load()?;
    let entries = compare(&*source, &held, &*target, &written).map_err(failed)?;
    target.close();
    source.close();
    Ok(entries)
}

fn copy(source: &dyn Engine, held: &Recovered, target: &dyn Engine) -> io::Result<()> {
    let (sender, answers) = channel();
    let mut asked = 0;
    let mut done = || {
        asked += 1;
        answer(&sender)
    };
    if let Some(identity) = source.identity() {
        target.save_identity(identity, done());
    }
    if let Some(point) = held.purged {
        target.purge_to(point);
    }
    if let Some(vote) = held.vote {
        target.save_vote(vote, done());
    }
    target.save_committed(held.committed);
    for _ in 0..asked {
        answers.recv().map_err(io::Error::other)??;
    }
    let Some((mut next, last)) = held.log else { return Ok(()) };
    while next <= last {
        let records = source.read(next..last + 1, CARRY_BYTES)?;
        let count = records.len() as u64;
        target.append(next, records, answer(&sender));
        answers.recv().map_err(io::Error::other)??;
        next += count;
    }
    Ok(())
}

fn answer(sender: &Sender<io::Result<()>>) -> Done {
    let sender = sender.clone();
    // Who asked waits for it.
    Box::new(move |result| drop(sender.send(result)))
}

fn compare(
    source: &dyn Engine,
    held: &Recovered,
    target: &dyn Engine,
    written: &Recovered,
) -> io::Result<u64> {
    let facts = |engine: &dyn Engine, log: &Recovered| {
        (engine.identity(), log.vote, log.purged, log.committed, log.log)
    };
    let differs = || io::Error::other("what was written is not what was read");
    if facts(source, held) != facts(target, written) {
        return Err(differs());
    }
    let Some((first, last)) = held.log else { return Ok(0) };
    let mut next = first;
    while next <= last {
        let records = source.read(next..last + 1, CARRY_BYTES)?;
        let end = next + records.len() as u64;
        let mut found = Vec::with_capacity(records.len());
        while next < end {
            let read = target.read(next..end, CARRY_BYTES)?;
            next += read.len() as u64;
            found.extend(read);
        }
        if found != records {
            return Err(differs());
        }
    }
    Ok(last + 1 - first)
}
