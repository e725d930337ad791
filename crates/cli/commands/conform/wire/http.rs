//! One request of HTTP/1.1 and its answer.

use http::header::HOST;
use http::{HeaderMap, Method, Request};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::{ANSWER_BYTES_MAX, Answer, Status, Url};

pub(super) fn request(
    url: &Url,
    method: &Method,
    path: &str,
    mut headers: HeaderMap,
    body: String,
) -> anyhow::Result<Request<Full<Bytes>>> {
    headers.insert(HOST, url.host.clone());
    let mut request = Request::new(Full::new(Bytes::from(body)));
    *request.method_mut() = method.clone();
    *request.uri_mut() = format!("{}{path}", url.prefix).parse()?;
    *request.headers_mut() = headers;
    Ok(request)
}

pub(super) async fn exchange(address: &str, request: Request<Full<Bytes>>) -> anyhow::Result<Answer> {
    let stream = TcpStream::connect(address).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let answered = async {
        let (head, body) = sender.send_request(request).await?.into_parts();
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await.map_err(anyhow::Error::from_boxed)?;
        let body = String::from_utf8_lossy(&body.to_bytes()).into_owned();
        Ok(Answer { status: Status::Http(head.status), body })
    };
    // The connection ends with its one answer, and is driven no longer than that.
    tokio::select! {
        answered = answered => answered,
        ended = connection => {
            ended?;
            Err(anyhow::anyhow!("the connection was closed"))
        }
    }
}
