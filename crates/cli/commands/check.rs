//! `palisade check`: is a sequencer still good, and if not, why.

use std::io::Read;

use palisade_proto::convert::{json, words};
use palisade_proto::v1;
use palisade_proto::v1::check_item::What;
use palisade_proto::v1::verdict::State;

use super::{Failure, client};
use crate::args::{CheckArgs, Globals};
use crate::exit::Exit;
use crate::output::{Output, Tone};

/// A sequencer is some 400 bytes; a name of 512 makes it longer.
const SEQUENCER_BYTES_MAX: u64 = 16 << 10;

/// Yes when it is current.
pub(crate) async fn run(globals: &Globals, arguments: &CheckArgs) -> Result<Exit, Failure> {
    let mut sequencer = arguments.sequencer.clone();
    if sequencer == "-" {
        sequencer.clear();
        std::io::stdin().lock().take(SEQUENCER_BYTES_MAX).read_to_string(&mut sequencer)?;
    }
    let item = v1::CheckItem {
        what: Some(What::Sequencer(sequencer.trim().to_owned())),
        lock: arguments.lock.clone().unwrap_or_default(),
    };
    let verdicts = client(globals)?.check(vec![item]).await?;
    let Some(verdict) = verdicts.into_iter().next() else {
        return Err(Failure::new(Exit::DEFECT, anyhow::anyhow!("the node answered without a verdict")));
    };
    Output::new(globals).answer(
        "palisade.check/1",
        |output| lines(output, &verdict),
        || json::verdict(&verdict),
    )?;
    Ok(if verdict.state() == State::Current { Exit::OK } else { Exit::NO })
}

fn lines(output: Output, verdict: &v1::Verdict) -> String {
    let (word, tone, meaning) = match verdict.state() {
        State::Current => (
            "CURRENT",
            Tone::Good,
            "It was good at some moment during this call. Only the resource, at the write, can say more.",
        ),
        State::Superseded => (
            "STALE",
            Tone::Bad,
            "The signature is genuine; the grant is over. A resource that has seen the newer token must refuse this.",
        ),
        State::Ended => ("ENDED", Tone::Bad, "The signature is genuine; the grant is over."),
        State::UnknownKey => (
            "UNKNOWN KEY",
            Tone::Doubt,
            "The cluster knows no such signing key: it is of another cluster, too new, or dropped.",
        ),
        State::Forged => {
            ("FORGED", Tone::Bad, "The signature is not the cluster's. Believe nothing that it says.")
        }
        State::WrongLock => {
            ("WRONG LOCK", Tone::Bad, "The signature is genuine, but it speaks of another lock.")
        }
        State::NeverGranted => ("NEVER GRANTED", Tone::Bad, "Nothing like it was ever granted here."),
        State::Unspecified => ("UNKNOWN", Tone::Doubt, "The node's answer is of a newer version."),
    };
    let mut first = output.paint(tone, word);
    if verdict.token > 0 {
        first.push_str(&format!("   {} token {}", verdict.lock, verdict.token));
        if verdict.superseded_by > 0 {
            first.push_str(&format!(" < current {}", verdict.superseded_by));
        }
        if let Some(how) = words::ended_word(verdict.ended) {
            first.push_str(&format!(", {how}"));
        }
        if verdict.in_lock_delay {
            first.push_str(", in lock-delay");
        }
    }
    if !verdict.key_id.is_empty() {
        first.push_str(&format!("    key {}", verdict.key_id));
    }
    if !verdict.client.is_empty() {
        first.push_str(&format!(", granted to {}", verdict.client));
    }
    format!("{first}\n{meaning}")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn a_stale_sequencer_is_told_with_both_tokens() {
        let cli =
            crate::args::Cli::try_parse_from(["palisade", "--color", "never", "check", "a.b.c"]).unwrap();
        let verdict = v1::Verdict {
            state: State::Superseded.into(),
            lock: "orders/shard-7".into(),
            token: 33,
            superseded_by: 34,
            ended: v1::Ended::Expired.into(),
            ..v1::Verdict::default()
        };
        let text = lines(Output::new(&cli.globals), &verdict);
        assert!(text.starts_with("STALE   orders/shard-7 token 33 < current 34, expired"), "{text}");
        assert_eq!(json::verdict(&verdict)["superseded_by"], "34");
        assert_eq!(json::verdict(&verdict)["current"], false);
    }
}
