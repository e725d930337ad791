//! The failure that locks alone cannot stop, with containers: a worker is frozen past its lease and thaws in the middle
//! of its work. The file that it writes to, on a volume that it shares with another worker, compares tokens.

use std::path::Path;
use std::process::Stdio;

use palisade_fence::adapters::file::FileResource;
use rustix::process::{getgid, getuid};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::PATIENCE;
use crate::engine::docker;
use crate::three::Three;

pub(crate) async fn a_write_of_a_worker_that_was_paused_past_its_lease_is_refused(three: &Three) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("orders");
    FileResource::create(&file).unwrap();
    let mut first = Worker::start(three, "first", folder.path()).await;
    let mut second = Worker::start(three, "second", folder.path()).await;

    let held = token(&first.does(json!({"order": "acquire"})).await);
    assert_eq!(first.does(json!({"order": "write", "text": "A1"})).await["report"], "wrote");
    docker(&["pause", &first.container]).await;
    // Granted once the first one's lease has ended: it cannot renew it.
    let newer = token(&second.does(json!({"order": "acquire"})).await);
    assert!(newer > held, "{newer} after {held}");
    assert_eq!(second.does(json!({"order": "write", "text": "B1"})).await["report"], "wrote");

    // Its next write is on its way when it wakes up.
    first.tell(json!({"order": "write", "text": "A2"})).await;
    docker(&["unpause", &first.container]).await;
    assert_eq!(first.says().await, json!({"report": "refused", "token": held, "mark": newer}));

    let written = std::fs::read_to_string(&file).unwrap();
    assert!(written.contains("A1") && written.contains("B1") && !written.contains("A2"), "{written}");
    first.end().await;
    second.end().await;
}

fn token(report: &Value) -> u64 {
    report["token"].as_u64().unwrap_or_else(|| panic!("no token: {report}"))
}

/// A worker in a container of its own, on the nodes' network, that does what it is told.
struct Worker {
    container: String,
    process: Child,
    orders: ChildStdin,
    reports: Lines<BufReader<ChildStdout>>,
}

impl Worker {
    async fn start(three: &Three, name: &str, folder: &Path) -> Self {
        let container = format!("{}-{name}", three.network());
        let (user, volume) =
            (format!("{}:{}", getuid().as_raw(), getgid().as_raw()), format!("{}:/shared", folder.display()));
        let mut command = Command::new("docker");
        command.args(["run", "--rm", "--interactive", "--name", &container, "--network", &three.network()]);
        command.args(["--user", &user, "--volume", &volume]);
        command.args(["--env", "PALISADE_ENDPOINTS=n1:7170,n2:7170,n3:7170", &three.image.name]);
        command.args(["demo-worker", "--name", name, "--lock", "orders", "--ttl-ms", "2000"]);
        command.args(["--file", "/shared/orders", "--fenced"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut process = command.spawn().unwrap();
        let orders = process.stdin.take().unwrap();
        let reports = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut worker = Self { container, process, orders, reports };
        assert_eq!(worker.says().await, json!({"report": "ready"}));
        worker
    }

    async fn tell(&mut self, order: Value) {
        self.orders.write_all(format!("{order}\n").as_bytes()).await.unwrap();
        self.orders.flush().await.unwrap();
    }

    async fn says(&mut self) -> Value {
        let line = timeout(PATIENCE, self.reports.next_line()).await.expect("a report in time").unwrap();
        serde_json::from_str(&line.expect("the worker has ended")).unwrap()
    }

    async fn does(&mut self, order: Value) -> Value {
        self.tell(order).await;
        self.says().await
    }

    /// Ends with its orders.
    async fn end(mut self) {
        drop(self.orders);
        let status = timeout(PATIENCE, self.process.wait()).await.expect("an end in time").unwrap();
        assert!(status.success(), "{status}");
    }
}
