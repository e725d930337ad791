//! The code that the pages of the adapters show, and three jobs as they are written in earnest: a payout worker over
//! PostgreSQL, a compaction job over an object store, and the same job without a fence.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use palisade_core::holding::Holding;
use palisade_core::ids::LockName;
use palisade_fence::adapters::object::ObjectResource;
use palisade_fence::adapters::postgres::PostgresMarks;
use palisade_fence::adapters::redis::RedisMarks;
use palisade_fence::conformance::SigningCluster;
use palisade_fence::error::FenceError;
use palisade_fence::guard::{Guard, Scope};
use redis::Connection;
use tokio_postgres::{Client, NoTls};

use crate::server;

type Failure = Box<dyn std::error::Error>;

const LOCK: &str = "orders/shard-7";

fn scope(cluster: &SigningCluster) -> Scope {
    Scope::new(cluster.id(), LockName::new(LOCK).unwrap())
}

fn run<R>(work: impl Future<Output = R>) -> R {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

/// A database of its own, in a server that ends with the last one.
async fn database(name: &str) -> (Arc<server::Server>, Client) {
    let server = server::postgres();
    let settings = format!("host={} user=postgres dbname=postgres", server.folder.path().display());
    let (client, connection) = tokio_postgres::connect(&settings, NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute(&format!("CREATE SCHEMA {name}; SET search_path = {name}")).await.unwrap();
    (server, client)
}

// docs/adapters/postgresql.md shows this.
async fn pay(
    orders: &Guard<PostgresMarks>,
    db: &mut Client,
    held: &impl Holding,
    order: i64,
) -> Result<(), Failure> {
    let transaction = db.transaction().await?;
    orders.admit_in(&transaction, held).await?; // Err(Stale) once a newer holder was here
    transaction.execute("UPDATE orders SET paid = true WHERE id = $1", &[&order]).await?;
    Ok(transaction.commit().await?)
}

/// The blocks of one language in a page.
fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    let begin = format!("```{language}\n");
    let blocks = page.split(begin.as_str()).skip(1);
    blocks.filter_map(|rest| rest.split("```").next()).collect()
}

#[test]
fn the_page_of_postgres_holds() {
    let page = include_str!("../../../docs/adapters/postgresql.md");
    let cluster = SigningCluster::new(1);
    run(async {
        let (_server, mut db) = database("page").await;
        let marks = PostgresMarks::create(&mut db).await.unwrap();
        db.batch_execute("CREATE TABLE orders (id bigint, paid boolean); INSERT INTO orders VALUES (7), (8)")
            .await
            .unwrap();
        for block in blocks(page, "sql") {
            db.batch_execute(block).await.unwrap_or_else(|error| panic!("{error}: {block}"));
        }
        let orders = Guard::new(marks, scope(&cluster));
        let stale = pay(&orders, &mut db, &cluster.exclusive(LOCK, 34), 8).await.unwrap_err();
        assert!(stale.downcast_ref::<FenceError>().is_some_and(FenceError::is_stale), "{stale}");
        pay(&orders, &mut db, &cluster.exclusive(LOCK, 42), 8).await.unwrap();
        let forgotten = db.batch_execute("DELETE FROM orders").await.unwrap_err();
        assert_eq!(forgotten.code().unwrap().code(), "PF428");
        let stamp = "SELECT count(*) FROM orders WHERE paid AND fencing_token = 42";
        assert_eq!(db.query_one(stamp, &[]).await.unwrap().get::<_, i64>(0), 1);
    });
}

// docs/adapters/redis.md shows this.
fn push(
    orders: &Guard<RedisMarks>,
    redis: &mut Connection,
    held: &impl Holding,
    order: &str,
) -> Result<(), FenceError> {
    let push = redis::cmd("RPUSH").arg("{orders}:queue").arg(order).to_owned();
    orders.write(redis, held, &["{orders}:queue"], &[push])?; // Err(Stale) once a newer holder was here
    Ok(())
}

#[test]
fn the_page_of_redis_holds() {
    let server = crate::redis::start();
    let client =
        redis::Client::open(format!("unix://{}/redis.sock", server.folder.path().display())).unwrap();
    let mut redis = client.get_connection().unwrap();
    // As a program of another language makes the marks.
    let made: i64 = redis::cmd("HSETNX")
        .arg("{orders}:marks")
        .arg("version")
        .arg("palisade-marks 1")
        .query(&mut redis)
        .unwrap();
    assert_eq!(made, 1);
    let cluster = SigningCluster::new(1);
    let orders = Guard::new(RedisMarks::open(&mut redis, "{orders}:marks").unwrap(), scope(&cluster));
    push(&orders, &mut redis, &cluster.exclusive(LOCK, 41), "one").unwrap();
    assert!(push(&orders, &mut redis, &cluster.exclusive(LOCK, 34), "stale").unwrap_err().is_stale());
}

// docs/adapters/object-stores.md shows this.
async fn publish(
    manifest: &Guard<ObjectResource>,
    held: &impl Holding,
    segment: &str,
) -> Result<(), FenceError> {
    let named = |data: &Bytes| Ok(Bytes::from([data, segment.as_bytes(), b"\n"].concat()));
    manifest.update(held, named).await // Err(Stale) once a newer holder was here
}

#[test]
fn the_page_of_object_stores_holds() {
    let cluster = SigningCluster::new(1);
    run(async {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let path = Path::from("manifest");
        let resource = ObjectResource::create(Arc::clone(&store), path.clone()).await.unwrap();
        let manifest = Guard::new(resource, scope(&cluster));
        publish(&manifest, &cluster.exclusive(LOCK, 41), "0004").await.unwrap();
        assert!(publish(&manifest, &cluster.exclusive(LOCK, 34), "0005").await.unwrap_err().is_stale());
        let body = store.get(&path).await.unwrap().bytes().await.unwrap();
        let text = String::from_utf8(body.to_vec()).unwrap();
        assert!(text.starts_with("palisade-object 1 {\"writes\":2,\"marks\":[{\"cluster\":\"0101"), "{text}");
        assert!(text.ends_with("\"lock\":\"orders/shard-7\",\"slot\":0,\"mark\":41}]}\n0004\n"), "{text}");
    });
}

/// What an account is owed, the outbox of transfers, and a bank that compares no token.
const LEDGER: &str = "CREATE TABLE owed (account bigint PRIMARY KEY, amount bigint NOT NULL);
    CREATE TABLE outbox (key text PRIMARY KEY, account bigint NOT NULL, amount bigint NOT NULL, sent boolean NOT NULL);
    INSERT INTO owed VALUES (7, 100), (8, 50)";

/// One run of the worker, in the steps between which it can be paused.
struct Payout<'a> {
    guard: &'a Guard<PostgresMarks>,
    held: &'a dyn Holding,
}

