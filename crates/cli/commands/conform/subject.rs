//! The service under test, as a scenario speaks to it: what was written is remembered, and looked for afterwards.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::{Duration, Instant};

use palisade_core::ids::LockName;
use tokio::process::Command;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::super::Failure;
use super::holders::{Forger, Holder, Holders};
use super::refusal::Refusal;
use super::wire::{Answer, Call, Service, Status};

/// How the service is restarted, and comes back, at the longest.
const RESTART_PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(50);
/// What stands for the mark of one write in a body.
pub(super) const ID: &str = "{id}";

/// Why a scenario did not pass.
pub(super) enum Trouble {
    /// The service did what it must not.
    Wrong(String),
    /// Nothing can be said of the service: the cluster failed.
    Failed(Failure),
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// What a scenario comes to.
pub(super) type Outcome = Result<(), Trouble>;

pub(super) fn wrong(what: impl Into<String>) -> Trouble {
    Trouble::Wrong(what.into())
}

/// One write that was sent.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    id: String,
    token: u64,
    taken: bool,
    sent: Instant,
    answered: Instant,
}

/// The service, the requests that it takes, and those who make them.
pub(super) struct Subject {
    pub(super) service: Service,
    pub(super) write: Call,
    pub(super) claim: Option<Call>,
    pub(super) read: Option<Call>,
    pub(super) body: String,
    pub(super) restart: Option<String>,
    pub(super) racers: usize,
    pub(super) shared_writers: bool,
    pub(super) other_lock: LockName,
    pub(super) holders: Holders,
    pub(super) forger: Forger,
    pub(super) sent: Vec<Sent>,
    pub(super) writes: u64,
}

impl Subject {
    /// The next holder of the lock.
    pub(super) async fn next(&mut self) -> Result<Holder, Trouble> {
        Ok(self.holders.next().await?)
    }

    /// The next holder of the lock, in shared mode.
    pub(super) async fn next_shared(&mut self) -> Result<Holder, Trouble> {
        Ok(self.holders.next_shared().await?)
    }

    /// A write that must be taken.
    pub(super) async fn takes(&mut self, holder: &Holder, what: &str) -> Outcome {
        let answer = self.write_as(holder.token, &[&holder.sequencer]).await?;
        let (token, said) = (holder.token, answer.status);
        if said.is_success() {
            return Ok(());
        }
        Err(wrong(format!("{what}, under token {token}, was refused: {said} {}", brief(&answer.body))))
    }

    /// A write that must be refused.
    pub(super) async fn refuses(&mut self, holder: &Holder, refusal: Refusal, what: &str) -> Outcome {
        let answer = self.write_as(holder.token, &[&holder.sequencer]).await?;
        refusal.check(&format!("{what}, under token {},", holder.token), &answer)
    }

    /// A write with any texts for sequencers, or with none, that must be refused.
    pub(super) async fn refuses_texts(&mut self, texts: &[&str], refusal: Refusal, what: &str) -> Outcome {
        let answer = self.write_as(0, texts).await?;
        refusal.check(what, &answer)
    }

    /// A claim that must be taken, or refused.
    pub(super) async fn claims(&self, holder: &Holder, refusal: Option<Refusal>, what: &str) -> Outcome {
        let Some(call) = &self.claim else { return Ok(()) };
        let answer = self.service.send(call, &[&holder.sequencer], String::new()).await.map_err(wrong)?;
        let (token, said) = (holder.token, answer.status);
        match refusal {
            Some(refusal) => refusal.check(&format!("{what}, under token {token},"), &answer),
            None if said.is_success() => Ok(()),
            None => Err(wrong(format!(
                "{what}, under token {token}, was refused: {said} {}",
                brief(&answer.body)
            ))),
        }
    }

    /// Writes the same bytes again and again: nothing tells one write from another, so none is looked for.
    pub(super) async fn same(&self, holder: &Holder, refusal: Option<Refusal>, what: &str) -> Outcome {
        let body = self.body.replace(ID, &format!("conform-{}-same", self.holders.run()));
        let answer = self.service.send(&self.write, &[&holder.sequencer], body).await.map_err(wrong)?;
        match refusal {
            Some(refusal) => refusal.check(what, &answer),
            None if answer.status.is_success() => Ok(()),
            None => Err(wrong(format!("{what} was refused: {} {}", answer.status, brief(&answer.body)))),
        }
    }

    async fn write_as(&mut self, token: u64, sequencers: &[&str]) -> Result<Answer, Trouble> {
        let (id, body) = self.next_body();
        let sent = Instant::now();
        let answer = self.service.send(&self.write, sequencers, body).await.map_err(wrong)?;
        let taken = answer.status.is_success();
        self.sent.push(Sent { id, token, taken, sent, answered: Instant::now() });
        Ok(answer)
    }

