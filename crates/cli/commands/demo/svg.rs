//! The story as a picture: one panel a round, one lane each for the lock server, the workers and the file.
//!
//! Written by hand: a picture of a README is read as a text in a review. The same story always gives the same bytes.

mod canvas;

use std::time::Duration;

use self::canvas::{Picture, STYLE, Scale};
use super::render::plural;
use super::story::{Event, Round, Story, What, Who};
use crate::output::span;
use crate::svg::Svg;

const WIDTH: u32 = 880;
/// Where time begins and ends.
const LEFT: f64 = 118.0;
const RIGHT: f64 = 856.0;
/// Of a panel.
const HEIGHT: u32 = 240;
const GAP: u32 = 14;
/// Of the time axis below the panels.
const AXIS: u32 = 34;
/// Middles of the lanes, from a panel's top.
const SERVER: u32 = 70;
const A: u32 = 114;
const FILE: u32 = 162;
const B: u32 = 210;
/// Half of the height of a bar.
const BAR: u32 = 11;
/// Half of the size of a written piece.
const PIECE: f64 = 13.0;

/// Draws the story.
pub(super) fn draw(story: &Story) -> String {
    let panels = u32::try_from(story.rounds.len()).unwrap_or(0);
    let height = panels * (HEIGHT + GAP) + AXIS;
    let title = "A lock holder is paused past its lease and wakes up";
    let svg = Svg::begin(WIDTH, height, title, &description(story), &STYLE);
    let mut out = Picture { svg, scale: Scale::of(story) };
    out.add(format_args!(
        r#"<defs><pattern id="hatch" width="8" height="8" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><path class="stripe" d="M0 0V8" stroke-width="7"/></pattern></defs>"#
    ));
    for (at, round) in (0..).zip(&story.rounds) {
        panel(&mut out, round, at * (HEIGHT + GAP));
    }
    axis(&mut out, story, panels * (HEIGHT + GAP));
    out.svg.end()
}