impl Payout<'_> {
    /// First of all: no earlier worker writes from here on.
    async fn claim(&self, db: &mut Client) -> Result<(), FenceError> {
        self.guard.claim(db, self.held).await
    }

    async fn owed(&self, db: &Client) -> Vec<(i64, i64)> {
        let rows = db
            .query("SELECT account, amount FROM owed WHERE amount > 0 ORDER BY account", &[])
            .await
            .unwrap();
        rows.iter().map(|row| (row.get(0), row.get(1))).collect()
    }

    /// The debt goes down and the transfer is written down, in one fenced transaction. Nothing is sent yet.
    async fn order(&self, db: &mut Client, day: &str, (account, amount): (i64, i64)) -> Result<(), Failure> {
        let transaction = db.transaction().await?;
        self.guard.admit_in(&transaction, self.held).await?;
        let key = format!("payout-{day}-account-{account}");
        transaction
            .execute("UPDATE owed SET amount = amount - $1 WHERE account = $2", &[&amount, &account])
            .await?;
        transaction
            .execute("INSERT INTO outbox VALUES ($1, $2, $3, false)", &[&key, &account, &amount])
            .await?;
        Ok(transaction.commit().await?)
    }

    /// The bank is called outside of any transaction, under the row's own key; then the row is marked, fenced.
    async fn send(&self, db: &mut Client, bank: &mut Bank) -> Result<(), Failure> {
        for row in db.query("SELECT key, amount FROM outbox WHERE NOT sent ORDER BY key", &[]).await? {
            let key: String = row.get(0);
            bank.transfer(&key, row.get(1));
            let transaction = db.transaction().await?;
            self.guard.admit_in(&transaction, self.held).await?;
            transaction.execute("UPDATE outbox SET sent = true WHERE key = $1", &[&key]).await?;
            transaction.commit().await?;
        }
        Ok(())
    }
}

/// Compares no token, and knows a key that it has seen.
#[derive(Default)]
struct Bank {
    seen: BTreeSet<String>,
    paid: i64,
}

impl Bank {
    fn transfer(&mut self, key: &str, amount: i64) {
        if self.seen.insert(key.to_owned()) {
            self.paid += amount;
        }
    }
}

