use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use palisade_core::holding::Holding;
use palisade_core::ids::{LockName, Slot};
use palisade_core::token::Token;
use palisade_fence::adapters::sqlite::{SqliteMarks, SqliteResource};
use palisade_fence::admit::HighWaterMark;
use palisade_fence::conformance::{SigningCluster, Subject, check};
use palisade_fence::error::FenceError;
use palisade_fence::guard::{Guard, Scope};
use palisade_fence::verifier::SignedFloor;
use rusqlite::{Connection, TransactionBehavior};
use tempfile::TempDir;

use super::{folder, random_runs};

const TABLE: &str = "CREATE TABLE orders (id INTEGER PRIMARY KEY, line TEXT NOT NULL)";
const INSERT: &str = "INSERT INTO orders (line) VALUES (?1)";

struct Lines {
    guard: Guard<SqliteResource>,
    scope: Scope,
    path: PathBuf,
    _folder: TempDir,
}

fn connect(path: &std::path::Path) -> Connection {
    let connection = Connection::open(path).unwrap();
    connection.busy_timeout(Duration::from_secs(30)).unwrap();
    connection
}

fn lines(scope: Scope) -> Lines {
    let folder = folder();
    let path = folder.path().join("orders.db");
    let connection = connect(&path);
    connection.execute_batch(&format!("PRAGMA journal_mode = WAL; {TABLE};")).unwrap();
    let guard = Guard::new(SqliteResource::create(connection).unwrap(), scope.clone());
    Lines { guard, scope, path, _folder: folder }
}

fn all(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    connection.prepare("SELECT line FROM orders ORDER BY id")?.query_map([], |row| row.get(0))?.collect()
}

impl Subject for Lines {
    fn claim(&self, holding: &dyn Holding) -> Result<(), FenceError> {
        self.guard.claim(holding).map(drop)
    }

    fn append(&self, holding: &dyn Holding, line: &str) -> Result<(), FenceError> {
        self.guard.write(holding, |transaction| {
            transaction.execute(INSERT, [line])?;
            Ok(())
        })
    }

    fn raise(&self, floor: &SignedFloor) -> Result<HighWaterMark, FenceError> {
        self.guard.raise(floor)
    }

    fn lines(&self) -> Vec<String> {
        self.guard.adapter().read(all).unwrap()
    }

    fn reopen(self) -> Self {
        let resource = SqliteResource::open(connect(&self.path)).unwrap();
        Self { guard: Guard::new(resource, self.scope.clone()), ..self }
    }

    fn append_past_the_guard(&self, line: &str) {
        connect(&self.path).execute(INSERT, [line]).unwrap();
    }

    // The types leave no way.
    fn append_bare(&self, _: &str) -> Option<Result<(), FenceError>> {
        None
    }

    fn die_before_the_commit(self, holding: &dyn Holding, line: &str) -> Option<Self> {
        let mut connection = connect(&self.path);
        let marks = Guard::new(SqliteMarks::open(&connection).unwrap(), self.scope.clone());
        let transaction = connection.transaction().unwrap();
        marks.admit_in(&transaction, holding).unwrap();
        transaction.execute(INSERT, [line]).unwrap();
        // Neither rolled back nor committed by anybody: the connection ends as with its process.
        std::mem::forget(transaction);
        drop(connection);
        Some(self.reopen())
    }

    fn lose_marks(self) -> Option<Self> {
        connect(&self.path).execute_batch("DROP VIEW palisade_admit; DROP TABLE palisade_marks").unwrap();
        assert!(matches!(SqliteResource::open(connect(&self.path)), Err(FenceError::NoMarks { .. })));
        Some(self)
    }
}

#[test]
fn sqlite_passes() {
    check(lines);
}

#[test]
fn sqlite_is_fenced_in_random_runs() {
    random_runs("SQLite", lines);
}

struct Own {
    subject: Lines,
    guard: Guard<SqliteMarks>,
    cluster: SigningCluster,
}

fn own() -> Own {
    let cluster = SigningCluster::new(1);
    let subject = lines(Scope::new(cluster.id(), LockName::new("a").unwrap()));
    let guard = Guard::new(SqliteMarks::open(&connect(&subject.path)).unwrap(), subject.scope.clone());
    Own { subject, guard, cluster }
}

