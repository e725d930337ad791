//! What resources refused: reports to their meaning, and what is told of them.

use palisade_core::ids::{ClientName, GuardName, LockName, LockPrefix, Millis, Slot, WallTime};
use palisade_core::limits::REPORTED_HOLDERS_MAX;
use palisade_core::rejections::{Above, Reason, Refused, Rejections, StaleHolder};
use palisade_core::token::Token;

use super::{BadArgument, words};
use crate::v1;

/// Stale holders of one list at most.
pub const LIST_MAX: u32 = 1_000;
/// Where a list names no limit.
const LIST_DEFAULT: u32 = 100;
/// Kinds of other refusals in one report: more than there are.
const OTHERS_MAX: usize = 64;

/// What a guard reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Whose.
    pub guard: GuardName,
    /// What it refused.
    pub rejections: Rejections,
    /// How long ago the last of it was.
    pub ago: Millis,
}

/// To the wire.
pub fn report(report: Report) -> v1::RejectionReport {
    let Report { guard, rejections, ago } = report;
    let stale = rejections.stale.iter().map(|(holder, refused)| refusal(holder, refused));
    let others = rejections
        .others
        .iter()
        .map(|(reason, count)| v1::OtherRefusal { reason: reason.word().to_owned(), count: *count });
    v1::RejectionReport {
        guard: guard.as_str().to_owned(),
        stale: stale.collect(),
        unnamed: rejections.unnamed,
        others: others.collect(),
        ago_ms: ago.0,
    }
}

/// From the wire.
pub fn report_from(wire: &v1::RejectionReport) -> Result<Report, BadArgument> {
    let guard = GuardName::new(&wire.guard)?;
    if wire.stale.len() > REPORTED_HOLDERS_MAX {
        let words = format!("a report names at most {REPORTED_HOLDERS_MAX} stale holders");
        return Err(BadArgument::over(words, u64::try_from(REPORTED_HOLDERS_MAX).unwrap_or(u64::MAX)));
    }
    if wire.others.len() > OTHERS_MAX {
        return Err(BadArgument::new(format!("a report has at most {OTHERS_MAX} kinds of other refusals")));
    }
    let mut rejections = Rejections { unnamed: wire.unnamed, ..Rejections::default() };
    for refusal in &wire.stale {
        let (holder, refused) = refusal_from(refusal)?;
        rejections.add_stale(holder, refused);
    }
    for other in &wire.others {
        // What a later version tells apart.
        let reason = Reason::parse(&other.reason).unwrap_or(Reason::Undecided);
        rejections.add_other(reason, other.count);
    }
    Ok(Report { guard, rejections, ago: Millis(wire.ago_ms) })
}

/// To the wire.
pub fn refusal(holder: &StaleHolder, refused: &Refused) -> v1::StaleRefusal {
    v1::StaleRefusal {
        lock: holder.lock.as_str().to_owned(),
        slot: holder.slot.0,
        presented: holder.presented.get(),
        client: holder.client.as_ref().map_or("", ClientName::as_str).to_owned(),
        acquisition: holder.acquisition.map(words::acquisition),
        mark: refused.mark.get(),
        by_floor: refused.above == Above::Floor,
        count: refused.count,
    }
}

fn refusal_from(wire: &v1::StaleRefusal) -> Result<(StaleHolder, Refused), BadArgument> {
    let (presented, mark) = (words::token_from(wire.presented)?, words::token_from(wire.mark)?);
    if presented >= mark {
        return Err(BadArgument::new(format!(
            "token {presented} is not below {mark}, so no resource refused it as stale"
        )));
    }
    if wire.count == 0 {
        return Err(BadArgument::new("a refusal is counted 0 times"));
    }
    let client = ClientName::new(&wire.client)?;
    let acquisition = wire.acquisition.as_ref().map(|id| words::acquisition_from(Some(id))).transpose()?;
    let holder = StaleHolder {
        lock: LockName::new(&wire.lock)?,
        slot: Slot(wire.slot),
        presented,
        client: (!client.as_str().is_empty()).then_some(client),
        acquisition,
    };
    let above = if wire.by_floor { Above::Floor } else { Above::Mark };
    Ok((holder, Refused { count: wire.count, mark, above }))
}

