//! What is asked for past saturation, and what is not refused then.

use palisade_proto::v1::request;
use palisade_raft::Room;

/// Whether the log takes it now. Past saturation no new work is taken, and what ends work goes on.
pub(super) fn takes(room: Room, op: &request::Op) -> bool {
    match op {
        request::Op::Open(_) | request::Op::Acquire(_) => room == Room::All,
        request::Op::Bind(_)
        | request::Op::Sequencer(_)
        | request::Op::Check(_)
        | request::Op::GetLock(_)
        | request::Op::ListLocks(_)
        | request::Op::History(_)
        | request::Op::Audit(_)
        | request::Op::ListSessions(_)
        | request::Op::GetSettings(_)
        | request::Op::ReportRejections(_)
        | request::Op::ListRejections(_) => true,
        request::Op::Close(_)
        | request::Op::Release(_)
        | request::Op::Cancel(_)
        | request::Op::Downgrade(_)
        | request::Op::HandOver(_)
        | request::Op::SetMetadata(_)
        | request::Op::SetBaton(_)
        | request::Op::ReportProgress(_)
        | request::Op::ConfirmFloor(_)
        | request::Op::BreakLock(_)
        | request::Op::EndSession(_)
        | request::Op::SetCapacity(_)
        | request::Op::SetDelayRule(_)
        | request::Op::SetSettings(_) => room != Room::Leases,
    }
}

#[cfg(test)]
mod tests {
    use palisade_proto::v1;

    use super::*;

    #[test]
    fn past_saturation_work_ends_and_none_begins() {
        let acquire = request::Op::Acquire(v1::Acquire::default());
        let open = request::Op::Open(v1::OpenSession::default());
        let release = request::Op::Release(v1::Release::default());
        let check = request::Op::Check(v1::Check::default());
        let taken = |room| [&acquire, &open, &release, &check].map(|op| takes(room, op));
        assert_eq!(taken(Room::All), [true; 4]);
        assert_eq!(taken(Room::WorkUnderWay), [false, false, true, true]);
        assert_eq!(taken(Room::Leases), [false, false, false, true]);
    }
}
