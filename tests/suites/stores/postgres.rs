use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use palisade_core::holding::Holding;
use palisade_core::ids::{LockName, Slot};
use palisade_core::token::Token;
use palisade_fence::adapters::postgres::PostgresMarks;
use palisade_fence::admit::HighWaterMark;
use palisade_fence::conformance::{SigningCluster, Subject, check};
use palisade_fence::error::FenceError;
use palisade_fence::guard::{Floor, Guard, Scope};
use palisade_fence::verifier::SignedFloor;
use tokio::runtime::Runtime;
use tokio_postgres::{Client, IsolationLevel, NoTls};

use crate::random_runs;
use crate::server::{self, Server};

/// Connections of a subject: a thousand threads share them.
const POOL: usize = 8;
const TABLES: &str = "CREATE TABLE orders (id bigserial PRIMARY KEY, line text NOT NULL);
    CREATE TABLE stamped (line text NOT NULL, fencing_token bigint);";

struct Lines {
    guard: Guard<PostgresMarks>,
    scope: Scope,
    schema: String,
    pool: Pool,
    runtime: Runtime,
    server: Arc<Server>,
}

/// Ends the connections before the runtime that drives them.
struct Pool {
    free: Mutex<Vec<Client>>,
    returned: Condvar,
}

struct Taken<'a> {
    pool: &'a Pool,
    client: Option<Client>,
}

impl Pool {
    fn take(&self) -> Taken<'_> {
        let mut free = self.free.lock().unwrap();
        loop {
            if let Some(client) = free.pop() {
                return Taken { pool: self, client: Some(client) };
            }
            free = self.returned.wait(free).unwrap();
        }
    }
}

impl Deref for Taken<'_> {
    type Target = Client;

    fn deref(&self) -> &Client {
        self.client.as_ref().unwrap()
    }
}

impl DerefMut for Taken<'_> {
    fn deref_mut(&mut self) -> &mut Client {
        self.client.as_mut().unwrap()
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.pool.free.lock().unwrap().extend(self.client.take());
        self.pool.returned.notify_one();
    }
}

async fn connect(socket: &Path, schema: &str) -> Client {
    let settings = format!("host={} user=postgres dbname=postgres", socket.display());
    let (client, connection) = tokio_postgres::connect(&settings, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
        .batch_execute(&format!("CREATE SCHEMA IF NOT EXISTS {schema}; SET search_path = {schema}"))
        .await
        .unwrap();
    client
}

fn lines(scope: Scope) -> Lines {
    static SCHEMAS: AtomicU64 = AtomicU64::new(0);
    let server = server::postgres();
    let schema = format!("s{}", SCHEMAS.fetch_add(1, Ordering::Relaxed));
    Lines::at(server, schema, scope, true)
}

impl Lines {
    fn at(server: Arc<Server>, schema: String, scope: Scope, is_new: bool) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let (guard, clients) = runtime.block_on(async {
            let socket = server.folder.path();
            let mut client = connect(socket, &schema).await;
            let marks = if is_new {
                let marks = PostgresMarks::create(&mut client).await.unwrap();
                client.batch_execute(TABLES).await.unwrap();
                client.batch_execute(&trigger()).await.unwrap();
                marks
            } else {
                PostgresMarks::open(&client).await.unwrap()
            };
            let mut clients = vec![client];
            while clients.len() < POOL {
                clients.push(connect(socket, &schema).await);
            }
            (Guard::new(marks, scope.clone()), clients)
        });
        let pool = Pool { free: Mutex::new(clients), returned: Condvar::new() };
        Self { guard, scope, schema, pool, runtime, server }
    }

    fn run<R>(&self, work: impl AsyncFnOnce(&mut Client) -> R) -> R {
        let mut client = self.pool.take();
        self.runtime.block_on(work(&mut client))
    }

    fn sql(&self, sql: &str) -> Result<(), tokio_postgres::Error> {
        self.run(async |client| client.batch_execute(sql).await)
    }

    /// The SQLSTATE of a script that fails.
    fn sql_state(&self, sql: &str) -> String {
        let state = self.sql(sql).unwrap_err().code().unwrap().code().to_owned();
        self.sql("ROLLBACK").unwrap();
        state
    }
}

