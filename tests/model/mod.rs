//! The lock table against a second, naive model of the specification.
//!
//! [`reference`] and [`requests`] are written from SPEC with nothing but lists and linear searches; [`property`] feeds
//! random entries to both, and to a replica that goes through its bytes on the way. `scripts/prove-properties.sh`
//! breaks the table on purpose and requires that this suite notices.

mod commands;
mod past;
mod property;
mod reference;
mod requests;
