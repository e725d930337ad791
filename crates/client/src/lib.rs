//! What a lock holder links.
//!
//! ```no_run
//! # async fn work() -> Result<(), Box<dyn std::error::Error>> {
//! use palisade_client::{Client, ClientConfig};
//! use palisade_core::ids::LockName;
//! use palisade_host::Host;
//!
//! let client = Client::new(ClientConfig::new(["10.0.0.1:7400"]), Host::system())?;
//! let session = client.open_session().await?;
//! let guard = session.lock(LockName::new("orders/shard-7")?).acquire().await?;
//! guard.check()?; // before each effect; the resource decides by guard.token()
//! guard.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! [`Client`] owns one connection, [`Session`] a lease that is kept alive in the background, [`LockGuard`] one held
//! slot of a lock, [`GuardSet`] several that were granted at once, [`Watch`] what happens to locks, [`FenceFeed`] the floors
//! that a resource compares with, [`RejectionReporter`] what it refused, [`Election`] who leads. One task for each client owns the connection and everything that is
//! undecided (`driver`); [`deadline`]
//! is the arithmetic of leases. Errors: [`error`], one enum for each operation, each variant saying whether it took effect.
//!
//! The guard's own deadline narrows the window in which a lapsed holder acts. Only the resource closes it, by the
//! token (SPEC 7 and 8).

#![warn(missing_docs)]

mod client;
mod config;
pub mod deadline;
mod driver;
mod election;
pub mod error;
mod fence_ahead;
pub mod fence_feed;
mod guard;
mod guard_set;
mod held;
mod holder;
mod lock;
mod nodes;
pub mod operators;
mod rejections;
mod session;
mod spec;
mod state_file;
mod taken_over;
pub mod watch;
mod wire;

pub use client::Client;
pub use config::{ClientConfig, ConfigError};
pub use election::{Election, Leader, Leadership, Observer};
pub use error::{
    AcquireError, CallError, ChangeError, Effect, HoldError, LostReason, OpenError, ReleaseError,
};
pub use fence_ahead::{FenceAhead, FloorToRaise};
pub use fence_feed::{FeedFloor, FenceFeed};
pub use guard::{LockGuard, Released};
pub use guard_set::GuardSet;
pub use holder::HandedOver;
pub use lock::AcquireBuilder;
pub use rejections::RejectionReporter;
pub use session::{Session, SessionState};
pub use spec::Part;
pub use taken_over::{Kept, KeptState, TakenOver};
pub use watch::{Watch, Watched};
