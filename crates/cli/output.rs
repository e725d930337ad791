//! Answers on stdout: tables for people, one JSON document for scripts. Everything else goes to stderr.

use std::fmt::Arguments;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use comfy_table::Table;
use serde_json::Value;

pub(crate) use palisade_proto::convert::json::wide;

use crate::args::{Color, Format, Globals};

/// A line on stderr, as `eprintln!` would, but whoever read it may be gone: a run that holds a lock goes on without it.
macro_rules! say {
    ($($words:tt)*) => { $crate::output::say(format_args!($($words)*)) };
}

/// What `say!` does.
pub(crate) fn say(words: Arguments<'_>) {
    // In one write, so that lines of several processes stay whole; nothing is left to do when stderr is gone.
    let _ = io::stderr().lock().write_all(format!("{words}\n").as_bytes());
}

/// How this run writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    format: Format,
    color: bool,
    /// One answer of many: on a terminal each replaces the one before, for scripts each is one line.
    again: bool,
}

/// What a word says, told by its colour as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Good,
    Bad,
    Doubt,
}

impl Output {
    pub(crate) fn new(globals: &Globals) -> Self {
        let color = match globals.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => {
                let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
                let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
                io::stdout().is_terminal() && !plain && !dumb
            }
        };
        Self { format: globals.output, color, again: false }
    }

    /// For a command that answers again and again.
    pub(crate) fn again_and_again(globals: &Globals) -> Self {
        Self { again: true, ..Self::new(globals) }
    }

    /// Writes the answer: `people` as lines, or `scripts` as a document of `schema` (`palisade.<command>/<version>`).
    ///
    /// # Errors
    ///
    /// When stdout is gone.
    pub(crate) fn answer(
        self,
        schema: &str,
        people: impl FnOnce(Self) -> String,
        scripts: impl FnOnce() -> Value,
    ) -> io::Result<()> {
        let text = match self.format {
            Format::Table => people(self),
            Format::Json => {
                let mut document = scripts();
                if let Value::Object(fields) = &mut document {
                    fields.insert("schema".to_owned(), schema.into());
                }
                if self.again { document.to_string() } else { format!("{document:#}") }
            }
        };
        // To the upper left corner, and all below it away.
        let fresh = self.again && self.format == Format::Table && io::stdout().is_terminal();
        let begin = if fresh { "\x1b[H\x1b[J" } else { "" };
        let mut stdout = io::stdout().lock();
        writeln!(stdout, "{begin}{}", text.trim_end())?;
        stdout.flush()
    }

    /// A word in its colour, where there are colours.
    pub(crate) fn paint(self, tone: Tone, word: &str) -> String {
        let code = match tone {
            Tone::Good => 32,
            Tone::Bad => 31,
            Tone::Doubt => 33,
        };
        if self.color { format!("\x1b[{code}m{word}\x1b[0m") } else { word.to_owned() }
    }
}

/// Columns under their names, without lines.
pub(crate) fn table<R>(header: &[&str], rows: impl IntoIterator<Item = R>) -> String
where
    R: IntoIterator<Item = String>,
{
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING).set_header(header.iter().copied());
    for row in rows {
        table.add_row(row.into_iter().collect::<Vec<_>>());
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.trim_fmt()
}

/// A duration for people, in the two largest units that matter.
pub(crate) fn span(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{:.1}s", time.as_secs_f64()),
        60..3_600 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h {:02}m", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{}d {:02}h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_at_a_glance() {
        let of = |seconds| span(Duration::from_secs(seconds));
        assert_eq!(span(Duration::from_millis(12_400)), "12.4s");
        assert_eq!([of(67), of(3_840), of(273_600)], ["1m 07s", "1h 04m", "3d 04h"]);
    }

    #[test]
    fn a_table_has_no_trailing_blanks() {
        let text = table(
            &["LOCK", "TOKEN"],
            [["a".to_owned(), "34".to_owned()], ["nightly".to_owned(), "7".to_owned()]],
        );
        assert_eq!(text, "LOCK     TOKEN\na        34\nnightly  7");
    }
}
