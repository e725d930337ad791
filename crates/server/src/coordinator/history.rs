//! How holds ended: of one lock, and on all locks where it was without their holders' doing (SPEC 10).
//!
//! Reading the rings takes time in proportion to them, so it is done on a copy that shares them, beside the rounds.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use palisade_core::history::EndedHold;
use palisade_core::ids::{LockName, Slot};
use palisade_core::table::LockTable;
use palisade_core::token::Token;
use palisade_proto::convert::watch::{self, AuditQuestion};
use palisade_proto::convert::{BadArgument, words};
use palisade_proto::v1::{self, response};

use super::{Attachment, Coordinator};
use crate::error;

impl Coordinator {
    /// The last holds of a lock. Linearizable.
    pub(super) fn get_history(self: &Arc<Self>, to: &Arc<Attachment>, tag: u64, get: &v1::GetHistory) {
        let question = watch::get_history(get);
        let copy =
            |table: &LockTable| (table.history().clone(), table.header().token_base, table.header().applied);
        self.read_beside(to, tag, question, copy, |(history, base, applied), question| {
            response::Result::History(watch::history_page(history, question, *base, *applied))
        });
    }

    /// Where tenures ended without their holders' doing. Linearizable.
    pub(super) fn get_audit(self: &Arc<Self>, to: &Arc<Attachment>, tag: u64, get: &v1::GetAudit) {
        let question = watch::get_audit(get);
        self.read_beside(to, tag, question, LockTable::clone, |table, question| {
            response::Result::Audit(audit(table, question))
        });
    }

    /// Answers from a copy of what the table has, once a round that begins now has proved that this node still leads.
    fn read_beside<Q: Send + 'static, C>(
        self: &Arc<Self>,
        to: &Arc<Attachment>,
        tag: u64,
        question: Result<Q, BadArgument>,
        copy: impl FnOnce(&LockTable) -> C + Send + 'static,
        read: impl FnOnce(&C, &Q) -> response::Result + Send + 'static,
    ) {
        let question = match question {
            Ok(question) => question,
            Err(bad) => return to.answer(error::response(tag, 0, bad.into())),
        };
        let (coordinator, to) = (self.clone(), to.clone());
        tokio::spawn(async move {
            let proved = coordinator.rounds.proved().await;
            let result = match (proved, coordinator.replica()) {
                (Err(why), _) => response::Result::Error(error::unproved(why)),
                (Ok(_), None) => response::Result::Error(error::not_leader()),
                (Ok(_), Some(replica)) => read(&replica.read(copy), &question),
            };
            to.answer(v1::Response { tag, session: 0, index: 0, renewed: false, result: Some(result) });
        });
    }
}

/// One page of boundaries, the newest first.
fn audit(table: &LockTable, question: &AuditQuestion) -> v1::AuditPage {
    let (header, history) = (table.header(), table.history());
    let wanted = |hold: &&EndedHold| {
        hold.ended_at >= question.since
            && hold.lock.as_str().starts_with(&question.prefix)
            && question.before.is_none_or(|before| hold.number < before)
    };
    let mut ended: Vec<&EndedHold> =
        history.expired().rev().filter(wanted).take(question.limit + 1).collect();
    let more = ended.len() > question.limit;
    ended.truncate(question.limit);
    let next = Next::of(table, &ended);
    let boundaries = ended.into_iter().map(|hold| v1::Boundary {
        ended: Some(watch::ended_hold(hold, header.token_base)),
        next: next.after(hold),
    });
    v1::AuditPage {
        boundaries: boundaries.collect(),
        more,
        known_after: watch::known_after(history.expired_known_after(), header.token_base),
        index: header.token_base.at(header.applied),
    }
}

/// The tenures of the slots that a page is about.
struct Next<'a> {
    ended: HashMap<(&'a LockName, Slot), BTreeMap<Token, &'a EndedHold>>,
    table: &'a LockTable,
}

impl<'a> Next<'a> {
    fn of(table: &'a LockTable, page: &[&'a EndedHold]) -> Self {
        let mut ended: HashMap<_, BTreeMap<Token, &EndedHold>> =
            page.iter().map(|hold| ((&hold.lock, hold.slot), BTreeMap::new())).collect();
        for hold in table.history().expired().chain(table.history().others()) {
            if let Some(of_slot) = ended.get_mut(&(&hold.lock, hold.slot)) {
                of_slot.entry(hold.token).or_insert(hold);
            }
        }
        Self { ended, table }
    }

    /// The first tenure of the slot with a higher token that is known.
    fn after(&self, hold: &EndedHold) -> Option<v1::NextGrant> {
        let of_slot = self.ended.get(&(&hold.lock, hold.slot))?;
        let later = (std::ops::Bound::Excluded(hold.token), std::ops::Bound::Unbounded);
        if let Some((_, next)) = of_slot.range(later).next() {
            return Some(v1::NextGrant {
                acquisition: Some(words::acquisition(next.acquisition)),
                client: next.client.as_str().to_owned(),
                token: next.token.get(),
                granted_at_us: next.granted_at.0,
                holds: false,
            });
        }
        let lock = self.table.lock(&hold.lock)?;
        let tenure = lock.slots.get(&hold.slot)?.tenure().filter(|tenure| tenure.token > hold.token)?;
        let (id, holder) = tenure.holders.first_key_value()?;
        let client = self.table.session(id.session).map(|session| session.client.as_str().to_owned());
        Some(v1::NextGrant {
            acquisition: Some(words::acquisition(*id)),
            client: client.unwrap_or_default(),
            token: tenure.token.get(),
            granted_at_us: holder.granted_at.0,
            holds: true,
        })
    }
}
