//! Servers that live as long as a test needs them, in a folder of their own.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

/// How often it is asked whether a server is up: for a minute at most.
const PATIENCE: u32 = 1_200;
const PAUSE: Duration = Duration::from_millis(50);

/// A running server.
pub(crate) struct Server {
    start: Box<dyn Fn() -> Command + Send + Sync>,
    is_up: Box<dyn Fn() -> bool + Send + Sync>,
    child: Mutex<Child>,
    pub(crate) folder: TempDir,
}

impl Server {
    pub(crate) fn run(
        folder: TempDir,
        start: impl Fn() -> Command + Send + Sync + 'static,
        is_up: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Self {
        let child = Mutex::new(start().spawn().unwrap());
        let server = Self { start: Box::new(start), is_up: Box::new(is_up), child, folder };
        server.wait_until_up();
        server
    }

    fn wait_until_up(&self) {
        for _ in 0..PATIENCE {
            if (self.is_up)() {
                return;
            }
            assert!(
                self.child.lock().unwrap().try_wait().unwrap().is_none(),
                "the server ended at its start"
            );
            thread::sleep(PAUSE);
        }
        panic!("the server does not come up");
    }

    /// As a crash does: nothing is written any more. Then the same again.
    pub(crate) fn crash_and_start(&self) {
        let mut child = self.child.lock().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        // PostgreSQL's other processes notice by themselves; a new one waits for them.
        for _ in 0..PATIENCE {
            *child = (self.start)().spawn().unwrap();
            thread::sleep(PAUSE);
            if child.try_wait().unwrap().is_none() {
                break;
            }
        }
        drop(child);
        self.wait_until_up();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let child = self.child.get_mut().unwrap_or_else(PoisonError::into_inner);
        let stopped = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        if !stopped.is_ok_and(|status| status.success()) {
            let _ = child.kill();
        }
        let _ = child.wait();
    }
}

/// The one that is running, or a new one.
pub(crate) fn shared(running: &Mutex<Weak<Server>>, start: impl FnOnce() -> Server) -> Arc<Server> {
    let mut running = running.lock().unwrap_or_else(PoisonError::into_inner);
    running.upgrade().unwrap_or_else(|| {
        let server = Arc::new(start());
        *running = Arc::downgrade(&server);
        server
    })
}

pub(crate) fn postgres() -> Arc<Server> {
    static RUNNING: Mutex<Weak<Server>> = Mutex::new(Weak::new());
    shared(&RUNNING, start_postgres)
}

/// The newest that is installed.
fn postgres_program(name: &str) -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let mut folders: Vec<(u32, PathBuf)> = versions
        .filter_map(|version| {
            let path = version.ok()?.path();
            Some((path.file_name()?.to_str()?.parse().ok()?, path.join("bin").join(name)))
        })
        .collect();
    folders.sort();
    folders.pop().map_or_else(|| PathBuf::from(name), |(_, program)| program)
}

/// PostgreSQL refuses to run as root.
fn id(of: &str) -> u32 {
    let output = Command::new("id").args([of, "postgres"]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
}

fn as_postgres(program: &str) -> Command {
    let mut command = Command::new(postgres_program(program));
    let me = Command::new("id").arg("-u").output().unwrap().stdout;
    if me.trim_ascii() == b"0" {
        command.uid(id("-u")).gid(id("-g"));
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

pub(crate) fn start_postgres() -> Server {
    let folder = TempDir::new().unwrap();
    if Command::new("chown").arg("postgres").arg(folder.path()).status().is_ok_and(|chown| !chown.success()) {
        println!("not root: PostgreSQL runs as the present user");
    }
    let data = folder.path().join("data");
    let made = as_postgres("initdb")
        .current_dir(folder.path())
        .args(["-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8", "-D"])
        .arg(&data)
        .status()
        .unwrap();
    assert!(made.success(), "initdb: {made}");
    let socket = folder.path().to_owned();
    let start = {
        let socket = socket.clone();
        move || {
            let mut command = as_postgres("postgres");
            command.current_dir(&socket).arg("-D").arg(&data).arg("-k").arg(&socket);
            command.args(["-c", "listen_addresses=", "-c", "max_connections=200"]);
            command
        }
    };
    Server::run(folder, start, move || psql(&socket, "SELECT 1").is_some())
}

/// What the program says that everybody has; None where it fails.
pub(crate) fn psql(socket: &Path, sql: &str) -> Option<String> {
    let output = Command::new("psql")
        .args(["-X", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-d", "postgres", "-h"])
        .arg(socket)
        .args(["-c", sql])
        .output()
        .unwrap();
    output.status.success().then(|| String::from_utf8(output.stdout).unwrap().trim().to_owned())
}
