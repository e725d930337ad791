use std::fs::{self, File};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

use super::*;
use crate::engine::tests::{append, record, records};

#[test]
fn no_row_leaves_the_file_that_is_flushed() {
    let dir = TempDir::new().expect("a directory");
    let engine = open_sled(dir.path()).expect("it opens");
    let mut first = 1;
    for round in 0..40 {
        let large = vec![record(1, crate::COMMAND_BYTES_MAX); 3];
        append(&*engine, first, large).expect("it appends");
        append(&*engine, first + 3, records(1, 300 * (round % 3 + 1))).expect("it appends");
        first += 3 + 300 * (round as u64 % 3 + 1);
    }
    drop(engine);
    let blobs = fs::read_dir(dir.path().join("blobs")).expect("the store has it");
    assert_eq!(blobs.count(), 0, "a blob is a file that no flush covers");
}

#[test]
fn an_opening_waits_for_whoever_is_about_to_let_go() {
    let dir = TempDir::new().expect("a directory");
    drop(open_sled(dir.path()).expect("it opens"));
    // As the store's own threads do for a moment after its last handle is gone.
    let held = File::open(dir.path().join("db")).expect("it is there");
    held.lock().expect("it can be locked");
    let path = dir.path().to_owned();
    let opening = thread::spawn(move || open_sled(&path).map(drop));
    thread::sleep(Duration::from_millis(20));
    assert!(!opening.is_finished(), "it waits");
    drop(held);
    opening.join().expect("it ends").expect("it opens");
}

#[test]
fn a_missing_row_is_refused() {
    let dir = TempDir::new().expect("a directory");
    let engine = open_sled(dir.path()).expect("it opens");
    append(&*engine, 1, records(1, 10)).expect("it appends");
    append(&*engine, 11, records(1, 10)).expect("it appends");
    append(&*engine, 21, records(1, 10)).expect("it appends");
    drop(engine);
    with_tree(&dir, |tree| {
        tree.remove(row_key(11)).expect("it is there");
    });
    let error = open_sled(dir.path()).err().expect("there is a gap").to_string();
    assert!(error.contains("the log goes from entry 10 to entry 21"), "{error}");
    assert!(error.contains("start the node under a new name"), "{error}");
}

#[test]
fn a_damaged_row_is_refused() {
    let dir = TempDir::new().expect("a directory");
    let engine = open_sled(dir.path()).expect("it opens");
    append(&*engine, 1, records(1, 10)).expect("it appends");
    drop(engine);
    with_tree(&dir, |tree| {
        let mut row = tree.get(row_key(1)).expect("it reads").expect("it is there").to_vec();
        row[100] ^= 1;
        tree.insert(row_key(1), row).expect("it writes");
    });
    let error = open_sled(dir.path()).err().expect("it is damaged");
    assert!(matches!(&error, OpenError::Damaged { path, .. } if path.ends_with("db")), "{error}");
}

#[test]
fn a_newer_row_is_refused_by_its_version() {
    let dir = TempDir::new().expect("a directory");
    let engine = open_sled(dir.path()).expect("it opens");
    append(&*engine, 1, records(1, 1)).expect("it appends");
    drop(engine);
    with_tree(&dir, |tree| {
        let mut row = tree.get(row_key(1)).expect("it reads").expect("it is there").to_vec();
        row[0] = crate::codec::VERSION + 1;
        tree.insert(row_key(1), row).expect("it writes");
    });
    let error = open_sled(dir.path()).err().expect("it is newer");
    assert!(matches!(&error, OpenError::Newer { .. }), "{error}");
}

#[test]
fn scribbling_over_the_file_is_refused() {
    let dir = TempDir::new().expect("a directory");
    let engine = open_sled(dir.path()).expect("it opens");
    append(&*engine, 1, records(1, 3_000)).expect("it appends");
    append(&*engine, 3_001, records(2, 3_000)).expect("it appends");
    drop(engine);
    let db = dir.path().join("db");
    let mut bytes = fs::read(&db).expect("it reads");
    bytes[200_000..200_064].fill(0xa5);
    fs::write(&db, bytes).expect("it writes");
    let error = open_sled(dir.path()).err().expect("it is damaged");
    assert!(matches!(&error, OpenError::Damaged { path, .. } if *path == db), "{error}");
}

#[test]
fn an_end_that_was_reported_and_is_gone_is_refused() {
    let dir = TempDir::new().expect("a directory");
    let engine = open_sled(dir.path()).expect("it opens");
    for first in 1..=20 {
        append(&*engine, first, records(1, 1)).expect("it appends");
    }
    drop(engine);
    let db = dir.path().join("db");
    let whole = fs::read(&db).expect("it reads");
    for kept in (0..whole.len()).step_by(whole.len() / 40) {
        fs::write(&db, &whole[..kept]).expect("it writes");
        let error = open_sled(dir.path()).err().unwrap_or_else(|| panic!("{kept} of {} bytes", whole.len()));
        assert!(matches!(&error, OpenError::Damaged { .. }), "{kept} bytes: {error}");
    }
}

#[test]
fn a_write_that_was_torn_before_it_was_reported_is_no_damage() {
    let dir = TempDir::new().expect("a directory");
    let engine = open_sled(dir.path()).expect("it opens");
    append(&*engine, 1, records(1, 10)).expect("it appends");
    let (db, told) = (dir.path().join("db"), dir.path().join("flushed"));
    let before = (fs::read(&db).expect("it reads").len(), fs::read(&told).expect("it reads"));
    append(&*engine, 11, records(1, 10)).expect("it appends");
    drop(engine);
    let whole = fs::read(&db).expect("it reads");
    fs::write(&db, &whole[..usize::midpoint(before.0, whole.len())]).expect("it writes");
    fs::write(&told, before.1).expect("it writes");
    let engine = open_sled(dir.path()).expect("it opens");
    assert_eq!(engine.load().expect("it loads").tail, records(1, 10));
}

fn with_tree(dir: &TempDir, change: impl FnOnce(&sled::Tree)) {
    let db = sled::Config::new().path(dir.path()).segment_size(SEGMENT_BYTES).open().expect("it opens");
    change(&db.open_tree("raft").expect("it opens"));
    db.flush().expect("it flushes");
}
