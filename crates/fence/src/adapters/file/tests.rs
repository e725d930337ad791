use std::os::unix::fs::PermissionsExt;

use palisade_core::holding::Holding;
use palisade_core::ids::Slot;
use tempfile::TempDir;

use super::*;
use crate::conformance::SigningCluster;
use crate::guard::{Guard, Scope};

struct Lines {
    guard: Guard<FileResource>,
    scope: Scope,
    path: PathBuf,
    how: How,
    folder: TempDir,
}

#[derive(Clone, Copy)]
enum How {
    Append,
    Replace,
}

impl Lines {
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

    fn lines(&self) -> Vec<String> {
        let bytes = self.guard.adapter().read().unwrap();
        String::from_utf8(bytes).unwrap().lines().map(str::to_owned).collect()
    }

    fn reopen(self) -> Self {
        let resource = FileResource::open(&self.path).unwrap();
        Self { guard: Guard::new(resource, self.scope.clone()), ..self }
    }
}

fn lines(scope: Scope, how: How) -> Lines {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("orders");
    let guard = Guard::new(FileResource::create(&path).unwrap(), scope.clone());
    Lines { guard, scope, path, how, folder }
}

fn one(how: How) -> (SigningCluster, Lines) {
    let cluster = SigningCluster::new(1);
    let scope =
        Scope::new(cluster.id(), cluster.statement("a", 0, palisade_core::mode::Mode::Exclusive, 1).lock);
    (cluster, lines(scope, how))
}

#[test]
fn damaged_marks_admit_nobody() {
    let (cluster, subject) = one(How::Append);
    subject.append(&cluster.exclusive("a", 34), "kept").unwrap();
    let marks = subject.path.with_extension("marks");
    let good = fs::read(&marks).unwrap();
    let text = String::from_utf8(good.clone()).unwrap();
    let mut damaged: Vec<Vec<u8>> = (0..good.len()).map(|end| good[..end].to_vec()).collect();
    damaged.extend((0..good.len()).map(|at| {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        bytes
    }));
    damaged.push(text.replacen("palisade-marks 1", "palisade-marks 2", 1).into_bytes());
    for bytes in damaged {
        fs::write(&marks, &bytes).unwrap();
        let refused = subject.append(&cluster.exclusive("a", 90), "lost");
        assert!(
            matches!(&refused, Err(FenceError::Damaged { store, .. }) if *store == shown(&marks)),
            "{refused:?} with {:?}",
            String::from_utf8_lossy(&bytes)
        );
        assert!(matches!(FileResource::open(&subject.path), Err(FenceError::Damaged { .. })));
    }
    fs::write(&marks, good).unwrap();
    assert_eq!(subject.lines(), ["kept"]);
    assert!(subject.append(&cluster.exclusive("a", 33), "stale").is_err_and(|error| error.is_stale()));
}

#[test]
fn lost_marks_are_not_a_new_resource() {
    let (cluster, subject) = one(How::Append);
    subject.append(&cluster.exclusive("a", 34), "kept").unwrap();
    assert!(matches!(FileResource::create(&subject.path), Err(FenceError::MarksExist { .. })));
    fs::remove_file(subject.path.with_extension("marks")).unwrap();
    assert!(matches!(FileResource::open(&subject.path), Err(FenceError::NoMarks { .. })));
    let refused = subject.append(&cluster.exclusive("a", 90), "lost");
    assert!(matches!(refused, Err(FenceError::NoMarks { .. })));
    assert_eq!(subject.lines(), ["kept"]);
}

#[test]
fn a_crash_between_mark_and_data_leaves_the_higher_mark() {
    let (cluster, subject) = one(How::Replace);
    subject.append(&cluster.exclusive("a", 34), "old").unwrap();
    // The process ends after the mark is durable and before the data is touched.
    let crash = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _: Result<(), _> = subject.guard.write(&cluster.exclusive("a", 41), |_| panic!("crash"));
    }));
    assert!(crash.is_err());
    let subject = subject.reopen();
    assert_eq!(subject.lines(), ["old"]);
    assert!(subject.append(&cluster.exclusive("a", 34), "stale").is_err_and(|error| error.is_stale()));
    subject.append(&cluster.exclusive("a", 41), "new").unwrap();
    assert_eq!(subject.lines(), ["old", "new"]);
}

