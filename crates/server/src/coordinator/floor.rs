//! A floor, signed as one: what this node has applied of a slot, for a resource that raises its mark (SPEC 8).
//!
//! No round is needed: a floor that was true stays true. Signed off the apply loop, a bounded number at a time.

use palisade_core::floors::floor_of;
use palisade_core::ids::{LockName, Slot};
use palisade_core::signed_floor::FloorStatement;
use palisade_proto::convert::BadArgument;
use palisade_proto::v1;

use super::Coordinator;
use crate::error;

impl Coordinator {
    /// The floor of a slot, as this node's applied state has it.
    ///
    /// # Errors
    ///
    /// When the node is behind the index that is asked for, and when its key may not sign: another node can.
    pub(crate) async fn signed_floor(&self, asked: &v1::FloorRequest) -> Result<v1::SignedFloor, v1::Error> {
        let lock = LockName::new(&asked.lock).map_err(|why| v1::Error::from(BadArgument::from(why)))?;
        let Ok(_permit) = self.verifying.try_acquire() else { return Err(error::overloaded()) };
        if !self.watches.caught_up(asked.at_least).await {
            return Err(error::behind());
        }
        let Some(replica) = self.replica() else { return Err(error::no_quorum()) };
        let (founding, floor, may_sign) = replica.read(|table| {
            let founding = table.header().founding.clone();
            (founding, floor_of(table, &lock, Slot(asked.slot)), self.signer.may_sign(table))
        });
        let Some(founding) = founding else { return Err(error::behind()) };
        if !may_sign {
            return Err(error::cannot_sign_here());
        }
        let statement = FloorStatement {
            cluster: founding.cluster,
            incarnation: founding.incarnation,
            lock,
            slot: Slot(asked.slot),
            floor,
        };
        Ok(v1::SignedFloor { text: self.signer.sign_floor(&statement), floor: floor.get() })
    }
}