/// The locks of the suite, so that each write of it needs an admission.
fn trigger() -> String {
    let cluster = SigningCluster::new(1).id();
    format!(
        "CREATE TRIGGER fenced BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON orders FOR EACH STATEMENT
         EXECUTE FUNCTION palisade_require('{cluster}', 'a', 'runs/one', 'orders/shard-7', 'orders/shard-8', 'orders/shard-70');
         CREATE TRIGGER stamped BEFORE INSERT OR UPDATE OR DELETE ON stamped FOR EACH ROW
         EXECUTE FUNCTION palisade_stamp('{cluster}', 'a')"
    )
}

const INSERT: &str = "INSERT INTO orders (line) VALUES ($1)";

impl Subject for Lines {
    fn claim(&self, holding: &dyn Holding) -> Result<(), FenceError> {
        self.run(async |client| self.guard.claim(client, holding).await)
    }

    fn append(&self, holding: &dyn Holding, line: &str) -> Result<(), FenceError> {
        self.run(async |client| {
            let transaction = client.transaction().await.unwrap();
            self.guard.admit_in(&transaction, holding).await?;
            transaction.execute(INSERT, &[&line]).await.map_err(FenceError::effect)?;
            transaction.commit().await.map_err(FenceError::effect)
        })
    }

    fn raise(&self, floor: &SignedFloor) -> Result<HighWaterMark, FenceError> {
        self.run(async |client| self.guard.raise(client, floor).await)
    }

    fn lines(&self) -> Vec<String> {
        let rows =
            self.run(async |client| client.query("SELECT line FROM orders ORDER BY id", &[]).await.unwrap());
        rows.iter().map(|row| row.get(0)).collect()
    }

    fn reopen(self) -> Self {
        let Self { server, schema, scope, .. } = self;
        Self::at(server, schema, scope, false)
    }

    /// As one who owns the table, and takes the trigger off.
    fn append_past_the_guard(&self, line: &str) {
        self.run(async |client| {
            client.batch_execute("SET session_replication_role = replica").await.unwrap();
            client.execute(INSERT, &[&line]).await.unwrap();
            client.batch_execute("SET session_replication_role = origin").await.unwrap();
        });
    }

    fn append_bare(&self, line: &str) -> Option<Result<(), FenceError>> {
        let outcome = self.run(async |client| client.execute(INSERT, &[&line]).await);
        Some(outcome.map(drop).map_err(|error| {
            assert_eq!(error.code().unwrap().code(), "PF428");
            FenceError::NoSequencer
        }))
    }

    fn die_before_the_commit(self, holding: &dyn Holding, line: &str) -> Option<Self> {
        let socket = self.server.folder.path();
        self.run(async |operator| {
            let mut client = connect(socket, &self.schema).await;
            let process: i32 = client.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
            let transaction = client.transaction().await.unwrap();
            self.guard.admit_in(&transaction, holding).await.unwrap();
            transaction.execute(INSERT, &[&line]).await.unwrap();
            operator.execute("SELECT pg_terminate_backend($1)", &[&process]).await.unwrap();
            assert!(transaction.commit().await.is_err());
        });
        Some(self.reopen())
    }

    fn lose_marks(self) -> Option<Self> {
        self.sql("DROP TABLE palisade_marks").unwrap();
        let opened = self.run(async |client| PostgresMarks::open(client).await.map(drop));
        assert!(matches!(opened, Err(FenceError::NoMarks { .. })), "{opened:?}");
        Some(self)
    }
}

#[test]
fn postgres_passes() {
    check(lines);
}

#[test]
fn postgres_is_fenced_in_random_runs() {
    random_runs("PostgreSQL", lines);
}

fn own() -> (SigningCluster, Lines) {
    let cluster = SigningCluster::new(1);
    let scope = Scope::new(cluster.id(), LockName::new("a").unwrap());
    (cluster, lines(scope))
}