    fn next_body(&mut self) -> (String, String) {
        self.writes += 1;
        // As wide as the next one, so that none is the beginning of another.
        let id = format!("conform-{}-{:06}", self.holders.run(), self.writes);
        let body = self.body.replace(ID, &id);
        (id, body)
    }

    /// All holders write at once, twice each. What is taken never goes back to an older token.
    pub(super) async fn race(&mut self, holders: &[Holder]) -> Outcome {
        let newest = holders.iter().map(|holder| holder.token).max().unwrap_or_default();
        let mut racers = JoinSet::new();
        for at in 0..self.racers {
            let Some(holder) = holders.get(at % holders.len()).cloned() else { continue };
            let (service, call) = (self.service.clone(), self.write.clone());
            let bodies = [self.next_body(), self.next_body()];
            racers.spawn(async move { race(&service, &call, &holder, bodies).await });
        }
        while let Some(raced) = racers.join_next().await {
            let raced = raced.map_err(|error| Failure::from(anyhow::Error::from(error)))?;
            for (sent, status) in raced.map_err(wrong)? {
                if !sent.taken && !Refusal::OF_A_RACE.is(status) {
                    return Err(wrong(format!("a racer under token {} was answered {status}", sent.token)));
                }
                if sent.token == newest && Refusal::STALE.is(status) {
                    return Err(wrong(format!("the newest holder, of token {newest}, was refused as stale")));
                }
                self.sent.push(sent);
            }
        }
        let taken: Vec<&Sent> = self.sent.iter().filter(|sent| sent.taken).collect();
        for late in &taken {
            let newer = taken.iter().find(|newer| newer.token > late.token && newer.answered <= late.sent);
            if let Some(newer) = newer {
                let (late, newer) = (late.token, newer.token);
                return Err(wrong(format!(
                    "token {late} was taken after a write under token {newer} had been answered"
                )));
            }
        }
        Ok(())
    }

    /// What was taken is there, in the order of tokens; what was refused is not.
    pub(super) async fn look(&mut self) -> Outcome {
        let sent = std::mem::take(&mut self.sent);
        let Some(call) = &self.read else { return Ok(()) };
        let answer = self.service.send(call, &[], String::new()).await.map_err(wrong)?;
        if !answer.status.is_success() {
            return Err(wrong(format!("what --read asks was answered {}", answer.status)));
        }
        let mut places = BTreeMap::new();
        for write in sent {
            let (token, place) = (write.token, answer.body.rfind(&write.id));
            match (write.taken, place) {
                (true, Some(place)) => drop(places.insert(place, token)),
                (true, None) => {
                    return Err(wrong(format!("a write under token {token} was taken, and is not there")));
                }
                (false, Some(_)) => {
                    return Err(wrong(format!(
                        "a write under token {token} was refused, and is there all the same"
                    )));
                }
                (false, None) => {}
            }
        }
        let tokens: Vec<u64> = places.into_values().collect();
        match tokens.windows(2).find(|pair| pair[0] > pair[1]) {
            Some(pair) => Err(wrong(format!(
                "a write under token {} stands after one under token {}",
                pair[1], pair[0]
            ))),
            None => Ok(()),
        }
    }

    /// Restarts the service, and waits until it takes connections again.
    pub(super) async fn restart(&self) -> Outcome {
        let Some(command) = &self.restart else { return Ok(()) };
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true);
        let ended = timeout(RESTART_PATIENCE, shell.status()).await;
        let ended = ended
            .map_err(|_| wrong(format!("the command of --restart took longer than {RESTART_PATIENCE:?}")))?;
        let status = ended.map_err(Failure::from)?;
        if !status.success() {
            return Err(wrong(format!("the command of --restart failed: {status}")));
        }
        let deadline = Instant::now() + RESTART_PATIENCE;
        while let Err(error) = self.service.listens().await {
            if Instant::now() >= deadline {
                return Err(wrong(format!("after the restart: {error}")));
            }
            sleep(LOOK).await;
        }
        Ok(())
    }
}

async fn race(
    service: &Service,
    call: &Call,
    holder: &Holder,
    bodies: [(String, String); 2],
) -> Result<Vec<(Sent, Status)>, String> {
    let mut raced = Vec::with_capacity(bodies.len());
    for (id, body) in bodies {
        let sent = Instant::now();
        let answer = service.send(call, &[&holder.sequencer], body).await?;
        let taken = answer.status.is_success();
        raced.push((Sent { id, token: holder.token, taken, sent, answered: Instant::now() }, answer.status));
    }
    Ok(raced)
}

/// The beginning of an answer, on one line.
fn brief(body: &str) -> String {
    body.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(200).collect()
}