fn panel(out: &mut Picture, round: &Round, top: u32) {
    out.add(format_args!(r#"<g class="{}">"#, round.fencing.word()));
    let width = WIDTH - 1;
    out.add(format_args!(
        r#"<rect class="panel" x="0.5" y="{top}.5" width="{width}" height="{HEIGHT}" rx="8"/>"#
    ));
    out.say("title", "start", 16.0, top + 26, &capital(round.fencing.title()));
    let texts: Vec<&str> = round.lines.iter().map(|line| line.text.as_str()).collect();
    let (class, verdict) =
        if round.is_corrupt() { ("title bad", "✗ CORRUPT") } else { ("title good", "✓ CORRECT") };
    out.say(class, "end", RIGHT, top + 26, &format!("file: {}  {verdict}", texts.join(" ")));
    let lanes = [("lock server", SERVER), ("worker A", A), ("the file", FILE), ("worker B", B)];
    for (name, middle) in lanes {
        out.say("lane", "start", 16.0, top + middle + 4, name);
    }
    out.add(format_args!(r#"<path class="rail" d="M{LEFT} {y}H{RIGHT}"/>"#, y = top + FILE));
    server(out, round, top);
    worker_a(out, round, top);
    worker_b(out, round, top);
    for event in &round.events {
        effect(out, event, top);
    }
    out.add(format_args!("</g>"));
}

/// Who holds the lock, as the cluster sees it.
fn server(out: &mut Picture, round: &Round, top: u32) {
    for (class, who) in [("a", Who::A), ("b", Who::B)] {
        let Some((from, token)) = round.granted(who) else { continue };
        let until = match who {
            Who::A => round.when(|what| matches!(what, What::Expired { .. })),
            Who::B | Who::Server => None,
        };
        let (from, to) = (out.scale.x(from), until.map_or(RIGHT, |until| out.scale.x(until)));
        out.bar(class, from, to, top + SERVER);
        out.say(
            "mono",
            "middle",
            from.midpoint(to),
            top + SERVER + 4,
            &format!("{} holds, token {token}", who.word()),
        );
        if until.is_some() {
            out.say("small", "end", to - 4.0, top + SERVER - 16, "A's lease expires");
            out.way("rail", to, top + SERVER - 24, top + SERVER - BAR);
        }
    }
}

/// What A believes: it holds the lock, before, during and after.
fn worker_a(out: &mut Picture, round: &Round, top: u32) {
    let Some((from, _)) = round.granted(Who::A) else { return };
    let stopped = round.when(|what| matches!(what, What::Stopped));
    let continued = round.when(|what| matches!(what, What::Continued));
    let end = round.events.last().map_or(from, |event| event.at);
    let (from, end) = (out.scale.x(from), (out.scale.x(end) + PIECE).min(RIGHT));
    let stopped = stopped.map_or(end, |at| out.scale.x(at));
    let continued = continued.map_or(end, |at| out.scale.x(at));
    let y = top + A;
    out.bar("a", from, stopped, y);
    out.bar("pause", stopped, continued, y);
    out.bar("a", continued, end, y);
    out.say("mono halo", "start", stopped + 8.0, y + 4, "SIGSTOP");
    out.say("halo", "middle", stopped.midpoint(continued), y + 4, "stopped; believes that it holds the lock");
    out.say("mono halo", "end", continued - 8.0, y + 4, "SIGCONT");
}

fn worker_b(out: &mut Picture, round: &Round, top: u32) {
    let y = top + B;
    let Some((granted, _)) = round.granted(Who::B) else { return };
    let granted = out.scale.x(granted);
    if let Some(queued) = round.when(|what| matches!(what, What::Queued)) {
        let queued = out.scale.x(queued);
        out.add(format_args!(r#"<path class="wait" d="M{queued:.1} {y}H{granted:.1}"/>"#));
        out.say("small", "start", queued, y - 8, "waits in the queue");
    }
    out.bar("b", granted, RIGHT, y);
    out.say("", "middle", granted.midpoint(RIGHT), y + 4, "holds the lock");
}

/// What reached the file, or did not.
fn effect(out: &mut Picture, event: &Event, top: u32) {
    let x = out.scale.x(event.at);
    let (file, a, b) = (top + FILE, top + A + BAR, top + B - BAR);
    let piece_top = file - BAR;
    match &event.what {
        What::Wrote { text, stale: true, .. } => {
            out.way("bad-way", x, a, piece_top);
            out.piece("stale", x, file, text);
            out.say("mono bad", "end", x - PIECE - 8.0, file - 6, &format!("{text} lands, although stale"));
        }
        What::Wrote { text, stale: false, mark, .. } => {
            let (class, way) = if event.who == Who::A { ("a", "a-way") } else { ("b", "b-way") };
            let (from, to) = if event.who == Who::A { (a, piece_top) } else { (b, file + BAR) };
            out.way(way, x, from, to);
            out.piece(class, x, file, text);
            // B's mark is told with its claim.
            if let Some(mark) = mark.filter(|_| event.who == Who::A) {
                out.say("small", "start", x + PIECE + 8.0, file - 6, &format!("mark {mark}"));
            }
        }
        What::Claimed { mark } => {
            out.way("b-way", x, b, file + 1);
            out.way("mark", x, file - BAR, file + BAR);
            out.say("small", "end", x - 6.0, file - 6, &format!("B claims: mark {mark}"));
        }
        What::Refused { text, token, mark } => {
            out.way("bad-way", x, a, piece_top);
            let (left, right) = (x - PIECE, x + PIECE);
            out.add(format_args!(r#"<path class="tick" d="M{left:.1} {piece_top}H{right:.1}"/>"#));
            let words = format!("{text} is REFUSED: {token} < {mark}");
            out.say("mono bad", "end", x - PIECE - 8.0, file - 6, &words);
        }
        What::Acquired { .. }
        | What::Queued
        | What::Stopped
        | What::Continued
        | What::Expired { .. }
        | What::NothingToClaim
        | What::ReleaseRefused { .. }
        | What::StillHeld { .. } => {}
    }
}

fn axis(out: &mut Picture, story: &Story, top: u32) {
    out.add(format_args!(r#"<g class="axis">"#));
    let seconds = out.scale.seconds as u32;
    let step = (seconds / 8).max(1);
    for second in (0..=seconds).step_by(step as usize) {
        let x = out.scale.x(Duration::from_secs(second.into()));
        out.say("small", "middle", x, top + 6, &format!("{second}s"));
    }
    let words = format!(
        "Measured by palisade demo: three nodes and two workers, real processes; lease {}, no lock-delay.",
        span(story.ttl)
    );
    out.say("small", "start", 16.0, top + 26, &words);
    out.add(format_args!("</g>"));
}

fn description(story: &Story) -> String {
    let rounds = story.rounds.iter().map(|round| {
        let verdict = if round.is_corrupt() { "corrupt" } else { "correct" };
        let texts: Vec<&str> = round.lines.iter().map(|line| line.text.as_str()).collect();
        format!(
            "When {}, the file contains {} and is {verdict}; {}, {}.",
            round.fencing.title(),
            texts.join(" "),
            plural(round.grants(), "grant", "grants"),
            plural(round.expiries(), "expiry", "expiries"),
        )
    });
    rounds.collect::<Vec<_>>().join(" ")
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests;
