//! Data in PostgreSQL: marks in a table of the same database, raised in the transaction that writes.
//!
//! [`SCHEMA`] is the whole adapter, in SQL, for programs of any language, with triggers that refuse whoever forgets it.
//! What is here calls it, and turns its refusals into errors.

use palisade_core::holding::Holding;
use palisade_core::ids::{LockName, Slot};
use palisade_core::token::Token;
use serde::Deserialize;
use tokio_postgres::error::{DbError, SqlState};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, GenericClient, Transaction};

use crate::admit::{HighWaterMark, MarkKey};
use crate::error::FenceError;
use crate::guard::{Act, Checked, Guard, floor_of, raised};
use crate::verifier::SignedFloor;

/// The table of marks, the functions that admit, and the triggers that require it.
pub const SCHEMA: &str = include_str!("postgres.sql");
/// What errors call the store.
const STORE: &str = "the table palisade_marks of the PostgreSQL database";
const TEXT: Type = Type::TEXT;
const BIGINT: Type = Type::INT8;

/// Shows that a database has marks.
#[derive(Debug)]
pub struct PostgresMarks(());

impl PostgresMarks {
    /// In a database that you know to be new, or to be guarded from now on: makes what [`SCHEMA`] has.
    pub async fn create(client: &mut Client) -> Result<Self, FenceError> {
        if exists(client).await? {
            return Err(FenceError::MarksExist { store: STORE.to_owned() });
        }
        let making = |error| failed("making the table of marks", error);
        let transaction = client.transaction().await.map_err(making)?;
        transaction.batch_execute(SCHEMA).await.map_err(making)?;
        transaction.commit().await.map_err(making)?;
        Ok(Self(()))
    }

    /// In a database that was used before. Refuses one without marks: they may be lost.
    pub async fn open(client: &impl GenericClient) -> Result<Self, FenceError> {
        if exists(client).await? { Ok(Self(())) } else { Err(no_marks()) }
    }
}

impl Guard<PostgresMarks> {
    /// Raises the mark, in either mode, and commits that: a new holder's first act, before it reads.
    pub async fn claim(
        &self,
        client: &mut Client,
        holding: &(impl Holding + ?Sized),
    ) -> Result<(), FenceError> {
        let claiming = |error| failed("claiming", error);
        let transaction = client.transaction().await.map_err(claiming)?;
        self.claim_in(&transaction, holding).await?;
        transaction.commit().await.map_err(claiming)
    }

    /// Raises the mark, in either mode, in a transaction of your own. It counts once that is committed.
    pub async fn claim_in(
        &self,
        transaction: &Transaction<'_>,
        holding: &(impl Holding + ?Sized),
    ) -> Result<(), FenceError> {
        self.enter(transaction, holding, Act::Claim).await
    }

    /// Admits a write in a transaction of your own, before its first statement. Where it is refused, roll back.
    pub async fn admit_in(
        &self,
        transaction: &Transaction<'_>,
        holding: &(impl Holding + ?Sized),
    ) -> Result<(), FenceError> {
        self.enter(transaction, holding, Act::Write).await
    }

    /// Raises the mark to a floor that the cluster signed, unless it is higher already, and commits that; says what the
    /// mark is then.
    pub async fn raise(&self, client: &mut Client, floor: &SignedFloor) -> Result<HighWaterMark, FenceError> {
        let checked = Checked { key: self.check_floor(floor)?, floor: None };
        let raising = |error| failed("raising a mark", error);
        let transaction = client.transaction().await.map_err(raising)?;
        let outcome = raise(&transaction, checked, floor.statement().floor, Act::Claim).await;
        if outcome.is_ok() {
            transaction.commit().await.map_err(raising)?;
        }
        raised(outcome, floor)
    }

    /// The present mark of a lock and slot.
    pub async fn mark(
        &self,
        client: &impl GenericClient,
        lock: &LockName,
        slot: Slot,
    ) -> Result<Option<HighWaterMark>, FenceError> {
        let (cluster, lock, slot) = columns(&self.key(lock, slot));
        let sql = "SELECT mark FROM palisade_marks WHERE cluster = $1 AND lock = $2 AND slot = $3";
        let rows = client
            .query_typed(sql, &[(&cluster, TEXT), (&lock, TEXT), (&slot, BIGINT)])
            .await
            .map_err(|error| failed("reading a mark", error))?;
        let Some(row) = rows.first() else { return Ok(None) };
        let mark: i64 = row.try_get(0).map_err(|error| failed("reading a mark", error))?;
        let token = u64::try_from(mark).ok().and_then(Token::new);
        let reason = || "a mark is not a token".to_owned();
        token
            .map(|token| Some(HighWaterMark(token)))
            .ok_or_else(|| FenceError::Damaged { store: STORE.to_owned(), reason: reason() })
    }

