//! The lock table against a second, naive model of the specification.
//!
//! The reference is written from SPEC with nothing but lists and linear searches: [`reference`] holds what there is,
//! the other files what each command does. [`property`] feeds random entries to both, and to a replica that goes
//! through its bytes on the way. `scripts/prove-properties.sh` breaks the table on purpose and requires that this
//! suite notices.

mod commands;
mod compare;
mod cycles;
mod endings;
mod holders;
mod operators;
mod past;
mod property;
mod queues;
mod reference;
mod releases;
mod requests;
mod sessions;
mod steps;
mod truths;
