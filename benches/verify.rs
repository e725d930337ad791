//! What a resource spends on a sequencer: cold, as at the first request of a grant, and remembered, as at each further one;
//! and on the whole admission of a write in memory.
//!
//! `cargo bench --bench verify`. Each line is the median of several runs, beside the fastest and the slowest. Nothing is
//! asserted about speed; every answer is.

use std::hint::black_box;
use std::time::{Duration, Instant};

use palisade_core::holding::Holding;
use palisade_core::ids::LockName;
use palisade_core::mode::Mode;
use palisade_fence::adapters::memory::MemoryResource;
use palisade_fence::conformance::SigningCluster;
use palisade_fence::guard::{Guard, Scope};
use palisade_fence::keys::KeySet;
use palisade_fence::verifier::{REMEMBERED_MAX, Verifier};

/// Runs of which the median is shown.
const RUNS: usize = 9;
/// Sequencers that a run verifies for the first time.
const COLD: u64 = 2_000;
/// How often a run meets sequencers that it knows.
const WARM: u32 = 200_000;
const LOCK: &str = "orders/shard-7";

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let cluster = SigningCluster::new(1);
    let keys = cluster.verifier().keys().to_jwks();
    let verifier = || Ok::<_, Failure>(Verifier::new(cluster.id(), KeySet::from_jwks(&keys)?));
    let text = |token| cluster.sign(&cluster.header(), &cluster.statement(LOCK, 0, Mode::Exclusive, token));
    println!("{:<52} {:>9} {:>21}", "one thread", "us each", "fastest – slowest run");

    let texts: Vec<String> = (1..=COLD).map(text).collect();
    report("verify, cold", COLD, || {
        let verifier = verifier()?;
        timed(|| {
            for (text, token) in texts.iter().zip(1..) {
                assert_eq!(verifier.verify(black_box(text))?.token().get(), token);
            }
            Ok(())
        })
    })?;

    for known in [1, REMEMBERED_MAX as u64 / 2] {
        let verifier = verifier()?;
        let texts: Vec<String> = (1..=known).map(text).collect();
        for text in &texts {
            verifier.verify(text)?;
        }
        report(&format!("verify, remembered among {known}"), u64::from(WARM), || {
            timed(|| {
                for (text, _) in texts.iter().cycle().zip(0..WARM) {
                    black_box(verifier.verify(black_box(text))?);
                }
                Ok(())
            })
        })?;
    }

    let orders = Guard::new(MemoryResource::new(0_u64), Scope::new(cluster.id(), LockName::new(LOCK)?));
    let (verifier, text) = (verifier()?, text(34));
    report("verify, remembered, and admit a write in memory", u64::from(WARM), || {
        timed(|| {
            for _ in 0..WARM {
                orders.write(&verifier.verify(black_box(&text))?, |written| {
                    *written += 1;
                    Ok(())
                })?;
            }
            Ok(())
        })
    })
}

fn timed(work: impl FnOnce() -> Result<(), Failure>) -> Result<Duration, Failure> {
    let began = Instant::now();
    work()?;
    Ok(began.elapsed())
}

fn report(name: &str, count: u64, mut run: impl FnMut() -> Result<Duration, Failure>) -> Result<(), Failure> {
    run()?;
    let each = |run: Duration| run.as_secs_f64() * 1e6 / count as f64;
    let mut runs = (0..RUNS).map(|_| Ok(each(run()?))).collect::<Result<Vec<f64>, Failure>>()?;
    runs.sort_by(f64::total_cmp);
    let (fastest, median, slowest) = (runs[0], runs[RUNS / 2], runs[RUNS - 1]);
    println!("{name:<52} {median:>9.2} {fastest:>9.2} – {slowest:>9.2}");
    Ok(())
}
