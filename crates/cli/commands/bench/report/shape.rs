//! The names under which one kind of measurement tells what it found.

use std::cmp::Ordering;

use serde_json::Value;

/// `F` figures, `L` kinds of latency, `R` rules that must hold.
pub(in super::super) struct Shape<const F: usize, const L: usize, const R: usize> {
    /// Of the document.
    pub(in super::super) schema: &'static str,
    /// Above the picture.
    pub(in super::super) title: &'static str,
    /// What tells rows apart.
    pub(in super::super) row: &'static str,
    /// The first one is what it is about: it is told with its range.
    pub(in super::super) figures: [Figure; F],
    /// The first one is told in full.
    pub(in super::super) latencies: [&'static str; L],
    /// What is looked at.
    pub(in super::super) checked: &'static str,
    pub(in super::super) rules: [Rule; R],
}

/// One number of a row.
pub(in super::super) struct Figure {
    pub(in super::super) name: &'static str,
    /// Above its column.
    pub(in super::super) head: &'static str,
    pub(in super::super) unit: Unit,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Unit {
    Count,
    PerSecond,
    Seconds,
    Bytes,
    Percent,
}

impl Unit {
    /// For people.
    pub(super) fn text(self, value: f64) -> String {
        match self {
            Self::Count | Self::PerSecond | Self::Percent => format!("{value:.0}"),
            Self::Seconds => format!("{value:.3}"),
            Self::Bytes => format!("{:.0}", value / f64::from(1 << 20)),
        }
    }

    pub(super) fn json(self, value: f64) -> Value {
        match self {
            Self::Count | Self::Bytes => (value as u64).into(),
            Self::PerSecond | Self::Seconds | Self::Percent => value.into(),
        }
    }
}

/// What must be true of everything that is looked at.
pub(in super::super) struct Rule {
    /// How often it was not.
    pub(in super::super) count: &'static str,
    /// Whether it was.
    pub(in super::super) holds: &'static str,
    pub(in super::super) good: &'static str,
    pub(in super::super) bad: &'static str,
}

/// Of grants.
pub(in super::super) const TOKENS_RISE: Rule = Rule {
    count: "tokens_not_rising",
    holds: "tokens_rise",
    good: "tokens rise",
    bad: "TOKENS DID NOT RISE",
};

/// What a row is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Label {
    Number(u32),
    Word(&'static str),
    /// So many of something.
    Of(u32, &'static str),
}

impl Label {
    pub(super) fn text(self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Word(word) => word.to_owned(),
            Self::Of(number, what) => format!("{number} {what}"),
        }
    }

    pub(super) fn json(self) -> Value {
        match self {
            Self::Number(number) => number.into(),
            Self::Word(word) => word.into(),
            Self::Of(..) => self.text().into(),
        }
    }
}

/// The middle one, or the upper of the two; none of nothing.
pub(super) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}

/// The least and the most; none of nothing.
pub(super) fn range(values: &[f64]) -> Option<(f64, f64)> {
    let by = |left: &&f64, right: &&f64| -> Ordering { left.total_cmp(right) };
    Some((*values.iter().min_by(by)?, *values.iter().max_by(by)?))
}