/// What waited for another's transaction hears at once, or when it begins again, that it is stale.
#[test]
fn a_stale_transaction_that_waited_is_refused_at_every_isolation() {
    for (isolation, begins_again) in [
        (IsolationLevel::ReadCommitted, false),
        (IsolationLevel::RepeatableRead, true),
        (IsolationLevel::Serializable, true),
    ] {
        let (cluster, subject) = own();
        let (old, new) = (cluster.exclusive("a", 34), cluster.exclusive("a", 41));
        subject.append(&old, "old").unwrap();
        let refused = subject.run(async |first| {
            let mut second = connect(subject.server.folder.path(), &subject.schema).await;
            let newer = first.transaction().await.unwrap();
            let older = second.build_transaction().isolation_level(isolation).start().await.unwrap();
            older.execute("SELECT count(*) FROM orders", &[]).await.unwrap();
            subject.guard.admit_in(&newer, &new).await.unwrap();
            newer.execute(INSERT, &[&"new"]).await.unwrap();
            let waiting = subject.guard.admit_in(&older, &old);
            let committing = async {
                // Once the other waits for the row.
                let waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'";
                while newer.query_one(waits, &[]).await.unwrap().get::<_, i64>(0) == 0 {
                    tokio::task::yield_now().await;
                }
                newer.commit().await.unwrap();
            };
            let (refused, ()) = tokio::join!(waiting, committing);
            refused.unwrap_err()
        });
        assert_eq!(matches!(refused, FenceError::Contended { .. }), begins_again, "{isolation:?}: {refused}");
        assert_eq!(refused.is_stale(), !begins_again, "{isolation:?}: {refused}");
        assert!(subject.append(&cluster.exclusive("a", 34), "stale").unwrap_err().is_stale());
        assert_eq!(subject.lines(), ["old", "new"]);
    }
}

#[test]
fn plain_sql_is_fenced_alike() {
    let (cluster, subject) = own();
    let id = cluster.id();
    subject.append(&cluster.exclusive("a", 34), "by the library").unwrap();
    let write = |token: &str| {
        format!(
            "BEGIN; SELECT palisade_admit('{id}', 'a', 0, {token}); INSERT INTO orders (line) VALUES ('by SQL'); COMMIT"
        )
    };
    subject.sql(&write("34")).unwrap();
    assert_eq!(subject.sql_state(&write("33")), "PF412");
    for nonsense in ["0", "-1", "9007199254740992", "NULL"] {
        assert_eq!(subject.sql_state(&write(nonsense)), "PF400", "{nonsense}");
    }
    subject.sql(&format!("SELECT palisade_claim('{id}', 'a', 0, 41)")).unwrap();
    assert!(subject.append(&cluster.exclusive("a", 40), "stale").unwrap_err().is_stale());
    assert_eq!(subject.sql_state(&format!("SELECT palisade_admit('{id}', 'a', 0, 41, 50)")), "PF412");
    // Another slot and another cluster have marks of their own.
    subject
        .sql(&format!("SELECT palisade_claim('{id}', 'a', 1, 3); SELECT palisade_claim('other', 'a', 0, 3)"))
        .unwrap();
    assert_eq!(subject.lines(), ["by the library", "by SQL"]);
    let psql = |sql: &str| server::psql(subject.server.folder.path(), sql);
    let marks =
        format!("SELECT mark FROM {}.palisade_marks WHERE cluster = '{id}' AND slot = 0", subject.schema);
    assert_eq!(psql(&marks).unwrap(), "41");
}

#[test]
fn whoever_forgets_the_admission_is_refused() {
    let (cluster, subject) = own();
    let id = cluster.id();
    let admit = format!("SELECT palisade_admit('{id}', 'a', 0, 41)");
    subject
        .sql(&format!("BEGIN; {admit}; INSERT INTO orders (line) VALUES ('one'), ('two'); COMMIT"))
        .unwrap();
    for forgetful in [
        "INSERT INTO orders (line) VALUES ('three')",
        "UPDATE orders SET line = 'three'",
        "DELETE FROM orders",
        "TRUNCATE orders",
        // A claim is not an admission.
        &format!("BEGIN; SELECT palisade_claim('{id}', 'a', 0, 41); DELETE FROM orders; COMMIT"),
        // Nor is that of another lock.
        &format!("BEGIN; SELECT palisade_admit('{id}', 'other', 0, 41); DELETE FROM orders; COMMIT"),
        // Nor one that was taken back.
        &format!("BEGIN; SAVEPOINT s; {admit}; ROLLBACK TO s; DELETE FROM orders; COMMIT"),
    ] {
        assert_eq!(subject.sql_state(forgetful), "PF428", "{forgetful}");
    }
    // One that was made within a savepoint counts for the transaction.
    subject
        .sql(&format!("BEGIN; SAVEPOINT s; {admit}; RELEASE s; UPDATE orders SET line = line; COMMIT"))
        .unwrap();
    assert_eq!(subject.lines(), ["one", "two"]);
}

