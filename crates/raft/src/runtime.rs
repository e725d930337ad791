//! The runtime that openraft runs on: tokio, with random numbers that a simulation can seed.
//!
//! openraft draws a random number for each election timeout. Left to itself it would take the thread's generator, and
//! one seed would not give one history.

use std::cell::Cell;
use std::convert::Infallible;
use std::future::Future;
use std::time::Duration;

use openraft_rt::{AsyncRuntime, OptionalSend};
use openraft_rt_tokio::TokioRuntime;
use palisade_host::{Entropy, SystemEntropy};

thread_local! {
    static GENERATOR: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Seeds what openraft draws on this thread. Without it, the system seeds each thread at its first draw.
pub fn seed_randomness(seed: u64) {
    GENERATOR.with(|generator| generator.set(Some(seed)));
}

/// The next number of this thread: splitmix64 (Steele, Lea and Flood 2014). Timeouts need no more.
fn draw() -> u64 {
    GENERATOR.with(|generator| {
        let state =
            generator.get().unwrap_or_else(|| SystemEntropy.number()).wrapping_add(0x9e37_79b9_7f4a_7c15);
        generator.set(Some(state));
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    })
}

/// A handle on this thread's generator.
#[derive(Debug)]
pub(crate) struct ThreadGenerator;

impl rand::TryRng for ThreadGenerator {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        // The upper half mixes better.
        Ok((draw() >> 32) as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(draw())
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&draw().to_le_bytes()[..chunk.len()]);
        }
        Ok(())
    }
}

/// tokio, but for the random numbers.
#[derive(Debug)]
pub(crate) struct Runtime(TokioRuntime);

impl AsyncRuntime for Runtime {
    type JoinError = <TokioRuntime as AsyncRuntime>::JoinError;
    type JoinHandle<T: OptionalSend + 'static> = <TokioRuntime as AsyncRuntime>::JoinHandle<T>;
    type Sleep = <TokioRuntime as AsyncRuntime>::Sleep;
    type Instant = <TokioRuntime as AsyncRuntime>::Instant;
    type TimeoutError = <TokioRuntime as AsyncRuntime>::TimeoutError;
    type Timeout<R, T: Future<Output = R> + OptionalSend> = <TokioRuntime as AsyncRuntime>::Timeout<R, T>;
    type ThreadLocalRng = ThreadGenerator;
    type Mpsc = <TokioRuntime as AsyncRuntime>::Mpsc;
    type Watch = <TokioRuntime as AsyncRuntime>::Watch;
    type Oneshot = <TokioRuntime as AsyncRuntime>::Oneshot;
    type Mutex<T: OptionalSend + 'static> = <TokioRuntime as AsyncRuntime>::Mutex<T>;

    fn spawn<T>(future: T) -> Self::JoinHandle<T::Output>
    where
        T: Future + OptionalSend + 'static,
        T::Output: OptionalSend + 'static,
    {
        TokioRuntime::spawn(future)
    }

    fn sleep(duration: Duration) -> Self::Sleep {
        TokioRuntime::sleep(duration)
    }

    fn sleep_until(deadline: Self::Instant) -> Self::Sleep {
        TokioRuntime::sleep_until(deadline)
    }

    fn timeout<R, F: Future<Output = R> + OptionalSend>(
        duration: Duration,
        future: F,
    ) -> Self::Timeout<R, F> {
        TokioRuntime::timeout(duration, future)
    }

    fn timeout_at<R, F: Future<Output = R> + OptionalSend>(
        deadline: Self::Instant,
        future: F,
    ) -> Self::Timeout<R, F> {
        TokioRuntime::timeout_at(deadline, future)
    }

    fn is_panic(join_error: &Self::JoinError) -> bool {
        TokioRuntime::is_panic(join_error)
    }

    fn thread_rng() -> ThreadGenerator {
        ThreadGenerator
    }

    fn new(threads: usize) -> Self {
        Self(TokioRuntime::new(threads))
    }

    fn block_on<F, T>(&mut self, future: F) -> T
    where
        F: Future<Output = T>,
    {
        self.0.block_on(future)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_gives_one_history() {
        let drawn = |seed| {
            seed_randomness(seed);
            [draw(), draw(), draw()]
        };
        assert_eq!(drawn(7), drawn(7));
        assert_ne!(drawn(7), drawn(8));
    }

    #[test]
    fn without_a_seed_two_threads_draw_differently() {
        let other = std::thread::spawn(draw).join().expect("the thread ends");
        let here = std::thread::spawn(draw).join().expect("the thread ends");
        assert_ne!(here, other);
    }
}
