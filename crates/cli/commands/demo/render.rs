//! The story for people: the rounds side by side, or below each other where the window is narrow.

use super::story::{Fencing, Round, Story, What, Who};
use crate::output::{Tone, span};

/// From this width on, two rounds stand side by side.
const SIDE_BY_SIDE: usize = 100;
/// Columns of one round.
const ROUND: usize = 48;
/// Columns of what somebody did, before how it went.
const WHAT: usize = 20;

/// Paints a word, or leaves it.
pub(super) type Paint<'a> = &'a dyn Fn(Tone, &str) -> String;

/// Text with a colour that takes no room.
struct Cell {
    plain: String,
    tone: Option<Tone>,
}

impl Cell {
    fn new(plain: impl Into<String>) -> Self {
        Self { plain: plain.into(), tone: None }
    }

    fn toned(tone: Tone, plain: impl Into<String>) -> Self {
        Self { plain: plain.into(), tone: Some(tone) }
    }
}

/// Cells one after the other.
type Line = Vec<Cell>;

/// Everything that is shown at the end.
pub(super) fn page(story: &Story, width: usize, paint: Paint<'_>) -> String {
    let mut lines = vec![
        format!(
            "palisade demo · 3 node processes, real disks · leader {} (term {})",
            story.leader, story.term
        ),
        format!(
            "lease {} · A is stopped for {} · lock-delay 0, to keep this short",
            span(story.ttl),
            span(story.pause)
        ),
        String::new(),
    ];
    let rounds: Vec<Vec<Line>> =
        story.rounds.iter().enumerate().map(|(at, round)| told(story, at, round)).collect();
    match rounds.as_slice() {
        [left, right] if width >= SIDE_BY_SIDE => lines.extend(beside(left, right, paint)),
        _ => {
            for round in &rounds {
                lines.extend(
                    round.iter().map(|line| format!(" {}", painted(line, paint)).trim_end().to_owned()),
                );
                lines.push(String::new());
            }
            lines.pop();
        }
    }
    lines.push(String::new());
    lines.extend(moral(story).iter().map(|line| format!(" {line}")));
    lines.push(" next: palisade dev · palisade lock nightly -- ./job.sh".to_owned());
    lines.join("\n")
}

/// Only what was seen: a sentence about both rounds needs both, and needs them to agree.
fn moral(story: &Story) -> &'static [&'static str] {
    let [first, second] = story.rounds.as_slice() else { return &[] };
    let served = |round: &Round| (round.grants(), round.expiries(), round.node_errors);
    if served(first) != served(second) {
        return &[];
    }
    &[
        "The lock server behaved the same in both rounds.",
        "The only difference is whether the resource checks.",
    ]
}

/// One round as lines of cells, none wider than `ROUND`.
fn told(story: &Story, at: usize, round: &Round) -> Vec<Line> {
    let mut lines = vec![
        vec![Cell::new(format!("ROUND {}  {}", at + 1, round.fencing.title()))],
        vec![Cell::new("─".repeat(ROUND))],
    ];
    lines.extend(round.events.iter().map(|event| {
        let who = match event.who {
            Who::A => "A",
            Who::B => "B",
            Who::Server => " ",
        };
        let (what, how) = words(story, round.fencing, &event.what);
        let mut line = vec![Cell::new(format!("{:>5.2}s  {who}  {what:<WHAT$}", event.at.as_secs_f64()))];
        line.extend(how);
        line
    }));
    lines.push(Vec::new());
    lines.push(verdict(round));
    lines.push(vec![served(round)]);
    lines
}

fn words(story: &Story, fencing: Fencing, what: &What) -> (String, Line) {
    match what {
        What::Acquired { token } => {
            (format!("acquired {}", story.lock), vec![Cell::new(format!("token {token}"))])
        }
        What::Queued => (format!("waits for {}", story.lock), Vec::new()),
        What::Stopped => (bar("SIGSTOP"), vec![Cell::toned(Tone::Doubt, "A cannot know")]),
        What::Continued => (bar("SIGCONT"), vec![Cell::toned(Tone::Doubt, "A sees no gap")]),
        What::Expired { token } => {
            ("lease of A expired".to_owned(), vec![Cell::new(format!("token {token} is over"))])
        }
        What::Claimed { mark } => ("claimed the file".to_owned(), vec![Cell::new(format!("mark {mark}"))]),
        What::NothingToClaim => ("(no claim possible)".to_owned(), Vec::new()),
        What::Wrote { text, stale: true, .. } => {
            let tone = if fencing == Fencing::Unfenced { "ok  ✗ stale!" } else { "ACCEPTED ✗ stale!" };
            (format!("wrote \"{text}\""), vec![Cell::toned(Tone::Bad, tone)])
        }
        What::Wrote { text, mark, stale: false, .. } => {
            let mark = mark.map_or_else(String::new, |mark| format!("  mark {mark}"));
            (format!("wrote \"{text}\""), vec![Cell::new(format!("ok{mark}"))])
        }
        What::Refused { text, token, mark } => (
            format!("wrote \"{text}\""),
            vec![Cell::toned(Tone::Good, format!("REFUSED {token} < {mark} ✓"))],
        ),
        What::ReleaseRefused { reason, superseded_by } => {
            let how = superseded_by.map_or_else(|| reason.clone(), |token| format!("no, {token} holds it"));
            ("released".to_owned(), vec![Cell::new(how)])
        }
        What::StillHeld { by, token } => {
            (format!("still held by {}", by.word()), vec![Cell::new(format!("token {token}"))])
        }
    }
}

