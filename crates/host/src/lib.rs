//! The host: the only crate that reads time, opens sockets or draws randomness; and a client's file on the machine.
//!
//! Everything else is handed a [`Clock`], a [`Net`] and an [`Entropy`], so that a simulation can put its own in their
//! place. The real ones are here; the simulated ones are in the test kit.

mod clock;
mod entropy;
mod net;
mod own_file;
mod pause;
mod transport;
mod withheld;

pub use clock::{Clock, ManualClock, Moment, SharedClock, SystemClock};
pub use entropy::{Entropy, SharedEntropy, SystemEntropy};
pub use net::{BoxFuture, BoxedIo, Io, Listener, Net, SharedNet, TcpNet};
pub use own_file::{OwnFile, boot_id};
pub use pause::PauseMeter;
pub use transport::{Connection, Incoming, channel, server};
pub use withheld::Withheld;

/// Everything that a node or a client takes from its host.
#[derive(Clone)]
pub struct Host {
    /// Time.
    pub clock: SharedClock,
    /// Sockets.
    pub net: SharedNet,
    /// Randomness.
    pub entropy: SharedEntropy,
}

impl Host {
    /// The real host.
    pub fn system() -> Self {
        Self {
            clock: std::sync::Arc::new(SystemClock),
            net: std::sync::Arc::new(TcpNet),
            entropy: std::sync::Arc::new(SystemEntropy),
        }
    }
}
