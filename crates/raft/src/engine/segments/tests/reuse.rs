//! Files are filled one after the other, and used again.

use super::*;
use crate::engine::TAIL_BYTES;

#[test]
fn entries_go_on_through_many_segments() {
    let dir = TempDir::new().expect("a directory");
    let (engine, _) = opened(dir.path());
    let mut index = 1;
    for round in 0..60 {
        let count = 1 + round % 7;
        append(&*engine, index, vec![record(index, 500); count as usize]).expect("it appends");
        index += count;
        vote(&*engine, round + 1).expect("it votes");
    }
    assert!(segments(dir.path()) > 6);
    for from in 1..index {
        let read = engine.read(from..index, 3_000).expect("it is there");
        assert!((1..=6).contains(&read.len()));
        assert_eq!(engine.read(from..from + 1, 0).expect("it is there").len(), 1);
    }
    let all = engine.read(1..index, usize::MAX).expect("they are there");
    drop(engine);
    let (_, recovered) = opened(dir.path());
    assert_eq!(recovered.log, Some((1, index - 1)));
    assert_eq!(recovered.tail, all);
    assert_eq!(recovered.vote.map(|vote| vote.term), Some(60));
}

#[test]
fn the_disk_stays_flat_however_much_is_written() {
    let dir = TempDir::new().expect("a directory");
    let (mut engine, _) = opened(dir.path());
    vote(&*engine, 3).expect("it votes");
    let mut next = 1;
    let mut most = 0;
    for round in 1..=400 {
        append(&*engine, next, records(round, 40)).expect("it appends");
        next += 40;
        // More than the spares, all at once, every now and then.
        let kept = if round % 100 < 90 { 2_000 } else { 100 };
        if next > kept {
            engine.purge_to(LogPoint { term: round, index: next - kept });
            append(&*engine, next, records(round, 1)).expect("it appends");
            next += 1;
        }
        if round % 37 == 0 {
            drop(engine);
            let recovered;
            (engine, recovered) = opened(dir.path());
            assert_eq!(recovered.log.map(|(_, last)| last), Some(next - 1));
            assert_eq!(recovered.vote.map(|vote| vote.term), Some(3));
        }
        most = most.max(segments(dir.path()));
    }
    drop(engine);
    // 2,000 entries fill 15 to 16 files; one is written and one is ahead.
    let bound = 16 + SPARES_MAX + 2;
    assert!(most <= bound, "{most} files, more than {bound}");
    assert!(segments(dir.path()) <= SPARES_MAX + 4, "{} files are kept", segments(dir.path()));
}

#[test]
fn a_purged_segment_is_used_again_and_its_frames_are_gone() {
    let dir = TempDir::new().expect("a directory");
    let (engine, _) = opened(dir.path());
    for index in 1..=40 {
        append(&*engine, index, vec![record(1, 1_000)]).expect("it appends");
    }
    engine.purge_to(LogPoint { term: 1, index: 40 });
    append(&*engine, 41, vec![record(2, 1_000)]).expect("it appends");
    let files_before = segments(dir.path());
    for index in 42..=60 {
        append(&*engine, index, vec![record(2, 1_000)]).expect("it appends");
    }
    assert_eq!(segments(dir.path()), files_before);
    assert!(engine.read(40..41, usize::MAX).is_err());
    drop(engine);
    let (_, recovered) = opened(dir.path());
    assert_eq!(recovered.log, Some((41, 60)));
    assert!(recovered.tail.iter().all(|record| record.term == 2));
}

#[test]
fn no_more_than_a_replica_keeps_is_loaded() {
    let dir = TempDir::new().expect("a directory");
    let engine = open_sized(dir.path(), SEGMENT_BYTES).expect("it opens");
    for index in 0..220 {
        append(&*engine, index + 1, vec![record(index + 1, 90_000)]).expect("it appends");
    }
    drop(engine);
    let recovered = open_sized(dir.path(), SEGMENT_BYTES).expect("it opens").load().expect("it loads");
    assert_eq!(recovered.log, Some((1, 220)));
    let bytes: usize = recovered.tail.iter().map(Record::stored_bytes).sum();
    assert!(bytes <= TAIL_BYTES && bytes > TAIL_BYTES - 200_000, "{bytes}");
    assert_eq!(recovered.tail.last().map(|record| record.term), Some(220));
}
