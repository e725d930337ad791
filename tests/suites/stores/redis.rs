use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use palisade_core::holding::Holding;
use palisade_core::ids::{LockName, Slot};
use palisade_core::token::Token;
use palisade_fence::adapters::redis::{RedisMarks, SCRIPT};
use palisade_fence::admit::HighWaterMark;
use palisade_fence::conformance::{SigningCluster, Subject, check};
use palisade_fence::error::FenceError;
use palisade_fence::guard::{Guard, Scope};
use palisade_fence::verifier::SignedFloor;
use redis::{Cmd, Commands, Connection, Value, cmd};
use tempfile::TempDir;

use crate::random_runs;
use crate::server::{self, Server};

/// The one that is running, or a new one.
fn running() -> Arc<Server> {
    static RUNNING: Mutex<Weak<Server>> = Mutex::new(Weak::new());
    server::shared(&RUNNING, start)
}

pub(crate) fn start() -> Server {
    let folder = TempDir::new().unwrap();
    let (data, socket) = (folder.path().to_owned(), folder.path().join("redis.sock"));
    let start = move || {
        let mut command = Command::new("redis-server");
        command.args(["--port", "0", "--save", "", "--appendonly", "yes", "--appendfsync", "always"]);
        command.arg("--unixsocket").arg(data.join("redis.sock")).arg("--dir").arg(&data);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    Server::run(folder, start, move || {
        let client = redis::Client::open(format!("unix://{}", socket.display())).unwrap();
        client
            .get_connection()
            .is_ok_and(|mut connection| redis::cmd("PING").query::<String>(&mut connection).is_ok())
    })
}

struct Lines {
    guard: Guard<RedisMarks>,
    scope: Scope,
    marks: String,
    list: String,
    server: Arc<Server>,
}

fn connect(server: &Server) -> Connection {
    let socket = server.folder.path().join("redis.sock");
    redis::Client::open(format!("unix://{}", socket.display())).unwrap().get_connection().unwrap()
}

fn lines(scope: Scope) -> Lines {
    static SUBJECTS: AtomicU64 = AtomicU64::new(0);
    at(running(), SUBJECTS.fetch_add(1, Ordering::Relaxed), scope)
}

fn at(server: Arc<Server>, subject: u64, scope: Scope) -> Lines {
    let (marks, list) = (format!("{{s{subject}}}:marks"), format!("{{s{subject}}}:orders"));
    let guard = Guard::new(RedisMarks::create(&mut connect(&server), &marks).unwrap(), scope.clone());
    Lines { guard, scope, marks, list, server }
}

impl Lines {
    fn connect(&self) -> Connection {
        connect(&self.server)
    }

    fn write(&self, holding: &dyn Holding, commands: &[Cmd]) -> Result<Vec<Value>, FenceError> {
        self.guard.write(&mut self.connect(), holding, &[&self.list], commands)
    }
}

impl Subject for Lines {
    fn claim(&self, holding: &dyn Holding) -> Result<(), FenceError> {
        self.guard.claim(&mut self.connect(), holding)
    }

    fn append(&self, holding: &dyn Holding, line: &str) -> Result<(), FenceError> {
        self.write(holding, &[cmd("RPUSH").arg(&self.list).arg(line).to_owned()]).map(drop)
    }

    fn raise(&self, floor: &SignedFloor) -> Result<HighWaterMark, FenceError> {
        self.guard.raise(&mut self.connect(), floor)
    }

    fn lines(&self) -> Vec<String> {
        self.connect().lrange(&self.list, 0, -1).unwrap()
    }

    fn reopen(self) -> Self {
        let marks = RedisMarks::open(&mut self.connect(), &self.marks).unwrap();
        Self { guard: Guard::new(marks, self.scope.clone()), ..self }
    }

    fn append_past_the_guard(&self, line: &str) {
        let _: i64 = self.connect().rpush(&self.list, line).unwrap();
    }

    // The types leave no way; Redis itself knows of no such rule.
    fn append_bare(&self, _: &str) -> Option<Result<(), FenceError>> {
        None
    }

    // Comparison and commands are one script: nobody can die in its middle.
    fn die_before_the_commit(self, _: &dyn Holding, _: &str) -> Option<Self> {
        None
    }

    fn lose_marks(self) -> Option<Self> {
        let _: i64 = self.connect().del(&self.marks).unwrap();
        let opened = RedisMarks::open(&mut self.connect(), &self.marks).map(drop);
        assert!(matches!(opened, Err(FenceError::NoMarks { .. })), "{opened:?}");
        Some(self)
    }
}

#[test]
fn redis_passes() {
    check(lines);
}

#[test]
fn redis_is_fenced_in_random_runs() {
    random_runs("Redis", lines);
}

fn own() -> (SigningCluster, Lines) {
    let cluster = SigningCluster::new(1);
    let scope = Scope::new(cluster.id(), LockName::new("a").unwrap());
    (cluster, lines(scope))
}

#[test]
fn commands_are_answered_in_order_and_stop_at_one_that_fails() {
    let (cluster, subject) = own();
    let holder = cluster.exclusive("a", 34);
    let push = |line: &str| cmd("RPUSH").arg(&subject.list).arg(line).to_owned();
    let read = cmd("LRANGE").arg(&subject.list).arg(0).arg(-1).to_owned();
    let nothing = cmd("LINDEX").arg(&subject.list).arg(9).to_owned();
    let answers = subject.write(&holder, &[push("one"), nothing, read]).unwrap();
    let line = Value::BulkString(b"one".to_vec());
    assert_eq!(answers, [Value::Int(1), Value::Nil, Value::Array(vec![line])]);
    let wrong = cmd("INCR").arg(&subject.list).to_owned();
    let failed = subject.write(&holder, &[push("two"), wrong, push("never")]);
    assert!(
        matches!(&failed, Err(FenceError::Effect(why)) if why.to_string().contains("WRONGTYPE")),
        "{failed:?}"
    );
    assert_eq!(subject.lines(), ["one", "two"], "Redis takes nothing back");
    assert!(holder.check().is_ok());
}

#[test]
fn any_bytes_go_through_the_script() {
    let (cluster, subject) = own();
    let bytes: Vec<u8> = (0..=255).collect();
    let push = cmd("RPUSH").arg(&subject.list).arg(&bytes).arg("").to_owned();
    subject.write(&cluster.exclusive("a", 34), &[push]).unwrap();
    let read: Vec<Vec<u8>> = subject.connect().lrange(&subject.list, 0, -1).unwrap();
    assert_eq!(read, [bytes, Vec::new()]);
}

/// A program of another language: it knows the script and nothing of this library.
#[test]
fn the_plain_script_is_fenced_alike() {
    let (cluster, subject) = own();
    subject.append(&cluster.exclusive("a", 34), "by the library").unwrap();
    let write = |token: u64| -> Vec<Value> {
        cmd("EVAL")
            .arg(SCRIPT)
            .arg(2)
            .arg(&[&subject.marks, &subject.list])
            .arg(format!("{}/0/a", cluster.id()))
            .arg(token)
            .arg(0)
            .arg(3)
            .arg(&["RPUSH", &subject.list, "by the script"])
            .query(&mut subject.connect())
            .unwrap()
    };
    let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
    assert_eq!(write(33), [text("stale"), text("34")]);
    assert_eq!(write(9_007_199_254_740_991)[0], text("admitted"));
    assert_eq!(write(9_007_199_254_740_990), [text("stale"), text("9007199254740991")]);
    assert!(subject.append(&cluster.exclusive("a", 34), "stale").unwrap_err().is_stale());
    assert_eq!(subject.lines(), ["by the library", "by the script"]);
}

#[test]
fn a_mark_that_is_no_number_admits_nobody_until_it_is_reset() {
    let (cluster, subject) = own();
    let lock = LockName::new("a").unwrap();
    let mark = Token::new(34).map(HighWaterMark);
    let mut connection = subject.connect();
    let _: i64 = connection.hset(&subject.marks, format!("{}/0/a", cluster.id()), "many").unwrap();
    let refused = subject.claim(&cluster.exclusive("a", 90));
    assert!(matches!(refused, Err(FenceError::Damaged { .. })), "{refused:?}");
    assert!(subject.guard.mark(&mut connection, &lock, Slot(0)).is_err());
    subject.guard.reset_mark(&mut connection, &lock, Slot(0), mark).unwrap();
    assert_eq!(subject.guard.mark(&mut connection, &lock, Slot(0)).unwrap(), mark);
    subject.append(&cluster.exclusive("a", 34), "true holder").unwrap();
    subject.guard.reset_mark(&mut connection, &lock, Slot(0), None).unwrap();
    assert_eq!(subject.guard.mark(&mut connection, &lock, Slot(0)).unwrap(), None);
}

/// With `appendfsync always`, as the page of this adapter asks for.
#[test]
fn marks_are_made_once_and_survive_a_crash_of_the_server() {
    let server = Arc::new(start());
    let cluster = SigningCluster::new(1);
    let subject = at(Arc::clone(&server), 0, Scope::new(cluster.id(), LockName::new("a").unwrap()));
    let again = RedisMarks::create(&mut subject.connect(), &subject.marks).map(drop);
    assert!(matches!(again, Err(FenceError::MarksExist { .. })), "{again:?}");
    subject.append(&cluster.exclusive("a", 34), "before").unwrap();
    subject.claim(&cluster.exclusive("a", 41)).unwrap();
    server.crash_and_start();
    let subject = subject.reopen();
    assert!(subject.append(&cluster.exclusive("a", 40), "stale").unwrap_err().is_stale());
    subject.append(&cluster.exclusive("a", 41), "after").unwrap();
    assert_eq!(subject.lines(), ["before", "after"]);
}
