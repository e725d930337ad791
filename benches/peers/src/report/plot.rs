//! The README's picture: how many times better than each peer, on a logarithmic scale. Written by hand, one element a
//! line, so that a review reads it as a text.

use std::fmt::Write;

use super::headlines::{Headline, PEERS, Peer, tried};
use super::measured::Measured;
use super::numbers::{Rounds, number};

const LIGHT: &str = "
text { font: 12px ui-sans-serif, system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif; fill: #1f2328 }
.title { font-size: 15px; font-weight: 600 } .small { font-size: 11px; fill: #59636e } .value { font-size: 10px }
.panel { fill: #ffffff; stroke: #d1d9e0 } .rail { stroke: #d1d9e0 } .one { stroke: #59636e } .spread { stroke: #1f2328 }
.etcd { fill: #218bff } .zookeeper { fill: #2da44e } .redis { fill: #e5534b } .floor { fill: #8c959f }
";
const DARK: &str = "
text { fill: #e6edf3 } .small { fill: #9198a1 } .panel { fill: #0d1117; stroke: #3d444d } .rail { stroke: #3d444d }
.one { stroke: #9198a1 } .spread { stroke: #e6edf3 }
.etcd { fill: #316dca } .zookeeper { fill: #347d39 } .redis { fill: #c93c37 } .floor { fill: #636e7b }
";

const WIDTH: f64 = 880.0;
/// Where the scale begins and ends; left of it are the names, right of it is room for a value.
const LEFT: f64 = 284.0;
const RIGHT: f64 = 816.0;
/// Where the first row begins.
const TOP: f64 = 84.0;
const BAR: f64 = 10.0;
/// From one bar to the next, and between two rows.
const STEP: f64 = 12.0;
const GAP: f64 = 10.0;
/// Room below the last row.
const BELOW: f64 = 16.0;

/// Room at both ends of the scale, powers of ten.
const MARGIN: f64 = 0.1;

/// Powers of ten, from below every value to above.
struct Scale {
    least: f64,
    most: f64,
}

impl Scale {
    fn of(values: &[f64]) -> Self {
        let logs: Vec<f64> = values.iter().map(|value| value.log10()).collect();
        let least = logs.iter().copied().fold(-1.0, f64::min);
        let most = logs.iter().copied().fold(1.0, f64::max);
        Self { least: least - MARGIN, most: most + MARGIN }
    }

    fn x(&self, value: f64) -> f64 {
        LEFT + (value.log10() - self.least) / (self.most - self.least) * (RIGHT - LEFT)
    }

    /// The whole powers on it.
    fn powers(&self) -> impl Iterator<Item = i32> {
        self.least.ceil() as i32..=self.most.floor() as i32
    }
}

/// A bar: the peer, and how many times better than it.
type Bar = (&'static Peer, Rounds);

/// The picture; nothing where no ratio was measured.
pub(super) fn svg(measured: &Measured) -> Option<String> {
    let bars = |headline: &Headline| {
        let bars = PEERS.iter().map(|peer| (peer, headline.better(measured, peer)));
        bars.filter(|(_, better)| !better.is_empty()).collect::<Vec<Bar>>()
    };
    let rows = tried(measured).into_iter().map(|headline| (headline, bars(headline)));
    let rows: Vec<(&Headline, Vec<Bar>)> = rows.filter(|(_, bars)| !bars.is_empty()).collect();
    let values: Vec<f64> =
        rows.iter().flat_map(|(_, bars)| bars).flat_map(|bar| bar.1.values.clone()).collect();
    if values.is_empty() {
        return None;
    }
    let scale = Scale::of(&values);
    let bottom = rows.iter().fold(TOP, |y, (_, bars)| y + bars.len() as f64 * STEP + GAP);
    let mut svg = Svg::begin(bottom + BELOW, measured.rounds());
    svg.rails(&scale, bottom);
    let mut y = TOP;
    for (headline, bars) in &rows {
        y = svg.row(&scale, y, headline, bars) + GAP;
    }
    svg.line(format_args!("</svg>"));
    Some(svg.0)
}

struct Svg(String);

impl Svg {
    fn line(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "{element}");
    }

    fn say(&mut self, class: &str, anchor: &str, x: f64, y: f64, text: &str) {
        self.line(format_args!(
            r#"<text class="{class}" x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{text}</text>"#
        ));
    }

    fn begin(height: f64, rounds: usize) -> Self {
        let mut svg = Self(String::new());
        svg.line(format_args!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" role="img" aria-labelledby="title desc">"#
        ));
        svg.line(format_args!(
            r#"<title id="title">How many times better than its peers Palisade is</title>"#
        ));
        svg.line(format_args!(
            r#"<desc id="desc">Ratios within {rounds} rounds; the README's table has the same numbers.</desc>"#
        ));
        svg.line(format_args!("<style>{LIGHT}@media (prefers-color-scheme: dark) {{{DARK}}}\n</style>"));
        let (wide, high) = (WIDTH - 1.0, height - 1.0);
        svg.line(format_args!(
            r#"<rect class="panel" x="0.5" y="0.5" width="{wide}" height="{high}" rx="8"/>"#
        ));
        svg.say("title", "start", 16.0, 26.0, "How many times better than its peers Palisade is");
        let mut x = 16.0;
        for peer in &PEERS {
            let class = peer.class;
            svg.line(format_args!(r#"<rect class="{class}" x="{x:.1}" y="38" width="10" height="10"/>"#));
            svg.say("small", "start", x + 15.0, 47.0, &format!("than {}", peer.name));
            x += 112.0;
        }
        let legend = format!("median of {rounds} rounds, the line from least to most");
        svg.say("small", "end", WIDTH - 16.0, 47.0, &legend);
        svg
    }

    fn rails(&mut self, scale: &Scale, bottom: f64) {
        for power in scale.powers() {
            let x = scale.x(10_f64.powi(power));
            let class = if power == 0 { "one" } else { "rail" };
            let (from, to) = (TOP - 8.0, bottom - GAP / 2.0);
            self.line(format_args!(r#"<path class="{class}" d="M{x:.1} {from}V{to}"/>"#));
            let label = match power {
                0 => "1: the same".to_owned(),
                _ => format!("{}", 10_f64.powi(power)),
            };
            self.say("small", "middle", x, TOP - 14.0, &label);
        }
    }

    /// Where it ends.
    fn row(&mut self, scale: &Scale, top: f64, headline: &Headline, bars: &[Bar]) -> f64 {
        let bottom = top + bars.len() as f64 * STEP;
        let middle = f64::midpoint(top, bottom - (STEP - BAR));
        self.say("", "end", LEFT - 52.0, middle + 4.0, headline.says);
        for (at, (peer, better)) in bars.iter().enumerate() {
            self.bar(scale, top + at as f64 * STEP, peer, better);
        }
        bottom
    }

    fn bar(&mut self, scale: &Scale, y: f64, peer: &Peer, better: &Rounds) {
        let (one, low) = (scale.x(1.0), y + BAR - 1.5);
        if better.values.is_empty() {
            return self.say("value", "start", one + 4.0, low, &format!("{}: void", peer.name));
        }
        let value = scale.x(better.median());
        let (least, most) = (scale.x(better.least()), scale.x(better.most()));
        let (from, width, class) = (one.min(value), (one - value).abs().max(0.5), peer.class);
        self.line(format_args!(
            r#"<rect class="{class}" x="{from:.1}" y="{y:.1}" width="{width:.1}" height="{BAR}"/>"#
        ));
        let centre = y + BAR / 2.0;
        self.line(format_args!(
            r#"<path class="spread" d="M{least:.1} {centre:.1}L{most:.1} {centre:.1}"/>"#
        ));
        let text = number(better.median());
        match value >= one {
            true => self.say("value", "start", most.max(one) + 4.0, low, &text),
            false => self.say("value", "end", least.min(one) - 4.0, low, &text),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_bar_goes_from_one_to_the_ratio() {
        let mut measured = Measured::default();
        for (label, rate) in [("palisade", 100.0), ("etcd-lock", 10.0), ("floor", 200.0)] {
            let m = json!({ "rate": rate, "units": 1_000 });
            measured.add(json!({ "workload": "w1", "tasks": 64, "backend": label, "round": 1, "m": m }));
        }
        measured.add(json!({ "workload": "w1", "tasks": 64, "backend": "zk", "round": 1, "failed": "no" }));
        let svg = svg(&measured).expect("ratios");
        // The scale goes from a tenth to ten, so that one is in its middle.
        assert!(
            svg.contains(r#"<rect class="etcd" x="550.0" y="84.0" width="241.8" height="10"/>"#),
            "{svg}"
        );
        assert!(svg.contains(r#"class="floor" x="477.2""#), "{svg}");
        assert!(svg.contains(">ZooKeeper: void</text>"), "{svg}");
        assert!(super::svg(&Measured::default()).is_none());
    }
}
