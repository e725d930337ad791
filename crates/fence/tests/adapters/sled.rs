use std::path::PathBuf;

use palisade_core::holding::Holding;
use palisade_core::ids::LockName;
use palisade_fence::adapters::sled::{SledMarks, SledResource};
use palisade_fence::admit::HighWaterMark;
use palisade_fence::conformance::{SigningCluster, Subject, check_with};
use palisade_fence::error::FenceError;
use palisade_fence::guard::{Guard, Scope};
use palisade_fence::verifier::SignedFloor;
use sled::transaction::{TransactionError, Transactional, abort};
use tempfile::TempDir;

use super::{folder, random_runs};

struct Lines {
    // Closed before it is opened anew: sled lets one process in once.
    open: Option<Open>,
    scope: Scope,
    path: PathBuf,
    _folder: TempDir,
}

struct Open {
    db: sled::Db,
    guard: Guard<SledResource>,
}

impl Open {
    fn at(
        path: &std::path::Path,
        scope: &Scope,
        marks: fn(&sled::Db, &std::path::Path) -> Result<SledMarks, FenceError>,
    ) -> Self {
        let db = sled::Config::new().path(path).flush_every_ms(None).cache_capacity(1 << 20).open().unwrap();
        let orders = db.open_tree("orders").unwrap();
        let resource = SledResource::new(marks(&db, path).unwrap(), [orders]);
        Self { db, guard: Guard::new(resource, scope.clone()) }
    }

    fn orders(&self) -> &sled::Tree {
        &self.guard.adapter().trees()[0]
    }
}

fn lines(scope: Scope) -> Lines {
    let folder = folder();
    let path = folder.path().join("db");
    let open = Some(Open::at(&path, &scope, SledMarks::create));
    Lines { open, scope, path, _folder: folder }
}

impl Lines {
    fn open(&self) -> &Open {
        self.open.as_ref().unwrap()
    }
}

fn last(row: Option<sled::IVec>) -> u64 {
    row.map_or(0, |row| u64::from_be_bytes(row[..].try_into().unwrap()))
}

impl Subject for Lines {
    fn claim(&self, holding: &dyn Holding) -> Result<(), FenceError> {
        self.open().guard.claim(holding).map(drop)
    }

    fn append(&self, holding: &dyn Holding, line: &str) -> Result<(), FenceError> {
        self.open().guard.write(holding, |trees| {
            let next = last(trees[0].get("last")?) + 1;
            trees[0].insert(&next.to_be_bytes(), line)?;
            trees[0].insert("last", &next.to_be_bytes())?;
            Ok(())
        })
    }

    fn raise(&self, floor: &SignedFloor) -> Result<HighWaterMark, FenceError> {
        self.open().guard.raise(floor)
    }

    fn lines(&self) -> Vec<String> {
        let orders = self.open().orders();
        let rows =
            (1..=last(orders.get("last").unwrap())).map(|at| orders.get(at.to_be_bytes()).unwrap().unwrap());
        rows.map(|row| String::from_utf8(row.to_vec()).unwrap()).collect()
    }

    fn reopen(mut self) -> Self {
        self.open = None;
        self.open = Some(Open::at(&self.path, &self.scope, SledMarks::open));
        self
    }

    fn append_past_the_guard(&self, line: &str) {
        let orders = self.open().orders();
        let next = last(orders.get("last").unwrap()) + 1;
        orders.insert(next.to_be_bytes(), line).unwrap();
        orders.insert("last", &next.to_be_bytes()).unwrap();
    }

    // The types leave no way.
    fn append_bare(&self, _: &str) -> Option<Result<(), FenceError>> {
        None
    }

    fn die_before_the_commit(self, holding: &dyn Holding, line: &str) -> Option<Self> {
        let died = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _: Result<(), _> = self.open().guard.write(holding, |trees| {
                trees[0].insert("half", line)?;
                panic!("the process dies here")
            });
        }));
        assert!(died.is_err());
        Some(self.reopen())
    }

    fn lose_marks(self) -> Option<Self> {
        self.open().db.open_tree("palisade_marks").unwrap().clear().unwrap();
        assert!(matches!(SledMarks::open(&self.open().db, &self.path), Err(FenceError::NoMarks { .. })));
        Some(self)
    }
}

#[test]
fn sled_passes() {
    check_with(lines, 1_000);
}

#[test]
fn sled_is_fenced_in_random_runs() {
    random_runs("sled", lines);
}

#[test]
fn trees_and_marks_move_in_one_transaction_of_ones_own() {
    let cluster = SigningCluster::new(1);
    let folder = folder();
    let db = sled::open(folder.path()).unwrap();
    let (orders, stock) = (db.open_tree("orders").unwrap(), db.open_tree("stock").unwrap());
    let marks = SledMarks::create(&db, folder.path()).unwrap();
    let tree = marks.tree().clone();
    let guard = Guard::new(marks, Scope::new(cluster.id(), LockName::new("a").unwrap()));
    let sell = |holding: &dyn Holding, order: &str| {
        (&tree, &orders, &stock).transaction(|(marks, orders, stock)| {
            guard.admit_in(marks, holding).or_else(abort)?;
            orders.insert(order, "one")?;
            stock.remove("one")?;
            Ok(())
        })
    };
    let (old, new) = (cluster.exclusive("a", 34), cluster.exclusive("a", 41));
    stock.insert("one", "").unwrap();
    sell(&new, "first").unwrap();
    guard.adapter().make_durable().unwrap();
    assert!(stock.is_empty() && orders.len() == 1);
    let refused = sell(&old, "stale");
    assert!(matches!(&refused, Err(TransactionError::Abort(error)) if error.is_stale()), "{refused:?}");
    assert!(old.check().is_err());
    assert_eq!(orders.len(), 1);
    // Another tree in the place of the marks is no tree of marks.
    let wrong = (&orders, &stock).transaction(|(orders, _)| guard.admit_in(orders, &new).or_else(abort));
    assert!(matches!(wrong, Err(TransactionError::Abort(FenceError::NoMarks { .. }))));
}
