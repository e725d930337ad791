//! Rows as tables of Markdown: one of figures, one of latencies, each with the columns that something tells.

use super::Report;
use super::shape::{median, range};

impl<const F: usize, const L: usize, const R: usize> Report<F, L, R> {
    /// Medians, with the range where there are several rounds; latencies in milliseconds over all rounds.
    pub(in super::super) fn markdown(&self) -> String {
        let shape = self.shape;
        let told = |at: &usize| self.rows.iter().any(|row| !row.figures[*at].is_empty());
        let shown: Vec<usize> = (0..F).filter(told).collect();
        let mut lines = vec![vec![shape.row.to_owned()]];
        lines[0].extend(shown.iter().map(|at| shape.figures[*at].name.replace('_', " ")));
        for row in &self.rows {
            let mut line = vec![row.label.text()];
            line.extend(shown.iter().map(|at| self.cell(*at, &row.figures[*at])));
            lines.push(line);
        }
        let mut text = table(&lines);
        let told = |at: &usize| self.rows.iter().any(|row| !row.latencies[*at].is_empty());
        let shown: Vec<usize> = (0..L).filter(told).collect();
        if !shown.is_empty() {
            let mut lines = vec![vec![format!("{}; ms", shape.row)]];
            lines[0].extend(shown.iter().map(|at| format!("{}: p50 / p99 / max", shape.latencies[*at])));
            for row in self.rows.iter().filter(|row| row.latencies.iter().any(|all| !all.is_empty())) {
                let mut line = vec![row.label.text()];
                line.extend(shown.iter().map(|at| {
                    let all = &row.latencies[*at];
                    [all.millis(0.5), all.millis(0.99), all.millis(1.0)].join(" / ")
                }));
                lines.push(line);
            }
            text.push('\n');
            text.push_str(&table(&lines));
        }
        let rules = shape.rules.iter().zip(self.broken());
        let found = rules.map(|(rule, broken)| match broken {
            0 => rule.good.to_owned(),
            broken => format!("**{broken} {}**", rule.bad),
        });
        let found = found.collect::<Vec<_>>().join(", ");
        text.push_str(&format!("\nChecked {} {}: {found}.\n", self.checked(), shape.checked));
        text
    }

    fn cell(&self, figure: usize, values: &[f64]) -> String {
        let text = |value| self.shape.figures[figure].unit.text(value);
        match (median(values), range(values)) {
            (Some(middle), Some((least, most))) if values.len() > 1 => {
                format!("{} ({}–{})", text(middle), text(least), text(most))
            }
            (Some(middle), _) => text(middle),
            (None, _) => "-".to_owned(),
        }
    }
}

/// The first line is the head.
fn table(lines: &[Vec<String>]) -> String {
    let mut text = String::new();
    for (at, line) in lines.iter().enumerate() {
        text.push_str(&format!("| {} |\n", line.join(" | ")));
        if at == 0 {
            text.push_str(&format!("|{}\n", "---|".repeat(line.len())));
        }
    }
    text
}
