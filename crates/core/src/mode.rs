//! How a lock is held, and which modes may share it.

use serde::{Deserialize, Serialize};

/// Exclusive, or shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Mode {
    /// One holder.
    Exclusive,
    /// Any number of shared holders, under one token.
    Shared,
}

impl Mode {
    /// Whether holders in these modes may hold one slot together.
    pub fn shares_with(self, other: Self) -> bool {
        match (self, other) {
            (Self::Shared, Self::Shared) => true,
            (Self::Exclusive, Self::Exclusive | Self::Shared) | (Self::Shared, Self::Exclusive) => false,
        }
    }

    /// As in sequencers: `x` or `s`.
    pub fn letter(self) -> &'static str {
        match self {
            Self::Exclusive => "x",
            Self::Shared => "s",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_shared_shares() {
        let modes = [Mode::Exclusive, Mode::Shared];
        for a in modes {
            for b in modes {
                assert_eq!(a.shares_with(b), a == Mode::Shared && b == Mode::Shared);
                assert_eq!(a.shares_with(b), b.shares_with(a));
            }
        }
    }
}
