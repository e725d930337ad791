//! The scenarios of `palisade_fence::conformance`, as far as they can be played over the wire, under the same names.

use super::refusal::Refusal;
use super::subject::{Outcome, Subject};

/// One story about the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scenario {
    CurrentToken,
    EqualToken,
    StaleAfterNewer,
    ClaimThenStale,
    IdenticalBytes,
    RefusedOnceRefusedAlways,
    MissingToken,
    Malformed,
    ForgedMovesNoMark,
    UnknownKey,
    OtherCluster,
    WrongLock,
    SharedClaimAndWrite,
    ConcurrentRacers,
    MarksSurviveReopening,
}

/// What people are told of a scenario.
pub(super) struct Told {
    pub(super) name: &'static str,
    pub(super) says: &'static str,
    pub(super) advice: &'static str,
}

const fn told(name: &'static str, says: &'static str, advice: &'static str) -> Told {
    Told { name, says, advice }
}

impl Scenario {
    /// In the order in which they are played.
    pub(super) const ALL: [Self; 15] = [
        Self::CurrentToken,
        Self::EqualToken,
        Self::StaleAfterNewer,
        Self::ClaimThenStale,
        Self::IdenticalBytes,
        Self::RefusedOnceRefusedAlways,
        Self::MissingToken,
        Self::Malformed,
        Self::ForgedMovesNoMark,
        Self::UnknownKey,
        Self::OtherCluster,
        Self::WrongLock,
        Self::SharedClaimAndWrite,
        Self::ConcurrentRacers,
        Self::MarksSurviveReopening,
    ];

    pub(super) const fn told(self) -> Told {
        match self {
            Self::CurrentToken => told(
                "current_token",
                "the holder's write is taken",
                "The service must verify with this cluster's keys, expect this lock, and have marks of this cluster: \
                 those of another or an earlier one are above its tokens.",
            ),
            Self::EqualToken => told(
                "equal_token",
                "one holder writes many times under one token",
                "Refuse what is below the mark, not what is equal to it.",
            ),
            Self::StaleAfterNewer => told(
                "stale_after_newer",
                "a paused holder wakes up after its successor wrote",
                "Keep the highest token that was accepted, and compare with it in the transaction that writes.",
            ),
            Self::ClaimThenStale => told(
                "claim_then_stale",
                "a claim alone shuts the earlier holder out",
                "A claim raises the mark, durably, as a write does.",
            ),
            Self::IdenticalBytes => told(
                "identical_bytes",
                "a newer holder that writes the very bytes that are there shuts the earlier one out",
                "Raise the mark also where the write changes nothing.",
            ),
            Self::RefusedOnceRefusedAlways => told(
                "refused_once_refused_always",
                "a refused holder tries again",
                "A refusal moves no mark, neither up nor down; it is for ever, for this token.",
            ),
            Self::MissingToken => told(
                "missing_token",
                "a write that brings no sequencer is refused",
                "Answer 428, or FAILED_PRECONDITION, where the sequencer is missing: a client that does not know of the lock must \
                 not write.",
            ),
            Self::Malformed => told(
                "malformed",
                "what is no sequencer, and two at once, are refused",
                "Answer 400, or INVALID_ARGUMENT; a bare number is no proof, and of two none is chosen.",
            ),
            Self::ForgedMovesNoMark => told(
                "forged_moves_no_mark",
                "a sequencer that was altered, or signed by another, is refused and raises nothing",
                "Verify the signature before anything that it covers is believed.",
            ),
            Self::UnknownKey => told(
                "unknown_key",
                "a key that the cluster does not have proves nothing",
                "Take the cluster's keys only; fetch them again, rate-limited, and refuse meanwhile.",
            ),
            Self::OtherCluster => told(
                "other_cluster",
                "another cluster's lock of the same name proves nothing",
                "Compare `iss` with your cluster's id, and take no other cluster's keys.",
            ),
            Self::WrongLock => told(
                "wrong_lock",
                "the holder of another lock is refused",
                "Compare `sub` with the name of the lock that guards what is written.",
            ),
            Self::SharedClaimAndWrite => told(
                "shared_claim_and_write",
                "a shared holder does not write, and its claim shuts earlier writers out",
                "Compare `mode`: only `x` writes, unless the resource was made for shared writers.",
            ),
            Self::ConcurrentRacers => told(
                "concurrent_racers",
                "holders of old and new tokens write at once, and none goes back",
                "The comparison, the new mark and the write are one atomic step: a check before the transaction is \
                 advice.",
            ),
            Self::MarksSurviveReopening => told(
                "marks_survive_reopening",
                "the service is restarted between a claim and a stale write",
                "Keep the marks where the data is, as durably; refuse to start without them.",
            ),
        }
    }

