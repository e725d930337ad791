//! What is measured the same way for every service: latencies, processor time, memory, bytes and flushes.

mod flushes;
mod histogram;
mod process;
mod window;

pub(crate) use histogram::{Latencies, median};
pub(crate) use process::{Sample, cpu_of_this_process, sample, sample_of_the_machine};
pub(crate) use window::Window;
