//! Whole nodes and real clients on simulated network, time, randomness and storage: many seeds, each of them twice.
//!
//! One test, alone in its process. `PALISADE_SIM_SEEDS` sets how many; `PALISADE_SIM_SEED` plays one and prints its story.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use palisade_testkit::sim::{Report, Scenario, run};

/// Seeds of a plain `cargo test`; CI asks for more.
const SEEDS: u64 = 10;

fn seeds() -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    match number("PALISADE_SIM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("PALISADE_SIM_SEEDS").unwrap_or(SEEDS),
    }
}

/// A run on a thread of its own, so that nothing of an earlier one is left in the thread's memory.
fn play(seed: u64) -> Report {
    let played = std::thread::spawn(move || run(Scenario::new(seed))).join();
    played.unwrap_or_else(|_| {
        panic!("seed {seed} panicked: PALISADE_SIM_SEED={seed} cargo test --test simulation")
    })
}

#[test]
fn grants_do_not_overlap_and_nothing_acknowledged_is_lost_whatever_fails() {
    for seed in seeds() {
        let first = play(seed);
        let again = format!("PALISADE_SIM_SEED={seed} cargo test --test simulation");
        assert!(first.violations.is_empty(), "{again}\n{first:#?}");
        let second = play(seed);
        assert_eq!(first, second, "one seed, one history: {again}");
        println!(
            "seed {seed}: trace {:016x}, {} entries, {} grants ({} after the healing), {} stale writes refused, {} faults",
            first.trace,
            first.entries,
            first.grants,
            first.grants_healed,
            first.refused,
            first.faults.len()
        );
    }
}
