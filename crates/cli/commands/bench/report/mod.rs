//! What was measured, for people and for scripts: one form for all kinds of measurements.

mod files;
mod latencies;
mod markdown;
mod plot;
mod shape;

use std::array;
use std::time::Duration;

use serde_json::{Map, Value, json};

pub(super) use self::files::Files;
pub(super) use self::latencies::Latencies;
pub(super) use self::shape::{Figure, Label, Rule, Shape, TOKENS_RISE, Unit};

use self::shape::{median, range};
use crate::output::{table, wide};

/// One measurement: one row of one round. Numbers and rules in the order of its [`Shape`].
pub(super) struct Measured<const F: usize, const L: usize, const R: usize> {
    pub(super) round: u32,
    pub(super) row: Label,
    /// None where it cannot be told.
    pub(super) figures: [Option<f64>; F],
    pub(super) latencies: [Latencies; L],
    /// How much was looked at, the warm-up included.
    pub(super) checked: u64,
    /// How often each rule was broken.
    pub(super) broken: [u64; R],
    pub(super) errors: u64,
    /// The last one.
    pub(super) error: Option<String>,
}

/// All measurements with one label.
struct Row<const F: usize, const L: usize> {
    label: Label,
    /// By round.
    figures: [Vec<f64>; F],
    latencies: [Latencies; L],
    errors: u64,
}

/// The answer of the command.
pub(super) struct Report<const F: usize, const L: usize, const R: usize> {
    shape: &'static Shape<F, L, R>,
    /// How long each measurement took, where that was given.
    each: Option<Duration>,
    measured: Vec<Measured<F, L, R>>,
    rows: Vec<Row<F, L>>,
}

impl<const F: usize, const L: usize, const R: usize> Report<F, L, R> {
    pub(super) fn new(
        shape: &'static Shape<F, L, R>,
        each: Option<Duration>,
        measured: Vec<Measured<F, L, R>>,
    ) -> Self {
        let mut rows: Vec<Row<F, L>> = Vec::new();
        for one in &measured {
            let at = rows.iter().position(|row| row.label == one.row).unwrap_or_else(|| {
                rows.push(Row {
                    label: one.row,
                    figures: array::from_fn(|_| Vec::new()),
                    latencies: array::from_fn(|_| Latencies::default()),
                    errors: 0,
                });
                rows.len() - 1
            });
            let row = &mut rows[at];
            for (all, value) in row.figures.iter_mut().zip(one.figures) {
                all.extend(value);
            }
            for (sum, latencies) in row.latencies.iter_mut().zip(&one.latencies) {
                sum.add(latencies);
            }
            row.errors += one.errors;
        }
        Self { shape, each, measured, rows }
    }

    fn rounds(&self) -> u32 {
        self.measured.last().map_or(0, |last| last.round)
    }

    fn checked(&self) -> u64 {
        self.measured.iter().map(|one| one.checked).sum()
    }

    fn broken(&self) -> [u64; R] {
        array::from_fn(|rule| self.measured.iter().map(|one| one.broken[rule]).sum())
    }

    fn last_error(&self) -> Option<&str> {
        self.measured.iter().rev().find_map(|one| one.error.as_deref())
    }

    /// Something was looked at, and every rule held.
    pub(super) fn is_right(&self) -> bool {
        self.checked() > 0 && self.broken().iter().all(|count| *count == 0)
    }

    pub(super) fn lines(&self) -> String {
        let header = self.header();
        let header: Vec<&str> = header.iter().map(String::as_str).collect();
        let mut text = table(&header, self.rows.iter().map(|row| self.line(row)));
        text.push_str(&format!("\n\n{}\n", self.how()));
        if let Some(error) = self.last_error() {
            text.push_str(&format!("last error: {error}\n"));
        }
        let rules = self.shape.rules.iter().zip(self.broken()).map(|(rule, broken)| match broken {
            0 => rule.good.to_owned(),
            broken => format!("{broken} {}", rule.bad),
        });
        let found = rules.collect::<Vec<_>>().join(", ");
        text.push_str(&format!("checked {} {}: {found}", self.checked(), self.shape.checked));
        text
    }

