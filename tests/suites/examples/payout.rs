//! The payout worker, over PostgreSQL and a bank that compares no token.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::process::Signal;

use super::live::{Job, Live};
use super::server::{Server, postgres, psql};
use super::{drill, example, run, text};

const LOCK: &str = "payouts";

/// A database of its own, a bank, and the worker with the flags that it always gets.
struct Ledger {
    program: PathBuf,
    server: Arc<Server>,
    schema: String,
    folder: tempfile::TempDir,
    flags: Vec<String>,
}

impl Ledger {
    async fn new(live: &Live, schema: &str, flags: &[&str]) -> Self {
        let server = postgres();
        let socket = server.folder.path();
        psql(socket, &format!("CREATE SCHEMA {schema}")).unwrap();
        let database = format!(
            "host={} user=postgres dbname=postgres options='-csearch_path={schema}'",
            socket.display()
        );
        let flags = [&["--database", &database], flags].concat();
        let flags = flags.iter().map(|&flag| flag.to_owned()).collect();
        let folder = tempfile::tempdir().unwrap();
        let ledger = Self { program: example("payout"), server, schema: schema.to_owned(), folder, flags };
        let output = run(&ledger.program, &ledger.words(&["setup"], &Self::lock(live))).await;
        assert!(output.status.success(), "{}", text(&output.stderr));
        ledger
    }

    /// For whoever acquires the lock itself.
    fn lock(live: &Live) -> Vec<String> {
        let endpoints = live.cluster.endpoints().join(",");
        ["--lock", LOCK, "--ttl", "2", "--endpoints", &endpoints].map(str::to_owned).to_vec()
    }

    fn bank(&self) -> PathBuf {
        self.folder.path().join("bank.txt")
    }

    fn words(&self, first: &[&str], more: &[String]) -> Vec<String> {
        let first = first.iter().map(|&word| word.to_owned());
        first.chain(self.flags.iter().cloned()).chain(more.iter().cloned()).collect()
    }

    fn run_words(&self, more: &[&str]) -> Vec<String> {
        let bank = self.bank();
        self.words(&[&["run", "--bank", bank.to_str().unwrap()], more].concat(), &[])
    }

    fn sql(&self, sql: &str) -> Option<String> {
        let socket: &Path = self.server.folder.path();
        psql(socket, &format!("SET search_path = {}; {sql}", self.schema))
            .map(|said| said.trim_start_matches("SET").trim().to_owned())
    }

    /// What is still owed, in all, and how many transfers are ordered and not marked as sent.
    fn left(&self) -> (i64, i64) {
        let number = |sql| self.sql(sql).unwrap().parse().unwrap();
        (number("SELECT sum(amount) FROM owed"), number("SELECT count(*) FROM outbox WHERE NOT sent"))
    }

    /// What the bank has paid, in all.
    fn paid(&self) -> i64 {
        let book = fs::read_to_string(self.bank()).unwrap();
        book.lines().map(|line| line.rsplit(' ').next().unwrap().parse::<i64>().unwrap()).sum()
    }

    /// A worker does all that there is.
    async fn pays(&self, live: &Live) {
        let output = run(&self.program, &[self.run_words(&[]), Self::lock(live)].concat()).await;
        assert!(output.status.success(), "{}", text(&output.stderr));
    }

    /// The first worker is stopped before this step, the second one does all that there is, and the first wakes up: how
    /// it ends.
    async fn paused(&self, live: &Live, before: &str) -> (Option<i32>, String) {
        let first = [self.run_words(&["--stop-before", before]), Self::lock(live)].concat();
        let mut first = Job::start(&self.program, &first.iter().map(String::as_str).collect::<Vec<_>>());
        first.stopped().await;
        self.pays(live).await;
        first.signal(Signal::CONT);
        first.end().await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payout_worker_that_was_paused_anywhere_pays_nobody_twice() {
    let live = Live::start(3).await;
    for step in ["order", "call", "mark"] {
        let ledger = Ledger::new(&live, &format!("before_{step}"), &[]).await;
        let (code, said) = ledger.paused(&live, step).await;
        if step == "call" {
            // It called the bank again, under the same key. Before its next write its own look at the lease stops it.
            assert_eq!((code, said.as_str()), (Some(1), ""), "{step}");
        } else {
            assert_eq!(code, Some(4), "{step}: {said}");
            assert!(said.contains("refused: "), "{step}: {said}");
        }
        assert_eq!((ledger.paid(), ledger.left()), (150, (0, 0)), "paused before {step}");
        // Whoever forgets the admission writes nothing.
        assert_eq!(ledger.sql("UPDATE owed SET amount = 1"), None);
        assert_eq!(ledger.sql("DELETE FROM outbox"), None);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_worker_without_a_fence_pays_twice() {
    let live = Live::start(3).await;
    let ledger = Ledger::new(&live, "unfenced", &["--unfenced"]).await;
    let (code, said) = ledger.paused(&live, "order").await;
    assert!(said.starts_with("ordered 100"), "nobody refused it: {said}");
    assert_eq!(code, Some(1), "before the next debt it looks at its lease");
    assert_eq!((ledger.paid(), ledger.left()), (150, (-100, 1)));
    ledger.pays(&live).await;
    assert_eq!((ledger.paid(), ledger.left()), (250, (-100, 0)), "whoever comes next sends what is ordered");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_drill_passes_with_a_fence_and_fails_without() {
    let live = Live::start(3).await;
    for (schema, flags, expected) in [
        ("drilled", &[][..], (Some(0), "REFUSED")),
        ("drilled_unfenced", &["--unfenced"], (Some(1), "ACCEPTED")),
    ] {
        let ledger = Ledger::new(&live, schema, flags).await;
        let program = ledger.program.to_str().unwrap().to_owned();
        let command = [vec![program], ledger.run_words(&["--stop-before", "order"])].concat();
        let command: Vec<_> = command.iter().map(String::as_str).collect();
        let (code, page) = drill(&live, LOCK, &[], &command).await;
        assert_eq!((code, page.split(' ').next()), (expected.0, Some(expected.1)), "{page}");
    }
}
