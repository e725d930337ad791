//! `CheckSequencer`: did this acquisition hold this slot, in this mode, under this token, during this call?
//!
//! A verdict "no longer current" never becomes false, so any node that has applied the grant gives it at once; only
//! "current" needs a round that began after the question came in (SPEC 7).

use std::sync::Arc;

use palisade_core::ids::{ClientName, KeyId};
use palisade_core::table::{LockTable, Presented, Verdict};
use palisade_proto::convert;
use palisade_proto::convert::sequencer::{Check, Claim};
use palisade_proto::v1::{self, response, verdict::State};

use super::{Attachment, Coordinator};
use crate::error;
use crate::signer::{KeySet, SequencerError, Verified};

/// A question whose signature, if it has one, was looked at.
pub(crate) enum Question {
    /// To be asked of the table.
    Ask {
        presented: Presented,
        /// Only a state that has applied it may deny.
        grant_index: u64,
        client: Option<ClientName>,
        key: Option<KeyId>,
    },
    /// Answered by itself: forged, unknown key, wrong lock.
    Answered(v1::Verdict),
}

impl Coordinator {
    /// Answers a check on a stream.
    pub(super) fn check(self: &Arc<Self>, to: &Arc<Attachment>, tag: u64, check: v1::Check) {
        let coordinator = self.clone();
        let to = to.clone();
        tokio::spawn(async move {
            let result = match coordinator.check_proved(&check).await {
                Ok(answer) => response::Result::Check(answer),
                Err(error) => response::Result::Error(error),
            };
            to.answer(v1::Response { tag, session: 0, index: 0, renewed: false, result: Some(result) });
        });
    }

    async fn check_proved(self: &Arc<Self>, check: &v1::Check) -> Result<v1::CheckAnswer, v1::Error> {
        let questions = self.questions(check).await?;
        if let Some(answer) = self.answer_from_applied(&questions) {
            return Ok(answer);
        }
        self.rounds.proved().await.map_err(error::unproved)?;
        let Some(replica) = self.replica() else { return Err(error::not_leader()) };
        let answer = replica.read(|table| answer(table, &questions));
        self.count(&answer);
        Ok(answer)
    }

    /// Turns what came into questions; a bad item is an error of the whole call. Signatures that are not remembered are
    /// verified, a bounded number of checks at a time.
    pub(crate) async fn questions(self: &Arc<Self>, check: &v1::Check) -> Result<Vec<Question>, v1::Error> {
        let checks =
            convert::sequencer::check(check, self.config.door.check_items_max).map_err(v1::Error::from)?;
        let mut questions = Vec::with_capacity(checks.len());
        for check in checks {
            questions.push(self.question(check).await?);
        }
        Ok(questions)
    }

    async fn question(&self, check: Check) -> Result<Question, v1::Error> {
        let question = match check.claim {
            Claim::Plain { presented, grant_index } => {
                let grant_index = if grant_index == 0 { presented.token.get() } else { grant_index };
                Question::Ask { presented, grant_index, client: None, key: None }
            }
            Claim::Sequencer(text) => self.verified(&text).await?,
        };
        Ok(match (question, check.expected) {
            (Question::Ask { presented, key, .. }, Some(expected)) if presented.lock != expected => {
                let words = format!("the sequencer is of {}, not of {expected}: reject", presented.lock);
                let refused = convert::sequencer::refused(State::WrongLock, words);
                let lock = presented.lock.as_str().to_owned();
                Question::Answered(v1::Verdict { lock, key_id: key_id(key.as_ref()), ..refused })
            }
            (question, _) => question,
        })
    }

    async fn verified(&self, text: &str) -> Result<Question, v1::Error> {
        let Some(replica) = self.replica() else {
            let starting = convert::sequencer::refused(State::UnknownKey, "this node is starting");
            return Ok(Question::Answered(starting));
        };
        let keys = replica.read(KeySet::of);
        let verified = match self.verifier.recall(text, &keys) {
            Some(verified) => Ok(verified),
            None => {
                let permit = self.verifying.clone().try_acquire_owned();
                let _permit = permit.map_err(|_| error::overloaded())?;
                // Between two signatures others have their turn.
                tokio::task::yield_now().await;
                self.verifier.verify(text, &keys)
            }
        };
        Ok(match verified {
            Ok(Verified { sequencer, key }) => Question::Ask {
                presented: convert::sequencer::presented(&sequencer),
                grant_index: sequencer.grant_index,
                client: Some(sequencer.client),
                key: Some(key),
            },
            Err(why) => {
                let state = match &why {
                    SequencerError::UnknownKey(_) => State::UnknownKey,
                    SequencerError::Forged(_) => State::Forged,
                };
                Question::Answered(convert::sequencer::refused(state, why.to_string()))
            }
        })
    }

    /// The answer of the state that this node has applied, if none of it needs a majority.
    pub(crate) fn answer_from_applied(&self, questions: &[Question]) -> Option<v1::CheckAnswer> {
        let answer = self.replica()?.read(|table| {
            let applied = table.header().token_base.at(table.header().applied);
            let certain = questions.iter().all(|question| match question {
                Question::Answered(verdict) => verdict.state() != State::UnknownKey,
                Question::Ask { presented, grant_index, .. } => {
                    // A grant that this node has not applied is not its to judge.
                    *grant_index <= applied && matches!(table.verdict(presented), Verdict::Over { .. })
                }
            });
            certain.then(|| answer(table, questions))
        })?;
        self.count(&answer);
        Some(answer)
    }

    fn count(&self, answer: &v1::CheckAnswer) {
        for verdict in &answer.verdicts {
            self.metrics.sequencer_checked(verdict.state());
        }
    }
}

fn answer(table: &LockTable, questions: &[Question]) -> v1::CheckAnswer {
    let header = table.header();
    let verdicts = questions.iter().map(|question| match question {
        Question::Answered(verdict) => {
            v1::Verdict { index: header.token_base.at(header.applied), ..verdict.clone() }
        }
        Question::Ask { presented, client, key, .. } => {
            let said = table.verdict(presented);
            let client = client.as_ref().map(|name| name.as_str().to_owned()).unwrap_or_default();
            let verdict = convert::sequencer::verdict(presented, said, header.token_base, header.applied);
            v1::Verdict { client, key_id: key_id(key.as_ref()), ..verdict }
        }
    });
    v1::CheckAnswer { verdicts: verdicts.collect() }
}

fn key_id(key: Option<&KeyId>) -> String {
    key.map(|id| id.as_str().to_owned()).unwrap_or_default()
}
