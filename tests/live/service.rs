//! The example service, in a process of its own.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use super::{Live, example, soon};

/// `fenced_service`, started again whenever it ends. Ended with the test.
pub(crate) struct Service {
    // Its group is killed first, and it is reaped then.
    child: Child,
    said: Lines<BufReader<ChildStdout>>,
    pub(crate) address: String,
    /// The order book.
    pub(crate) data: PathBuf,
    pid: PathBuf,
}

/// Writes down the process that runs, and begins the next one.
const AGAIN: &str = r#"pid=$1; shift; while :; do "$@" & echo $! > "$pid"; wait $!; done"#;

impl Service {
    /// Serves the order book `data` under `lock`; `more` are further flags.
    pub(crate) async fn start(live: &Live, lock: &str, data: &Path, more: &[&str]) -> Self {
        // An address of this process alone, so that nobody else gets the port between two starts.
        let [_, _, high, low] = std::process::id().to_be_bytes();
        let listen = format!("127.42.{high}.{low}");
        let port = std::net::TcpListener::bind((listen.as_str(), 0)).unwrap().local_addr().unwrap().port();
        let address = format!("{listen}:{port}");
        let pid = data.with_extension("pid");
        let mut command = Command::new("sh");
        command.args(["-c", AGAIN, "again"]).arg(&pid).arg(example("fenced_service"));
        command.args(["--listen", &address, "--endpoints", &live.cluster.endpoints().join(",")]);
        command.args(["--lock", lock, "--data"]).arg(data).args(more);
        let log = std::fs::File::create(data.with_extension("log")).unwrap();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        command.process_group(0).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut service = Self { child, said, address, data: data.to_owned(), pid };
        let line = soon("the service listens", service.said.next_line()).await.unwrap();
        assert_eq!(line, Some(format!("listening on http://{}", service.address)));
        service
    }

    /// A shell command that ends the process that runs, and returns when it is gone.
    pub(crate) fn restart(&self) -> String {
        let pid = self.pid.display();
        format!("p=$(cat {pid}) && kill $p && while kill -0 $p 2> /dev/null; do sleep 0.02; done")
    }

    /// What was ordered, in order, each after its token.
    pub(crate) fn book(&self) -> Vec<String> {
        std::fs::read_to_string(&self.data).unwrap_or_default().lines().map(str::to_owned).collect()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let group = self.child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        if let Some(group) = group {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}
