//! The fencing token.
//!
//! `token = token_base + log index` of the entry that began the tenure (SPEC 2). Two tenures of one slot can never
//! share a token, because an entry begins at most one tenure of a slot and no two entries share an index.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::LogIndex;
use crate::limits::{TOKEN_BASE_MAX, TOKEN_MAX};

/// What is added to a log index to make a token: 0 in a cluster that was never restored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TokenBase(u64);

impl TokenBase {
    /// Refuses a base above 2^53 - 2^50.
    pub fn new(base: u64) -> Option<Self> {
        (base <= TOKEN_BASE_MAX).then_some(Self(base))
    }

    /// As a number.
    pub fn get(self) -> u64 {
        self.0
    }

    /// The number that the entry at `index` stands for outside the log: a token, a session id, a grant index.
    pub fn at(self, index: LogIndex) -> u64 {
        self.0.saturating_add(index.0)
    }

    /// The token of a tenure that the entry at `index` begins.
    pub fn token(self, index: LogIndex) -> Token {
        Token(self.at(index).min(TOKEN_MAX))
    }
}

/// The 64-bit number of a tenure. Never 0, never above 2^53 - 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Token(u64);

impl Token {
    /// None for 0 and for what is above 2^53 - 1.
    pub fn new(number: u64) -> Option<Self> {
        (1..=TOKEN_MAX).contains(&number).then_some(Self(number))
    }

    /// As a number.
    pub fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_and_what_json_cannot_carry_are_no_tokens() {
        assert!(Token::new(0).is_none());
        assert_eq!(Token::new(1).map(Token::get), Some(1));
        for edge in [1 << 31, 1 << 32, (1 << 53) - 1] {
            assert_eq!(Token::new(edge).map(Token::get), Some(edge));
        }
        assert!(Token::new(1 << 53).is_none());
        assert!(Token::new(u64::MAX).is_none());
    }

    #[test]
    fn a_token_is_the_index_where_nothing_was_restored() {
        assert_eq!(TokenBase::default().token(LogIndex(34)).get(), 34);
        let restored = TokenBase::new(1_800_000_000_000_000).expect("below the bound");
        assert_eq!(restored.token(LogIndex(34)).get(), 1_800_000_000_000_034);
        assert!(TokenBase::new(1 << 53).is_none());
    }
}
