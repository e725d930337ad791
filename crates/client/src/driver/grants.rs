//! What is queued, granted and refused.

use palisade_core::reply::Ended;
use palisade_proto::convert::words;
use palisade_proto::v1;
use tokio::time::Instant;

use super::Driver;
use super::holding::Holding;
use super::outgoing::Op;
use super::record::{Acquisition, Caller, Stage};
use crate::error::AcquireError;
use crate::guard_set::GuardSet;
use crate::spec::WaitFor;
use crate::wire;

impl Driver {
    pub(super) fn queued(&mut self, session: u64, number: u64) {
        let patience = self.settings.request_timeout;
        let Some(record) = self.sessions.get_mut(&session) else { return };
        let Some(acquisition) = record.acquisitions.remove(&number) else { return };
        record.decided(number);
        let Acquisition { spec, origin, copies, stage } = acquisition;
        let stage = match stage {
            Stage::Asking { caller, .. } => {
                let give_up = match spec.wait {
                    WaitFor::Bounded(bound) => Instant::now().checked_add(bound + patience),
                    WaitFor::Nothing | WaitFor::Session => None,
                };
                Stage::Waiting { caller, give_up }
            }
            stage @ (Stage::Waiting { .. } | Stage::Holding(_) | Stage::Kept { .. }) => stage,
        };
        record.acquisitions.insert(number, Acquisition { spec, origin, copies, stage });
    }

    pub(super) fn granted(&mut self, session: u64, number: u64, grant: v1::Grant) {
        let Some(record) = self.sessions.get_mut(&session) else { return };
        // One that is being cancelled is released by its cancel.
        let Some(Acquisition { spec, origin, copies, stage }) = record.acquisitions.remove(&number) else {
            return;
        };
        record.decided(number);
        let stage = match stage {
            Stage::Asking { caller, .. } | Stage::Waiting { caller, .. } => match held(&caller, grant) {
                Some((holding, guards)) => {
                    // Guards that nobody takes drop here, and release.
                    let _ = caller.reply.send(Ok(guards));
                    Stage::Holding(holding)
                }
                None => {
                    let name = "UNEXPECTED".to_owned();
                    let message = "the grant names no lock and token that can be".to_owned();
                    let _ = caller.reply.send(Err(AcquireError::Refused { name, message }));
                    record.cancelling.insert(number);
                    self.outgoing.push(Op::Cancel { session, number });
                    return;
                }
            },
            Stage::Kept { .. } => Stage::Kept { grant: Some(grant) },
            Stage::Holding(mut holding) => {
                if let Ok(grant) = words::grant_from(&grant) {
                    holding.still(&grant.parts);
                }
                Stage::Holding(holding)
            }
        };
        record.acquisitions.insert(number, Acquisition { spec, origin, copies, stage });
        self.forget_what_is_over(session, number);
    }

    pub(super) fn refused(&mut self, session: u64, number: u64, error: v1::Error) {
        let Some(record) = self.sessions.get_mut(&session) else { return };
        let Some(Acquisition { spec, origin, copies, stage }) = record.acquisitions.remove(&number) else {
            return;
        };
        // A refusal for the limit of outcomes is not remembered: another copy, still on its way, could acquire.
        if wire::may_change(&error) && copies > 1 {
            record.cancelling.insert(number);
            self.outgoing.push(Op::Cancel { session, number });
        } else {
            record.decided(number);
        }
        match stage {
            Stage::Asking { caller, .. } | Stage::Waiting { caller, .. } => {
                let _ = caller.reply.send(Err(wire::acquire_error(spec.asked_for(), error)));
            }
            Stage::Kept { .. } => {}
            Stage::Holding(mut holding) => {
                holding.end(Some(words::ended_from(error.ended).unwrap_or(Ended::Forgotten)));
                // An answer to an earlier ask: a change has its own.
                record
                    .acquisitions
                    .insert(number, Acquisition { spec, origin, copies, stage: Stage::Holding(holding) });
                self.forget_what_is_over(session, number);
            }
        }
    }
}

/// None when the grant says what cannot be.
fn held(caller: &Caller, mut grant: v1::Grant) -> Option<(Holding, GuardSet)> {
    let sequencers = std::mem::take(&mut grant.sequencers);
    Holding::new(caller.session.clone(), words::grant_from(&grant).ok()?, sequencers)
}
