//! What is so of a claim, and what the cluster may have forgotten of it (SPEC 7).

use palisade_core::ids::AcquisitionId;
use palisade_core::reply::Ended;
use palisade_core::table::Presented;

use super::reference::{Reference, State};

/// What is so of a claim.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Truth {
    Current,
    Over(Ended),
    Never,
}

impl Reference {
    pub(super) fn truth(&self, claim: &Presented) -> Truth {
        let request = self.requests.iter().find(|request| request.id == claim.acquisition);
        let hold = request
            .iter()
            .flat_map(|request| &request.holds)
            .find(|hold| (&hold.lock, hold.slot, hold.token) == (&claim.lock, claim.slot, claim.token));
        match hold.map(|hold| (hold.end, hold.mode)) {
            Some((None, mode)) if mode == claim.mode => Truth::Current,
            // Of what is over, the mode is not remembered.
            Some((Some((how, _)), _)) => Truth::Over(how),
            Some((None, _)) | None => Truth::Never,
        }
    }

    /// Whether the cluster must know in full what became of this number.
    pub(super) fn is_remembered(&self, id: AcquisitionId) -> bool {
        let open = self.requests.iter().any(|request| request.id == id && request.is_open());
        open || self.session(id.session).is_some_and(|session| id.number >= session.mark)
    }

    /// Whether some of it ended before the last of it, or before now: of that, the details may be forgotten.
    pub(super) fn lost_parts(&self, id: AcquisitionId) -> bool {
        let request = self.requests.iter().find(|request| request.id == id);
        request.is_some_and(|request| {
            let last = match request.state {
                State::Ended { at, .. } => Some(at),
                _ => None,
            };
            request.holds.iter().any(|hold| hold.end.is_some_and(|(_, end)| Some(end) != last))
        })
    }

    /// Whether it is over, and held something: of its other parts, nobody can tell any more.
    pub(super) fn held_something(&self, claim: &Presented) -> bool {
        self.requests.iter().any(|request| {
            let over = matches!(request.state, State::Ended { .. }) && request.id == claim.acquisition;
            over && !request.holds.is_empty()
        })
    }
}