#[test]
fn a_payout_worker_that_was_paused_anywhere_pays_nobody_twice() {
    let cluster = SigningCluster::new(1);
    // Before which of its steps the first worker is paused, until the second one is done.
    for paused_before in 0..4 {
        run(async {
            let (_server, mut db) = database(&format!("payout{paused_before}")).await;
            let guard = Guard::new(PostgresMarks::create(&mut db).await.unwrap(), scope(&cluster));
            db.batch_execute(LEDGER).await.unwrap();
            let mut bank = Bank::default();
            let (old, new) = (cluster.exclusive(LOCK, 34), cluster.exclusive(LOCK, 41));
            let first = Payout { guard: &guard, held: &old };
            let second = Payout { guard: &guard, held: &new };

            first.claim(&mut db).await.unwrap();
            let owed = first.owed(&db).await;
            for debt in owed.iter().take(paused_before) {
                first.order(&mut db, "monday", *debt).await.unwrap();
            }
            if paused_before == 3 {
                // It called the bank, and could not write that down any more.
                bank.transfer("payout-monday-account-7", 100);
            }

            second.claim(&mut db).await.unwrap();
            for debt in second.owed(&db).await {
                second.order(&mut db, "monday", debt).await.unwrap();
            }
            second.send(&mut db, &mut bank).await.unwrap();

            // The first wakes up with every belief intact.
            let stale = first.order(&mut db, "monday", owed[0]).await.unwrap_err();
            assert!(stale.downcast_ref::<FenceError>().is_some_and(FenceError::is_stale), "{stale}");
            assert!(first.send(&mut db, &mut bank).await.is_ok(), "nothing is left to send");
            assert!(old.check().is_err(), "it knows now");
            assert_eq!(bank.paid, 150, "paused before step {paused_before}");
            assert_eq!(second.owed(&db).await, []);
        });
    }
}

/// Merges the segments that the manifest names into one, and names that one instead: in the steps between which it can be
/// paused.
async fn read_segments(store: &dyn ObjectStore, manifest: &[u8]) -> String {
    let mut merged = String::new();
    for name in std::str::from_utf8(manifest).unwrap().lines() {
        let segment = store.get(&Path::from(name)).await.unwrap().bytes().await.unwrap();
        merged.push_str(std::str::from_utf8(&segment).unwrap());
    }
    merged
}

async fn bucket() -> Arc<dyn ObjectStore> {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    store.put(&Path::from("segments/1"), "a\n".into()).await.unwrap();
    store.put(&Path::from("segments/2"), "b\n".into()).await.unwrap();
    store
}

/// The first is throttled for as long as the second needs for all of its work, and a writer's new segment.
#[test]
fn a_compaction_job_that_was_paused_takes_nothing_away() {
    let cluster = SigningCluster::new(1);
    run(async {
        let store = bucket().await;
        let resource = ObjectResource::create(Arc::clone(&store), Path::from("manifest")).await.unwrap();
        let manifest = Guard::new(resource, scope(&cluster));
        let (old, new) = (cluster.exclusive(LOCK, 34), cluster.exclusive(LOCK, 41));
        manifest.replace(&old, "segments/1\nsegments/2\n").await.unwrap();

        let compacted = |held: &dyn Holding, merged: String| {
            let at = manifest.data_path(held, "merged");
            let store = Arc::clone(&store);
            async move {
                store.put(&at, merged.into_bytes().into()).await.unwrap();
                format!("{at}\n")
            }
        };
        let seen = manifest.claim(&old).await.unwrap();
        let merged = read_segments(&*store, &seen).await;

        let seen = manifest.claim(&new).await.unwrap();
        let named = compacted(&new, read_segments(&*store, &seen).await).await;
        store.put(&Path::from("segments/3"), "c\n".into()).await.unwrap();
        manifest.replace(&new, format!("{named}segments/3\n")).await.unwrap();

        // It uploads what it had merged, where nobody else writes, and cannot name it.
        let named = compacted(&old, merged).await;
        assert!(manifest.replace(&old, named).await.unwrap_err().is_stale());
        assert_eq!(read_segments(&*store, &manifest.adapter().read().await.unwrap()).await, "a\nb\nc\n");
    });
}

#[test]
fn the_same_job_without_conditional_writes_loses_a_segment() {
    run(async {
        let store = bucket().await;
        let manifest = Path::from("manifest");
        store.put(&manifest, "segments/1\nsegments/2\n".into()).await.unwrap();
        let read = async || store.get(&manifest).await.unwrap().bytes().await.unwrap();

        let merged_by_the_first = read_segments(&*store, &read().await).await;
        let merged = read_segments(&*store, &read().await).await;
        store.put(&Path::from("segments/merged"), merged.into_bytes().into()).await.unwrap();
        store.put(&Path::from("segments/3"), "c\n".into()).await.unwrap();
        store.put(&manifest, "segments/merged\nsegments/3\n".into()).await.unwrap();

        store.put(&Path::from("segments/merged"), merged_by_the_first.into_bytes().into()).await.unwrap();
        store.put(&manifest, "segments/merged\n".into()).await.unwrap();
        assert_eq!(read_segments(&*store, &read().await).await, "a\nb\n", "the third segment is gone");
    });
}