    /// An operator's way out of a poisoned mark. Lower than the token of an earlier holder that may still run, it
    /// admits that holder's writes.
    pub async fn reset_mark(
        &self,
        client: &impl GenericClient,
        lock: &LockName,
        slot: Slot,
        mark: Option<HighWaterMark>,
    ) -> Result<(), FenceError> {
        let (cluster, lock, slot) = columns(&self.key(lock, slot));
        let key: [(&(dyn ToSql + Sync), Type); 3] = [(&cluster, TEXT), (&lock, TEXT), (&slot, BIGINT)];
        let set = match mark {
            Some(HighWaterMark(mark)) => {
                let mark = mark.get().cast_signed();
                let [cluster, lock, slot] = key;
                let sql = "INSERT INTO palisade_marks (cluster, lock, slot, mark) VALUES ($1, $2, $3, $4)
                           ON CONFLICT (cluster, lock, slot) DO UPDATE SET mark = excluded.mark";
                client.execute_typed(sql, &[cluster, lock, slot, (&mark, BIGINT)]).await
            }
            None => {
                let sql = "DELETE FROM palisade_marks WHERE cluster = $1 AND lock = $2 AND slot = $3";
                client.execute_typed(sql, &key).await
            }
        };
        set.map(drop).map_err(|error| failed("setting a mark", error))
    }

    async fn enter(
        &self,
        transaction: &Transaction<'_>,
        holding: &(impl Holding + ?Sized),
        act: Act,
    ) -> Result<(), FenceError> {
        let checked = self.check(holding, act);
        let floor = floor_of(&checked);
        let outcome = match checked {
            Ok(checked) => raise(transaction, checked, holding.token(), act).await,
            Err(error) => Err(error),
        };
        self.decided(holding, act, floor, outcome.as_ref().err());
        outcome
    }
}

/// One round trip: the statement is not prepared.
async fn raise(
    transaction: &Transaction<'_>,
    Checked { key, floor }: Checked,
    token: Token,
    act: Act,
) -> Result<(), FenceError> {
    let sql = match act {
        Act::Claim => "SELECT palisade_claim($1, $2, $3, $4, $5)",
        Act::Write => "SELECT palisade_admit($1, $2, $3, $4, $5)",
    };
    let (cluster, lock, slot) = columns(&key);
    let (presented, floor) = (token.get().cast_signed(), floor.map(|floor| floor.get().cast_signed()));
    let asked = transaction
        .query_typed(
            sql,
            &[(&cluster, TEXT), (&lock, TEXT), (&slot, BIGINT), (&presented, BIGINT), (&floor, BIGINT)],
        )
        .await;
    let Err(error) = asked else { return Ok(()) };
    match error.as_db_error().and_then(stale_below) {
        Some(mark) => Err(FenceError::Stale { lock: key.lock, slot: key.slot, presented: token, mark }),
        None => Err(failed("raising a mark", error)),
    }
}

/// What a stale token's refusal has in its detail.
#[derive(Deserialize)]
struct Tokens {
    mark: u64,
}

fn stale_below(error: &DbError) -> Option<Token> {
    if error.code().code() != "PF412" {
        return None;
    }
    let Tokens { mark } = serde_json::from_str(error.detail()?).ok()?;
    Token::new(mark)
}

async fn exists(client: &impl GenericClient) -> Result<bool, FenceError> {
    let sql = "SELECT to_regclass('palisade_marks') IS NOT NULL";
    let looking = |error| failed("looking for the table of marks", error);
    let rows = client.query_typed(sql, &[]).await.map_err(looking)?;
    rows.first().map_or(Ok(false), |row| row.try_get(0)).map_err(looking)
}

fn columns(key: &MarkKey) -> (String, String, i64) {
    (key.cluster.to_string(), key.lock.to_string(), i64::from(key.slot.0))
}

fn no_marks() -> FenceError {
    FenceError::NoMarks { store: STORE.to_owned() }
}

fn failed(what: &str, error: tokio_postgres::Error) -> FenceError {
    let contended = || FenceError::Contended { store: "the PostgreSQL database".to_owned() };
    match error.code() {
        Some(&SqlState::T_R_SERIALIZATION_FAILURE | &SqlState::T_R_DEADLOCK_DETECTED) => contended(),
        Some(&SqlState::LOCK_NOT_AVAILABLE) => contended(),
        Some(&SqlState::UNDEFINED_FUNCTION | &SqlState::UNDEFINED_TABLE) => no_marks(),
        Some(code) if code.code() == "PF500" => {
            let reason = "synchronous_commit is off, and a crash would forget a claim".to_owned();
            FenceError::Unfit { store: "the PostgreSQL session".to_owned(), reason }
        }
        Some(_) | None => FenceError::storage(format!("{what} in PostgreSQL"), error),
    }
}