    /// Why it is not played against this service.
    pub(super) fn left_out(self, subject: &Subject) -> Option<&'static str> {
        match self {
            Self::ClaimThenStale if subject.claim.is_none() => Some("no --claim"),
            Self::MarksSurviveReopening if subject.restart.is_none() => Some("no --restart"),
            Self::SharedClaimAndWrite if subject.shared_writers => Some("--shared-writers"),
            _ => None,
        }
    }

    /// Plays it, and looks at what is there afterwards.
    pub(super) async fn play(self, subject: &mut Subject) -> Outcome {
        subject.sent.clear();
        match self {
            Self::CurrentToken => current_token(subject).await,
            Self::EqualToken => equal_token(subject).await,
            Self::StaleAfterNewer => stale_after_newer(subject).await,
            Self::ClaimThenStale => claim_then_stale(subject).await,
            Self::IdenticalBytes => identical_bytes(subject).await,
            Self::RefusedOnceRefusedAlways => refused_once_refused_always(subject).await,
            Self::MissingToken => missing_token(subject).await,
            Self::Malformed => malformed(subject).await,
            Self::ForgedMovesNoMark => forged_moves_no_mark(subject).await,
            Self::UnknownKey => unknown_key(subject).await,
            Self::OtherCluster => other_cluster(subject).await,
            Self::WrongLock => wrong_lock(subject).await,
            Self::SharedClaimAndWrite => shared_claim_and_write(subject).await,
            Self::ConcurrentRacers => concurrent_racers(subject).await,
            Self::MarksSurviveReopening => marks_survive_reopening(subject).await,
        }?;
        subject.look().await
    }
}

const LATE: &str = "the late write of a holder that was superseded";
const TRUE: &str = "the true holder's write afterwards";

async fn current_token(subject: &mut Subject) -> Outcome {
    let holder = subject.next().await?;
    subject.claims(&holder, None, "the holder's claim").await?;
    subject.takes(&holder, "the holder's write").await
}

async fn equal_token(subject: &mut Subject) -> Outcome {
    let holder = subject.next().await?;
    subject.takes(&holder, "the first write").await?;
    subject.takes(&holder, "the second write").await?;
    subject.claims(&holder, None, "a claim after them").await?;
    subject.takes(&holder, "the third write").await
}

async fn stale_after_newer(subject: &mut Subject) -> Outcome {
    let old = subject.next().await?;
    subject.takes(&old, "the first holder's write").await?;
    let new = subject.next().await?;
    subject.takes(&new, "its successor's write").await?;
    subject.refuses(&old, Refusal::STALE, LATE).await
}

async fn claim_then_stale(subject: &mut Subject) -> Outcome {
    let old = subject.next().await?;
    subject.takes(&old, "the first holder's write").await?;
    let new = subject.next().await?;
    subject.claims(&new, None, "its successor's claim").await?;
    subject.refuses(&old, Refusal::STALE, "a write after a newer holder's claim").await?;
    subject.claims(&old, Some(Refusal::STALE), "a claim after a newer holder's").await?;
    subject.takes(&new, "the write of who claimed").await
}

async fn identical_bytes(subject: &mut Subject) -> Outcome {
    let old = subject.next().await?;
    subject.same(&old, None, "the first holder's write").await?;
    let new = subject.next().await?;
    subject.same(&new, None, "its successor's write of the same bytes").await?;
    subject.same(&old, Some(Refusal::STALE), LATE).await
}

async fn refused_once_refused_always(subject: &mut Subject) -> Outcome {
    let (old, new) = (subject.next().await?, subject.next().await?);
    subject.takes(&new, "the newer holder's write").await?;
    for what in [LATE, "the same, tried again"] {
        subject.refuses(&old, Refusal::STALE, what).await?;
    }
    subject.takes(&new, TRUE).await
}

