//! `palisade admin`: what an operator does to locks, sessions and the cluster's settings.

mod settings;
mod take;

use clap::Subcommand;

use self::settings::{DelayRuleArgs, SettingsArgs};
use self::take::{BreakArgs, CapacityArgs, EndSessionArgs};
use super::Failure;
use crate::args::Globals;
use crate::exit::Exit;

/// `palisade admin`
#[derive(Debug, Subcommand)]
pub(crate) enum AdminCommand {
    /// Take a lock from whoever holds it
    Break(BreakArgs),
    /// End a session, with all that it holds and awaits
    EndSession(EndSessionArgs),
    /// Set how many slots a lock in use has
    Capacity(CapacityArgs),
    /// Bound the lock-delays of all locks below a prefix
    DelayRule(DelayRuleArgs),
    /// Show the cluster's limits, or set some of them
    Settings(SettingsArgs),
}

pub(crate) async fn run(globals: &Globals, command: &AdminCommand) -> Result<Exit, Failure> {
    match command {
        AdminCommand::Break(arguments) => take::break_lock(globals, arguments).await,
        AdminCommand::EndSession(arguments) => take::end_session(globals, arguments).await,
        AdminCommand::Capacity(arguments) => take::set_capacity(globals, arguments).await,
        AdminCommand::DelayRule(arguments) => settings::delay_rule(globals, arguments).await,
        AdminCommand::Settings(arguments) => settings::settings(globals, arguments).await,
    }
}
