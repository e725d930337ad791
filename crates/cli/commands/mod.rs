//! One file for each command, and what they share: the client, and how failures become exit codes.

pub(crate) mod admin;
pub(crate) mod again;
pub(crate) mod bench;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod conform;
pub(crate) mod demo;
pub(crate) mod dev;
pub(crate) mod drill;
pub(crate) mod elect;
pub(crate) mod explain;
pub(crate) mod history;
pub(crate) mod lock;
pub(crate) mod locks;
pub(crate) mod man;
pub(crate) mod serve;
pub(crate) mod sessions;
pub(crate) mod status;
pub(crate) mod storage;
pub(crate) mod top;
mod under;
mod view;
pub(crate) mod watch;
pub(crate) mod who;
pub(crate) mod why;

use std::fmt;

use anyhow::Context;
use palisade_client::{CallError, Client, ClientConfig, ConfigError, OpenError};
use palisade_core::ids::ClientName;
use palisade_host::Host;
use palisade_proto::convert::ErrorName;
use palisade_server::{Failure as NodeFailure, NodeError};

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
        // Many of our errors tell their cause themselves.
        let mut said = String::new();
        for cause in self.error.chain().map(ToString::to_string) {
            if !said.contains(&cause) {
                said = if said.is_empty() { cause } else { format!("{said}: {cause}") };
            }
        }
        f.write_str(&said)
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
            OpenError::StateFile { .. } => Exit::FAILED,
            OpenError::ClientClosed => Exit::DEFECT,
        };
        Self::new(exit, error)
    }
}

/// A node that did not start. What only its operator can mend is told from what may pass by itself, so that a supervisor
/// knows when to try again.
impl From<NodeError> for Failure {
    fn from(error: NodeError) -> Self {
        let exit = match &error {
            NodeError::Config(_) | NodeError::OtherNode { .. } | NodeError::OtherEngine { .. } => Exit::USAGE,
            NodeError::NoLog { .. } => Exit::NOT_FOUND,
            NodeError::Listen { .. } => Exit::UNAVAILABLE,
            NodeError::Storage(_) | NodeError::Io { .. } | NodeError::Signer(_) | NodeError::Replica(_) => {
                Exit::NO
            }
            NodeError::Descriptors(_) => Exit::DEFECT,
        };
        Self::new(exit, error)
    }
}

/// A node that ran, and stopped itself.
impl From<NodeFailure> for Failure {
    fn from(failure: NodeFailure) -> Self {
        Self::new(Exit::NO, failure)
    }
}

/// The exit code of a refusal, by its stable name; `NO` for a name of a later version.
fn refused(name: &str) -> Exit {
    ErrorName::parse(name).map_or(Exit::NO, |known| Exit::named(known.row().exit))
}

/// Settings of the client that a command makes. The name tells other people where the holder is.
fn client_config(globals: &Globals, name: Option<&str>) -> Result<ClientConfig, Failure> {
    let name = name.map_or_else(own_name, str::to_owned);
    let name =
        ClientName::new(&name).context("client name").map_err(|error| Failure::new(Exit::USAGE, error))?;
    let mut config = ClientConfig::new(globals.endpoints());
    config.name = name;
    config.request_timeout = globals.timeout;
    Ok(config)
}

/// A client for questions.
fn client(globals: &Globals) -> Result<Client, Failure> {
    Ok(Client::new(client_config(globals, None)?, Host::system())?)
}

/// This process, as people look for it: host and process id.
fn own_name() -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!("{host}/{}", std::process::id())
}
