//! The text format of Prometheus. Every label has a closed list of values, but the resource's own name.

use std::collections::BTreeMap;
use std::fmt::Write;

use palisade_core::ids::GuardName;
use palisade_core::rejections::Reason;

use super::{Counts, Gaps};

pub(super) fn text(
    guard: Option<&GuardName>,
    counts: &Counts,
    reasons: &BTreeMap<Reason, u64>,
    gaps: &Gaps,
) -> String {
    let guard = escaped(guard.map_or("", GuardName::as_str));
    let mut text = "# HELP palisade_fence_decisions_total What the fence decided.\n\
                    # TYPE palisade_fence_decisions_total counter\n"
        .to_owned();
    let decided = [("claimed", counts.claimed), ("written", counts.written), ("stale", counts.stale)];
    let others =
        Reason::ALL.into_iter().map(|reason| (reason.word(), reasons.get(&reason).copied().unwrap_or(0)));
    for (decision, count) in decided.into_iter().chain(others) {
        // Writing into a text does not fail, here and below.
        let _ = writeln!(
            text,
            "palisade_fence_decisions_total{{guard=\"{guard}\",decision=\"{decision}\"}} {count}"
        );
    }
    text.push_str(
        "# HELP palisade_fence_gap_entries How far a stale token was below the lowest accepted one, entries of the log.\n\
         # TYPE palisade_fence_gap_entries histogram\n",
    );
    let bounds = Gaps::BOUNDS.iter().map(u64::to_string).chain(["+Inf".to_owned()]);
    let mut so_far = 0;
    for (bound, count) in bounds.zip(gaps.buckets) {
        so_far += count;
        let _ =
            writeln!(text, "palisade_fence_gap_entries_bucket{{guard=\"{guard}\",le=\"{bound}\"}} {so_far}");
    }
    let _ = writeln!(text, "palisade_fence_gap_entries_sum{{guard=\"{guard}\"}} {}", gaps.sum);
    let _ = writeln!(text, "palisade_fence_gap_entries_count{{guard=\"{guard}\"}} {so_far}");
    text
}

fn escaped(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
