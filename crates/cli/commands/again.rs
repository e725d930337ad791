//! `--watch`: the same question again and again, until it is interrupted.

use std::time::Duration;

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use super::Failure;
use crate::args::{Globals, duration};
use crate::exit::Exit;
use crate::output::Output;

/// How often a command asks.
#[derive(Debug, Args)]
pub(crate) struct AgainArgs {
    /// Ask again, every second or as often as said, until interrupted: a screen for people, a line a time with -o json
    #[arg(long, value_name = "EVERY", num_args = 0..=1, default_missing_value = "1s", value_parser = duration)]
    pub(crate) watch: Option<Duration>,
}

/// Asks once and returns what that gives; with `--watch`, again and again. Nobody who answers for a while is no end of
/// watching: it is said, and asked again.
pub(super) async fn again(
    globals: &Globals,
    arguments: &AgainArgs,
    mut ask: impl AsyncFnMut(Output) -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    let Some(every) = arguments.watch else { return ask(Output::new(globals)).await };
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let output = Output::again_and_again(globals);
    loop {
        let round = async {
            match ask(output).await {
                Err(failure) if failure.exit == Exit::UNAVAILABLE => say!("palisade: {failure}"),
                Err(failure) => return Err(failure),
                Ok(_) => {}
            }
            tokio::time::sleep(every).await;
            Ok(())
        };
        tokio::select! {
            round = round => round?,
            _ = terminate.recv() => return Ok(Exit::OK),
            _ = interrupt.recv() => return Ok(Exit::OK),
        }
    }
}
