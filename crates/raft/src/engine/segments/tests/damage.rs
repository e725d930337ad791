//! What is not what was written is refused, unless it was never acknowledged.

use super::*;

/// A small log of several groups and kinds, closed.
fn small() -> BTreeMap<String, Vec<u8>> {
    let dir = TempDir::new().expect("a directory");
    let (engine, _) = opened(dir.path());
    append(&*engine, 1, records(1, 5)).expect("it appends");
    vote(&*engine, 2).expect("it votes");
    engine.truncate_after(Some(3));
    append(&*engine, 4, records(2, 4)).expect("it appends");
    engine.purge_to(LogPoint { term: 1, index: 2 });
    engine.save_committed(Some(LogPoint { term: 2, index: 5 }));
    append(&*engine, 8, records(2, 1)).expect("it appends");
    drop(engine);
    files(dir.path())
}

fn check_same(recovered: &Recovered) {
    assert_eq!(recovered.log, Some((3, 8)));
    assert_eq!(recovered.tail, [records(1, 1), records(2, 5)].concat());
    assert_eq!(recovered.vote.map(|vote| vote.term), Some(2));
    assert_eq!(recovered.purged, Some(LogPoint { term: 1, index: 2 }));
    assert_eq!(recovered.committed, Some(LogPoint { term: 2, index: 5 }));
}

/// Opens the files; what is not refused must be all that was acknowledged. Says whether it was refused.
fn refused(dir: &TempDir, files: &BTreeMap<String, Vec<u8>>) -> bool {
    put_files(dir.path(), files);
    match open(dir.path()) {
        Ok((_, recovered)) => {
            check_same(&recovered);
            false
        }
        Err(OpenError::Damaged { .. } | OpenError::Newer { .. }) => true,
        Err(other) => panic!("{other}"),
    }
}

fn used(segment: &[u8]) -> usize {
    segment.iter().rposition(|byte| *byte != 0).expect("it was written") + 1
}

#[test]
fn every_byte_that_is_changed_is_noticed() {
    let dir = TempDir::new().expect("a directory");
    let whole = small();
    assert!(!refused(&dir, &whole));
    let mut unnoticed = 0;
    for (name, bytes) in &whole {
        for at in 0..used(bytes) + 64 {
            let mut hurt = whole.clone();
            let Some(byte) = hurt.get_mut(name).and_then(|bytes| bytes.get_mut(at)) else { continue };
            *byte ^= 0x5a;
            unnoticed += usize::from(!refused(&dir, &hurt));
        }
    }
    // What lies behind the end, and between frames.
    assert!(unnoticed < 150, "{unnoticed} bytes can change unnoticed");
}

#[test]
fn zeros_in_place_of_what_was_acknowledged_are_refused() {
    let dir = TempDir::new().expect("a directory");
    let whole = small();
    let end = used(&whole["segment-000000"]);
    for bytes in [1, 8, 64, 512] {
        for at in (0..end).step_by(13) {
            let mut hurt = whole.clone();
            let segment = hurt.get_mut("segment-000000").expect("it is there");
            let range = at..(at + bytes).min(end);
            let changes = segment[range.clone()].iter().any(|byte| *byte != 0);
            segment[range].fill(0);
            assert!(
                refused(&dir, &hurt) || !changes || bytes == 1 || at + bytes < end,
                "{bytes} bytes at {at}"
            );
        }
    }
}

#[test]
fn a_file_that_was_cut_or_is_gone_is_refused() {
    let dir = TempDir::new().expect("a directory");
    let whole = small();
    let segment = &whole["segment-000000"];
    for kept in (0..segment.len()).step_by(97) {
        let mut hurt = whole.clone();
        hurt.insert("segment-000000".into(), segment[..kept].to_vec());
        assert!(refused(&dir, &hurt), "{kept} bytes");
    }
    for name in whole.keys() {
        let mut hurt = whole.clone();
        hurt.remove(name);
        assert!(refused(&dir, &hurt), "without {name}");
    }
}

#[test]
fn a_segment_of_the_middle_that_is_gone_is_refused() {
    let dir = TempDir::new().expect("a directory");
    let (engine, _) = opened(dir.path());
    for index in 1..=60 {
        append(&*engine, index, vec![record(1, 1_000)]).expect("it appends");
    }
    drop(engine);
    let whole = files(dir.path());
    let names: Vec<_> = whole.keys().filter(|name| name.starts_with("segment-")).cloned().collect();
    assert!(names.len() >= 4);
    for name in &names {
        if whole[name].iter().all(|byte| *byte == 0) {
            continue;
        }
        let mut hurt = whole.clone();
        hurt.remove(name);
        let error = open(with_files(&hurt).path()).err().unwrap_or_else(|| panic!("without {name}"));
        assert!(error.to_string().contains("start the node under a new name"), "{error}");
        let mut hurt = whole.clone();
        hurt.get_mut(name).expect("it is there")[5_000] ^= 1;
        let error = open(with_files(&hurt).path()).err().unwrap_or_else(|| panic!("{name} is damaged"));
        assert!(error.to_string().contains("at byte") || error.to_string().contains("frame"), "{error}");
    }
}

/// After a power failure the number of the last flush may be an old one; the frames know as well.
#[test]
fn a_hole_before_what_was_flushed_later_is_refused_whatever_was_told() {
    let dir = TempDir::new().expect("a directory");
    let mut whole = small();
    whole.insert("flushed".into(), crate::codec::seal(&0_u64));
    assert!(!refused(&dir, &whole));
    let segment = whole["segment-000000"].clone();
    // All but the last group are known to the last.
    let last = frame_at(&segment, 4);
    for at in 0..last {
        let mut hurt = whole.clone();
        hurt.get_mut("segment-000000").expect("it is there")[at] ^= 0x5a;
        refused(&dir, &hurt);
    }
    for at in [0, 20, slot::HEAD + 3, frame_at(&segment, 2) + 9, frame_at(&segment, 3) + 40] {
        let mut hurt = whole.clone();
        hurt.get_mut("segment-000000").expect("it is there")[at] ^= 0x5a;
        assert!(refused(&dir, &hurt), "byte {at}");
    }
}

#[test]
fn it_says_where_and_how_to_rejoin() {
    let mut hurt = small();
    let segment = hurt.get_mut("segment-000000").expect("it is there");
    let second = frame_at(segment, 2);
    segment[second + 40] ^= 1;
    let dir = with_files(&hurt);
    let error = open(dir.path()).err().expect("it is damaged").to_string();
    let path = dir.path().join("segment-000000");
    assert!(error.starts_with(&format!("{} is damaged", path.display())), "{error}");
    assert!(error.contains(&format!("byte {second}")) && error.contains("checksum"), "{error}");
    assert!(error.contains("start the node under a new name"), "{error}");
    // Nothing was changed, so it is refused again.
    assert!(open(dir.path()).is_err());
}

#[test]
fn a_newer_segment_is_refused_by_its_version() {
    let mut newer = small();
    newer.get_mut("segment-000000").expect("it is there")[8] = crate::codec::VERSION + 1;
    let error = open(with_files(&newer).path()).err().expect("it is newer");
    assert!(matches!(&error, OpenError::Newer { .. }), "{error}");
}