#[test]
fn an_admission_in_a_transaction_of_ones_own_counts_when_it_is_committed() {
    let Own { subject, guard, cluster } = own();
    let mut connection = connect(&subject.path);
    let (old, new) = (cluster.exclusive("a", 34), cluster.exclusive("a", 41));
    let lock = LockName::new("a").unwrap();

    let transaction = connection.transaction().unwrap();
    guard.admit_in(&transaction, &new).unwrap();
    transaction.execute(INSERT, ["rolled back"]).unwrap();
    drop(transaction);
    assert_eq!(subject.guard.mark(&lock, Slot(0)).unwrap(), None);

    let transaction = connection.transaction().unwrap();
    guard.admit_in(&transaction, &old).unwrap();
    transaction.execute(INSERT, ["old"]).unwrap();
    transaction.commit().unwrap();
    let transaction = connection.transaction().unwrap();
    guard.claim_in(&transaction, &new).unwrap();
    transaction.commit().unwrap();
    let transaction = connection.transaction().unwrap();
    assert!(guard.admit_in(&transaction, &old).is_err_and(|error| error.is_stale()));
    drop(transaction);
    assert!(old.check().is_err(), "the holding is told");
    assert_eq!(subject.lines(), ["old"]);
    assert_eq!((guard.counts().written, guard.counts().claimed, guard.counts().stale), (2, 1, 1));
}

#[test]
fn a_signed_floor_raises_the_mark_when_its_transaction_is_committed() {
    let Own { subject, guard, cluster } = own();
    let mut connection = connect(&subject.path);
    let signed = cluster.verifier().floor(&cluster.floor("a", 0, 41)).unwrap();
    let lock = LockName::new("a").unwrap();
    for (commits, mark) in [(false, None), (true, Token::new(41))] {
        let transaction = connection.transaction().unwrap();
        assert_eq!(guard.raise_in(&transaction, &signed).unwrap().0.get(), 41);
        if commits {
            transaction.commit().unwrap();
        }
        assert_eq!(subject.guard.mark(&lock, Slot(0)).unwrap().map(|mark| mark.0), mark);
    }
    subject.append(&cluster.exclusive("a", 52), "after").unwrap();
    let transaction = connection.transaction().unwrap();
    assert_eq!(guard.raise_in(&transaction, &signed).unwrap().0.get(), 52);
}

/// Also where the transaction began as one that only reads, and though the mark itself does not change.
#[test]
fn nobody_else_is_admitted_before_the_commit() {
    let Own { subject, guard, cluster } = own();
    let (old, new) = (cluster.exclusive("a", 34), cluster.exclusive("a", 41));
    subject.append(&old, "first").unwrap();
    let mut connection = connect(&subject.path);
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Deferred).unwrap();
    guard.admit_in(&transaction, &old).unwrap();

    let impatient = connect(&subject.path);
    impatient.busy_timeout(Duration::ZERO).unwrap();
    let other = Guard::new(SqliteResource::open(impatient).unwrap(), subject.scope.clone());
    assert!(matches!(other.claim(&new), Err(FenceError::Contended { .. })));
    transaction.execute(INSERT, ["second"]).unwrap();
    transaction.commit().unwrap();
    other.claim(&new).unwrap();
    assert!(subject.append(&cluster.exclusive("a", 34), "stale").is_err_and(|error| error.is_stale()));
    assert_eq!(subject.lines(), ["first", "second"]);
}

#[test]
fn a_write_that_fails_leaves_nothing_and_the_holder_goes_on() {
    let Own { subject, cluster, .. } = own();
    let holder = cluster.exclusive("a", 34);
    let failed = subject.guard.write(&holder, |transaction| {
        transaction.execute(INSERT, ["half"])?;
        transaction.execute("INSERT INTO nowhere VALUES (1)", [])?;
        Ok(())
    });
    assert!(matches!(failed, Err(FenceError::Effect(_))));
    subject.append(&holder, "whole").unwrap();
    assert_eq!(subject.lines(), ["whole"]);
}

