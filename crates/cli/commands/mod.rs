//! One file for each command, and what they share: the client, and how failures become exit codes.

pub(crate) mod check;
pub(crate) mod demo;
pub(crate) mod dev;
pub(crate) mod lock;
pub(crate) mod locks;
pub(crate) mod serve;
pub(crate) mod status;
mod view;
pub(crate) mod who;

use std::fmt;

use anyhow::Context;
use palisade_client::{CallError, Client, ClientConfig, ConfigError, OpenError};
use palisade_core::ids::ClientName;
use palisade_host::Host;

use crate::args::Globals;
use crate::exit::Exit;

/// What a command that did not get its answer says, and returns.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    error: anyhow::Error,
}

impl Failure {
    pub(crate) fn new(exit: Exit, error: impl Into<anyhow::Error>) -> Self {
        Self { exit, error: error.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#}", self.error)
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::new(Exit::DEFECT, error)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::new(Exit::UNAVAILABLE, error)
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::new(Exit::USAGE, error)
    }
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        let exit = match &error {
            CallError::Unavailable { .. } | CallError::SessionLost(_) => Exit::UNAVAILABLE,
            CallError::Refused { name, .. } => refused(name),
            CallError::ClientClosed => Exit::DEFECT,
        };
        Self::new(exit, error)
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        let exit = match &error {
            OpenError::Unavailable { .. } => Exit::UNAVAILABLE,
            OpenError::Refused { name, .. } => refused(name),
            OpenError::ClientClosed => Exit::DEFECT,
        };
        Self::new(exit, error)
    }
}

/// The exit code of a refusal, by its stable name.
fn refused(name: &str) -> Exit {
    match name {
        "BAD_ARGUMENT" | "CAPACITY_DIFFERS" => Exit::USAGE,
        "FORBIDDEN" | "UNAUTHENTICATED" => Exit::DENIED,
        "NO_QUORUM" | "NOT_LEADER" | "NOT_FOUNDED" | "NOT_YET" | "OUTCOME_UNKNOWN" | "OVERLOADED"
        | "LIMIT_REACHED" => Exit::UNAVAILABLE,
        "SESSION_UNKNOWN" => Exit::NOT_FOUND,
        "LOCK_HELD" | "LOCK_CLOSED" | "QUEUED_AHEAD" => Exit::CONFLICT,
        _ => Exit::NO,
    }
}

/// Settings of the client that a command makes. The name tells other people where the holder is.
fn config(globals: &Globals, name: Option<&str>) -> Result<ClientConfig, Failure> {
    let name = name.map_or_else(own_name, str::to_owned);
    let name =
        ClientName::new(&name).context("client name").map_err(|error| Failure::new(Exit::USAGE, error))?;
    let mut config = ClientConfig::new(globals.endpoints.iter().cloned());
    config.name = name;
    config.request_timeout = globals.timeout;
    Ok(config)
}

/// A client for questions.
fn client(globals: &Globals) -> Result<Client, Failure> {
    Ok(Client::new(config(globals, None)?, Host::system())?)
}

/// This process, as people look for it: host and process id.
fn own_name() -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!("{host}/{}", std::process::id())
}