#[test]
fn a_write_that_was_cut_off_is_no_part_of_the_file() {
    let (cluster, subject) = one(How::Replace);
    subject.append(&cluster.exclusive("a", 34), "whole").unwrap();
    fs::write(beside(&subject.path, ".new"), "ha").unwrap();
    fs::write(beside(&subject.path, ".marks.new"), "ha").unwrap();
    subject.append(&cluster.exclusive("a", 35), "next").unwrap();
    assert_eq!(subject.lines(), ["whole", "next"]);
}

#[test]
fn a_suspended_process_delays_others_and_admits_nobody() {
    let (cluster, subject) = one(How::Append);
    let other = File::create(beside(&subject.path, ".lock")).unwrap();
    other.lock().unwrap();
    let impatient = FileResource::at(subject.path.clone()).patience(RETRY);
    let guard = Guard::new(impatient, subject.scope.clone());
    assert!(matches!(guard.claim(&cluster.exclusive("a", 34)), Err(FenceError::Busy { .. })));
    drop(other);
    guard.claim(&cluster.exclusive("a", 34)).unwrap();
}

/// Each opens the file for itself, as processes do, so that only the lock on it keeps them apart.
#[test]
fn users_that_share_nothing_but_the_file_never_go_back_to_an_older_token() {
    let (cluster, subject) = one(How::Replace);
    let start = std::sync::Barrier::new(16);
    thread::scope(|threads| {
        for token in 1..=16_u64 {
            let (cluster, subject, start) = (&cluster, &subject, &start);
            threads.spawn(move || {
                let guard = Guard::new(FileResource::open(&subject.path).unwrap(), subject.scope.clone());
                start.wait();
                let written = guard.write(&cluster.exclusive("a", token), |file| {
                    let mut all = file.read()?;
                    all.extend(format!("{token}\n").bytes());
                    file.replace(&all)
                });
                assert!(written.is_ok() || written.is_err_and(|error| error.is_stale()));
            });
        }
    });
    let tokens: Vec<u64> = subject.lines().iter().map(|line| line.parse().unwrap()).collect();
    assert!(tokens.is_sorted(), "{tokens:?}");
    assert_eq!(tokens.last(), Some(&16));
}

#[test]
fn a_poisoned_mark_can_be_reset() {
    let (cluster, subject) = one(How::Append);
    let lock = cluster.exclusive("a", 1).lock().clone();
    let largest = palisade_core::limits::TOKEN_MAX;
    subject.claim(&cluster.exclusive("a", largest)).unwrap();
    assert!(subject.claim(&cluster.exclusive("a", 34)).is_err_and(|error| error.is_stale()));
    let mark = Token::new(34).map(HighWaterMark);
    subject.guard.reset_mark(&lock, Slot(0), mark).unwrap();
    let subject = subject.reopen();
    assert_eq!(subject.guard.mark(&lock, Slot(0)).unwrap(), mark);
    subject.append(&cluster.exclusive("a", 34), "true holder").unwrap();
    assert!(subject.append(&cluster.exclusive("a", 33), "stale").is_err_and(|error| error.is_stale()));
}

#[test]
fn replacing_keeps_the_permissions() {
    let (cluster, subject) = one(How::Replace);
    fs::write(&subject.path, "before\n").unwrap();
    fs::set_permissions(&subject.path, fs::Permissions::from_mode(0o640)).unwrap();
    subject.append(&cluster.exclusive("a", 34), "after").unwrap();
    assert_eq!(subject.lines(), ["before", "after"]);
    assert_eq!(fs::metadata(&subject.path).unwrap().permissions().mode() & 0o777, 0o640);
    assert!(subject.folder.path().join("orders.marks").exists());
}