#[test]
fn a_connection_that_could_forget_a_claim_is_refused() {
    let Own { subject, guard, cluster } = own();
    let mut connection = connect(&subject.path);
    connection.pragma_update(None, "synchronous", "NORMAL").unwrap();
    let transaction = connection.transaction().unwrap();
    let refused = guard.claim_in(&transaction, &cluster.exclusive("a", 34));
    assert!(matches!(refused, Err(FenceError::Unfit { .. })), "{refused:?}");
}

#[test]
fn marks_are_made_once() {
    let Own { subject, .. } = own();
    assert!(matches!(SqliteMarks::create(&connect(&subject.path)), Err(FenceError::MarksExist { .. })));
}

#[test]
fn a_mark_that_is_no_token_admits_nobody() {
    let Own { subject, cluster, .. } = own();
    subject.claim(&cluster.exclusive("a", 34)).unwrap();
    let connection = connect(&subject.path);
    connection.pragma_update(None, "ignore_check_constraints", true).unwrap();
    connection.execute("UPDATE palisade_marks SET mark = -1", []).unwrap();
    let refused = subject.claim(&cluster.exclusive("a", 90));
    assert!(matches!(refused, Err(FenceError::Damaged { .. })), "{refused:?}");
}

/// A program of another language: it knows SQL and nothing of this library. Both respect one another's marks.
#[test]
fn plain_sql_is_fenced_alike() {
    let Own { subject, cluster, .. } = own();
    let connection = connect(&subject.path);
    let admit = |token: u64| {
        connection.execute_batch("BEGIN IMMEDIATE").unwrap();
        let admitted = connection.execute(
            "INSERT INTO palisade_admit (cluster, lock, slot, token) VALUES (?1, 'a', 0, ?2)",
            rusqlite::params![cluster.id().to_string(), token.cast_signed()],
        );
        let outcome = admitted.and_then(|_| connection.execute(INSERT, ["by SQL"]));
        connection.execute_batch(if outcome.is_ok() { "COMMIT" } else { "ROLLBACK" }).unwrap();
        outcome.map(drop).map_err(|error| error.to_string())
    };
    subject.append(&cluster.exclusive("a", 34), "by the library").unwrap();
    assert_eq!(admit(33), Err("palisade: stale token".to_owned()));
    assert_eq!(admit(34), Ok(()));
    assert_eq!(admit(41), Ok(()));
    assert!(subject.append(&cluster.exclusive("a", 34), "stale").is_err_and(|error| error.is_stale()));
    assert_eq!(admit(41), Ok(()));
    for nonsense in [0, 1 << 53] {
        assert!(admit(nonsense).is_err(), "{nonsense}");
    }
    assert_eq!(subject.lines(), ["by the library", "by SQL", "by SQL", "by SQL"]);
}

/// A process is killed in the middle of its transaction; the next one finds neither its mark nor its line.
#[test]
fn a_killed_process_leaves_nothing() {
    const CHILD: &str = "PALISADE_TEST_SQLITE_CHILD";
    if let Ok(path) = std::env::var(CHILD) {
        let cluster = SigningCluster::new(1);
        let mut connection = connect(path.as_ref());
        let scope = Scope::new(cluster.id(), LockName::new("a").unwrap());
        let guard = Guard::new(SqliteMarks::open(&connection).unwrap(), scope);
        let transaction = connection.transaction().unwrap();
        guard.admit_in(&transaction, &cluster.exclusive("a", 41)).unwrap();
        transaction.execute(INSERT, ["cut off"]).unwrap();
        std::process::abort();
    }
    let Own { subject, cluster, .. } = own();
    subject.append(&cluster.exclusive("a", 34), "before").unwrap();
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "sqlite::a_killed_process_leaves_nothing"])
        .env(CHILD, &subject.path)
        .output()
        .unwrap()
        .status;
    assert!(std::os::unix::process::ExitStatusExt::signal(&status).is_some(), "{status}");
    let subject = subject.reopen();
    assert_eq!(subject.lines(), ["before"]);
    subject.append(&cluster.exclusive("a", 34), "after").unwrap();
    assert_eq!(subject.lines(), ["before", "after"]);
}
