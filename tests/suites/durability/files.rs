//! What lives in files of its own, and the directories that make a file be there after a power failure.

use std::path::{Path, PathBuf};

use palisade_raft::EngineKind;
use rustix::process::Signal;

use super::holder::Holder;
use super::http2::exchanges;
use super::strace::Call;
use super::trace::{Trace, wrap};
use super::{data, log_file, nodes, told, until};

#[tokio::test]
async fn a_file_gets_its_name_between_two_flushes() {
    for kind in EngineKind::ALL {
        check_names(kind).await;
    }
}

async fn check_names(kind: EngineKind) {
    let mut cluster = told(nodes(kind, 1), kind, &["--snapshot-every", "20", "--keep-log", "5"]);
    let file = wrap(&mut cluster, 0, &[]);
    cluster.start_all().expect("it starts");
    Holder::open(&cluster, 0).await.acquire_many("snapshot", 70).await;
    let snapshots = data(&cluster, 0).join("snapshots");
    until("a snapshot is there", || {
        let mut names = std::fs::read_dir(&snapshots).ok()?.flatten().map(|entry| entry.file_name());
        names.any(|name| !name.to_string_lossy().ends_with(".tmp")).then_some(())
    })
    .await;
    cluster.signal(0, Signal::TERM);
    let trace = Trace::read(&file).await;

    let renames: Vec<_> = trace.calls.iter().filter(|call| call.name.starts_with("rename")).collect();
    let renamed = |part: &str| renames.iter().any(|call| to(call).contains(part));
    assert!(renamed("/snapshots/snap-") && renamed("/signing.key"), "{renames:?}");
    for rename in renames {
        assert_eq!(rename.result, 0);
        let beside = String::from_utf8_lossy(&rename.strings[0]).into_owned();
        let whole =
            trace.calls.iter().filter(|call| call.writes() && call.on == beside).map(|call| call.ended).max();
        let flushed = trace.flushed(Path::new(&beside), whole.expect("it was written"));
        assert!(flushed.is_some_and(|at| at < rename.began), "{beside} got its name before it was flushed");
        let directory = Path::new(&beside).parent().expect("it is in a directory").to_owned();
        assert!(trace.flushed(&directory, rename.ended).is_some(), "the name of {beside} was not flushed");
    }
}

fn path(call: &Call) -> PathBuf {
    PathBuf::from(String::from_utf8_lossy(&call.strings[0]).into_owned())
}

fn to(rename: &Call) -> String {
    String::from_utf8_lossy(&rename.strings[1]).into_owned()
}

#[tokio::test]
async fn a_node_says_who_it_is_after_that_is_durable() {
    for kind in EngineKind::ALL {
        check_identity(kind).await;
    }
}

async fn check_identity(kind: EngineKind) {
    let mut cluster = nodes(kind, 1);
    let file = wrap(&mut cluster, 0, &[]);
    cluster.start_all().expect("it starts");
    Holder::open(&cluster, 0).await;
    cluster.signal(0, Signal::TERM);
    let trace = Trace::read(&file).await;

    let calls = exchanges(&trace.calls, &cluster.nodes()[0].peer_address);
    let told = calls.iter().filter_map(|call| call.answered).min().expect("it asked itself at founding");
    let log = log_file(&cluster, kind, 0);
    let drawn = trace.durable(&log, b"iden", 0);
    assert!(
        drawn.is_some_and(|at| at < told),
        "answered at line {told}, its identity was durable at {drawn:?}"
    );
    // Without its name in each directory on the way, a durable file is gone.
    let made: Vec<_> = trace.calls.iter().filter(|call| call.name == "mkdir" && call.result == 0).collect();
    for expected in [data(&cluster, 0), data(&cluster, 0).join("log"), data(&cluster, 0).join("snapshots")] {
        assert!(made.iter().any(|call| path(call) == expected), "{} was not made", expected.display());
    }
    for call in made {
        let (path, parent) = (path(call), path(call).parent().expect("it has one").to_owned());
        let flushed = trace.flushed(&parent, call.ended);
        assert!(
            flushed.is_some_and(|at| at < told),
            "the name of {} was flushed at {flushed:?}",
            path.display()
        );
    }
}
