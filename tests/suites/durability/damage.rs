//! A node that finds its data damaged refuses to start, and says which file, why, and how to rejoin (SPEC 11).

use std::fs;
use std::path::Path;

use palisade_raft::EngineKind;
use palisade_testkit::cluster::ProcessCluster;

use super::holder::Holder;
use super::{PATIENCE, data, log_file, log_name, nodes, told, until};

/// A node that has stopped in good order, with something in its files.
async fn stopped(kind: EngineKind, arguments: &[&str]) -> ProcessCluster {
    let mut cluster = told(nodes(kind, 1), kind, arguments);
    cluster.start_all().expect("it starts");
    Holder::open(&cluster, 0).await.acquire_many("damaged", 60).await;
    assert_eq!(cluster.terminate(0, PATIENCE), Some(0));
    cluster
}

fn flip(file: &Path, at: usize) {
    let mut bytes = fs::read(file).expect("it reads");
    bytes[at..at + 8].iter_mut().for_each(|byte| *byte ^= 0x5a);
    fs::write(file, bytes).expect("it writes");
}

async fn refuses(cluster: &mut ProcessCluster, file: &Path) {
    let before = cluster.log(0).len();
    cluster.start_all().expect("it starts");
    let code = until("the node refuses to start", || cluster.ended(0)).await;
    let said = cluster.log(0)[before..].to_owned();
    assert!(code.is_some_and(|code| code != 0), "{code:?}: {said}");
    assert!(said.contains(&format!("{} is damaged", file.display())), "{said}");
    assert!(said.contains("start the node under a new name"), "{said}");
}

#[tokio::test]
async fn a_log_that_is_damaged_anywhere_is_refused() {
    for kind in EngineKind::ALL {
        check_log(kind).await;
    }
}

async fn check_log(kind: EngineKind) {
    let mut cluster = stopped(kind, &[]).await;
    let log = log_file(&cluster, kind, 0);
    let whole = fs::read(&log).expect("it reads");
    let written = whole.iter().rposition(|byte| *byte != 0).expect("it was written") + 1;
    // Early, in the middle, and in what was written last.
    for at in [written / 10, written / 2, written - 20] {
        flip(&log, at);
        let named = cluster.data_directory(0).join(log_name(kind));
        // The store cuts its file off behind what it can read; that must not make it look whole the next time.
        refuses(&mut cluster, &named).await;
        refuses(&mut cluster, &named).await;
        fs::write(&log, &whole).expect("it writes");
    }
}

#[tokio::test]
async fn a_snapshot_that_is_damaged_is_refused() {
    let mut cluster = stopped(EngineKind::default(), &["--snapshot-every", "20", "--keep-log", "5"]).await;
    let snapshots = fs::read_dir(data(&cluster, 0).join("snapshots")).expect("it reads").flatten();
    let newest = snapshots.map(|entry| entry.file_name()).max().expect("there is one");
    let newest = cluster.data_directory(0).join("snapshots").join(newest);
    let middle = fs::read(&newest).expect("it reads").len() / 2;
    flip(&newest, middle);
    refuses(&mut cluster, &newest).await;
}
