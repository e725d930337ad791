//! The compaction job, over a bucket in a directory.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::Signal;

use super::live::{Job, Live};
use super::{drill, example, run, text};

const LOCK: &str = "orders/shard-7";

/// A bucket, and the job with the flags that it always gets.
struct Bucket {
    program: PathBuf,
    folder: tempfile::TempDir,
    flags: Vec<String>,
}

impl Bucket {
    /// Without segments.
    async fn new(live: &Live, flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (program, flags) = (example("compaction"), flags.iter().map(|&flag| flag.to_owned()).collect());
        let bucket = Self { program, folder, flags };
        bucket.done("new", &[]).await;
        // Whoever acquires the lock itself needs them.
        let endpoints = live.cluster.endpoints().join(",");
        let locked = ["--lock", LOCK, "--ttl", "2", "--endpoints", &endpoints];
        let flags = [&bucket.flags[..], &locked.map(str::to_owned)].concat();
        Self { flags, ..bucket }
    }

    fn path(&self) -> &str {
        self.folder.path().to_str().unwrap()
    }

    fn words<'a>(&'a self, act: &'a str, more: &[&'a str]) -> Vec<&'a str> {
        let flags = self.flags.iter().map(String::as_str);
        [act, self.path()].into_iter().chain(more.iter().copied()).chain(flags).collect()
    }

    async fn done(&self, act: &str, more: &[&str]) {
        let output = run(&self.program, &self.words(act, more)).await;
        assert!(output.status.success(), "{act}: {} {}", text(&output.stdout), text(&output.stderr));
    }

    /// What the shard holds, without the tokens; none where the manifest leads nowhere.
    async fn read(&self, flags: &[&str]) -> Option<Vec<String>> {
        let output = run(&self.program, &[&["read", self.path()], flags].concat()).await;
        let line = |line: &str| line.split_once(' ').unwrap().1.to_owned();
        output.status.success().then(|| text(&output.stdout).lines().map(line).collect())
    }

    /// Objects that are there, the manifest left out.
    fn segments(&self) -> usize {
        fn files(folder: &Path) -> usize {
            let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
            entries.map(|path| if path.is_dir() { files(&path) } else { 1 }).sum()
        }
        files(&self.folder.path().join("objects")) - 1
    }

    /// Two segments; a job that has merged them is stopped right before it says so, another adds a third, and the first
    /// wakes up: how it ends.
    async fn paused(&self) -> (Option<i32>, String) {
        self.done("add", &["first"]).await;
        self.done("add", &["second"]).await;
        let mut job = Job::start(&self.program, &self.words("merge", &["--stop"]));
        job.stopped().await;
        assert_eq!(self.segments(), 3, "what it merged is uploaded");
        self.done("add", &["third"]).await;
        job.signal(Signal::CONT);
        job.end().await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_compaction_job_that_was_paused_takes_nothing_away() {
    let live = Live::start(3).await;
    let bucket = Bucket::new(&live, &[]).await;
    let (code, said) = bucket.paused().await;
    assert_eq!(code, Some(4), "{said}");
    assert!(said.starts_with("refused: "), "{said}");
    let all = ["first", "second", "third"].map(str::to_owned).to_vec();
    assert_eq!(bucket.read(&[]).await.as_ref(), Some(&all));
    // Who comes next merges all, and nothing else is left.
    bucket.done("merge", &[]).await;
    assert_eq!(bucket.read(&[]).await, Some(all));
    assert_eq!(bucket.segments(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_job_without_conditional_writes_loses_every_order() {
    let live = Live::start(3).await;
    let bucket = Bucket::new(&live, &["--unconditional"]).await;
    let (code, said) = bucket.paused().await;
    assert!(said.starts_with("written"), "nobody refused it: {said}");
    assert_eq!(code, Some(1), "its release fails, too late");
    assert_eq!(
        bucket.read(&["--unconditional"]).await,
        None,
        "its manifest names what the other one removed"
    );
}

/// The drill, with a look at the bucket.
async fn drilled(live: &Live, flags: &[&str]) -> (Option<i32>, String) {
    let bucket = Bucket::new(live, flags).await;
    let job = bucket.program.to_str().unwrap();
    let read = format!("{job} read {} {}", bucket.path(), flags.join(" "));
    let verify = format!("{read} | grep \"^$PALISADE_DRILL_SECOND \"");
    let command = [&[job, "merge", bucket.path(), "--stop", "an order"], flags].concat();
    drill(live, LOCK, &["--verify", &verify], &command).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_drill_passes_with_conditional_writes_and_fails_without() {
    let live = Live::start(3).await;
    let (code, page) = drilled(&live, &[]).await;
    assert_eq!(code, Some(0), "{page}");
    assert!(page.starts_with("REFUSED"), "{page}");
    let (code, page) = drilled(&live, &["--unconditional"]).await;
    assert_eq!(code, Some(1), "{page}");
    assert!(page.starts_with("ACCEPTED"), "{page}");
}
