//! Randomness.

use std::fmt;
use std::sync::Arc;

/// Where random bytes come from.
pub trait Entropy: Send + Sync + fmt::Debug {
    /// Fills `bytes`.
    fn fill(&self, bytes: &mut [u8]);

    /// A random number.
    fn number(&self) -> u64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }
}

/// Entropy that is handed around.
pub type SharedEntropy = Arc<dyn Entropy>;

/// The system's generator, fit for secrets and keys.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    /// # Panics
    ///
    /// When the system has no randomness: secrets and keys could be guessed, and nothing may go on.
    #[allow(clippy::expect_used)]
    fn fill(&self, bytes: &mut [u8]) {
        getrandom::fill(bytes).expect("the system's random generator works");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_draws_differ() {
        assert_ne!(SystemEntropy.number(), SystemEntropy.number());
    }
}
