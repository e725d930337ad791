//! The simulated host: turmoil's network, simulated time, and randomness from a seed.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use palisade_host::{BoxFuture, BoxedIo, Clock, Entropy, Host, Listener, Moment, Net};

/// Where simulated wall clocks begin: 2026-01-01, microseconds since 1970.
const WALL_START_US: u64 = 1_767_225_600_000_000;

/// How far a host's clock is ahead of the simulation's, so that a test can suspend it.
#[derive(Debug, Default)]
pub struct Skew(AtomicU64);

impl Skew {
    /// The host wakes up after having stood still for `time`.
    pub fn add(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.0.fetch_add(nanos, Ordering::SeqCst);
    }
}

#[derive(Debug)]
struct SimClock {
    skew: Arc<Skew>,
}

impl Clock for SimClock {
    fn now(&self) -> Moment {
        let elapsed = turmoil::sim_elapsed().unwrap_or_default();
        // Not 0, so that a moment before the start can be told.
        Moment::from_nanos(1_000_000_000 + self.skew.0.load(Ordering::SeqCst)) + elapsed
    }

    fn wall_micros(&self) -> u64 {
        let elapsed = turmoil::sim_elapsed().unwrap_or_default();
        WALL_START_US + u64::try_from(elapsed.as_micros()).unwrap_or(0)
    }
}

#[derive(Debug)]
struct SimEntropy {
    state: AtomicU64,
}

impl Entropy for SimEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let mixed = mix(self.state.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::SeqCst));
            chunk.copy_from_slice(&mixed.to_le_bytes()[..chunk.len()]);
        }
    }
}

/// One step of splitmix64 (Steele, Lea and Flood 2014).
pub(crate) fn mix(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

struct SimNet;

impl Net for SimNet {
    fn listen<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Listener>>> {
        Box::pin(async move {
            let listener = turmoil::net::TcpListener::bind(address).await?;
            Ok(Box::new(SimListener(listener)) as Box<dyn Listener>)
        })
    }

    fn connect<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<BoxedIo>> {
        Box::pin(async move {
            let stream = turmoil::net::TcpStream::connect(address).await?;
            Ok(Box::new(stream) as BoxedIo)
        })
    }
}

struct SimListener(turmoil::net::TcpListener);

impl Listener for SimListener {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<(BoxedIo, SocketAddr)>> {
        Box::pin(async move {
            let (stream, from) = self.0.accept().await?;
            Ok((Box::new(stream) as BoxedIo, from))
        })
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

/// A host of the simulation.
pub fn host(seed: u64, skew: Arc<Skew>) -> Host {
    Host {
        clock: Arc::new(SimClock { skew }),
        net: Arc::new(SimNet),
        entropy: Arc::new(SimEntropy { state: AtomicU64::new(mix(seed)) }),
    }
}
