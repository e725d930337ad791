//! HTTP as a script's simplest tool speaks it.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// A node that runs answers at once.
const ANSWER_WAIT: Duration = Duration::from_secs(2);

/// An answer.
#[derive(Debug)]
pub(crate) struct Http {
    pub(crate) status: u16,
    /// In small letters.
    pub(crate) head: String,
    pub(crate) body: String,
}

/// Asks once; none when there is no answer.
pub(crate) async fn get(address: &str, path: &str) -> Option<Http> {
    tokio::time::timeout(ANSWER_WAIT, ask(address, path)).await.ok()?
}

async fn ask(address: &str, path: &str) -> Option<Http> {
    let mut stream = tokio::net::TcpStream::connect(address).await.ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some(Http { status, head: head.to_ascii_lowercase(), body: body.to_owned() })
}