    /// How it was measured, in words.
    fn how(&self) -> String {
        let mut how = match self.rounds() {
            1 => "one round".to_owned(),
            rounds => format!("median of {rounds} rounds"),
        };
        if let Some(each) = self.each {
            how.push_str(&format!(" of {each:?} each"));
        }
        if L > 0 {
            how.push_str("; latencies in milliseconds");
        }
        how
    }

    /// Figures that people are shown: those that nothing tells are left out.
    fn shown(&self) -> impl Iterator<Item = (usize, &Figure)> {
        let told = |at: usize| at == 0 || self.rows.iter().any(|row| !row.figures[at].is_empty());
        self.shape.figures.iter().enumerate().filter(move |(at, _)| told(*at))
    }

    fn header(&self) -> Vec<String> {
        let mut header = vec![self.shape.row.to_uppercase()];
        for (at, figure) in self.shown() {
            header.push(figure.head.to_owned());
            header.extend((at == 0).then(|| "RANGE".to_owned()));
        }
        for (at, latency) in self.shape.latencies.iter().enumerate() {
            header.extend([format!("{} p50", latency.to_uppercase()), "p99".to_owned()]);
            header.extend((at == 0).then(|| "p99.9".to_owned()));
        }
        header.push("ERRORS".to_owned());
        header
    }

    fn line(&self, row: &Row<F, L>) -> Vec<String> {
        let mut line = vec![row.label.text()];
        for (at, figure) in self.shown() {
            let values = &row.figures[at];
            let text = |value| figure.unit.text(value);
            let unknown = || "-".to_owned();
            line.push(median(values).map_or_else(unknown, text));
            if at == 0 {
                let both = |(low, high)| format!("{}-{}", text(low), text(high));
                line.push(range(values).map_or_else(unknown, both));
            }
        }
        for (at, latencies) in row.latencies.iter().enumerate() {
            line.extend([latencies.millis(0.5), latencies.millis(0.99)]);
            line.extend((at == 0).then(|| latencies.millis(0.999)));
        }
        line.push(row.errors.to_string());
        line
    }

    pub(super) fn json(&self) -> Value {
        let mut document = Map::new();
        document.insert("rows".into(), self.rows.iter().map(|row| self.row_json(row)).collect());
        document.insert("rounds".into(), self.rounds().into());
        document.insert("round_seconds".into(), json!(self.each.map(|each| each.as_secs_f64())));
        let checked = self.checked();
        document.insert(format!("{}_checked", self.shape.checked), wide(checked));
        for (rule, broken) in self.shape.rules.iter().zip(self.broken()) {
            document.insert(rule.count.into(), wide(broken));
            document.insert(rule.holds.into(), (checked > 0 && broken == 0).into());
        }
        document.insert("last_error".into(), json!(self.last_error()));
        Value::Object(document)
    }

    fn row_json(&self, row: &Row<F, L>) -> Value {
        let mut fields = Map::new();
        fields.insert(self.shape.row.to_owned(), row.label.json());
        for (figure, values) in self.shape.figures.iter().zip(&row.figures) {
            let json = |value| figure.unit.json(value);
            fields.insert(figure.name.into(), median(values).map_or(Value::Null, json));
            if figure.unit != Unit::Count {
                let by_round = values.iter().copied().map(json).collect();
                fields.insert(format!("{}_by_round", figure.name), by_round);
            }
        }
        for (latency, latencies) in self.shape.latencies.iter().zip(&row.latencies) {
            fields.insert(seconds_of(latency), latencies.json());
        }
        fields.insert("errors".into(), wide(row.errors));
        Value::Object(fields)
    }
}

/// The field of a kind of latency.
fn seconds_of(latency: &str) -> String {
    format!("{latency}_seconds")
}

#[cfg(test)]
mod tests;
