//! Bytes that earlier versions wrote are still read, and what this version writes is what it wrote before.
//!
//! Each file below `v1` is one sample of format version 1. A test that fails here means that a cluster's log or
//! snapshots would be misread after an upgrade: add a version, do not change the files. `PALISADE_WRITE_FIXTURES=1`
//! writes the files of a new version.

mod later;
mod samples;

use std::fs;
use std::path::PathBuf;

use palisade_core::ids::LogIndex;
use palisade_raft::codec::log::{decode_command, encode_command};
use palisade_raft::codec::{VERSION, decode_table, encode_table};

fn path(name: &str, version: u8) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/formats/v{version}/{name}.bin"))
}

/// The bytes of a sample as they were checked in.
fn fixture(name: &str, version: u8) -> Vec<u8> {
    let path = path(name, version);
    fs::read(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

/// The bytes of a sample of the present version.
fn present(name: &str, version: u8, written_now: &[u8]) -> Vec<u8> {
    let path = path(name, version);
    if std::env::var_os("PALISADE_WRITE_FIXTURES").is_some() {
        fs::create_dir_all(path.parent().expect("a folder")).expect("the folder can be made");
        fs::write(&path, written_now).expect("the file can be written");
    }
    fixture(name, version)
}

#[test]
fn every_command_is_read_and_written_as_before() {
    for (name, envelope) in samples::commands() {
        let written = encode_command(&envelope);
        let known = present(&name, envelope.command.format(), &written);
        assert_eq!(decode_command(&known), Ok(envelope), "{name} is read as something else");
        assert_eq!(written.as_ref(), known, "{name} is written otherwise");
    }
}

#[test]
fn every_kind_of_command_has_a_sample() {
    let mut kinds: Vec<_> = samples::commands().iter().map(|(_, envelope)| samples::kind(envelope)).collect();
    kinds.sort_unstable();
    kinds.dedup();
    assert_eq!(kinds, (0..samples::KINDS).collect::<Vec<_>>());
}

#[test]
fn a_table_is_read_and_written_as_before() {
    let table = samples::table();
    let written = encode_table(&table);
    let known = present("table", VERSION, &written);
    let read = decode_table(&known).expect("the table can be read");
    assert!(read == table, "the table is read as another");
    assert_eq!(read.check_invariants(), Ok(()));
    assert!(written.as_ref() == known, "the table is written otherwise");
}

#[test]
fn a_table_of_version_1_is_read_and_its_history_begins_there() {
    let known = fixture("table", 1);
    let read = decode_table(&known).expect("the table can be read");
    assert_eq!(read.check_invariants(), Ok(()));
    let history = read.history();
    assert_eq!((history.expired().count(), history.others().count()), (0, 0));
    let applied = read.header().applied;
    assert!(applied > LogIndex(0));
    assert_eq!((history.expired_known_after(), history.others_known_after()), (applied, applied));
    let counts = read.counts();
    assert!(counts.held > 0 && counts.waiting > 0 && counts.delayed > 0, "{counts:?}");
    // What had no place in version 1 asks for nothing, and all of it survives the present bytes.
    assert!(read.locks().all(|(_, lock)| !lock.capacity_set));
    assert!(read.sessions().all(|(_, session)| session.took_over.is_none()));
    assert!(
        decode_table(&encode_table(&read)).as_ref() == Ok(&read),
        "it does not survive the present version"
    );
}

#[test]
fn a_newer_version_is_refused() {
    for (name, envelope) in samples::commands() {
        let mut newer = encode_command(&envelope).to_vec();
        newer[0] = VERSION + 1;
        let why = decode_command(&newer).expect_err(&name).to_string();
        assert!(why.contains(&format!("version {}", VERSION + 1)), "{why}");
    }
    let mut newer = encode_table(&samples::table()).to_vec();
    newer[0] = VERSION + 1;
    let why = decode_table(&newer).expect_err("a table of the future").to_string();
    assert!(why.contains(&format!("version {}", VERSION + 1)), "{why}");
}