async fn missing_token(subject: &mut Subject) -> Outcome {
    let holder = subject.next().await?;
    subject.refuses_texts(&[], Refusal::MISSING, "a write without a sequencer").await?;
    subject.takes(&holder, TRUE).await
}

async fn malformed(subject: &mut Subject) -> Outcome {
    let holder = subject.next().await?;
    let token = holder.token.to_string();
    for text in [token.as_str(), "", "a.b.c"] {
        let what = format!("a write with {text:?} for a sequencer");
        subject.refuses_texts(&[text], Refusal::MALFORMED, &what).await?;
    }
    let two = [holder.sequencer.as_str(); 2];
    subject.refuses_texts(&two, Refusal::MALFORMED, "a write with two sequencers").await?;
    subject.takes(&holder, TRUE).await
}

async fn forged_moves_no_mark(subject: &mut Subject) -> Outcome {
    let holder = subject.next().await?;
    let text = &holder.sequencer;
    let forgeries = [
        (subject.forger.altered(text)?, "a write with a token that was altered"),
        (subject.forger.damaged(text)?, "a write with a signature that was altered"),
        (
            subject.forger.under_the_cluster_s_key(text)?,
            "a write that somebody else signed under the cluster's name",
        ),
    ];
    for (text, what) in &forgeries {
        subject.refuses_texts(&[text], Refusal::UNPROVED, what).await?;
    }
    subject.takes(&holder, TRUE).await
}

async fn unknown_key(subject: &mut Subject) -> Outcome {
    let holder = subject.next().await?;
    let text = subject.forger.under_its_own_key(&holder.sequencer)?;
    subject.refuses_texts(&[&text], Refusal::UNPROVED, "a write signed with a key of nobody").await?;
    subject.takes(&holder, TRUE).await
}

async fn other_cluster(subject: &mut Subject) -> Outcome {
    let holder = subject.next().await?;
    let text = subject.forger.of_another_cluster(&holder.sequencer)?;
    subject
        .refuses_texts(&[&text], Refusal::OTHER_CLUSTER, "a write with another cluster's sequencer")
        .await?;
    subject.takes(&holder, TRUE).await
}

async fn wrong_lock(subject: &mut Subject) -> Outcome {
    let holder = subject.next().await?;
    let other = subject.holders.of_another(subject.other_lock.clone()).await?;
    subject.refuses(&other, Refusal::WRONG_LOCK, "a write of another lock's holder").await?;
    subject.claims(&other, Some(Refusal::WRONG_LOCK), "a claim of another lock's holder").await?;
    subject.takes(&holder, TRUE).await
}

async fn shared_claim_and_write(subject: &mut Subject) -> Outcome {
    let old = subject.next().await?;
    subject.takes(&old, "the first holder's write").await?;
    let reader = subject.next_shared().await?;
    subject.claims(&reader, None, "a shared holder's claim").await?;
    subject.refuses(&reader, Refusal::WRONG_MODE, "a shared holder's write").await?;
    if subject.claim.is_some() {
        subject.refuses(&old, Refusal::STALE, "a write after a shared holder's claim").await?;
    }
    let new = subject.next().await?;
    subject.takes(&new, "the next exclusive holder's write").await
}

async fn concurrent_racers(subject: &mut Subject) -> Outcome {
    let mut holders = Vec::new();
    for _ in 0..4 {
        holders.push(subject.next().await?);
    }
    subject.race(&holders).await
}

async fn marks_survive_reopening(subject: &mut Subject) -> Outcome {
    let old = subject.next().await?;
    subject.takes(&old, "the first holder's write").await?;
    let new = subject.next().await?;
    if subject.claim.is_some() {
        subject.claims(&new, None, "its successor's claim").await?;
    } else {
        subject.takes(&new, "its successor's write").await?;
    }
    subject.restart().await?;
    subject.refuses(&old, Refusal::STALE, "a stale write after the restart").await?;
    subject.takes(&new, TRUE).await
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One vocabulary for the library's suite and for this one.
    #[test]
    fn scenarios_have_the_names_of_the_library_s() {
        let library = include_str!("../../../fence/src/conformance/mod.rs");
        // Over the wire there is more to get wrong than in a library whose types exclude it.
        let own = ["current_token", "malformed"];
        for scenario in Scenario::ALL {
            let name = scenario.told().name;
            assert!(own.contains(&name) || library.contains(name), "{name}");
        }
    }
}
