//! Power failures: of the group that was being written, any sector may be there, or not, or in part.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;

const SECTOR: usize = 512;

/// What the log holds, step by step.
#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    first: u64,
    entries: Vec<Record>,
    purged: Option<LogPoint>,
    vote: Option<u64>,
}

impl Model {
    fn end(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    fn of(recovered: &Recovered) -> Self {
        let next = recovered.purged.map_or(1, |point| point.index + 1);
        Self {
            first: recovered.log.map_or(next, |(first, _)| first),
            entries: recovered.tail.clone(),
            purged: recovered.purged,
            vote: recovered.vote.map(|vote| vote.term),
        }
    }
}

/// A log that is written and mirrored by a model.
struct Story {
    random: StdRng,
    engine: Arc<dyn Engine>,
    model: Model,
    term: u64,
}

impl Story {
    fn begin(dir: &Path, seed: u64) -> Self {
        let (engine, _) = opened(dir);
        let model = Model { first: 1, ..Model::default() };
        Self { random: StdRng::seed_from_u64(seed), engine, model, term: 1 }
    }

    /// One group. Answers what the log may hold if it was cut short: what it held after each step.
    fn group(&mut self) -> Vec<Model> {
        let mut steps = vec![self.model.clone()];
        self.term += 1;
        if self.random.random_ratio(1, 6) && !self.model.entries.is_empty() {
            let keep = self.random.random_range(0..self.model.entries.len());
            self.engine.truncate_after(Some(self.model.first + keep as u64 - 1));
            self.model.entries.truncate(keep);
            steps.push(self.model.clone());
        }
        if self.random.random_ratio(1, 5) && !self.model.entries.is_empty() {
            let drop = self.random.random_range(1..=self.model.entries.len());
            let point = LogPoint { term: self.term, index: self.model.first + drop as u64 - 1 };
            self.engine.purge_to(point);
            self.model.entries.drain(..drop);
            self.model.first = point.index + 1;
            self.model.purged = Some(point);
            steps.push(self.model.clone());
        }
        if self.random.random_ratio(1, 5) {
            vote(&*self.engine, self.term).expect("it votes");
            self.model.vote = Some(self.term);
            steps.push(self.model.clone());
            return steps;
        }
        let count = self.random.random_range(1..=8);
        let bytes = self.random.random_range(0..1_200);
        let entries = vec![record(self.term, bytes); count];
        let first = self.model.end();
        for entry in &entries {
            self.model.entries.push(entry.clone());
            steps.push(self.model.clone());
        }
        append(&*self.engine, first, entries).expect("it appends");
        steps
    }
}

fn sequence(segment: &[u8]) -> u64 {
    u64::from_le_bytes(segment[16..24].try_into().expect("eight bytes"))
}

/// The files after a power failure during the last group: of what changed, some of it.
fn cut(
    before: &BTreeMap<String, Vec<u8>>,
    after: &BTreeMap<String, Vec<u8>>,
    random: &mut StdRng,
) -> BTreeMap<String, Vec<u8>> {
    let mut cut = after.clone();
    cut.insert("flushed".into(), before["flushed"].clone());
    // A group that did not fit was flushed up to the end of the segment before it went on in the next.
    let newest = after
        .iter()
        .filter(|(name, bytes)| name.starts_with("segment-") && before.get(*name) != Some(bytes))
        .max_by_key(|(_, bytes)| sequence(bytes));
    let Some((name, _)) = newest else { return cut };
    let zeros = vec![0; SMALL as usize];
    let old = before.get(name).unwrap_or(&zeros);
    let bytes = cut.get_mut(name).expect("it is there");
    for at in (0..bytes.len()).step_by(SECTOR) {
        let sector = at..at + SECTOR;
        match random.random_range(0..4) {
            0 => bytes[sector.clone()].copy_from_slice(&old[sector]),
            1 if bytes[sector.clone()] != old[sector.clone()] => {
                // Where it was torn may only be what this group wrote.
                let mut torn = sector.clone().filter(|at| bytes[*at] != old[*at]);
                let from = torn.next().expect("they differ");
                let from = random.random_range(from..sector.end);
                bytes[from..sector.end].copy_from_slice(&old[from..sector.end]);
            }
            _ => {}
        }
    }
    cut
}

#[test]
fn whatever_a_power_failure_leaves_nothing_acknowledged_is_lost() {
    let left = TempDir::new().expect("a directory");
    for seed in 0..50 {
        let dir = TempDir::new().expect("a directory");
        let mut story = Story::begin(dir.path(), seed);
        let warm = story.random.random_range(0..60);
        for _ in 0..warm {
            story.group();
        }
        let before = files(dir.path());
        let steps = story.group();
        let after = files(dir.path());
        for _ in 0..8 {
            put_files(left.path(), &cut(&before, &after, &mut story.random));
            let (engine, recovered) = opened(left.path());
            let found = Model::of(&recovered);
            assert!(steps.contains(&found), "seed {seed}: {found:?} is none of {steps:?}");
            // What was torn never comes back, whatever is written over it.
            let random = StdRng::seed_from_u64(seed + 1_000);
            let mut later = Story { random, engine, model: found, term: story.term + 100 };
            for _ in 0..3 {
                later.group();
            }
            let expected = later.model.clone();
            drop(later);
            let (_, recovered) = opened(left.path());
            assert_eq!(Model::of(&recovered), expected, "seed {seed}");
        }
    }
}

#[test]
fn a_group_that_is_cut_at_any_byte_is_no_damage() {
    let dir = TempDir::new().expect("a directory");
    let (engine, _) = opened(dir.path());
    append(&*engine, 1, records(1, 10)).expect("it appends");
    let before = files(dir.path());
    append(&*engine, 11, records(2, 10)).expect("it appends");
    drop(engine);
    let after = files(dir.path());
    let left = TempDir::new().expect("a directory");
    let (old, new) = (&before["segment-000000"], &after["segment-000000"]);
    let first = old.iter().zip(new).position(|(old, new)| old != new).expect("they differ");
    let last = old.iter().zip(new).rposition(|(old, new)| old != new).expect("they differ");
    for at in first..=last {
        for (head, tail) in [(new, old), (old, new)] {
            let mut cut = before.clone();
            cut.insert("segment-000000".into(), [&head[..at], &tail[at..]].concat());
            put_files(left.path(), &cut);
            let (_, recovered) = opened(left.path());
            let log = recovered.log.expect("it is there");
            assert!(log == (1, 10) || (log == (1, 20) && at == first), "byte {at}: {log:?}");
        }
    }
}

/// A power failure may also take the very first group, and with it the head of the segment.
#[test]
fn a_first_group_that_is_torn_leaves_a_new_log() {
    let dir = TempDir::new().expect("a directory");
    let (engine, _) = opened(dir.path());
    let before = files(dir.path());
    append(&*engine, 1, records(1, 10)).expect("it appends");
    drop(engine);
    let segment = files(dir.path())["segment-000000"].clone();
    for kept in [1, 30, 63, 64, 80, 300] {
        let mut cut = before.clone();
        cut.get_mut("segment-000000").expect("it is there")[..kept].copy_from_slice(&segment[..kept]);
        let left = with_files(&cut);
        let (engine, recovered) = opened(left.path());
        assert_eq!(recovered.log, None, "{kept} bytes");
        append(&*engine, 1, records(2, 1)).expect("it appends");
        drop(engine);
        assert_eq!(opened(left.path()).1.tail, records(2, 1));
    }
}
