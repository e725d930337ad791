//! The code that the pages of the adapters show.

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
