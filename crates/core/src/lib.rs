//! Palisade's lock table: pure and deterministic.
//!
//! The core decides, the shell acts: [`LockTable::apply`](table::LockTable::apply) turns one committed entry into a
//! reply and events. It opens no socket or file, reads no clock, draws no random number.
//!
//! Commands and replies: [`command`], [`reply`], [`event`]. The state: [`session`], [`acquisitions`], [`lock`], [`few`], [`queue`], [`table`].
//! [`history`], `invariants`. Words: [`ids`], [`mode`], [`token`], [`payload`], [`limits`]. Towards the resource: [`sequencer`],
//! [`sequencer_text`], [`signed_floor`], [`floors`], [`holding`], [`rejections`].

pub mod acquisitions;
pub mod command;
pub mod event;
pub mod few;
pub mod floors;
pub mod history;
pub mod holding;
pub mod ids;
mod invariants;
pub mod limits;
pub mod lock;
pub mod mode;
pub mod payload;
pub mod queue;
pub mod rejections;
pub mod reply;
pub mod sequencer;
pub mod sequencer_text;
pub mod session;
pub mod signed_floor;
pub mod table;
pub mod token;
