//! The failure that locks alone cannot stop, with containers: a worker is frozen past its lease and thaws in the middle
//! of its work. The order book that it writes to is a service in a container of its own, which compares tokens; one that
//! looks at none takes the same write.

use std::path::Path;
use std::process::Stdio;

use rustix::process::{getgid, getuid};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::engine::docker;
use crate::example::example;
use crate::three::Three;
use crate::{PATIENCE, until};

/// Where the examples are in a container.
const EXAMPLES: &str = "/examples";
const NODES: &str = "PALISADE_ENDPOINTS=n1:7170,n2:7170,n3:7170";
/// How a worker ends that was refused.
const REFUSED: i32 = 4;

pub(crate) async fn a_write_of_a_worker_that_was_paused_past_its_lease_is_refused(three: &Three) {
    let service = Service::start(three, "fenced", &[]).await;
    let mut first = frozen_and_superseded(three, &service).await;
    let refused = first.says().await;
    let problem: Value = serde_json::from_str(refused.strip_prefix("refused: ").unwrap_or(&refused)).unwrap();
    let number = |field: &str| problem[field].as_str().unwrap().parse::<u64>().unwrap();
    assert_eq!((&problem["title"], &problem["status"]), (&"STALE".into(), &412.into()));
    first.end(REFUSED).await;

    let (texts, tokens) = service.book();
    assert_eq!(texts, ["A1", "B1"]);
    assert_eq!((number("presented"), number("mark")), (tokens[0], tokens[1]));
    assert!(tokens[0] < tokens[1], "{tokens:?}");
    service.end().await;
}

/// The same, and nothing at the service looks at tokens: so it is the service that makes the difference.
pub(crate) async fn without_a_fence_the_same_write_lands(three: &Three) {
    let service = Service::start(three, "unfenced", &["--wrong", "unfenced"]).await;
    let mut first = frozen_and_superseded(three, &service).await;
    assert_eq!(first.says().await, "written: A2");
    // What it can no longer release is all that it hears of.
    first.end(1).await;
    let (texts, tokens) = service.book();
    assert_eq!(texts, ["A1", "B1", "A2"]);
    assert!(tokens[0] == tokens[2] && tokens[0] < tokens[1], "{tokens:?}");
    service.end().await;
}

/// A worker that was frozen after its first order; another wrote meanwhile, and it is awake again with its second order
/// before it.
async fn frozen_and_superseded(three: &Three, service: &Service) -> Worker {
    let mut first = Worker::start(three, service, "first").await;
    assert_eq!(first.says().await, "claimed");
    assert_eq!(first.does("A1").await, "written: A1");
    docker(&["pause", &first.container]).await;

    // Granted once the first one's lease has ended: it cannot renew it.
    let mut second = Worker::start(three, service, "second").await;
    assert_eq!(second.says().await, "claimed");
    assert_eq!(second.does("B1").await, "written: B1");

    // Its next write is on its way when it wakes up.
    first.tell("A2").await;
    docker(&["unpause", &first.container]).await;
    second.end(0).await;
    first
}

/// `docker run` with the examples, on the nodes' network, as whoever runs this test.
fn container(three: &Three, name: &str, program: &str) -> Command {
    let user = format!("{}:{}", getuid().as_raw(), getgid().as_raw());
    let folder = example(program);
    let examples = format!("{}:{EXAMPLES}:ro", folder.parent().unwrap().display());
    let mut command = Command::new("docker");
    command.args(["run", "--rm", "--interactive", "--name", name, "--network", &three.network()]);
    command.args(["--user", &user, "--volume", &examples, "--env", NODES]);
    command.args(["--entrypoint", &format!("{EXAMPLES}/{program}")]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    command
}

/// The order book, in a container of its own.
struct Service {
    container: String,
    folder: tempfile::TempDir,
    process: Child,
}

impl Service {
    async fn start(three: &Three, name: &str, more: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let name = format!("{}-{name}", three.network());
        let mut command = container(three, &name, "fenced_service");
        command.args(["--volume", &format!("{}:/data", folder.path().display()), &three.image.name]);
        command.args(["--listen", "0.0.0.0:8080", "--lock", "orders", "--data", "/data/orders"]).args(more);
        let process = command.spawn().unwrap();
        let service = Self { container: name, folder, process };
        until("the service listens", async || {
            service.marks().exists() && docker(&["logs", &service.container]).await.contains("listening on")
        })
        .await;
        service
    }

    /// They are there before it listens, and so is its container.
    fn marks(&self) -> std::path::PathBuf {
        self.folder.path().join("orders.marks")
    }

    /// What was ordered, and under which tokens.
    fn book(&self) -> (Vec<String>, Vec<u64>) {
        let book = std::fs::read_to_string(Path::new(self.folder.path()).join("orders")).unwrap();
        let lines = book.lines().filter_map(|line| line.split_once(' '));
        lines.map(|(token, text)| (text.to_owned(), token.parse::<u64>().unwrap())).unzip()
    }

    async fn end(mut self) {
        docker(&["kill", &self.container]).await;
        timeout(PATIENCE, self.process.wait()).await.expect("an end in time").unwrap();
    }
}

/// A worker in a container of its own, that sends what it is told as orders.
struct Worker {
    container: String,
    process: Child,
    orders: ChildStdin,
    reports: Lines<BufReader<ChildStdout>>,
}

impl Worker {
    async fn start(three: &Three, service: &Service, name: &str) -> Self {
        let name = format!("{}-{name}", service.container);
        let mut command = container(three, &name, "order_worker");
        command.arg(&three.image.name);
        command.args([&format!("{}:8080", service.container), "--lock", "orders"]);
        let mut process = command.spawn().unwrap();
        let orders = process.stdin.take().unwrap();
        let reports = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { container: name, process, orders, reports }
    }

    async fn tell(&mut self, order: &str) {
        self.orders.write_all(format!("{order}\n").as_bytes()).await.unwrap();
        self.orders.flush().await.unwrap();
    }

    async fn says(&mut self) -> String {
        let line = timeout(PATIENCE, self.reports.next_line()).await.expect("a report in time").unwrap();
        line.expect("the worker has ended")
    }

    async fn does(&mut self, order: &str) -> String {
        self.tell(order).await;
        self.says().await
    }

    /// Ends with its orders.
    async fn end(mut self, code: i32) {
        drop(self.orders);
        let status = timeout(PATIENCE, self.process.wait()).await.expect("an end in time").unwrap();
        assert_eq!(status.code(), Some(code));
    }
}
