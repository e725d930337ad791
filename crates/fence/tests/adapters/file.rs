use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use palisade_core::holding::Holding;
use palisade_fence::adapters::file::FileResource;
use palisade_fence::admit::HighWaterMark;
use palisade_fence::conformance::{Subject, check};
use palisade_fence::error::FenceError;
use palisade_fence::guard::{Guard, Scope};
use palisade_fence::verifier::SignedFloor;
use tempfile::TempDir;

use super::{folder, random_runs};

struct Lines {
    guard: Guard<FileResource>,
    scope: Scope,
    path: PathBuf,
    how: How,
    _folder: TempDir,
}

#[derive(Clone, Copy)]
enum How {
    Append,
    Replace,
}

fn lines(scope: Scope, how: How) -> Lines {
    let folder = folder();
    let path = folder.path().join("orders");
    let guard = Guard::new(FileResource::create(&path).unwrap(), scope.clone());
    Lines { guard, scope, path, how, _folder: folder }
}

impl Subject for Lines {
    fn claim(&self, holding: &dyn Holding) -> Result<(), FenceError> {
        self.guard.claim(holding).map(drop)
    }

    fn append(&self, holding: &dyn Holding, line: &str) -> Result<(), FenceError> {
        self.guard.write(holding, |file| match self.how {
            How::Append => file.append(format!("{line}\n").as_bytes()),
            How::Replace => {
                let mut all = file.read()?;
                all.extend(format!("{line}\n").bytes());
                file.replace(&all)
            }
        })
    }

    fn raise(&self, floor: &SignedFloor) -> Result<HighWaterMark, FenceError> {
        self.guard.raise(floor)
    }

    fn lines(&self) -> Vec<String> {
        let bytes = self.guard.adapter().read().unwrap();
        String::from_utf8(bytes).unwrap().lines().map(str::to_owned).collect()
    }

    fn reopen(self) -> Self {
        let resource = FileResource::open(&self.path).unwrap();
        Self { guard: Guard::new(resource, self.scope.clone()), ..self }
    }

    fn append_past_the_guard(&self, line: &str) {
        let mut all = fs::read(&self.path).unwrap_or_default();
        all.extend(format!("{line}\n").bytes());
        fs::write(&self.path, all).unwrap();
    }

    // The types leave no way.
    fn append_bare(&self, _: &str) -> Option<Result<(), FenceError>> {
        None
    }

    fn die_before_the_commit(self, holding: &dyn Holding, _: &str) -> Option<Self> {
        let died = catch_unwind(AssertUnwindSafe(|| {
            let _: Result<(), _> = self.guard.write(holding, |_| panic!("the process dies here"));
        }));
        assert!(died.is_err());
        Some(self.reopen())
    }

    fn lose_marks(self) -> Option<Self> {
        fs::remove_file(self.path.with_extension("marks")).unwrap();
        assert!(matches!(FileResource::open(&self.path), Err(FenceError::NoMarks { .. })));
        Some(self)
    }
}

#[test]
fn appending_to_a_file_passes() {
    check(|scope| lines(scope, How::Append));
}

#[test]
fn replacing_a_file_passes() {
    check(|scope| lines(scope, How::Replace));
}

#[test]
fn a_file_is_fenced_in_random_runs() {
    random_runs("file", |scope| lines(scope, How::Append));
}
