//! Data in Redis or Valkey: marks in a hash, compared and raised by one script that also runs the writer's commands.
//!
//! Atomic, and durable as far as Redis is: with its default settings a crash can forget the last second, and a failover
//! whatever was not replicated yet, marks and data alike. So this is fencing against paused holders, not across a Redis
//! failover; the page of this adapter says what to set. A hash that is gone altogether (flushed, evicted) is refused as
//! lost marks.

use palisade_core::holding::Holding;
use palisade_core::ids::{LockName, Slot};
use palisade_core::token::Token;
use redis::{Arg, Cmd, ConnectionLike, RedisError, Script, Value, from_redis_value};

use crate::admit::{HighWaterMark, MarkKey};
use crate::error::FenceError;
use crate::guard::{Act, Checked, Guard, floor_of, raised};
use crate::verifier::SignedFloor;

/// The script: for programs of other languages, too.
pub const SCRIPT: &str = include_str!("redis.lua");
const VERSION_FIELD: &str = "version";
const VERSION: &str = "palisade-marks 1";

/// The marks of a set of data.
#[derive(Debug)]
pub struct RedisMarks {
    key: String,
    script: Script,
}

impl RedisMarks {
    /// Under a key that you know to be new. In a cluster all keys of a write are in one hash slot with it: write
    /// `{orders}:marks`, `{orders}:list`.
    pub fn create(connection: &mut impl ConnectionLike, key: &str) -> Result<Self, FenceError> {
        let mut set = redis::cmd("HSETNX");
        let made: bool = set
            .arg(key)
            .arg(VERSION_FIELD)
            .arg(VERSION)
            .query(connection)
            .map_err(|error| failed("making marks", error))?;
        if made { Ok(Self::of(key)) } else { Err(FenceError::MarksExist { store: store(key) }) }
    }

    /// Under a key that was used before. Refuses one without marks: they may be lost.
    pub fn open(connection: &mut impl ConnectionLike, key: &str) -> Result<Self, FenceError> {
        let version = get(connection, key, VERSION_FIELD)?;
        match version.as_deref() {
            None => Err(FenceError::NoMarks { store: store(key) }),
            Some(VERSION) => Ok(Self::of(key)),
            Some(_) => Err(damaged(key)),
        }
    }

    fn of(key: &str) -> Self {
        Self { key: key.to_owned(), script: Script::new(SCRIPT) }
    }

    fn run(
        &self,
        connection: &mut impl ConnectionLike,
        Checked { key, floor }: &Checked,
        token: Token,
        Commands { keys, commands }: Commands<'_>,
    ) -> Result<Vec<Value>, FenceError> {
        let mut call = self.script.prepare_invoke();
        call.key(&self.key);
        for key in keys {
            call.key(*key);
        }
        call.arg(field(key)).arg(token.get()).arg(floor.map_or(0, Token::get));
        for command in commands {
            let words = || {
                command.args_iter().map(|word| match word {
                    Arg::Simple(bytes) => bytes,
                    // A cursor begins at 0.
                    Arg::Cursor => b"0",
                    _ => b"",
                })
            };
            call.arg(words().count());
            for word in words() {
                call.arg(word);
            }
        }
        let answer: Vec<Value> = call.invoke(connection).map_err(|error| failed("a fenced write", error))?;
        self.read(key, token, answer)
    }

    fn read(&self, key: &MarkKey, token: Token, answer: Vec<Value>) -> Result<Vec<Value>, FenceError> {
        let mut answer = answer.into_iter();
        let outcome = answer.next().map(from_redis_value::<String>).transpose();
        let outcome = outcome.map_err(|error| FenceError::storage("a fenced write in Redis", error))?;
        match (outcome.as_deref(), answer.next()) {
            (Some("admitted"), Some(Value::Array(replies))) => Ok(replies),
            (Some("stale"), Some(mark)) => {
                let mark = from_redis_value::<u64>(mark).ok().and_then(Token::new);
                let mark = mark.ok_or_else(|| damaged(&self.key))?;
                Err(FenceError::Stale { lock: key.lock.clone(), slot: key.slot, presented: token, mark })
            }
            (Some("no marks"), _) => Err(FenceError::NoMarks { store: store(&self.key) }),
            (Some("damaged"), _) => Err(damaged(&self.key)),
            (Some("failed"), Some(why)) => {
                Err(FenceError::effect(from_redis_value::<String>(why).unwrap_or_default()))
            }
            _ => Err(FenceError::storage("a fenced write in Redis", "an answer of another script")),
        }
    }
}

