//! The client against a node whose answers the test writes, over real connections and on a manual clock.

mod deadlines;
mod fake;
mod holds;
mod lease;
mod once;
mod resume;
mod sets;
mod storm;
mod waits;
