//! HTTP as a script's simplest tool speaks it.

use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// A node that runs answers at once, unless it is asked to wait.
const ANSWER_WAIT: Duration = Duration::from_secs(10);

/// An answer.
#[derive(Debug)]
pub(crate) struct Http {
    pub(crate) status: u16,
    /// In small letters.
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Http {
    /// The body, which is JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Asks once; none when there is no answer.
pub(crate) async fn get(address: &str, path: &str) -> Option<Http> {
    send(address, &format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")).await
}

/// Sends a document once; none when there is no answer.
pub(crate) async fn post(address: &str, path: &str, body: &Value) -> Option<Http> {
    post_as(address, path, "application/json", &body.to_string()).await
}

/// Sends a body of any kind.
pub(crate) async fn post_as(address: &str, path: &str, kind: &str, body: &str) -> Option<Http> {
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: {kind}\r\nContent-Length: {length}"
    );
    send(address, &format!("{head}\r\n\r\n{body}")).await
}

async fn send(address: &str, request: &str) -> Option<Http> {
    tokio::time::timeout(ANSWER_WAIT, ask(address, request)).await.ok()?
}

async fn ask(address: &str, request: &str) -> Option<Http> {
    let mut stream = tokio::net::TcpStream::connect(address).await.ok()?;
    // A node that has heard enough may close before it read everything; what it said counts.
    let _ = stream.write_all(request.as_bytes()).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8(answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some(Http { status, head: head.to_ascii_lowercase(), body: body.to_owned() })
}
