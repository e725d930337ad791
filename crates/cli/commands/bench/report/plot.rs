//! The medians as a picture: what it is about as bars with the rounds on them, and the first latency on a scale that
//! doubles.

use super::Report;
use super::shape::{median, range};
use crate::svg::{Style, Svg};

const WIDTH: u32 = 880;
/// Where values begin and end.
const LEFT: f64 = 118.0;
const RIGHT: f64 = 770.0;
/// Of a panel, above and below its lanes.
const HEAD: u32 = 44;
const FOOT: u32 = 34;
/// Of one row.
const LANE: u32 = 30;
const GAP: u32 = 14;
/// Half of the height of a bar.
const BAR: u32 = 9;
/// Of the words below the panels.
const WORDS: u32 = 30;

const STYLE: Style = Style {
    light: "\
.bar { fill: #b6d7fb } .range { stroke: #0969da; stroke-width: 2 } .grid { stroke: #d1d9e0; stroke-dasharray: 2 4 }
.round, .p50 { fill: #0969da } .p99 { fill: #9a6700 } .p999 { fill: #cf222e }
",
    dark: "\
.bar { fill: #123a6b } .range { stroke: #4493f8 } .grid { stroke: #3d444d }
.round, .p50 { fill: #4493f8 } .p99 { fill: #d29922 } .p999 { fill: #f85149 }
",
};

/// In a second.
const MILLIS: f64 = 1e3;

/// Shares of a latency that are drawn, with their classes and names.
const MARKS: [(&str, &str, f64); 3] = [("p50", "p50", 0.5), ("p99", "p99", 0.99), ("p999", "p99.9", 0.999)];

/// Steps between powers of ten.
const STEPS: [f64; 3] = [1.0, 2.0, 5.0];

/// Values to places.
enum Scale {
    /// From nothing to this.
    Even(f64),
    /// From the first to the last of these, each about twice the one before.
    Doubling(Vec<f64>),
}

impl Scale {
    /// To a round number at or above `most`.
    fn even(most: f64) -> Self {
        let ten = 10_f64.powf(most.max(f64::MIN_POSITIVE).log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0].into_iter().find(|step| step * ten >= most).unwrap_or(10.0);
        Self::Even(step * ten)
    }

    /// From the round number below `least` to the one above `most`.
    fn doubling((least, most): (f64, f64)) -> Self {
        let from = least.max(1e-6).log10().floor() as i32;
        let steps = (from..).flat_map(|power| STEPS.map(|step| step * 10_f64.powi(power)));
        let mut ticks = vec![10_f64.powi(from)];
        for tick in steps.skip(1) {
            if tick <= least {
                ticks.clear();
            }
            ticks.push(tick);
            if tick >= most && ticks.len() > 1 {
                break;
            }
        }
        Self::Doubling(ticks)
    }

    fn x(&self, value: f64) -> f64 {
        let share = match self {
            Self::Even(end) => value / end,
            Self::Doubling(ticks) => match ticks.as_slice() {
                [first, .., last] => (value.max(*first) / first).ln() / (last / first).ln(),
                [_] | [] => 0.0,
            },
        };
        LEFT + (RIGHT - LEFT) * share.clamp(0.0, 1.0)
    }

    fn ticks(&self) -> Vec<f64> {
        match self {
            Self::Even(end) => (0..=5).map(|at| end * f64::from(at) / 5.0).collect(),
            Self::Doubling(ticks) => ticks.clone(),
        }
    }
}

impl<const F: usize, const L: usize, const R: usize> Report<F, L, R> {
    /// Draws the report.
    pub(super) fn plot(&self) -> String {
        let panel = HEAD + self.lanes() * LANE + FOOT;
        let measured = self.rows.iter().any(|row| row.latencies.first().is_some_and(|all| !all.is_empty()));
        let panels = 1 + u32::from(measured);
        let height = panels * (panel + GAP) + WORDS;
        let described = self.lines();
        let mut out = Svg::begin(WIDTH, height, self.shape.title, &described, &STYLE);
        self.bars(&mut out);
        if measured {
            self.marks(&mut out, panel + GAP);
        }
        let words = format!("{}: {}; a dot is a round", self.shape.title, self.how());
        out.say("small", "start", 16.0, height - 12, &words);
        out.end()
    }

    fn lanes(&self) -> u32 {
        u32::try_from(self.rows.len()).unwrap_or(0)
    }

    /// A frame, the names of the rows, and the scale.
    fn frame(&self, out: &mut Svg, top: u32, title: &str, scale: &Scale) {
        let (width, height) = (WIDTH - 1, HEAD + self.lanes() * LANE + FOOT);
        out.add(format_args!(
            r#"<rect class="panel" x="0.5" y="{top}.5" width="{width}" height="{height}" rx="8"/>"#
        ));
        out.say("title", "start", 16.0, top + 26, title);
        let (begin, end) = (top + HEAD, top + height - FOOT);
        for tick in scale.ticks() {
            let x = scale.x(tick);
            out.add(format_args!(r#"<path class="grid" d="M{x:.1} {begin}V{end}"/>"#));
            out.say("small", "middle", x, end + 18, &number(tick));
        }
        for (middle, row) in self.middles(top).zip(&self.rows) {
            out.say("lane", "end", LEFT - 12.0, middle + 4, &row.label.text());
        }
    }

    fn middles(&self, top: u32) -> impl Iterator<Item = u32> + use<F, L, R> {
        (0..self.lanes()).map(move |lane| top + HEAD + lane * LANE + LANE / 2)
    }

    fn bars(&self, out: &mut Svg) {
        let Some(figure) = self.shape.figures.first() else { return };
        let values = |row: &super::Row<F, L>| row.figures.first().cloned().unwrap_or_default();
        let all: Vec<f64> = self.rows.iter().flat_map(values).collect();
        let scale = Scale::even(range(&all).map_or(1.0, |(_, most)| most));
        let title = format!("{}, by {}", figure.name.replace('_', " "), self.shape.row);
        self.frame(out, 0, &title, &scale);
        for (middle, row) in self.middles(0).zip(&self.rows) {
            let values = values(row);
            let (Some(median), Some((least, most))) = (median(&values), range(&values)) else { continue };
            let (y, width) = (middle - BAR, scale.x(median) - LEFT);
            out.add(format_args!(
                r#"<rect class="bar" x="{LEFT:.1}" y="{y}" width="{width:.1}" height="{}" rx="3"/>"#,
                2 * BAR
            ));
            let (from, to) = (scale.x(least), scale.x(most));
            out.add(format_args!(r#"<path class="range" d="M{from:.1} {middle}H{to:.1}"/>"#));
            for value in values {
                out.add(format_args!(
                    r#"<circle class="round" cx="{:.1}" cy="{middle}" r="3"/>"#,
                    scale.x(value)
                ));
            }
            out.say("mono", "start", to.max(LEFT + width) + 10.0, middle + 4, &figure.unit.text(median));
        }
    }

    fn marks(&self, out: &mut Svg, top: u32) {
        let Some(name) = self.shape.latencies.first() else { return };
        let all: Vec<f64> = self
            .rows
            .iter()
            .filter_map(|row| row.latencies.first().filter(|all| !all.is_empty()))
            .flat_map(|all| MARKS.map(|(_, _, at)| all.at(at) * MILLIS))
            .collect();
        let scale = Scale::doubling(range(&all).unwrap_or((1.0, 10.0)));
        self.frame(out, top, &format!("{name}, milliseconds"), &scale);
        for (at, (class, name, _)) in (0..).zip(MARKS) {
            let x = RIGHT - 140.0 + 56.0 * f64::from(at);
            out.add(format_args!(r#"<circle class="{class}" cx="{x:.1}" cy="{}" r="4"/>"#, top + 22));
            out.say("small", "start", x + 8.0, top + 26, name);
        }
        for (middle, row) in self.middles(top).zip(&self.rows) {
            let Some(latencies) = row.latencies.first().filter(|all| !all.is_empty()) else { continue };
            let (from, to) = (scale.x(latencies.at(0.5) * MILLIS), scale.x(latencies.at(0.999) * MILLIS));
            out.add(format_args!(r#"<path class="rail" d="M{from:.1} {middle}H{to:.1}"/>"#));
            for (class, _, at) in MARKS {
                let x = scale.x(latencies.at(at) * MILLIS);
                out.add(format_args!(r#"<circle class="{class}" cx="{x:.1}" cy="{middle}" r="4"/>"#));
            }
        }
    }
}

/// A number on a scale.
fn number(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_ends_at_round_numbers_around_what_is_shown() {
        assert_eq!(Scale::even(3_359.0).ticks(), [0.0, 1_000.0, 2_000.0, 3_000.0, 4_000.0, 5_000.0]);
        assert_eq!(Scale::doubling((10.3, 43.6)).ticks(), [10.0, 20.0, 50.0]);
        assert_eq!(Scale::doubling((6.0, 6.0)).ticks(), [5.0, 10.0]);
        let shown: Vec<String> = Scale::doubling((0.25, 1.5)).ticks().into_iter().map(number).collect();
        assert_eq!(shown, ["0.2", "0.5", "1", "2"]);
    }
}
