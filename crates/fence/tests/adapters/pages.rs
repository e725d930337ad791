//! The code that the pages of the adapters show.

use palisade_core::holding::Holding;
use palisade_core::ids::LockName;
use palisade_fence::adapters::file::FileResource;
use palisade_fence::adapters::sled::SledMarks;
use palisade_fence::adapters::sqlite::SqliteMarks;
use palisade_fence::conformance::SigningCluster;
use palisade_fence::error::FenceError;
use palisade_fence::guard::{Guard, Scope};
use rusqlite::{Connection, TransactionBehavior};
use sled::Tree;
use sled::transaction::{TransactionError, Transactional, abort};

use super::folder;

const LOCK: &str = "orders/shard-7";

fn scope(cluster: &SigningCluster) -> Scope {
    Scope::new(cluster.id(), LockName::new(LOCK).unwrap())
}

// docs/adapters/sqlite.md shows this.
fn pay(
    orders: &Guard<SqliteMarks>,
    db: &mut Connection,
    held: &impl Holding,
    order: i64,
) -> Result<(), FenceError> {
    let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    orders.admit_in(&transaction, held)?; // Err(Stale) once a newer holder was here
    transaction.execute("UPDATE orders SET paid = TRUE WHERE id = ?1", [order])?;
    transaction.commit()?;
    Ok(())
}

#[test]
fn the_page_of_sqlite_holds() {
    let page = include_str!("../../../../docs/adapters/sqlite.md");
    let cluster = SigningCluster::new(1);
    let mut db = Connection::open_in_memory().unwrap();
    let orders = Guard::new(SqliteMarks::create(&db).unwrap(), scope(&cluster));
    db.execute_batch(
        "CREATE TABLE orders (id INTEGER, paid INTEGER); INSERT INTO orders (id) VALUES (7), (8)",
    )
    .unwrap();
    for block in page.split("```sql\n").skip(1).filter_map(|rest| rest.split("```").next()) {
        db.execute_batch(block).unwrap();
    }
    assert!(pay(&orders, &mut db, &cluster.exclusive(LOCK, 34), 8).unwrap_err().is_stale());
    pay(&orders, &mut db, &cluster.exclusive(LOCK, 41), 8).unwrap();
    let paid: i64 = db.query_row("SELECT count(*) FROM orders WHERE paid", [], |row| row.get(0)).unwrap();
    assert_eq!(paid, 2);
}

// docs/adapters/sled.md shows this.
fn sell(
    orders: &Guard<SledMarks>,
    trees: &(Tree, Tree),
    held: &impl Holding,
    id: &str,
) -> Result<(), TransactionError<FenceError>> {
    let marks = orders.adapter();
    (marks.tree(), &trees.0, &trees.1).transaction(|(marks, orders_tree, stock)| {
        orders.admit_in(marks, held).or_else(abort)?; // Err(Stale) once a newer holder was here
        orders_tree.insert(id, "sold")?;
        stock.remove(id)?;
        Ok(())
    })?;
    marks.make_durable().map_err(TransactionError::Abort) // acknowledge only now
}

#[test]
fn the_page_of_sled_holds() {
    let cluster = SigningCluster::new(1);
    let folder = folder();
    let db = sled::open(folder.path()).unwrap();
    let trees = (db.open_tree("orders").unwrap(), db.open_tree("stock").unwrap());
    trees.1.insert("one", "").unwrap();
    let orders = Guard::new(SledMarks::create(&db, folder.path()).unwrap(), scope(&cluster));
    sell(&orders, &trees, &cluster.exclusive(LOCK, 41), "one").unwrap();
    let stale = sell(&orders, &trees, &cluster.exclusive(LOCK, 34), "two").unwrap_err();
    assert!(matches!(stale, TransactionError::Abort(error) if error.is_stale()));
    assert_eq!((trees.0.len(), trees.1.len()), (1, 0));
}

// docs/adapters/files.md shows this.
fn add(orders: &Guard<FileResource>, held: &impl Holding, line: &str) -> Result<(), FenceError> {
    orders.claim_and_read(held, |file| file.read())?; // raises the mark, then reads
    orders.write(held, |file| file.append(line.as_bytes())) // Err(Stale) once a newer holder was here
}

#[test]
fn the_page_of_files_holds() {
    let cluster = SigningCluster::new(1);
    let folder = folder();
    let path = folder.path().join("orders");
    let orders = Guard::new(FileResource::create(&path).unwrap(), scope(&cluster));
    add(&orders, &cluster.exclusive(LOCK, 41), "one\n").unwrap();
    assert!(add(&orders, &cluster.exclusive(LOCK, 34), "stale\n").unwrap_err().is_stale());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\n");
    assert!(folder.path().join("orders.marks").exists() && folder.path().join("orders.lock").exists());
}
