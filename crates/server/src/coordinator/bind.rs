//! Binding: a stream proves, once, that it may speak for a session.

use std::sync::Arc;

use palisade_core::ids::{AcquisitionId, SessionId};
use palisade_core::session::{AcquisitionState, Session};
use palisade_core::table::LockTable;
use palisade_proto::convert;
use palisade_proto::v1::{self, response};

use super::requests::hash_of;
use super::{Attachment, Coordinator};
use crate::error;

impl Coordinator {
    /// Binds a session to a stream and answers what of it waits or holds. It changes no state; the newest binding
    /// gets the events. Done under the table, so that the list and the events that follow fit together.
    pub(super) fn bind(self: &Arc<Self>, to: &Arc<Attachment>, tag: u64, id: SessionId, bind: &v1::Bind) {
        let Some(replica) = self.replica() else { return };
        let hash = hash_of(&bind.secret);
        replica.read(|table| {
            let result = match table.session(id) {
                // Only a state that has applied the session's own entry may call it unknown (SPEC 7).
                None if table.header().token_base.at(table.header().applied) < id.0 => {
                    response::Result::Error(error::not_leader())
                }
                None => response::Result::Error(convert::refusal::refusal(&table.why_no_session(id))),
                Some(session) if !same(&session.secret.0, &hash.0) || session.owner != to.principal => {
                    response::Result::Error(error::unauthenticated("this is not the session's secret"))
                }
                Some(session) => {
                    to.bind(id);
                    // A single call asks for one thing, and hears of no other.
                    if to.single {
                        response::Result::Bound(v1::Bound::default())
                    } else {
                        self.waiters.bind(id, to);
                        response::Result::Bound(bound(table, id, session))
                    }
                }
            };
            to.answer(v1::Response { tag, session: id.0, index: 0, renewed: false, result: Some(result) });
        });
    }
}

fn bound(table: &LockTable, id: SessionId, session: &Session) -> v1::Bound {
    let listed = session.acquisitions.iter().map(|(number, acquisition)| {
        let grant = match acquisition.state {
            AcquisitionState::Waiting | AcquisitionState::Kept { .. } => None,
            AcquisitionState::Holding { .. } => table.grant(AcquisitionId { session: id, number }),
        };
        (number, grant)
    });
    convert::session::bound(listed)
}

/// Compares in a time that does not tell where two hashes differ.
fn same(left: &[u8; 32], right: &[u8; 32]) -> bool {
    let differences = left.iter().zip(right).fold(0, |seen, (a, b)| seen | (a ^ b));
    std::hint::black_box(differences) == 0
}
