//! Small segments, so that they are filled, used again and damaged often.

mod damage;
mod power;
mod reuse;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use tempfile::TempDir;

use super::*;
use crate::engine::LogPoint;
use crate::engine::tests::{append, record, records, vote};

const SMALL: u64 = 16 << 10;

fn open(dir: &Path) -> Result<(Arc<dyn Engine>, Recovered), OpenError> {
    let engine = open_sized(dir, SMALL)?;
    let recovered = engine.load()?;
    Ok((engine, recovered))
}

fn opened(dir: &Path) -> (Arc<dyn Engine>, Recovered) {
    open(dir).unwrap_or_else(|error| panic!("it opens: {error}"))
}

/// The bytes of every file. One that is being made or removed meanwhile is left out.
fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let names = fs::read_dir(dir).expect("it reads").map(|file| file.expect("it reads").file_name());
    let names = names.map(|name| name.to_string_lossy().into_owned()).filter(|name| !name.ends_with(".tmp"));
    names.filter_map(|name| Some((name.clone(), fs::read(dir.join(name)).ok()?))).collect()
}

/// A directory with these files alone.
fn with_files(files: &BTreeMap<String, Vec<u8>>) -> TempDir {
    let dir = TempDir::new().expect("a directory");
    put_files(dir.path(), files);
    dir
}

/// Has a directory hold these files alone.
fn put_files(dir: &Path, files: &BTreeMap<String, Vec<u8>>) {
    for file in fs::read_dir(dir).expect("it reads") {
        let file = file.expect("it reads");
        if !files.contains_key(&*file.file_name().to_string_lossy()) {
            fs::remove_file(file.path()).expect("it is removed");
        }
    }
    for (name, bytes) in files {
        fs::write(dir.join(name), bytes).expect("it writes");
    }
}

fn segments(dir: &Path) -> usize {
    files(dir).keys().filter(|name| name.starts_with("segment-")).count()
}

#[test]
fn an_entry_that_is_too_large_fails_for_good() {
    let dir = TempDir::new().expect("a directory");
    let (engine, _) = opened(dir.path());
    append(&*engine, 1, records(1, 1)).expect("it appends");
    assert!(append(&*engine, 2, vec![record(1, crate::COMMAND_BYTES_MAX + 1)]).is_err());
    assert!(engine.failed().borrow().as_ref().is_some_and(|why| why.contains("larger")));
    assert!(append(&*engine, 2, records(1, 1)).is_err());
    drop(engine);
    assert_eq!(opened(dir.path()).1.tail, records(1, 1));
}

#[test]
fn entries_that_do_not_follow_are_not_written() {
    let dir = TempDir::new().expect("a directory");
    let (engine, _) = opened(dir.path());
    append(&*engine, 1, records(1, 3)).expect("it appends");
    assert!(append(&*engine, 5, records(1, 1)).is_err());
    drop(engine);
    assert_eq!(opened(dir.path()).1.log, Some((1, 3)));
}

#[test]
fn what_was_torn_is_written_over_and_never_comes_back() {
    let dir = TempDir::new().expect("a directory");
    let (engine, _) = opened(dir.path());
    append(&*engine, 1, records(1, 1)).expect("it appends");
    let before = files(dir.path());
    // Two frames; the first is torn, the second reached the disk. The first ends where a block ends: what is written
    // over it does not touch the second.
    let first = &before["segment-000000"][slot::HEAD..];
    let end = slot::HEAD + frame::parse(first).unwrap_or_else(|why| panic!("{why}")).bytes();
    let bytes = BLOCK - end - frame::HEAD - item::HEAD - item::RUN_HEAD - record(1, 0).stored_bytes();
    append(&*engine, 2, vec![record(1, bytes)]).expect("it appends");
    append(&*engine, 3, vec![record(9, 3_000)]).expect("it appends");
    drop(engine);
    let mut torn = files(dir.path());
    torn.insert("flushed".into(), before["flushed"].clone());
    // The third frame knew that the second was flushed; one that did not is what a torn group leaves.
    let segment = torn.get_mut("segment-000000").expect("it is there");
    let second = frame_at(segment, 2);
    let third = frame_at(segment, 3);
    assert_eq!(third, BLOCK);
    segment[third + 16..third + 24].copy_from_slice(&1_u64.to_le_bytes());
    reseal(segment, third);
    segment[second + 100] ^= 1;
    let torn = with_files(&torn);
    let (engine, recovered) = opened(torn.path());
    assert_eq!(recovered.log, Some((1, 1)));
    // Exactly as long as the one that was torn.
    append(&*engine, 2, vec![record(5, bytes)]).expect("it appends");
    drop(engine);
    assert_eq!(opened(torn.path()).1.tail, [records(1, 1), vec![record(5, bytes)]].concat());
}

/// Where frame `number` of a segment begins.
fn frame_at(segment: &[u8], number: u64) -> usize {
    let mut at = slot::HEAD;
    loop {
        let frame = frame::parse(&segment[at..]).unwrap_or_else(|why| panic!("frame {number}: {why}"));
        if frame.link.number == number {
            return at;
        }
        at += frame.bytes();
    }
}

/// Makes the checksum of a frame match again.
fn reseal(segment: &mut [u8], at: usize) {
    let items = u32::from_le_bytes(segment[at + 4..at + 8].try_into().expect("four bytes")) as usize;
    let checksum = crc32fast::hash(&segment[at + 4..at + frame::HEAD + items]);
    segment[at..at + 4].copy_from_slice(&checksum.to_le_bytes());
}
