//! What Palisade is meant to reach beside its peers, and whether it did.

use super::measured::Measured;
use super::measures::{
    CHECKS, CYCLE_CPU, CYCLE_FLUSHES, CYCLE_P99, CYCLES, HANDOFFS, KEEPALIVE_CPU, KILLED, MEMORY, Measure,
    OPENED, STOPPED,
};
use super::numbers::Rounds;
use super::tables::title;

/// Rounds that a result needs; fewer are a look.
const ROUNDS_MIN: usize = 5;

const STREAM: &str = "palisade";
const STAY: &str = "palisade-stay";
const UNARY: &str = "palisade-unary";
const ETCD: &str = "etcd-lock";
const FLOOR: &str = "floor";

/// What is compared.
#[derive(Clone, Copy)]
enum Of {
    /// What Palisade measured.
    Itself,
    /// That, divided by a peer's of the same round.
    Ratio(&'static str),
}

#[derive(Clone, Copy)]
enum Bound {
    AtLeast(f64),
    AtMost(f64),
    /// In no round, not only in the median.
    NeverAbove(f64),
}

/// One line of the table.
#[derive(Clone, Copy)]
struct Target {
    own: &'static str,
    measure: Measure,
    tasks: u64,
    of: Of,
    bound: Bound,
}

const fn target(own: &'static str, measure: Measure, tasks: u64, of: Of, bound: Bound) -> Target {
    Target { own, measure, tasks, of, bound }
}

use Bound::{AtLeast, AtMost, NeverAbove};
use Of::{Itself, Ratio};

const TARGETS: &[Target] = &[
    target(STREAM, CYCLES, 1, Ratio(FLOOR), AtLeast(0.8)),
    target(STREAM, CYCLES, 64, Ratio(ETCD), AtLeast(10.0)),
    target(STREAM, CYCLES, 64, Ratio(FLOOR), AtLeast(0.7)),
    target(STREAM, CYCLES, 256, Ratio(ETCD), AtLeast(10.0)),
    target(STREAM, CYCLES, 256, Ratio(FLOOR), AtLeast(0.6)),
    target(STREAM, CYCLES, 1_024, Ratio(ETCD), AtLeast(8.0)),
    target(STREAM, CYCLES, 1_024, Ratio(FLOOR), AtLeast(0.6)),
    target(UNARY, CYCLES, 64, Ratio(ETCD), AtLeast(5.0)),
    target(UNARY, CYCLES, 256, Ratio(ETCD), AtLeast(5.0)),
    target(STREAM, CYCLE_P99, 64, Ratio(ETCD), AtMost(0.2)),
    target(STREAM, CYCLE_P99, 1, Ratio(ETCD), NeverAbove(1.0)),
    target(STREAM, CYCLE_P99, 64, Ratio(ETCD), NeverAbove(1.0)),
    target(STREAM, CYCLE_P99, 256, Ratio(ETCD), NeverAbove(1.0)),
    target(STREAM, CYCLE_P99, 1_024, Ratio(ETCD), NeverAbove(1.0)),
    target(STREAM, CYCLE_CPU, 64, Ratio(ETCD), AtMost(0.15)),
    target(STREAM, CYCLE_FLUSHES, 1, Itself, AtMost(6.1)),
    target(STREAM, CYCLE_FLUSHES, 64, Itself, AtMost(0.3)),
    target(STREAM, HANDOFFS, 32, Ratio(ETCD), AtLeast(5.0)),
    target(STREAM, HANDOFFS, 32, Ratio(FLOOR), AtLeast(0.7)),
    target(STREAM, KEEPALIVE_CPU, 10_000, Itself, AtMost(10.0)),
    target(STREAM, OPENED, 10_000, Ratio(ETCD), AtLeast(3.0)),
    target(STREAM, CHECKS, 256, Ratio(ETCD), AtLeast(5.0)),
    // The first one's connections have moved to the leader; these are spread over the nodes, as etcd's are.
    target(STAY, CHECKS, 256, Ratio(ETCD), AtLeast(5.0)),
    target(STREAM, KILLED, 24, Itself, AtMost(0.7)),
    target(STAY, KILLED, 24, Itself, AtMost(0.7)),
    target(STREAM, STOPPED, 24, Itself, AtMost(0.7)),
    target(STAY, STOPPED, 24, Itself, AtMost(0.7)),
    target(STREAM, MEMORY, 0, Ratio(ETCD), AtMost(0.2)),
];

impl Target {
    fn rounds(&self, measured: &Measured) -> Rounds {
        match self.of {
            Itself => measured.of(&self.measure, self.tasks, self.own),
            Ratio(peer) => measured.ratio(&self.measure, self.tasks, self.own, peer),
        }
    }

