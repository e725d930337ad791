//! What the service got right and wrong, for people and for scripts.

use serde_json::{Value, json};

use super::scenarios::Scenario;
use crate::output::{Output, Tone, table};

/// What a scenario came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Right,
    Wrong(String),
    NotRun(&'static str),
}

impl Verdict {
    fn word(&self) -> (&'static str, Tone) {
        match self {
            Self::Right => ("right", Tone::Good),
            Self::Wrong(_) => ("WRONG", Tone::Bad),
            Self::NotRun(_) => ("not run", Tone::Doubt),
        }
    }
}

/// The answer of the command.
pub(super) struct Report {
    pub(super) url: String,
    pub(super) lock: String,
    pub(super) verdicts: Vec<(Scenario, Verdict)>,
}

impl Report {
    /// Whether nothing was wrong.
    pub(super) fn right(&self) -> bool {
        self.count("WRONG") == 0
    }

    fn count(&self, word: &str) -> usize {
        self.verdicts.iter().filter(|(_, verdict)| verdict.word().0 == word).count()
    }

    pub(super) fn people(&self, output: Output) -> String {
        let rows = self.verdicts.iter().map(|(scenario, verdict)| {
            let told = scenario.told();
            let (word, tone) = verdict.word();
            let what = match verdict {
                Verdict::Right => told.says.to_owned(),
                Verdict::Wrong(what) => what.clone(),
                Verdict::NotRun(why) => format!("{}: {why}", told.says),
            };
            [told.name.to_owned(), output.paint(tone, word), what]
        });
        let mut text = table(&["SCENARIO", "IS", "WHAT"], rows);
        let wrong = self.verdicts.iter().filter(|(_, verdict)| matches!(verdict, Verdict::Wrong(_)));
        for (at, (scenario, _)) in wrong.enumerate() {
            let told = scenario.told();
            text.push_str(if at == 0 { "\n\n" } else { "\n" });
            text.push_str(&format!("{}: {}", told.name, told.advice));
        }
        let [right, wrong, not_run] = ["right", "WRONG", "not run"].map(|word| self.count(word));
        format!("{text}\n\n{}, lock {}: {right} right, {wrong} wrong, {not_run} not run", self.url, self.lock)
    }

    pub(super) fn scripts(&self) -> Value {
        let scenarios = self.verdicts.iter().map(|(scenario, verdict)| {
            let told = scenario.told();
            let (got, advice) = match verdict {
                Verdict::Right => (None, None),
                Verdict::Wrong(what) => (Some(what.as_str()), Some(told.advice)),
                Verdict::NotRun(why) => (Some(*why), None),
            };
            let is = verdict.word().0.to_lowercase().replace(' ', "_");
            json!({ "name": told.name, "says": told.says, "is": is, "got": got, "advice": advice })
        });
        json!({
            "url": self.url,
            "lock": self.lock,
            "ok": self.right(),
            "right": self.count("right"),
            "wrong": self.count("WRONG"),
            "not_run": self.count("not run"),
            "scenarios": scenarios.collect::<Vec<_>>(),
        })
    }
}
