//! The structure of the picture, not its pixels.

use super::super::story::Fencing;
use super::super::story::tests::{round, story};
use super::*;

/// Elements with their classes, in order; without the axis, which depends on how long it took.
fn structure(picture: &str) -> Vec<String> {
    let mut elements = Vec::new();
    let body = picture.split(r#"<g class="axis">"#).next().unwrap_or_default();
    for element in
        body.lines().filter_map(|line| line.strip_prefix('<')).filter(|line| !line.starts_with('/'))
    {
        let name: String = element.chars().take_while(char::is_ascii_alphabetic).collect();
        let class = element.split(r#"class=""#).nth(1).and_then(|rest| rest.split('"').next());
        elements.push(format!("{name}.{}", class.unwrap_or_default()));
    }
    elements
}

#[test]
fn the_readmes_picture_has_this_structure() {
    let picture = include_str!("../../../../../docs/paused-holder.svg");
    assert_eq!(
        structure(picture),
        structure(&draw(&story())),
        "draw it again: palisade demo --svg docs/paused-holder.svg"
    );
}

#[test]
fn a_stale_write_lands_in_the_one_panel_and_is_refused_in_the_other() {
    let picture = draw(&story());
    let (unfenced, fenced) = picture.split_once(r#"<g class="fenced">"#).unwrap();
    assert!(unfenced.contains(r#"class="stale""#) && unfenced.contains("✗ CORRUPT"));
    assert!(fenced.contains(r#"class="tick""#) && fenced.contains("REFUSED: 35 &lt; 36"));
    assert!(fenced.contains("✓ CORRECT") && !fenced.contains(r#"class="stale""#));
    assert_eq!(picture.matches(r#"class="pause""#).count(), 2);
}

#[test]
fn one_story_gives_one_picture_in_light_and_dark() {
    assert_eq!(draw(&story()), draw(&story()));
    assert!(draw(&story()).contains("@media (prefers-color-scheme: dark)"));
}

#[test]
fn one_round_is_one_panel() {
    let mut story = story();
    story.rounds = vec![round(Fencing::Unfenced)];
    assert_eq!(draw(&story).matches(r#"class="panel""#).count(), 1);
}

#[test]
fn nothing_is_drawn_beyond_the_edges() {
    for x in draw(&story()).split(r#" x=""#).skip(1) {
        let x: f64 = x.split('"').next().unwrap().parse().unwrap();
        assert!((0.0..=f64::from(WIDTH)).contains(&x), "{x}");
    }
}

#[test]
fn signs_of_markup_are_escaped() {
    let mut story = story();
    story.rounds[0].lines[0].text = "<&>".to_owned();
    assert!(draw(&story).contains("&lt;&amp;&gt;"));
}
