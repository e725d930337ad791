//! Pictures for pages, written by hand: one element a line, so that a review reads them as a text.

use std::fmt::{Arguments, Write};

/// Colours of what every picture has, for light surroundings.
const LIGHT: &str = "
text { font: 12px ui-sans-serif, system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif; fill: #1f2328 }
.title { font-size: 15px; font-weight: 600 } .lane { fill: #59636e } .small { font-size: 11px; fill: #59636e }
.mono { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; font-weight: 600 }
.panel { fill: #ffffff; stroke: #d1d9e0 } .rail { stroke: #d1d9e0 }
";
/// And for dark ones.
const DARK: &str = "
text { fill: #e6edf3 } .lane, .small { fill: #9198a1 } .panel { fill: #0d1117; stroke: #3d444d }
.rail { stroke: #3d444d }
";

/// Colours of a picture's own classes.
pub(crate) struct Style {
    pub(crate) light: &'static str,
    pub(crate) dark: &'static str,
}

/// What is drawn so far.
pub(crate) struct Svg {
    text: String,
}

impl Svg {
    /// An empty picture. `title` and `description` are for those who cannot see it.
    pub(crate) fn begin(width: u32, height: u32, title: &str, description: &str, style: &Style) -> Self {
        let mut svg = Self { text: String::new() };
        svg.add(format_args!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" aria-labelledby="title desc">"#
        ));
        svg.add(format_args!(r#"<title id="title">{}</title>"#, escaped(title)));
        svg.add(format_args!(r#"<desc id="desc">{}</desc>"#, escaped(description)));
        let Style { light, dark } = style;
        svg.add(format_args!(
            "<style>{LIGHT}{light}@media (prefers-color-scheme: dark) {{{DARK}{dark}}}\n</style>"
        ));
        svg
    }

    pub(crate) fn add(&mut self, element: Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{element}");
    }

    pub(crate) fn say(&mut self, class: &str, anchor: &str, x: f64, y: u32, text: &str) {
        let text = escaped(text);
        self.add(format_args!(
            r#"<text class="{class}" x="{x:.1}" y="{y}" text-anchor="{anchor}">{text}</text>"#
        ));
    }

    pub(crate) fn end(mut self) -> String {
        self.add(format_args!("</svg>"));
        self.text
    }
}

/// As text of an element or an attribute.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
