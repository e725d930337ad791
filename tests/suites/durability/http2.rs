//! The HTTP/2 frames and gRPC messages that a traced node read and wrote on the connections that it accepted.
//!
//! So an answer is tied to its request by connection and stream, not by guesses on time or size. Frames are taken
//! apart as far as the suite needs; header blocks are not read.

use std::collections::BTreeMap;

use super::strace::Call;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;

/// A frame. `at`: of one that was read, the line at which the node had all of it; of one that was written, the line at
/// which its first byte began to leave.
struct Frame {
    kind: u8,
    stream: u32,
    payload: Vec<u8>,
    at: usize,
}

/// A gRPC message, and the line at which the node had all of it, or began to send it.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) bytes: Vec<u8>,
    pub(crate) at: usize,
}

/// One call on a connection that the node accepted.
#[derive(Debug, Default)]
pub(crate) struct Exchange {
    /// What the node read.
    pub(crate) requests: Vec<Message>,
    /// What it answered.
    pub(crate) answers: Vec<Message>,
    /// The line at which the first byte of any answer, headers included, began to leave.
    pub(crate) answered: Option<usize>,
}

/// Every gRPC call that the node took at `address`.
pub(crate) fn exchanges(calls: &[Call], address: &str) -> Vec<Exchange> {
    let accepted = format!("TCP:[{address}->");
    let mut connections: BTreeMap<&str, Vec<&Call>> = BTreeMap::new();
    for call in calls.iter().filter(|call| call.on.starts_with(&accepted)) {
        connections.entry(&call.on).or_default().push(call);
    }
    connections.values().flat_map(|calls| streams(calls)).collect()
}

fn streams(calls: &[&Call]) -> Vec<Exchange> {
    let read = calls.iter().filter(|call| call.reads()).map(|call| (call.bytes(), call.ended)).collect();
    let written = calls.iter().filter(|call| call.writes()).map(|call| (call.bytes(), call.began)).collect();
    let (read, written): (Vec<_>, Vec<_>) = (read, written);
    if !read.iter().flat_map(|(bytes, _)| *bytes).take(PREFACE.len()).eq(PREFACE) {
        return Vec::new();
    }
    let mut found: BTreeMap<u32, (Vec<Frame>, Vec<Frame>)> = BTreeMap::new();
    for frame in frames(&read, PREFACE.len(), Edge::Last) {
        found.entry(frame.stream).or_default().0.push(frame);
    }
    for frame in frames(&written, 0, Edge::First) {
        found.entry(frame.stream).or_default().1.push(frame);
    }
    let calls = found.into_iter().filter(|(stream, _)| *stream != 0);
    calls
        .map(|(_, (read, written))| Exchange {
            requests: messages(&read, Edge::Last),
            answers: messages(&written, Edge::First),
            answered: written.iter().find(|frame| matches!(frame.kind, DATA | HEADERS)).map(|frame| frame.at),
        })
        .collect()
}

/// Which byte of a thing decides where it is.
#[derive(Clone, Copy)]
enum Edge {
    First,
    Last,
}

/// Bytes that came or went in pieces, and the place of each piece.
struct Pieces {
    bytes: Vec<u8>,
    /// Where each piece ends, and its line.
    ends: Vec<(usize, usize)>,
}

impl Pieces {
    fn new<'a>(pieces: impl Iterator<Item = (&'a [u8], usize)>) -> Self {
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        for (piece, at) in pieces {
            bytes.extend_from_slice(piece);
            ends.push((bytes.len(), at));
        }
        Self { bytes, ends }
    }

    /// The line of a byte.
    fn line(&self, from: usize, to: usize, edge: Edge) -> usize {
        let byte = match edge {
            Edge::First => from,
            Edge::Last => to - 1,
        };
        self.ends[self.ends.partition_point(|(end, _)| *end <= byte)].1
    }
}

fn frames(pieces: &[(&[u8], usize)], skipped: usize, edge: Edge) -> Vec<Frame> {
    let all = Pieces::new(pieces.iter().copied());
    let mut frames = Vec::new();
    let mut from = skipped;
    while let Some(head) = all.bytes.get(from..from + 9) {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]) & 0x7fff_ffff;
        let to = from + 9 + length;
        let Some(payload) = all.bytes.get(from + 9..to) else { break };
        frames.push(Frame { kind: head[3], stream, payload: payload.to_vec(), at: all.line(from, to, edge) });
        from = to;
    }
    frames
}

fn messages(frames: &[Frame], edge: Edge) -> Vec<Message> {
    let data = frames.iter().filter(|frame| frame.kind == DATA);
    let all = Pieces::new(data.map(|frame| (frame.payload.as_slice(), frame.at)));
    let mut messages = Vec::new();
    let mut from = 0;
    while let Some(head) = all.bytes.get(from..from + 5) {
        assert_eq!(head[0], 0, "a compressed message");
        let to = from + 5 + u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let Some(bytes) = all.bytes.get(from + 5..to) else { break };
        messages.push(Message { bytes: bytes.to_vec(), at: all.line(from, to, edge) });
        from = to;
    }
    messages
}
