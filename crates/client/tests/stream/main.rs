//! The client against a node whose answers the test writes, over real connections and on a manual clock.

mod fake;
mod lease;
mod once;
mod storm;
mod waits;