    /// In words, such as `at least 10 × etcd-lock`.
    fn bound(&self) -> String {
        let (how, bound) = match self.bound {
            AtLeast(bound) => ("at least", bound),
            AtMost(bound) => ("at most", bound),
            NeverAbove(bound) => ("never above", bound),
        };
        match self.of {
            Itself => format!("{how} {bound} {}", self.measure.unit).trim_end().to_owned(),
            Ratio(peer) => format!("{how} {bound} × {peer}"),
        }
    }

    fn reached(&self, rounds: &Rounds) -> bool {
        match self.bound {
            AtLeast(bound) => rounds.median() >= bound,
            AtMost(bound) => rounds.median() <= bound,
            NeverAbove(bound) => rounds.most() <= bound,
        }
    }

    fn verdict(&self, rounds: &Rounds) -> &'static str {
        match (rounds.is_empty(), rounds.values.is_empty()) {
            (true, _) => "not measured",
            (false, true) => "**void**",
            (false, false) if self.reached(rounds) => "reached",
            (false, false) => "**not reached**",
        }
    }

    fn row(&self, measured: &Measured) -> String {
        let rounds = self.rounds(measured);
        let title = title(&self.measure, self.tasks);
        let [bound, verdict] = [self.bound(), self.verdict(&rounds).to_owned()];
        format!("| {}: {title} | {bound} | {rounds} | {verdict} |", self.own)
    }
}

/// The table; nothing where nothing of it was tried.
pub(super) fn table(measured: &Measured) -> String {
    if TARGETS.iter().all(|target| target.rounds(measured).is_empty()) {
        return String::new();
    }
    let rows: Vec<String> = TARGETS.iter().map(|target| target.row(measured)).collect();
    let verdicts = TARGETS.iter().map(|target| target.verdict(&target.rounds(measured)));
    let reached = verdicts.filter(|verdict| *verdict == "reached").count();
    let few = match measured.rounds() {
        rounds if rounds < ROUNDS_MIN => {
            format!(" With fewer than {ROUNDS_MIN} rounds it is a look, not a result.")
        }
        _ => String::new(),
    };
    format!(
        "**Targets**: {reached} of {} reached. Measured: the median of the rounds (least–most; rounds); a ratio is taken \
         within each round.{few}\n\n| row | target | measured | |\n|---|---|---|---|\n{}\n",
        TARGETS.len(),
        rows.join("\n")
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn measured(own: f64, peer: f64) -> Measured {
        let mut measured = Measured::default();
        let mut add = |label: &str, rate: f64| {
            let m = json!({ "rate": rate, "units": 1_000 });
            let line = json!({ "workload": "w1", "tasks": 64, "backend": label, "round": 1, "m": m });
            measured.add(line);
        };
        add(STREAM, own);
        add(ETCD, peer);
        measured
    }

    fn row_of(measured: &Measured, peer: &str) -> String {
        let rows = TARGETS.iter().map(|target| target.row(measured));
        let start = "| palisade: W1 cycles, 64 tasks |";
        rows.filter(|row| row.starts_with(start)).find(|row| row.contains(peer)).expect("a row")
    }

    #[test]
    fn a_target_is_reached_or_not_or_not_measured() {
        let reached =
            "| palisade: W1 cycles, 64 tasks | at least 10 × etcd-lock | 10.0 (10.0–10.0; 1) | reached |";
        assert_eq!(row_of(&measured(100.0, 10.0), ETCD), reached);
        assert!(row_of(&measured(99.0, 10.0), ETCD).ends_with("| **not reached** |"));
        assert!(row_of(&measured(99.0, 10.0), FLOOR).ends_with("| – | not measured |"));
    }

    #[test]
    fn never_above_is_of_every_round() {
        let target = target(STREAM, CYCLE_P99, 64, Ratio(ETCD), NeverAbove(1.0));
        let rounds = |values: &[f64]| Rounds { values: values.to_vec(), void: 0 };
        assert!(target.reached(&rounds(&[0.5, 0.6, 1.0])));
        assert!(!target.reached(&rounds(&[0.5, 0.6, 1.1])));
    }
}
