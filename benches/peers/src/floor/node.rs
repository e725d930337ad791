//! The floor's nodes: followers with plain blocking I/O, and a leader on one thread with another one for its disk.

use std::collections::{HashMap, VecDeque};
use std::io::{Read, Write};
use std::net::TcpListener as BlockingListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc as blocking;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc};

use super::log::Log;
use super::{ACQUIRE, Answer, BEAT, CHECK, CHECK_QUORUM, REQUEST, Request, answer, number};

const READ_BYTES: usize = 64 << 10;
/// Bytes before the requests of a batch: its number 8, their length 8.
const HEADER: usize = 16;
/// Nodes that must have a batch.
const MAJORITY: usize = 2;

/// Runs node `node` of three until it is killed; node 0 leads.
pub(crate) fn run(node: usize, folder: PathBuf, ports: [u16; 3]) -> Result<()> {
    if node > 0 {
        let port = ports.get(node).ok_or_else(|| anyhow!("a node is 0, 1 or 2"))?;
        return follow(*port, &folder);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(lead(ports, folder))
}

fn follow(port: u16, folder: &std::path::Path) -> Result<()> {
    let mut log = Log::open(folder)?;
    let listener = BlockingListener::bind(("127.0.0.1", port))?;
    loop {
        let (mut leader, _) = listener.accept()?;
        leader.set_nodelay(true)?;
        let mut requests = Vec::new();
        let mut header = [0; HEADER];
        while leader.read_exact(&mut header).is_ok() {
            requests.resize(usize::try_from(number(&header, 8))?, 0);
            leader.read_exact(&mut requests)?;
            if !requests.is_empty() {
                log.append(&requests)?;
            }
            leader.write_all(&header[..8])?;
        }
    }
}

type Answers = mpsc::UnboundedSender<Answer>;

struct Pending {
    request: Request,
    answers: Answers,
}

#[derive(Default)]
struct Lock {
    /// 0 when nobody.
    holder: u64,
    token: u64,
    queue: VecDeque<(u64, u64, Answers)>,
}

#[derive(Default)]
struct State {
    locks: HashMap<u128, Lock>,
    sessions: HashMap<u64, Instant>,
    index: u64,
}

/// What the leader's tasks have in common.
#[derive(Default)]
struct Leader {
    pending: Mutex<Vec<Pending>>,
    arrived: Notify,
    state: Mutex<State>,
}

async fn lead(ports: [u16; 3], folder: PathBuf) -> Result<()> {
    let (acknowledge, mut acknowledged) = mpsc::unbounded_channel();
    let disk = disk(Log::open(&folder)?, acknowledge.clone());
    let mut followers = Vec::new();
    for port in &ports[1..] {
        followers.push(follower(*port, acknowledge.clone()).await?);
    }
    let leader = Arc::new(Leader::default());
    let listener = TcpListener::bind(("127.0.0.1", ports[0])).await?;
    tokio::spawn(accept(listener, leader.clone()));
    // One batch is under way; the next one gathers meanwhile.
    for number in 1u64.. {
        let mut batch = std::mem::take(&mut *leader.pending.lock());
        while batch.is_empty() {
            leader.arrived.notified().await;
            batch = std::mem::take(&mut *leader.pending.lock());
        }
        let bytes = Arc::new(encode(number, &batch));
        let logged = bytes.len() > HEADER;
        if logged {
            disk.send((number, bytes.clone()))?;
        }
        for follower in &mut followers {
            follower.write_all(&bytes).await?;
        }
        // A batch of checks alone needs no flush: the leader counts for itself.
        let mut have = usize::from(!logged);
        while have < MAJORITY {
            let batch =
                acknowledged.recv().await.ok_or_else(|| anyhow!("the disk and all followers are gone"))?;
            have += usize::from(batch == number);
        }
        let mut state = leader.state.lock();
        batch.into_iter().for_each(|pending| state.apply(pending));
    }
    Ok(())
}

fn encode(number: u64, batch: &[Pending]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER + batch.len() * REQUEST);
    bytes.extend_from_slice(&number.to_le_bytes());
    bytes.extend_from_slice(&[0; 8]);
    let logged = batch.iter().filter(|pending| pending.request[8] != CHECK_QUORUM);
    logged.for_each(|pending| bytes.extend_from_slice(&pending.request));
    let length = (bytes.len() - HEADER) as u64;
    bytes[8..HEADER].copy_from_slice(&length.to_le_bytes());
    bytes
}

