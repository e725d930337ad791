//! Data in sled: marks in a tree of the same database, raised in the transaction that writes.
//!
//! [`SledMarks`] works in a transaction of your own over the tree of marks and any others; [`SledResource`] runs the
//! transaction over its trees. sled acknowledges before the disk does, and its own flush leaves out the last step, so an
//! admission is followed by a flush *and* an `fdatasync` of sled's file: [`SledMarks::make_durable`], which
//! [`SledResource`] calls by itself.

use std::cell::RefCell;
use std::fmt;
use std::fs::File;
use std::ops::Deref;
use std::path::Path;

use palisade_core::token::Token;
use sled::transaction::{
    ConflictableTransactionError, TransactionError, Transactional, TransactionalTree,
    UnabortableTransactionError,
};
use sled::{Db, Tree};

use crate::adapters::{Adapter, InTransaction};
use crate::admit::{HighWaterMark, MarkKey, decide};
use crate::error::FenceError;

/// The tree of marks.
const TREE: &str = "palisade_marks";
/// Stands in the tree from its making on, so that an empty one that was made by accident is not taken for marks.
const VERSION_KEY: &[u8] = b"version";
const VERSION: &[u8] = b"palisade-marks 1";

/// The marks of a database.
#[derive(Debug)]
pub struct SledMarks {
    tree: Tree,
    file: File,
}

impl SledMarks {
    /// In a database, at `path`, that you know to be new, or to be guarded from now on.
    pub fn create(db: &Db, path: &Path) -> Result<Self, FenceError> {
        let marks = Self::at(db, path)?;
        if marks.tree.contains_key(VERSION_KEY).map_err(|error| failed("looking for marks", error))? {
            return Err(FenceError::MarksExist { store: store() });
        }
        marks.tree.insert(VERSION_KEY, VERSION).map_err(|error| failed("making marks", error))?;
        marks.make_durable()?;
        Ok(marks)
    }

    /// In a database, at `path`, that was used before. Refuses one without marks: they may be lost.
    pub fn open(db: &Db, path: &Path) -> Result<Self, FenceError> {
        let marks = Self::at(db, path)?;
        match marks.tree.get(VERSION_KEY).map_err(|error| failed("looking for marks", error))? {
            None => Err(FenceError::NoMarks { store: store() }),
            Some(version) if version == VERSION => Ok(marks),
            Some(_) => Err(damaged("its marks are of another version")),
        }
    }

    fn at(db: &Db, path: &Path) -> Result<Self, FenceError> {
        let tree = db.open_tree(TREE).map_err(|error| failed("opening the tree of marks", error))?;
        let file = File::options().read(true).write(true).open(path.join("db"));
        Ok(Self { tree, file: file.map_err(|error| FenceError::storage("opening sled's file", error))? })
    }

    /// The tree that a transaction of your own must include.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Returns once all that was committed before is on the disk. Acknowledge a claim or a write only after it.
    pub fn make_durable(&self) -> Result<(), FenceError> {
        self.tree.flush().map_err(|error| failed("flushing", error))?;
        self.file.sync_data().map_err(|error| FenceError::storage("syncing sled's file", error))
    }

    fn mark(&self, key: &MarkKey) -> Result<Option<HighWaterMark>, FenceError> {
        let row = self.tree.get(row(key)).map_err(|error| failed("reading a mark", error))?;
        row.map(|row| decode(&row)).transpose()
    }
}

impl InTransaction for SledMarks {
    type Transaction<'a> = TransactionalTree;

    fn admit_in(
        &self,
        marks: &TransactionalTree,
        key: &MarkKey,
        floor: Option<Token>,
        token: Token,
    ) -> Result<(), FenceError> {
        // Another tree has no version: whoever passes it hears of it at once.
        if marks.get(VERSION_KEY)?.is_none() {
            return Err(FenceError::NoMarks { store: store() });
        }
        let before = marks.get(row(key))?.map(|row| decode(&row)).transpose()?;
        let mark = decide(key, before, floor, token)?;
        if before != Some(mark) {
            marks.insert(row(key), &mark.0.get().to_be_bytes())?;
        }
        Ok(())
    }
}

