//! Data in SQLite: marks in a table of the same database, raised in the transaction that writes.
//!
//! [`SqliteMarks`] works in a transaction of your own; [`SqliteResource`] owns the connection and begins and commits
//! it. `sqlite.sql`, beside this file, is the same for programs of other languages. SQLite lets one transaction write
//! at a time, so that the order of commits is the order of admissions. Leaves out network file systems, whose locks
//! SQLite cannot rely on.

use std::sync::{Mutex, MutexGuard};

use palisade_core::ids::Slot;
use palisade_core::token::Token;
use rusqlite::{Connection, ErrorCode, OptionalExtension, Transaction, TransactionBehavior, params};

use crate::adapters::{Adapter, InTransaction};
use crate::admit::{HighWaterMark, MarkKey, decide};
use crate::error::FenceError;

/// The table of marks, with a view that admits and its trigger.
pub const SCHEMA: &str = include_str!("sqlite.sql");
/// What errors call the store.
const STORE: &str = "the table palisade_marks of the SQLite database";
/// `PRAGMA synchronous` from which on a commit survives a power failure.
const SYNCHRONOUS_FULL: i64 = 2;

/// Shows that a database has marks.
#[derive(Debug)]
pub struct SqliteMarks(());

impl SqliteMarks {
    /// In a database that you know to be new, or to be guarded from now on: makes the table of marks.
    pub fn create(connection: &Connection) -> Result<Self, FenceError> {
        if exists(connection)? {
            return Err(FenceError::MarksExist { store: STORE.to_owned() });
        }
        let schema = format!("BEGIN IMMEDIATE; {SCHEMA}; COMMIT;");
        connection.execute_batch(&schema).map_err(|error| failed("making the table of marks", error))?;
        Ok(Self(()))
    }

    /// In a database that was used before. Refuses one without marks: they may be lost.
    pub fn open(connection: &Connection) -> Result<Self, FenceError> {
        if exists(connection)? { Ok(Self(())) } else { Err(FenceError::NoMarks { store: STORE.to_owned() }) }
    }

    /// The present mark; None if nothing was accepted yet.
    pub fn mark(&self, connection: &Connection, key: &MarkKey) -> Result<Option<HighWaterMark>, FenceError> {
        let (cluster, lock, slot) = columns(key);
        let mark = connection
            .query_row(
                "SELECT mark FROM palisade_marks WHERE cluster = ?1 AND lock = ?2 AND slot = ?3",
                params![cluster, lock, slot],
                |row| row.get::<_, i64>(0),
            )
            .optional()
            .map_err(|error| failed("reading a mark", error))?;
        let token = |mark: i64| u64::try_from(mark).ok().and_then(Token::new);
        let damaged =
            || FenceError::Damaged { store: STORE.to_owned(), reason: "a mark is not a token".to_owned() };
        mark.map(|mark| token(mark).map(HighWaterMark).ok_or_else(damaged)).transpose()
    }

    fn set(
        &self,
        connection: &Connection,
        key: &MarkKey,
        mark: Option<HighWaterMark>,
    ) -> Result<(), FenceError> {
        let (cluster, lock, slot) = columns(key);
        let set = match mark {
            Some(HighWaterMark(mark)) => connection.execute(
                "INSERT INTO palisade_marks (cluster, lock, slot, mark) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (cluster, lock, slot) DO UPDATE SET mark = excluded.mark",
                params![cluster, lock, slot, mark.get().cast_signed()],
            ),
            None => connection.execute(
                "DELETE FROM palisade_marks WHERE cluster = ?1 AND lock = ?2 AND slot = ?3",
                params![cluster, lock, slot],
            ),
        };
        set.map(drop).map_err(|error| failed("setting a mark", error))
    }
}

impl InTransaction for SqliteMarks {
    type Transaction<'a> = Transaction<'a>;

