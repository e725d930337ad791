use super::LockTable;
use crate::history::HistorySizes;
use crate::limits::HISTORY_MAX;
use crate::reply::{BadArgument, Refusal, Reply};

impl LockTable {
    /// Sets how many ended holds are remembered.
    pub(super) fn set_history(&mut self, sizes: HistorySizes) -> Reply {
        if sizes.expired_max > HISTORY_MAX || sizes.others_max > HISTORY_MAX {
            return Reply::Refused(Refusal::BadArgument(BadArgument::HistorySize));
        }
        self.history.resize(sizes);
        Reply::Done
    }
}
