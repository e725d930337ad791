//! What a drill has shown.

use std::process::ExitStatus;

use serde_json::{Value, json};

use super::run::Stopped;
use crate::exit::Exit;
use crate::output::{Output, Tone, wide};

/// How a refusal is told from another failure.
#[derive(Clone, Debug, Default)]
pub(super) struct Refusal {
    /// The command ends with this code; without it, with any but 0.
    pub(super) code: Option<u8>,
    /// The command says this.
    pub(super) says: Option<String>,
}

/// What was shown, and by what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The late write was refused.
    Refused(String),
    /// It was taken.
    Accepted(String),
    /// Neither was shown.
    Unshown(String),
}

impl Refusal {
    /// What it means that the first run, continued, ended so.
    pub(super) fn judge(&self, status: ExitStatus, said: &str) -> Verdict {
        let Some(code) = status.code() else {
            return Verdict::Unshown(format!(
                "the first run was ended by a signal ({status}), not by a refusal"
            ));
        };
        if code == 0 {
            let what = "the first run went on after the second and ended with 0: its late write was taken";
            return Verdict::Accepted(what.to_owned());
        }
        if self.code.is_some_and(|refused| i32::from(refused) != code) {
            return Verdict::Unshown(format!(
                "the first run failed with {code}, which is not the refusal's code"
            ));
        }
        match &self.says {
            Some(text) if !said.contains(text.as_str()) => {
                Verdict::Unshown(format!("the first run failed with {code}, and did not say {text:?}"))
            }
            Some(text) => Verdict::Refused(format!("the first run said {text:?}, and ended with {code}")),
            None if self.code.is_some() => Verdict::Refused(format!("the first run ended with {code}")),
            None => Verdict::Refused(format!(
                "the first run ended with {code}; that this is a refusal is believed: --refused-code, --refused-says or \
                 --verify show it"
            )),
        }
    }
}

/// The answer of the command.
pub(super) struct Report {
    pub(super) lock: String,
    pub(super) first: u64,
    pub(super) second: Option<u64>,
    pub(super) stopped: Option<Stopped>,
    pub(super) verified: Option<bool>,
    pub(super) verdict: Verdict,
}

impl Report {
    pub(super) fn exit(&self) -> Exit {
        match &self.verdict {
            Verdict::Refused(_) => Exit::OK,
            Verdict::Accepted(_) => Exit::NO,
            Verdict::Unshown(_) => Exit::USAGE,
        }
    }

    pub(super) fn people(&self, output: Output) -> String {
        let first = self.first;
        match (&self.verdict, self.second) {
            (Verdict::Refused(why), Some(second)) => format!(
                "{}   {}: what came under token {first}, after token {second}, was refused\n{why}",
                output.paint(Tone::Good, "REFUSED"),
                self.lock,
            ),
            (Verdict::Accepted(why), Some(second)) => format!(
                "{}   {}: what came under token {first} was taken after what came under token {second}: a write of before \
                 lies over newer data, and whoever reads it cannot tell\n{why}\nLet the resource compare tokens where it \
                 writes: palisade help fencing",
                output.paint(Tone::Bad, "ACCEPTED"),
                self.lock,
            ),
            (Verdict::Refused(why) | Verdict::Accepted(why) | Verdict::Unshown(why), _) => {
                format!("{}   {}: {why}", output.paint(Tone::Doubt, "NOT SHOWN"), self.lock)
            }
        }
    }

    pub(super) fn scripts(&self) -> Value {
        let (verdict, why) = match &self.verdict {
            Verdict::Refused(why) => ("refused", why),
            Verdict::Accepted(why) => ("accepted", why),
            Verdict::Unshown(why) => ("not_shown", why),
        };
        let stopped = self.stopped.map(|stopped| match stopped {
            Stopped::After => "after",
            Stopped::When => "when",
            Stopped::Itself => "itself",
        });
        json!({
            "lock": self.lock,
            "verdict": verdict,
            "why": why,
            "first_token": wide(self.first),
            "second_token": self.second.map(wide),
            "stopped": stopped,
            "verified": self.verified,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    fn judged(refusal: &Refusal, raw: i32, said: &str) -> &'static str {
        match refusal.judge(ExitStatus::from_raw(raw), said) {
            Verdict::Refused(_) => "refused",
            Verdict::Accepted(_) => "accepted",
            Verdict::Unshown(_) => "not shown",
        }
    }

    #[test]
    fn success_is_never_a_refusal_and_a_failure_is_one_as_far_as_was_said() {
        let any = Refusal::default();
        let code = Refusal { code: Some(4), says: None };
        let says = Refusal { code: None, says: Some("STALE".to_owned()) };
        for refusal in [&any, &code, &says] {
            assert_eq!(judged(refusal, 0, "STALE"), "accepted");
            assert_eq!(judged(refusal, 9, "STALE"), "not shown", "killed");
            assert_eq!(judged(refusal, 4 << 8, "STALE"), "refused");
        }
        assert_eq!(judged(&any, 1 << 8, ""), "refused");
        assert_eq!(judged(&code, 1 << 8, ""), "not shown");
        assert_eq!(judged(&says, 4 << 8, "connection refused"), "not shown");
    }
}
