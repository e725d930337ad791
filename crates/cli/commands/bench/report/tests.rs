use super::*;

const SHAPE: Shape<2, 1, 1> = Shape {
    schema: "palisade.bench.test/1",
    title: "a test",
    row: "tasks",
    figures: [
        Figure { name: "grants_per_second", head: "GRANTS/S", unit: Unit::PerSecond },
        Figure { name: "sessions", head: "SESSIONS", unit: Unit::Count },
    ],
    latencies: ["cycle"],
    checked: "grants",
    rules: [TOKENS_RISE],
};

fn measured(round: u32, rate: f64, not_rising: u64) -> Measured<2, 1, 1> {
    let mut cycle = Latencies::default();
    cycle.record(Duration::from_millis(3));
    Measured {
        round,
        row: Label::Number(64),
        figures: [Some(rate), None],
        latencies: [cycle],
        checked: rate as u64,
        broken: [not_rising],
        errors: 0,
        error: None,
    }
}

fn report(measured: Vec<Measured<2, 1, 1>>) -> Report<2, 1, 1> {
    Report::new(&SHAPE, Some(Duration::from_secs(1)), measured)
}

fn three() -> Report<2, 1, 1> {
    report(vec![measured(1, 900.0, 0), measured(2, 100.0, 0), measured(3, 500.0, 0)])
}

#[test]
fn the_median_round_counts() {
    let report = three();
    assert_eq!(report.json()["rows"][0]["grants_per_second"], 500.0);
    let text = report.lines();
    assert!(text.ends_with("checked 1500 grants: tokens rise"), "{text}");
    assert!(text.contains("100-900"), "{text}");
    assert!(report.is_right());
}

#[test]
fn one_token_that_did_not_rise_is_a_no() {
    let report = report(vec![measured(1, 900.0, 1)]);
    assert!(!report.is_right());
    assert!(report.lines().contains("1 TOKENS DID NOT RISE"));
    assert_eq!(report.json()["tokens_rise"], false);
}

#[test]
fn a_run_without_grants_proves_nothing() {
    let report = report(vec![measured(1, 0.0, 0)]);
    assert!(!report.is_right());
    assert_eq!(report.json()["tokens_rise"], false);
}

#[test]
fn what_nothing_tells_is_null_empty_or_left_out() {
    let report = report(vec![measured(1, 900.0, 0)]);
    assert_eq!(report.json()["rows"][0]["sessions"], Value::Null);
    assert!(!report.lines().contains("SESSIONS"));
    assert!(report.csv().contains("1,64,900,,0.00"), "{}", report.csv());
}

#[test]
fn a_line_of_the_csv_is_a_row_of_a_round() {
    let text = three().csv();
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(lines.len(), 4);
    assert_eq!(lines[0][..5], ["round", "tasks", "grants_per_second", "sessions", "cycle_seconds_p50"]);
    assert!(lines.iter().all(|line| line.len() == lines[0].len()), "{text}");
}

#[test]
fn the_picture_shows_the_median_and_each_round_and_stays_within_its_edges() {
    let picture = three().plot();
    assert_eq!(picture.matches(r#"class="round""#).count(), 3);
    assert_eq!(picture.matches(r#"class="bar""#).count(), 1);
    assert!(picture.contains("@media (prefers-color-scheme: dark)"));
    for side in [r#" x=""#, r#" cx=""#] {
        for x in picture.split(side).skip(1) {
            let x: f64 = x.split('"').next().unwrap().parse().unwrap();
            assert!((0.0..=880.0).contains(&x), "{x}");
        }
    }
}
