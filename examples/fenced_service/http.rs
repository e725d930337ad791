//! One request over plain HTTP.

use std::time::Duration;

use axum::body::Bytes;
use axum::http::Request;
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;

/// Bytes of an answer.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// For all of it.
const PATIENCE: Duration = Duration::from_secs(10);

/// Sends a request to `address`, host:port, and gives the answer's status and body.
pub(crate) async fn send(address: &str, request: Request<String>) -> anyhow::Result<(u16, String)> {
    tokio::time::timeout(PATIENCE, exchange(address, request)).await?
}

async fn exchange(address: &str, mut request: Request<String>) -> anyhow::Result<(u16, String)> {
    request.headers_mut().insert("host", address.parse()?);
    let stream = tokio::net::TcpStream::connect(address).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let answer = sender.send_request(request.map(|body| Full::new(Bytes::from(body)))).await?;
    let status = answer.status().as_u16();
    let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
    connection.abort();
    Ok((status, String::from_utf8(body.map_err(anyhow::Error::from_boxed)?.to_bytes().to_vec())?))
}