#[test]
fn stamped_rows_bear_the_token_and_never_go_back() {
    let (cluster, subject) = own();
    let id = cluster.id();
    let admit = |token: u64| format!("BEGIN; SELECT palisade_admit('{id}', 'a', 0, {token})");
    assert_eq!(subject.sql_state("INSERT INTO stamped VALUES ('x')"), "PF428");
    subject.sql(&format!("{}; INSERT INTO stamped VALUES ('x', 7); COMMIT", admit(41))).unwrap();
    let stamp = |subject: &Lines| -> i64 {
        subject.run(async |client| {
            client.query_one("SELECT fencing_token FROM stamped", &[]).await.unwrap().get(0)
        })
    };
    assert_eq!(stamp(&subject), 41);
    // An operator reset the mark too low: the rows still know.
    subject.sql("UPDATE palisade_marks SET mark = 1").unwrap();
    for change in ["UPDATE stamped SET line = 'stale'", "DELETE FROM stamped"] {
        assert_eq!(subject.sql_state(&format!("{}; {change}; COMMIT", admit(34))), "PF412", "{change}");
    }
    subject.sql(&format!("{}; UPDATE stamped SET line = 'y'; COMMIT", admit(42))).unwrap();
    assert_eq!(stamp(&subject), 42);
}

#[test]
fn a_session_that_could_forget_a_claim_is_refused() {
    let (cluster, subject) = own();
    let refused = subject.run(async |client| {
        client.batch_execute("SET synchronous_commit = off").await.unwrap();
        let refused = subject.guard.claim(client, &cluster.exclusive("a", 34)).await;
        client.batch_execute("RESET synchronous_commit").await.unwrap();
        refused
    });
    assert!(matches!(refused, Err(FenceError::Unfit { .. })), "{refused:?}");
}

#[test]
fn a_floor_and_a_reset_reach_the_database() {
    let (cluster, subject) = own();
    let lock = LockName::new("a").unwrap();
    let mark = |number| Token::new(number).map(HighWaterMark);
    let floored = subject.run(async |client| {
        let marks = PostgresMarks::open(client).await.unwrap();
        let guard =
            Guard::new(marks, subject.scope.clone()).with_floors(|_, _| Floor::At(Token::new(41).unwrap()));
        guard.claim(client, &cluster.exclusive("a", 34)).await
    });
    assert!(matches!(floored, Err(FenceError::Stale { mark, .. }) if mark.get() == 41), "{floored:?}");
    subject.claim(&cluster.exclusive("a", palisade_core::limits::TOKEN_MAX)).unwrap();
    assert!(subject.append(&cluster.exclusive("a", 34), "shut out").unwrap_err().is_stale());
    let read = subject.run(async |client| {
        subject.guard.reset_mark(client, &lock, Slot(0), mark(34)).await.unwrap();
        subject.guard.mark(client, &lock, Slot(0)).await.unwrap()
    });
    assert_eq!(read, mark(34));
    subject.append(&cluster.exclusive("a", 34), "true holder").unwrap();
    let read = subject.run(async |client| {
        subject.guard.reset_mark(client, &lock, Slot(0), None).await.unwrap();
        subject.guard.mark(client, &lock, Slot(0)).await.unwrap()
    });
    assert_eq!(read, None);
}

#[test]
fn marks_are_made_once_and_survive_a_crash_of_the_server() {
    let server = Arc::new(server::start_postgres());
    let cluster = SigningCluster::new(1);
    let scope = Scope::new(cluster.id(), LockName::new("a").unwrap());
    let subject = Lines::at(Arc::clone(&server), "s".to_owned(), scope, true);
    let again = subject.run(async |client| PostgresMarks::create(client).await.map(drop));
    assert!(matches!(again, Err(FenceError::MarksExist { .. })), "{again:?}");
    subject.append(&cluster.exclusive("a", 34), "before").unwrap();
    subject.claim(&cluster.exclusive("a", 41)).unwrap();
    server.crash_and_start();
    let subject = subject.reopen();
    assert!(subject.append(&cluster.exclusive("a", 40), "stale").unwrap_err().is_stale());
    subject.append(&cluster.exclusive("a", 41), "after").unwrap();
    assert_eq!(subject.lines(), ["before", "after"]);
}
