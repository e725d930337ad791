//! Numbers as the tables show them, and what the rounds say together.

use std::fmt::{self, Display, Formatter};

use crate::measure::median;

/// Three digits or so.
pub(super) fn number(value: f64) -> String {
    match value.abs() {
        _ if !value.is_finite() => "–".to_owned(),
        size if size >= 1_000.0 => thousands(value),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.1 => format!("{value:.2}"),
        size if size < 1e-6 => "0".to_owned(),
        _ => format!("{value:.4}"),
    }
}

/// A count, with its thousands apart.
pub(super) fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// One value a round, and how many rounds have none because they failed.
#[derive(Clone, Default)]
pub(super) struct Rounds {
    pub(super) values: Vec<f64>,
    pub(super) void: usize,
}

impl Rounds {
    pub(super) fn median(&self) -> f64 {
        median(self.values.clone())
    }

    pub(super) fn least(&self) -> f64 {
        self.values.iter().copied().fold(f64::INFINITY, f64::min)
    }

    pub(super) fn most(&self) -> f64 {
        self.values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
    }

    /// Neither measured nor tried.
    pub(super) fn is_empty(&self) -> bool {
        self.values.is_empty() && self.void == 0
    }

    /// One divided by each.
    pub(super) fn inverse(&self) -> Self {
        Self { values: self.values.iter().map(|value| 1.0 / value).collect(), void: self.void }
    }

    /// The median alone.
    pub(super) fn middle(&self) -> String {
        match (self.values.is_empty(), self.void) {
            (true, 0) => "–".to_owned(),
            (true, _) => "void".to_owned(),
            (false, 0) => number(self.median()),
            (false, void) => format!("{} ({void} void)", number(self.median())),
        }
    }
}

/// `median (least–most; rounds)`, and how many were void.
impl Display for Rounds {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        if self.values.is_empty() {
            return out.write_str(&self.middle());
        }
        let [median, least, most] = [self.median(), self.least(), self.most()].map(number);
        write!(out, "{median} ({least}–{most}; {}", self.values.len())?;
        match self.void {
            0 => out.write_str(")"),
            void => write!(out, ", {void} void)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_or_so() {
        let written = [1_234_567.0, 0.017, 12.345, f64::NAN, 0.5].map(number);
        assert_eq!(written, ["1,234,567", "0.0170", "12.3", "–", "0.50"]);
    }

    #[test]
    fn rounds_that_failed_are_told() {
        let rounds = |values: &[f64], void| Rounds { values: values.to_vec(), void }.to_string();
        assert_eq!(rounds(&[2.0, 1.0, 4.0], 0), "2.00 (1.00–4.00; 3)");
        assert_eq!(rounds(&[2.0], 2), "2.00 (2.00–2.00; 1, 2 void)");
        assert_eq!(rounds(&[], 3), "void");
        assert_eq!(rounds(&[], 0), "–");
    }
}