struct Commands<'a> {
    keys: &'a [&'a str],
    commands: &'a [Cmd],
}

impl Guard<RedisMarks> {
    /// Raises the mark, in either mode, and changes nothing else: a new holder's first act, before it reads.
    pub fn claim(
        &self,
        connection: &mut impl ConnectionLike,
        holding: &(impl Holding + ?Sized),
    ) -> Result<(), FenceError> {
        self.enter(connection, holding, Act::Claim, Commands { keys: &[], commands: &[] }).map(drop)
    }

    /// Admits the holding's token and runs `commands`, which touch `keys`, in one step; gives their answers.
    ///
    /// Redis takes nothing back: where a command fails, those before it stay, and the rest are not run
    /// ([`FenceError::Effect`]).
    pub fn write(
        &self,
        connection: &mut impl ConnectionLike,
        holding: &(impl Holding + ?Sized),
        keys: &[&str],
        commands: &[Cmd],
    ) -> Result<Vec<Value>, FenceError> {
        self.enter(connection, holding, Act::Write, Commands { keys, commands })
    }

    /// Raises the mark to a floor that the cluster signed, unless it is higher already, and says what it is then.
    pub fn raise(
        &self,
        connection: &mut impl ConnectionLike,
        floor: &SignedFloor,
    ) -> Result<HighWaterMark, FenceError> {
        let checked = Checked { key: self.check_floor(floor)?, floor: None };
        let nothing = Commands { keys: &[], commands: &[] };
        raised(self.adapter().run(connection, &checked, floor.statement().floor, nothing), floor)
    }

    /// The present mark of a lock and slot.
    pub fn mark(
        &self,
        connection: &mut impl ConnectionLike,
        lock: &LockName,
        slot: Slot,
    ) -> Result<Option<HighWaterMark>, FenceError> {
        let marks = self.adapter();
        let mark = get(connection, &marks.key, &field(&self.key(lock, slot)))?;
        let token = |mark: String| mark.parse().ok().and_then(Token::new).map(HighWaterMark);
        mark.map(|mark| token(mark).ok_or_else(|| damaged(&marks.key))).transpose()
    }

    /// An operator's way out of a poisoned mark. Lower than the token of an earlier holder that may still run, it
    /// admits that holder's writes.
    pub fn reset_mark(
        &self,
        connection: &mut impl ConnectionLike,
        lock: &LockName,
        slot: Slot,
        mark: Option<HighWaterMark>,
    ) -> Result<(), FenceError> {
        let field = field(&self.key(lock, slot));
        let mut set = redis::cmd(if mark.is_some() { "HSET" } else { "HDEL" });
        set.arg(&self.adapter().key).arg(field);
        if let Some(HighWaterMark(mark)) = mark {
            set.arg(mark.get());
        }
        set.query::<i64>(connection).map(drop).map_err(|error| failed("setting a mark", error))
    }

    fn enter(
        &self,
        connection: &mut impl ConnectionLike,
        holding: &(impl Holding + ?Sized),
        act: Act,
        commands: Commands<'_>,
    ) -> Result<Vec<Value>, FenceError> {
        let checked = self.check(holding, act);
        let floor = floor_of(&checked);
        let outcome =
            checked.and_then(|checked| self.adapter().run(connection, &checked, holding.token(), commands));
        let refused = outcome.as_ref().err().filter(|error| !matches!(error, FenceError::Effect(_)));
        self.decided(holding, act, floor, refused);
        outcome
    }
}

/// Cluster and slot come first, neither has a slash: no two keys run together.
fn field(key: &MarkKey) -> String {
    format!("{}/{}/{}", key.cluster, key.slot, key.lock)
}

fn get(connection: &mut impl ConnectionLike, key: &str, field: &str) -> Result<Option<String>, FenceError> {
    let mut get = redis::cmd("HGET");
    get.arg(key).arg(field).query(connection).map_err(|error| failed("reading marks", error))
}

fn store(key: &str) -> String {
    format!("the hash {key:?} of Redis")
}

fn damaged(key: &str) -> FenceError {
    FenceError::Damaged { store: store(key), reason: "what stands there is not a mark".to_owned() }
}

fn failed(what: &str, error: RedisError) -> FenceError {
    FenceError::storage(format!("{what} in Redis"), error)
}
