//! The whole rule by which a resource accepts or refuses a token (SPEC 8; Kleppmann 2016).
//!
//! Pure. It protects only where it is decided in one atomic step with the write that it guards: that is the work of
//! [`Adapter`](crate::adapters::Adapter)s.

use palisade_core::ids::{ClusterId, LockName, Slot};
use palisade_core::token::Token;

use crate::error::FenceError;

/// What a high-water mark belongs to. Never to an incarnation: a restored cluster keeps its id and has larger tokens.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MarkKey {
    /// Whose lock. Two clusters may use one name.
    pub cluster: ClusterId,
    /// Which lock.
    pub lock: LockName,
    /// Which slot.
    pub slot: Slot,
}

/// The highest token that a resource has accepted for one [`MarkKey`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HighWaterMark(pub Token);

/// What became of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Admission {
    /// Accepted.
    Admitted {
        /// The mark from now on.
        mark: HighWaterMark,
    },
    /// Refused: a newer tenure is known.
    Stale {
        /// The refused token.
        presented: Token,
        /// The lowest token that is still accepted: the mark, or the floor where that is higher.
        mark: Token,
    },
}

/// Accepts a token at or above both the mark and the floor, and says what the mark becomes.
///
/// `mark` is None where nothing was accepted yet; `floor` where the cluster told none.
pub fn admit(mark: Option<HighWaterMark>, floor: Option<Token>, token: Token) -> Admission {
    match mark.map(|HighWaterMark(mark)| mark).max(floor) {
        Some(mark) if token < mark => Admission::Stale { presented: token, mark },
        Some(_) | None => Admission::Admitted { mark: HighWaterMark(token) },
    }
}

/// [`admit`] for adapters: a refusal as the error that names lock and slot.
pub fn decide(
    key: &MarkKey,
    mark: Option<HighWaterMark>,
    floor: Option<Token>,
    token: Token,
) -> Result<HighWaterMark, FenceError> {
    match admit(mark, floor, token) {
        Admission::Admitted { mark } => Ok(mark),
        Admission::Stale { presented, mark } => {
            Err(FenceError::Stale { lock: key.lock.clone(), slot: key.slot, presented, mark })
        }
    }
}

#[cfg(test)]
mod tests {
    use palisade_core::limits::TOKEN_MAX;

    use super::*;

    const EDGES: [u64; 8] = [1, 2, 33, 34, 35, 1 << 32, TOKEN_MAX - 1, TOKEN_MAX];

    fn maybe() -> impl Iterator<Item = Option<Token>> {
        std::iter::once(None).chain(EDGES.into_iter().map(Token::new))
    }

    fn each(mut test: impl FnMut(Option<Token>, Option<Token>, Token)) {
        for mark in maybe() {
            for floor in maybe() {
                maybe().flatten().for_each(|token| test(mark, floor, token));
            }
        }
    }

    #[test]
    fn a_token_is_admitted_exactly_at_or_above_mark_and_floor() {
        each(|mark, floor, token| {
            let newest_known = [mark, floor].into_iter().flatten().all(|known| token >= known);
            let admitted = matches!(admit(mark.map(HighWaterMark), floor, token), Admission::Admitted { .. });
            assert_eq!(admitted, newest_known, "mark {mark:?}, floor {floor:?}, token {token}");
        });
    }

    #[test]
    fn an_admitted_token_is_the_mark_and_the_mark_never_goes_down() {
        each(|mark, floor, token| match admit(mark.map(HighWaterMark), floor, token) {
            Admission::Admitted { mark: next } => {
                assert_eq!(next, HighWaterMark(token));
                assert!(Some(next.0) >= mark.max(floor));
                assert_eq!(admit(Some(next), floor, token), Admission::Admitted { mark: next }, "again");
            }
            Admission::Stale { presented, mark: lowest } => {
                assert_eq!(presented, token);
                assert_eq!(Some(lowest), mark.max(floor));
            }
        });
    }

    #[test]
    fn a_refusal_names_both_tokens() {
        let (new, old) = (Token::new(41).unwrap(), Token::new(34).unwrap());
        assert_eq!(
            admit(Some(HighWaterMark(new)), None, old),
            Admission::Stale { presented: old, mark: new }
        );
        assert_eq!(
            admit(Some(HighWaterMark(old)), Some(new), old),
            Admission::Stale { presented: old, mark: new }
        );
    }
}
