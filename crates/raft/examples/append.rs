//! What appending costs: entries a second and latencies of each engine on disk, at 1, 16 and 256 entries a group.
//!
//! One group after the other, each made durable before the next is written, as a leader does that waits for its disk.
//! The engines take turns, so that a disk that slows down slows both: compare within a run.
//! `cargo run --release -p palisade-raft --example append [seconds] [rounds]`

use std::error::Error;
use std::sync::mpsc;
use std::time::Duration;

use palisade_raft::EngineKind;
use palisade_raft::engine::{Engine, LogPoint, Record, RecordKind};
use tokio::time::Instant;

/// As large as that of an acquire.
const ENTRY_BYTES: usize = 150;
/// Entries that stay when others are purged.
const KEPT: u64 = 50_000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<u64>());
    let seconds = arguments.next().transpose()?.unwrap_or(2);
    let rounds = arguments.next().transpose()?.unwrap_or(3);
    println!(
        "{:<10} {:>8} {:>12} {:>10} {:>8} {:>8}",
        "STORAGE", "ENTRIES", "GROUPS/S", "ENTRIES/S", "P50 us", "P99 us"
    );
    for _ in 0..rounds {
        for count in [1, 16, 256] {
            for kind in EngineKind::ALL {
                let dir = tempfile::TempDir::new_in(".")?;
                let engine = kind.open(dir.path())?;
                let times = append(&*engine, count, Duration::from_secs(seconds))?;
                let took: Duration = times.iter().sum();
                let rate = times.len() as f64 / took.as_secs_f64();
                println!(
                    "{:<10} {count:>8} {rate:>12.0} {:>10.0} {:>8} {:>8}",
                    kind.as_str(),
                    rate * count as f64,
                    percentile(&times, 50),
                    percentile(&times, 99)
                );
            }
        }
    }
    Ok(())
}

/// How long each group took.
fn append(engine: &dyn Engine, count: usize, time: Duration) -> Result<Vec<Duration>, Box<dyn Error>> {
    let entry = Record { term: 1, kind: RecordKind::Command, body: vec![7; ENTRY_BYTES].into() };
    let (sender, answers) = mpsc::channel();
    let mut times = Vec::new();
    let began = Instant::now();
    let mut next = 1;
    while began.elapsed() < time {
        let records = vec![entry.clone(); count];
        let sender = sender.clone();
        let asked = Instant::now();
        engine.append(next, records, Box::new(move |done| drop(sender.send(done))));
        answers.recv()??;
        times.push(asked.elapsed());
        next += count as u64;
        if next % (KEPT / 4) < count as u64 && next > KEPT {
            engine.purge_to(LogPoint { term: 1, index: next - KEPT });
        }
    }
    times.sort_unstable();
    Ok(times)
}

fn percentile(sorted: &[Duration], percent: usize) -> u128 {
    sorted.get(sorted.len() * percent / 100).map_or(0, Duration::as_micros)
}
