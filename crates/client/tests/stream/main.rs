//! The client against a node whose answers the test writes, over real connections and on a manual clock.

mod deadlines;
mod elections;
mod elsewhere;
mod fake;
mod holds;
mod lease;
mod once;
mod operators;
mod reported;
mod resume;
mod sets;
mod storm;
mod waits;
mod watching;
