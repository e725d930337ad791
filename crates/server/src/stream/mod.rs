//! Client streams of this node, and where their frames go: to this node itself while it leads, to the leader through
//! one relay while another does, nowhere while none is known.

mod edge;
mod queue;

pub(crate) use edge::{EdgeStream, LeaderInfo, Relay, Route, Router};
pub(crate) use queue::{ClientQueue, Deliver, Frames};
