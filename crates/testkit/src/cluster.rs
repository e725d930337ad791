//! A cluster of real processes on loopback, which a test may kill, stop and wake.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

static CLUSTERS: AtomicU32 = AtomicU32::new(0);

/// Nodes of one cluster, each a process with its own data directory.
pub struct ProcessCluster {
    directory: TempDir,
    binary: PathBuf,
    nodes: Vec<ProcessNode>,
    extra: Vec<String>,
}

/// One node.
pub struct ProcessNode {
    /// Its name.
    pub name: String,
    /// Where clients reach it.
    pub client_address: String,
    /// Where peers reach it.
    pub peer_address: String,
    child: Option<Child>,
    /// Put before the command, such as `strace` with its flags.
    wrapper: Vec<String>,
}

impl ProcessCluster {
    /// Prepares `count` nodes; none runs yet. `binary` is the program under test.
    ///
    /// # Errors
    ///
    /// When no directory can be made.
    pub fn new(binary: &Path, count: usize) -> io::Result<Self> {
        let directory = tempfile::tempdir()?;
        let cluster = CLUSTERS.fetch_add(1, Ordering::Relaxed);
        let nodes = (1..=count).map(|number| {
            let (client_address, peer_address) = addresses(cluster, number)?;
            Ok(ProcessNode {
                name: format!("n{number}"),
                client_address,
                peer_address,
                child: None,
                wrapper: Vec::new(),
            })
        });
        let nodes = nodes.collect::<io::Result<_>>()?;
        Ok(Self { directory, binary: binary.to_owned(), nodes, extra: Vec::new() })
    }

    /// Prepares and starts `count` nodes.
    ///
    /// # Errors
    ///
    /// When a process does not start.
    pub fn start(binary: &Path, count: usize) -> io::Result<Self> {
        let mut cluster = Self::new(binary, count)?;
        cluster.start_all()?;
        Ok(cluster)
    }

    /// Arguments that every node gets from its next start on.
    pub fn with_arguments(mut self, arguments: &[&str]) -> Self {
        self.extra = arguments.iter().map(|&argument| argument.to_owned()).collect();
        self
    }

    /// What stands before a node's command from its next start on.
    pub fn wrap(&mut self, node: usize, wrapper: Vec<String>) {
        self.nodes[node].wrapper = wrapper;
    }

    /// Starts every node that does not run.
    ///
    /// # Errors
    ///
    /// When a process does not start.
    pub fn start_all(&mut self) -> io::Result<()> {
        (0..self.nodes.len()).try_for_each(|node| self.start_node(node))
    }