/// Trees of one database, and their marks.
#[derive(Debug)]
pub struct SledResource {
    marks: SledMarks,
    /// The marks' own first.
    trees: Vec<Tree>,
}

/// The trees of a [`SledResource`] in a transaction, in the order in which it was given them.
pub struct SledTrees<'a>(&'a [TransactionalTree]);

impl fmt::Debug for SledTrees<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SledTrees").field("count", &self.0.len()).finish()
    }
}

impl Deref for SledTrees<'_> {
    type Target = [TransactionalTree];

    fn deref(&self) -> &[TransactionalTree] {
        self.0
    }
}

impl SledResource {
    /// Of these marks and trees.
    pub fn new(marks: SledMarks, trees: impl IntoIterator<Item = Tree>) -> Self {
        let trees = std::iter::once(marks.tree.clone()).chain(trees).collect();
        Self { marks, trees }
    }

    /// Reads without a claim: for those who do not go on to write.
    pub fn trees(&self) -> &[Tree] {
        self.trees.get(1..).unwrap_or_default()
    }
}

impl Adapter for SledResource {
    type Data<'a> = SledTrees<'a>;

    fn admit_with<R>(
        &self,
        key: &MarkKey,
        floor: Option<Token>,
        token: Token,
        effect: impl FnOnce(&mut SledTrees<'_>) -> Result<R, FenceError>,
    ) -> Result<R, FenceError> {
        // sled may run a transaction again after a conflict; an effect runs once.
        let effect = RefCell::new(Some(effect));
        let outcome = self.trees[..].transaction(|trees: &Vec<TransactionalTree>| {
            let abort = ConflictableTransactionError::Abort;
            let Some((marks, trees)) = trees.split_first() else {
                return Err(abort(damaged("it has no trees")));
            };
            self.marks.admit_in(marks, key, floor, token).map_err(abort)?;
            let effect = effect.borrow_mut().take().ok_or_else(|| abort(contended()))?;
            effect(&mut SledTrees(trees)).map_err(abort)
        });
        let done = outcome.map_err(|error| match error {
            TransactionError::Abort(error) => error,
            TransactionError::Storage(error) => failed("the transaction", error),
        })?;
        self.marks.make_durable()?;
        Ok(done)
    }

    fn mark(&self, key: &MarkKey) -> Result<Option<HighWaterMark>, FenceError> {
        self.marks.mark(key)
    }

    fn reset_mark(&self, key: &MarkKey, mark: Option<HighWaterMark>) -> Result<(), FenceError> {
        let set = match mark {
            Some(HighWaterMark(mark)) => self.marks.tree.insert(row(key), &mark.get().to_be_bytes()),
            None => self.marks.tree.remove(row(key)),
        };
        set.map_err(|error| failed("setting a mark", error))?;
        self.marks.make_durable()
    }
}

/// What a tree answers within a write.
impl From<UnabortableTransactionError> for FenceError {
    fn from(error: UnabortableTransactionError) -> Self {
        match error {
            UnabortableTransactionError::Conflict => contended(),
            UnabortableTransactionError::Storage(error) => failed("the transaction", error),
        }
    }
}

/// Cluster, slot, lock: the first two are of one length, so that no two keys run together. Longer than the version's key.
fn row(key: &MarkKey) -> Vec<u8> {
    [&key.cluster.0[..], &key.slot.0.to_be_bytes(), key.lock.as_str().as_bytes()].concat()
}

fn decode(row: &[u8]) -> Result<HighWaterMark, FenceError> {
    let token = row.try_into().ok().map(u64::from_be_bytes).and_then(Token::new);
    token.map(HighWaterMark).ok_or_else(|| damaged("a mark is not a token"))
}

fn store() -> String {
    format!("the tree {TREE} of the sled database")
}

fn damaged(reason: &str) -> FenceError {
    FenceError::Damaged { store: store(), reason: reason.to_owned() }
}

fn contended() -> FenceError {
    FenceError::Contended { store: "the sled database".to_owned() }
}

fn failed(what: &str, error: sled::Error) -> FenceError {
    FenceError::storage(format!("{what} in sled"), error)
}
