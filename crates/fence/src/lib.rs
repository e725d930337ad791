//! What a resource links, so that a process that held a lock, was paused and wakes up has its write *rejected*.
//!
//! A lock service cannot stop a paused holder: nothing tells it that its lease is over. So the resource checks. Each grant
//! of a lock bears a token, and tokens of a lock only ever grow. The resource remembers the highest token that it
//! accepted, its high-water mark, and refuses every lower one, in one atomic step with the write (Kleppmann 2016).
//!
//! ```
//! use palisade_core::ids::{ClusterId, LockName};
//! use palisade_core::token::Token;
//! use palisade_fence::adapters::memory::MemoryResource;
//! use palisade_fence::guard::{Guard, Scope};
//! use palisade_fence::trusted::TrustedToken;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let cluster: ClusterId = "0123456789abcdef0123456789abcdef".parse()?;
//! let lock = LockName::new("orders/shard-7")?;
//! let orders = Guard::new(MemoryResource::new(Vec::new()), Scope::new(cluster, lock.clone()));
//!
//! // Two holders, one after the other. The first is paused after its claim; it still believes that it holds the lock.
//! let paused = TrustedToken::exclusive(lock.clone(), Token::new(34).ok_or("no token")?);
//! orders.claim(&paused)?;
//!
//! // The second claims before it reads: what it has read cannot change behind its back.
//! let holder = TrustedToken::exclusive(lock, Token::new(41).ok_or("no token")?);
//! let count = orders.claim_and_read(&holder, |orders| Ok(orders.len()))?;
//! orders.write(&holder, |orders| {
//!     orders.push(format!("order {count}"));
//!     Ok(())
//! })?;
//!
//! // The first wakes up and writes.
//! let refused = orders.write(&paused, |orders| {
//!     orders.push("a stale order".to_owned());
//!     Ok(())
//! });
//! assert!(refused.is_err_and(|error| error.is_stale()));
//! assert_eq!(orders.adapter().read(|orders| orders.clone())?, ["order 0"]);
//! # Ok(())
//! # }
//! ```
//!
//! Where requests come from callers that you do not trust, they bring a *sequencer*: the token, signed by the cluster
//! together with lock, slot and mode. A [`Verifier`](verifier::Verifier) with the cluster's public keys checks it without
//! a call and gives a [`Presented`](verifier::Presented), which the guard takes like any other
//! [`Holding`](palisade_core::holding::Holding):
//!
//! ```
//! # use palisade_core::ids::ClusterId;
//! # use palisade_fence::{adapters::memory::MemoryResource, error::FenceError, guard::Guard};
//! # use palisade_fence::{keys::{KeyError, KeySet}, verifier::Verifier};
//! fn verifier(cluster: ClusterId, jwks: &str) -> Result<Verifier, KeyError> {
//!     Ok(Verifier::new(cluster, KeySet::from_jwks(jwks)?))
//! }
//!
//! fn handle(
//!     verifier: &Verifier,
//!     orders: &Guard<MemoryResource<Vec<String>>>,
//!     sequencer: &str,
//!     order: String,
//! ) -> Result<(), FenceError> {
//!     let presented = verifier.verify(sequencer)?;
//!     orders.write(&presented, |orders| {
//!         orders.push(order);
//!         Ok(())
//!     })
//! }
//! ```
//!
//! # The rules
//!
//! - **Claim before you read** ([`Guard::claim_and_read`](guard::Guard::claim_and_read)).
//! - **The commit decides, not the middleware.** Checking first and writing later is the old fault, one step further on.
//! - A refusal as [`Stale`](error::FenceError::Stale) is for ever: the holder stops and acquires again.
//! - Marks live where the data lives, and as long. A store put back from an old backup has old marks: set them from the
//!   tokens of the present holders before it serves ([`Guard::reset_mark`](guard::Guard::reset_mark)).
//! - What cannot compare a token, such as a mail or a payment, is not fenced by anything here.
//!
//! # The map
//!
//! The rule: [`admit`]. Who may present a token: [`keys`], [`verifier`], [`trusted`]. Where it is decided: [`guard`],
//! over an adapter in [`adapters`]. What was decided: [`tally`]. Refusals: [`error`], and what a service answers to them: [`refusal`], with a layer
//! for HTTP and gRPC services in `service`. For adapters of your own: the `conformance` feature has the suite that all
//! of these pass.

#![warn(missing_docs)]

pub mod adapters;
pub mod admit;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
pub mod error;
pub mod guard;
pub mod keys;
pub mod refusal;
#[cfg(feature = "tower")]
pub mod service;
pub mod tally;
pub mod trusted;
pub mod verifier;