    /// Starts one node, if it does not run.
    ///
    /// # Errors
    ///
    /// When the process does not start.
    pub fn start_node(&mut self, node: usize) -> io::Result<()> {
        if self.nodes[node].child.is_some() {
            return Ok(());
        }
        let members: Vec<_> = self.nodes.iter().map(|n| format!("{}={}", n.name, n.peer_address)).collect();
        let log = OpenOptions::new().create(true).append(true).open(self.log_path(node))?;
        let this = &self.nodes[node];
        let mut words: Vec<String> = this.wrapper.clone();
        words.push(self.binary.display().to_string());
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).args(["serve", "--name", &this.name, "--cluster", "test"]);
        command.args(["--members", &members.join(",")]);
        command.args(["--listen", &this.client_address, "--peer-listen", &this.peer_address]);
        command.arg("--data-dir").arg(self.data_directory(node));
        command.args(&self.extra);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn()?;
        self.nodes[node].child = Some(child);
        Ok(())
    }

    /// Its nodes.
    pub fn nodes(&self) -> &[ProcessNode] {
        &self.nodes
    }

    /// Where clients reach the nodes, in their order.
    pub fn endpoints(&self) -> Vec<String> {
        self.nodes.iter().map(|node| node.client_address.clone()).collect()
    }

    /// A node's data.
    pub fn data_directory(&self, node: usize) -> PathBuf {
        self.directory.path().join(&self.nodes[node].name)
    }

    /// Where all of it lives.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    fn log_path(&self, node: usize) -> PathBuf {
        self.directory.path().join(format!("{}.log", self.nodes[node].name))
    }

    /// What a node printed since the cluster began.
    pub fn log(&self, node: usize) -> String {
        let bytes = fs::read(self.log_path(node)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Its process, while it runs.
    pub fn pid(&self, node: usize) -> Option<u32> {
        self.nodes[node].child.as_ref().map(Child::id)
    }

    /// `kill -9`, and waits for its end.
    pub fn kill(&mut self, node: usize) {
        if let Some(mut child) = self.nodes[node].child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// `kill -9` of all, at once, and waits for their ends.
    pub fn kill_all(&mut self) {
        for node in 0..self.nodes.len() {
            self.signal(node, Signal::KILL);
        }
        for node in 0..self.nodes.len() {
            self.kill(node);
        }
    }

    /// Sends a signal.
    pub fn signal(&self, node: usize, signal: Signal) {
        let pid = self.pid(node).and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        if let Some(pid) = pid {
            let _ = kill_process(pid, signal);
        }
    }

    /// Stops the process in its tracks, as a suspended machine would.
    pub fn pause(&self, node: usize) {
        self.signal(node, Signal::STOP);
    }

    /// Lets it go on.
    pub fn wake(&self, node: usize) {
        self.signal(node, Signal::CONT);
    }

    /// Asks a node to end, and waits at most `wait` for it; its exit code, if it ended.
    pub fn terminate(&mut self, node: usize, wait: Duration) -> Option<i32> {
        self.signal(node, Signal::TERM);
        let until = std::time::Instant::now() + wait;
        loop {
            let child = self.nodes[node].child.as_mut()?;
            match child.try_wait() {
                Ok(Some(status)) => {
                    self.nodes[node].child = None;
                    return status.code();
                }
                Ok(None) if std::time::Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(20))
                }
                Ok(None) | Err(_) => return None,
            }
        }
    }

    /// Whether the process ended by itself, and its exit code.
    pub fn ended(&mut self, node: usize) -> Option<Option<i32>> {
        let child = self.nodes[node].child.as_mut()?;
        let status = child.try_wait().ok().flatten()?;
        self.nodes[node].child = None;
        Some(status.code())
    }
}

impl Drop for ProcessCluster {
    fn drop(&mut self) {
        self.kill_all();
        if std::thread::panicking() {
            for node in 0..self.nodes.len() {
                let log = self.log(node);
                let tail: Vec<_> = log.lines().rev().take(40).collect();
                let tail: Vec<_> = tail.into_iter().rev().collect();
                eprintln!("--- last lines of {}:\n{}", self.nodes[node].name, tail.join("\n"));
            }
        }
    }
}

/// Client and peer address of a node, of no other cluster of this process or of another one.
#[cfg(target_os = "linux")]
fn addresses(cluster: u32, number: usize) -> io::Result<(String, String)> {
    // All of 127/8 is loopback: a process takes a net of its own, so that no port is ever taken twice.
    let pid = std::process::id();
    let host =
        format!("127.{}.{}.{}", 1 + (pid >> 8) % 250, pid % 256, (cluster * 8 + number as u32) % 250 + 1);
    // The range above keeps clear of ports that the system hands out.
    let base = 7_170 + (cluster / 31 % 1_000) * 10;
    Ok((format!("{host}:{base}"), format!("{host}:{}", base + 1)))
}

/// Elsewhere only 127.0.0.1 is there: ports that were free a moment ago.
#[cfg(not(target_os = "linux"))]
fn addresses(_: u32, _: usize) -> io::Result<(String, String)> {
    let free = || -> io::Result<String> {
        Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string())
    };
    Ok((free()?, free()?))
}