fn bar(signal: &str) -> String {
    format!("░░░░░ {signal} ░░░░░")
}

fn verdict(round: &Round) -> Line {
    let texts: Vec<&str> = round.lines.iter().map(|line| line.text.as_str()).collect();
    let verdict = if round.is_corrupt() {
        Cell::toned(Tone::Bad, "✗ CORRUPT")
    } else {
        Cell::toned(Tone::Good, "✓ CORRECT")
    };
    vec![Cell::new(format!("file contains  {:<16}", texts.join(" "))), verdict]
}

/// A number of things, as people say it.
pub(super) fn plural(count: usize, one: &str, many: &str) -> String {
    match count {
        0 => format!("no {one}"),
        1 => format!("1 {one}"),
        more => format!("{more} {many}"),
    }
}

fn served(round: &Round) -> Cell {
    Cell::new(format!(
        "lock server    {}, {}, {}",
        plural(round.grants(), "grant", "grants"),
        plural(round.expiries(), "expiry", "expiries"),
        plural(round.node_errors, "error", "errors"),
    ))
}

fn width(line: &Line) -> usize {
    line.iter().map(|cell| cell.plain.chars().count()).sum()
}

fn painted(line: &Line, paint: Paint<'_>) -> String {
    let paint = |cell: &Cell| cell.tone.map_or_else(|| cell.plain.clone(), |tone| paint(tone, &cell.plain));
    line.iter().map(paint).collect()
}

fn beside(left: &[Line], right: &[Line], paint: Paint<'_>) -> Vec<String> {
    let nothing = Line::new();
    // The verdicts stand at one height, whichever round had more to tell.
    let tail = 3;
    let height = left.len().max(right.len());
    let at = |round: &[Line], row: usize| {
        let body = round.len() - tail;
        match row {
            row if row < body => Some(row),
            row if row < height - tail => None,
            row => Some(row - (height - tail) + body),
        }
    };
    let rows = (0..height).map(|row| {
        let left = at(left, row).map_or(&nothing, |row| &left[row]);
        let right = at(right, row).map_or(&nothing, |row| &right[row]);
        let gap = " ".repeat((ROUND + 2).saturating_sub(width(left)));
        format!(" {}{gap}{}", painted(left, paint), painted(right, paint)).trim_end().to_owned()
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::super::story::tests::{round, story};
    use super::*;

    fn plain(_: Tone, word: &str) -> String {
        word.to_owned()
    }

    #[test]
    fn two_rounds_stand_side_by_side_where_there_is_room() {
        let page = page(&story(), 100, &plain);
        let lines: Vec<&str> = page.lines().collect();
        assert!(lines.iter().all(|line| line.chars().count() <= 100), "{page}");
        let both = |line: &&&str| line.contains("ok  ✗ stale!") && line.contains("REFUSED 35 < 36 ✓");
        assert_eq!(lines.iter().filter(both).count(), 1, "{page}");
        let verdicts = |line: &&&str| {
            line.contains("A1 B1 A2") && line.contains("✗ CORRUPT") && line.contains("✓ CORRECT")
        };
        assert_eq!(lines.iter().filter(verdicts).count(), 1, "{page}");
        assert!(page.ends_with("next: palisade dev · palisade lock nightly -- ./job.sh"));
    }

    #[test]
    fn they_are_stacked_where_there_is_none() {
        let page = page(&story(), 99, &plain);
        assert!(page.lines().all(|line| line.chars().count() <= 72), "{page}");
        let at = |text: &str| page.find(text).expect(text);
        assert!(at("✗ CORRUPT") < at("ROUND 2"));
        assert!(at("ROUND 2") < at("✓ CORRECT"));
    }

    #[test]
    fn one_round_alone_says_nothing_about_another() {
        let mut story = story();
        story.rounds = vec![round(Fencing::Fenced)];
        let page = page(&story, 120, &plain);
        assert!(!page.contains("both rounds"), "{page}");
        assert!(page.contains("lock server    2 grants, 1 expiry, no error"), "{page}");
    }

    #[test]
    fn rounds_that_were_served_differently_are_not_called_the_same() {
        let mut story = story();
        story.rounds[0].node_errors = 1;
        assert!(!page(&story, 100, &plain).contains("behaved the same"));
    }

    #[test]
    fn colours_take_no_room() {
        let marked = page(&story(), 100, &|_, word| format!("\u{1}{word}\u{2}"));
        assert!(marked.contains('\u{1}'));
        assert_eq!(marked.replace(['\u{1}', '\u{2}'], ""), page(&story(), 100, &plain));
    }
}