    fn admit_in(
        &self,
        transaction: &Transaction<'_>,
        key: &MarkKey,
        floor: Option<Token>,
        token: Token,
    ) -> Result<(), FenceError> {
        let synchronous: i64 = transaction
            .pragma_query_value(None, "synchronous", |row| row.get(0))
            .map_err(|error| failed("reading the settings", error))?;
        if synchronous < SYNCHRONOUS_FULL {
            let reason =
                "PRAGMA synchronous is below FULL, and a power failure would forget a claim".to_owned();
            return Err(FenceError::Unfit { store: "the SQLite connection".to_owned(), reason });
        }
        // Takes the database's one write lock, if the transaction has not: from here on the mark cannot move.
        transaction
            .execute("UPDATE palisade_marks SET mark = mark WHERE FALSE", [])
            .map_err(|error| failed("beginning to write", error))?;
        let before = self.mark(transaction, key)?;
        let mark = decide(key, before, floor, token)?;
        if before == Some(mark) { Ok(()) } else { self.set(transaction, key, Some(mark)) }
    }
}

/// A connection and its marks. Threads of this process wait for one another; other processes for as long as the
/// connection's busy timeout says.
#[derive(Debug)]
pub struct SqliteResource {
    connection: Mutex<Connection>,
    marks: SqliteMarks,
}

impl SqliteResource {
    /// See [`SqliteMarks::create`].
    pub fn create(connection: Connection) -> Result<Self, FenceError> {
        let marks = SqliteMarks::create(&connection)?;
        Ok(Self { connection: Mutex::new(connection), marks })
    }

    /// See [`SqliteMarks::open`].
    pub fn open(connection: Connection) -> Result<Self, FenceError> {
        let marks = SqliteMarks::open(&connection)?;
        Ok(Self { connection: Mutex::new(connection), marks })
    }

    /// Reads without a claim: for those who do not go on to write.
    pub fn read<R>(&self, read: impl FnOnce(&Connection) -> rusqlite::Result<R>) -> Result<R, FenceError> {
        read(&*self.connection()?).map_err(|error| failed("reading", error))
    }

    fn connection(&self) -> Result<MutexGuard<'_, Connection>, FenceError> {
        // A panic in the middle has rolled its transaction back, so that nothing is half done; but say so all the same.
        self.connection.lock().map_err(|_| FenceError::Poisoned)
    }

    fn transaction<R>(
        &self,
        work: impl FnOnce(&mut Transaction<'_>) -> Result<R, FenceError>,
    ) -> Result<R, FenceError> {
        let mut connection = self.connection()?;
        let mut transaction = connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(|error| failed("beginning a transaction", error))?;
        // Dropped without a commit, it is rolled back.
        let done = work(&mut transaction)?;
        transaction.commit().map_err(|error| failed("committing", error))?;
        Ok(done)
    }
}

impl Adapter for SqliteResource {
    type Data<'a> = Transaction<'a>;

    fn admit_with<R>(
        &self,
        key: &MarkKey,
        floor: Option<Token>,
        token: Token,
        effect: impl FnOnce(&mut Transaction<'_>) -> Result<R, FenceError>,
    ) -> Result<R, FenceError> {
        self.transaction(|transaction| {
            self.marks.admit_in(transaction, key, floor, token)?;
            effect(transaction)
        })
    }

    fn mark(&self, key: &MarkKey) -> Result<Option<HighWaterMark>, FenceError> {
        self.marks.mark(&*self.connection()?, key)
    }

    fn reset_mark(&self, key: &MarkKey, mark: Option<HighWaterMark>) -> Result<(), FenceError> {
        self.transaction(|transaction| self.marks.set(transaction, key, mark))
    }
}

/// A statement of a write that failed: the transaction is rolled back.
impl From<rusqlite::Error> for FenceError {
    fn from(error: rusqlite::Error) -> Self {
        Self::effect(error)
    }
}

fn exists(connection: &Connection) -> Result<bool, FenceError> {
    connection
        .table_exists(None, "palisade_marks")
        .map_err(|error| failed("looking for the table of marks", error))
}

fn columns(key: &MarkKey) -> (String, &str, u32) {
    let Slot(slot) = key.slot;
    (key.cluster.to_string(), key.lock.as_str(), slot)
}

fn failed(what: &str, error: rusqlite::Error) -> FenceError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            FenceError::Contended { store: "the SQLite database".to_owned() }
        }
        Some(_) | None => FenceError::storage(format!("{what} in SQLite"), error),
    }
}
