//! What an operator asks, and the guards of resources: commands of no session.

use std::sync::Arc;

use palisade_core::command::{ClusterVersion, Command, SetLimits, SetVersion};
use palisade_core::reply::Refusal;
use palisade_proto::convert::operator::{self, Settings};
use palisade_proto::convert::refusal::refusal;
use palisade_proto::v1::{self, request, response};

use super::{Attachment, Coordinator};
use crate::error;

impl Coordinator {
    /// The command of a request that only an operator or a guard sends.
    pub(super) fn operator_command(&self, to: &Attachment, op: &request::Op) -> Result<Command, v1::Error> {
        let by = to.principal.clone();
        let command = match op {
            request::Op::BreakLock(message) => operator::break_lock(by, message).map(Command::BreakLock),
            request::Op::EndSession(message) => operator::end_session(by, message).map(Command::EndSession),
            request::Op::SetCapacity(message) => operator::set_capacity(message).map(Command::SetCapacity),
            request::Op::SetDelayRule(message) => {
                operator::set_delay_rule(message).map(Command::SetDelayRule)
            }
            request::Op::ConfirmFloor(message) => {
                operator::confirm_floor(by, message).map(Command::ConfirmFloor)
            }
            request::Op::SetSettings(set) => return self.settings_command(set),
            _ => return Err(error::bad_argument("the operation is of a session")),
        };
        command.map_err(v1::Error::from)
    }

    /// One command sets all that is named, but for the cluster version: it is set by itself, because a node that does
    /// not know it stops there.
    fn settings_command(&self, set: &v1::SetSettings) -> Result<Command, v1::Error> {
        let Some(replica) = self.replica() else { return Err(error::not_leader()) };
        let present = replica.read(Settings::of);
        let asked = present.clone().with(set);
        if set.cluster_version.is_some() {
            let version = asked.version;
            let rest = Settings { version: present.version, ..asked };
            if rest != present {
                return Err(error::bad_argument(
                    "the cluster version is set by itself, in a call that names nothing else",
                ));
            }
            // Not even this node could read such an entry: it would stop every node.
            if version > ClusterVersion::CURRENT {
                let refused =
                    Refusal::Version { present: present.version.0, newest: ClusterVersion::CURRENT.0 };
                return Err(refusal(&refused));
            }
            return Ok(Command::SetVersion(SetVersion { version }));
        }
        let Settings { limits, more, history, version: _ } = asked;
        Ok(Command::SetLimits(SetLimits { limits, more, history }))
    }

    /// All that an operator can set.
    pub(super) fn get_settings(self: &Arc<Self>, to: &Arc<Attachment>, tag: u64) {
        self.read_proved(to, tag, |_, table| response::Result::Settings(operator::settings(table)));
    }
}

/// What it means that such a command took effect and had nothing else to say.
pub(super) fn done(op: &request::Op) -> Option<response::Result> {
    match op {
        request::Op::ConfirmFloor(_) => Some(response::Result::Confirmed(v1::Confirmed {})),
        request::Op::SetCapacity(_) | request::Op::SetDelayRule(_) | request::Op::SetSettings(_) => {
            Some(response::Result::Set(v1::SettingsSet {}))
        }
        _ => None,
    }
}
