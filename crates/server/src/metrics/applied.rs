//! What the log says, counted when it is applied.

use palisade_core::command::Command;
use palisade_core::event::Event;
use palisade_core::reply::{Applied, Ended, Refusal, Reply};

use super::{CycleMet, HoldEnd, How, Metrics, ReleaseResult};

impl Metrics {
    /// An entry was applied while this node leads: counts what it did.
    pub fn applied(&self, command: &Command, applied: &Applied) {
        let mut freed = false;
        for event in &applied.events {
            match event {
                Event::Granted { waited: false, .. } => self.grants.count(How::AtOnce),
                Event::Granted { waited: true, .. } => self.grants.count(How::Waited),
                Event::SessionEnded { ended: Ended::Expired, .. } => {
                    self.session_expirations.inc();
                }
                Event::HoldEnded { ended, .. } => {
                    freed = true;
                    self.holds_ended.count(hold_end(*ended));
                }
                Event::WaitEnded { ended: Ended::Deadlocked, .. } => self.wait_cycles.count(CycleMet::Waiter),
                Event::Refused { refusal: Refusal::WouldDeadlock(_), .. } => {
                    self.wait_cycles.count(CycleMet::Acquire);
                }
                Event::CycleSearchGivenUp { .. } => {
                    self.cycle_searches_given_up.inc();
                }
                Event::SessionTakenOver { .. } => {
                    self.takeovers.inc();
                }
                Event::Founded
                | Event::LeaderReady { .. }
                | Event::SessionOpened { .. }
                | Event::SessionEnded { .. }
                | Event::Queued { .. }
                | Event::Contended { .. }
                | Event::WaitEnded { .. }
                | Event::DelayStarted { .. }
                | Event::DelayEnded { .. }
                | Event::Refused { .. }
                | Event::KeyPublished { .. }
                | Event::MetadataSet { .. }
                | Event::ProgressReported { .. }
                | Event::SessionKept { .. }
                | Event::Ticked
                | Event::Broken { .. }
                | Event::CapacitySet { .. }
                | Event::FloorConfirmed { .. }
                | Event::VersionSet { .. } => {}
            }
        }
        match (command, &applied.reply) {
            (Command::Release(_), Reply::Released(_)) if freed => {
                self.releases.count(ReleaseResult::Released);
            }
            (Command::Release(_), Reply::Released(_)) => self.releases.count(ReleaseResult::Repeated),
            (Command::Release(_), _) => self.releases.count(ReleaseResult::NotHeld),
            (Command::HandOver(_), Reply::Refused(Refusal::WouldDeadlock(_))) => {
                self.wait_cycles.count(CycleMet::HandOver);
            }
            _ => {}
        }
    }
}

fn hold_end(ended: Ended) -> HoldEnd {
    match ended {
        Ended::Released => HoldEnd::Released,
        Ended::HandedOver => HoldEnd::HandedOver,
        Ended::Cancelled => HoldEnd::Cancelled,
        Ended::Closed => HoldEnd::Closed,
        Ended::Expired => HoldEnd::Expired,
        Ended::TakenOver => HoldEnd::TakenOver,
        Ended::ByOperator => HoldEnd::ByOperator,
        Ended::Broken => HoldEnd::Broken,
        Ended::Overdue => HoldEnd::Overdue,
        // No hold ends so, or not in an entry of this cluster.
        Ended::TimedOut | Ended::Refused | Ended::Forgotten | Ended::Restored | Ended::Deadlocked => {
            HoldEnd::Otherwise
        }
    }
}