/// The leader's own disk, on a thread of its own.
fn disk(mut log: Log, acknowledge: mpsc::UnboundedSender<u64>) -> blocking::Sender<(u64, Arc<Vec<u8>>)> {
    let (batches, incoming) = blocking::channel::<(u64, Arc<Vec<u8>>)>();
    std::thread::spawn(move || {
        for (number, batch) in incoming {
            if let Err(error) = log.append(&batch[HEADER..]) {
                eprintln!("the disk failed: {error:#}");
                return;
            }
            let _ = acknowledge.send(number);
        }
    });
    batches
}

async fn follower(port: u16, acknowledge: mpsc::UnboundedSender<u64>) -> Result<OwnedWriteHalf> {
    let stream = loop {
        match TcpStream::connect(("127.0.0.1", port)).await {
            Ok(stream) => break stream,
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    };
    stream.set_nodelay(true)?;
    let (mut reader, writer) = stream.into_split();
    tokio::spawn(async move {
        let mut batch = [0; 8];
        while reader.read_exact(&mut batch).await.is_ok() {
            let _ = acknowledge.send(u64::from_le_bytes(batch));
        }
    });
    Ok(writer)
}

async fn accept(listener: TcpListener, leader: Arc<Leader>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let _ = stream.set_nodelay(true);
        let (reader, writer) = stream.into_split();
        let (answers, outgoing) = mpsc::unbounded_channel();
        tokio::spawn(write(writer, outgoing));
        tokio::spawn(read(reader, answers, leader.clone()));
    }
}

async fn write(mut writer: OwnedWriteHalf, mut answers: mpsc::UnboundedReceiver<Answer>) {
    let mut bytes = Vec::new();
    while let Some(answer) = answers.recv().await {
        bytes.clear();
        bytes.extend_from_slice(&answer);
        while let Ok(answer) = answers.try_recv() {
            bytes.extend_from_slice(&answer);
        }
        if writer.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

async fn read(mut reader: OwnedReadHalf, answers: Answers, leader: Arc<Leader>) {
    let mut bytes = vec![0; READ_BYTES];
    let mut filled = 0;
    loop {
        match reader.read(&mut bytes[filled..]).await {
            Ok(0) | Err(_) => return,
            Ok(more) => filled += more,
        }
        let whole = filled / REQUEST * REQUEST;
        let requests = bytes[..whole].chunks(REQUEST).filter_map(|bytes| bytes.first_chunk());
        let mut for_the_log = false;
        for request in requests {
            for_the_log |= leader.request(*request, &answers);
        }
        bytes.copy_within(whole..filled, 0);
        filled -= whole;
        if for_the_log {
            leader.arrived.notify_one();
        }
    }
}

impl Leader {
    /// Answers what needs no majority. Whether the request waits for the next batch.
    fn request(&self, request: Request, answers: &Answers) -> bool {
        let id = number(&request, 0);
        match request[8] {
            BEAT => {
                self.state.lock().sessions.insert(number(&request, 16), Instant::now());
                let _ = answers.send(answer(id, 0, 0));
                false
            }
            CHECK => {
                let current = self.state.lock().is_current(&request);
                let _ = answers.send(answer(id, u64::from(!current), 0));
                false
            }
            _ => {
                self.pending.lock().push(Pending { request, answers: answers.clone() });
                true
            }
        }
    }
}

fn lock_of(request: &Request) -> u128 {
    request[32..].first_chunk().map_or(0, |bytes| u128::from_le_bytes(*bytes))
}

impl State {
    fn is_current(&self, request: &Request) -> bool {
        let lock = self.locks.get(&lock_of(request));
        lock.is_some_and(|lock| lock.holder != 0 && lock.token == number(request, 24))
    }

    fn apply(&mut self, Pending { request, answers }: Pending) {
        let (id, holder, token) = (number(&request, 0), number(&request, 16), number(&request, 24));
        if request[8] == CHECK_QUORUM {
            let _ = answers.send(answer(id, u64::from(!self.is_current(&request)), 0));
            return;
        }
        self.index += 1;
        let lock = self.locks.entry(lock_of(&request)).or_default();
        if request[8] == ACQUIRE && lock.holder == 0 {
            (lock.holder, lock.token) = (holder, self.index);
            let _ = answers.send(answer(id, 0, self.index));
        } else if request[8] == ACQUIRE {
            lock.queue.push_back((id, holder, answers));
        } else if lock.holder == holder && lock.token == token {
            let _ = answers.send(answer(id, 0, 0));
            match lock.queue.pop_front() {
                Some((id, holder, answers)) => {
                    (lock.holder, lock.token) = (holder, self.index);
                    let _ = answers.send(answer(id, 0, self.index));
                }
                None => {
                    self.locks.remove(&lock_of(&request));
                }
            }
        } else {
            let _ = answers.send(answer(id, 1, 0));
        }
    }
}
