//! Messages to core types and back.
//!
//! No rule lives here: a function turns a message into a checked core type, or refuses it with a text that says what
//! to change. What is checked is what no state of the cluster could make right; the table checks it again, because
//! entries of the log are not taken on trust.

mod bad_argument;
pub mod cluster;
pub mod error;
pub mod fence;
pub mod holder;
pub mod json;
pub mod lock;
pub mod operator;
pub mod refusal;
pub mod rejections;
pub mod sequencer;
pub mod session;
pub mod watch;
pub mod words;

pub use self::error::{BadArgument, ErrorName, error_code};