/// Which rejections are listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// Of locks whose names begin so.
    pub prefix: LockPrefix,
    /// At or after this.
    pub since: WallTime,
    /// How many at most.
    pub limit: usize,
}

/// From the wire. A limit of 0 is the default, one above the most is the most.
pub fn list_rejections(wire: &v1::ListRejections) -> Result<Listing, BadArgument> {
    let limit = if wire.limit == 0 { LIST_DEFAULT } else { wire.limit.min(LIST_MAX) };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    Ok(Listing { prefix: LockPrefix::new(&wire.prefix)?, since: WallTime(wire.since_us), limit })
}

/// The distance between a refused token and what was accepted, entries of the log.
pub fn gap(presented: Token, mark: Token) -> u64 {
    mark.get().saturating_sub(presented.get())
}

#[cfg(test)]
mod tests {
    use palisade_core::ids::{AcquisitionId, RequestNumber, SessionId};

    use super::*;

    fn token(number: u64) -> Token {
        Token::new(number).expect("a token")
    }

    fn sample() -> Report {
        let acquisition = AcquisitionId { session: SessionId(7), number: RequestNumber(1) };
        let holder = |client: Option<&str>, acquisition| StaleHolder {
            lock: LockName::new("orders/7").expect("a name"),
            slot: Slot(2),
            presented: token(34),
            client: client.map(|name| ClientName::new(name).expect("a name")),
            acquisition,
        };
        let mut rejections = Rejections { unnamed: 4, ..Rejections::default() };
        let mark = Refused { count: 3, mark: token(41), above: Above::Mark };
        rejections.add_stale(holder(Some("billing-3"), Some(acquisition)), mark);
        rejections.add_stale(holder(None, None), Refused { above: Above::Floor, ..mark });
        rejections.add_other(Reason::Forged, 5);
        Report { guard: GuardName::new("orders-db").expect("a name"), rejections, ago: Millis(900) }
    }

    #[test]
    fn a_report_survives_the_wire() {
        assert_eq!(report_from(&report(sample())), Ok(sample()));
    }

    #[test]
    fn what_no_resource_can_have_refused_is_refused() {
        let with = |change: &dyn Fn(&mut v1::RejectionReport)| {
            let mut wire = report(sample());
            change(&mut wire);
            report_from(&wire)
        };
        assert!(with(&|wire| wire.guard.clear()).is_err());
        assert!(with(&|wire| wire.stale[0].lock.clear()).is_err());
        assert!(with(&|wire| wire.stale[0].presented = 41).is_err(), "not below the mark");
        assert!(with(&|wire| wire.stale[0].presented = 0).is_err());
        assert!(with(&|wire| wire.stale[0].mark = 1 << 53).is_err());
        assert!(with(&|wire| wire.stale[0].count = 0).is_err());
        let many = |wire: &mut v1::RejectionReport| wire.stale = vec![wire.stale[0].clone(); 257];
        assert!(with(&many).is_err_and(|bad| v1::Error::from(bad).message.contains("256")));
        assert!(with(&|wire| wire.others = vec![wire.others[0].clone(); 65]).is_err());
    }

    #[test]
    fn a_reason_of_a_later_version_is_counted() {
        let mut wire = report(sample());
        wire.others.push(v1::OtherRefusal { reason: "wrong_weather".to_owned(), count: 2 });
        let others = report_from(&wire).expect("it is fine").rejections.others;
        assert_eq!((others[&Reason::Forged], others[&Reason::Undecided]), (5, 2));
    }

    #[test]
    fn a_list_is_bounded() {
        let limit =
            |limit| list_rejections(&v1::ListRejections { limit, ..Default::default() }).map(|of| of.limit);
        assert_eq!((limit(0), limit(5), limit(5_000)), (Ok(100), Ok(5), Ok(1_000)));
    }
}
