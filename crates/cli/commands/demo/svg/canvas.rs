//! The few shapes that the picture is made of.

use std::fmt::Arguments;
use std::time::Duration;

use super::super::story::Story;
use super::{BAR, LEFT, PIECE, RIGHT};
use crate::svg::{Style, Svg};

/// Colours by class.
pub(super) const STYLE: Style = Style {
    light: "\
.a { fill: #b6d7fb; stroke: #0969da } .b { fill: #f8dda7; stroke: #9a6700 }
.pause { fill: url(#hatch); stroke: #0969da; stroke-dasharray: 4 3 } .stripe { stroke: #0969da; opacity: .3 }
.halo { stroke: #ffffff; stroke-width: 5px; stroke-linejoin: round; paint-order: stroke }
.wait { stroke: #9a6700; stroke-width: 2; stroke-dasharray: 2 4 } .a-way { stroke: #0969da } .b-way { stroke: #9a6700 }
.bad-way { stroke: #cf222e; stroke-width: 2 } .bad { fill: #cf222e } .good { fill: #1a7f37 } .stale { fill: #ffd7d5; stroke: #cf222e; stroke-width: 2 }
.tick { stroke: #cf222e; stroke-width: 4; stroke-linecap: round } .mark { stroke: #1a7f37; stroke-width: 2 }
",
    dark: "\
.a { fill: #123a6b; stroke: #4493f8 } .b { fill: #5a3f0a; stroke: #d29922 }
.pause { stroke: #4493f8 } .stripe { stroke: #4493f8 } .halo { stroke: #0d1117 }
.wait { stroke: #d29922 } .a-way { stroke: #4493f8 } .b-way { stroke: #d29922 }
.bad-way, .tick { stroke: #f85149 } .bad { fill: #f85149 } .good { fill: #3fb950 } .stale { fill: #67151a; stroke: #f85149 } .mark { stroke: #3fb950 }
",
};

/// Time to place.
pub(super) struct Scale {
    pub(super) seconds: f64,
}

impl Scale {
    /// All panels share one scale. A little room stays after the last event.
    pub(super) fn of(story: &Story) -> Self {
        let ends = story.rounds.iter().filter_map(|round| round.events.last());
        let end = ends.map(|event| event.at).max().unwrap_or_default();
        Self { seconds: end.as_secs_f64().max(0.001) * 1.06 }
    }

    pub(super) fn x(&self, at: Duration) -> f64 {
        LEFT + (RIGHT - LEFT) * (at.as_secs_f64() / self.seconds).min(1.0)
    }
}

/// What is drawn so far.
pub(super) struct Picture {
    pub(super) svg: Svg,
    pub(super) scale: Scale,
}

impl Picture {
    pub(super) fn add(&mut self, element: Arguments<'_>) {
        self.svg.add(element);
    }

    pub(super) fn say(&mut self, class: &str, anchor: &str, x: f64, y: u32, text: &str) {
        self.svg.say(class, anchor, x, y, text);
    }

    pub(super) fn bar(&mut self, class: &str, from: f64, to: f64, middle: u32) {
        let (y, width, height) = (middle - BAR, (to - from).max(1.0), 2 * BAR);
        self.add(format_args!(
            r#"<rect class="{class}" x="{from:.1}" y="{y}" width="{width:.1}" height="{height}" rx="3"/>"#
        ));
    }

    /// Straight up or down.
    pub(super) fn way(&mut self, class: &str, x: f64, from: u32, to: u32) {
        self.add(format_args!(r#"<path class="{class}" d="M{x:.1} {from}V{to}"/>"#));
    }

    /// A piece of the file.
    pub(super) fn piece(&mut self, class: &str, x: f64, middle: u32, text: &str) {
        let (left, size) = (x - PIECE, 2.0 * PIECE);
        let y = middle - BAR;
        self.add(format_args!(
            r#"<rect class="{class}" x="{left:.1}" y="{y}" width="{size:.1}" height="{}" rx="3"/>"#,
            2 * BAR
        ));
        self.say("mono", "middle", x, middle + 4, text);
    }
}
