//! Requests to the service under test, over plain HTTP, as its callers send them.

use std::time::Duration;

use http::header::HOST;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use palisade_fence::service::SEQUENCER_HEADER;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Bytes of an answer that are read.
const ANSWER_BYTES_MAX: usize = 8 << 20;

/// One kind of request: `POST /orders`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    method: Method,
    path: String,
}

impl Call {
    /// As it is typed.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (method, path) =
            text.trim().split_once(' ').ok_or("a request is METHOD PATH, such as POST /orders")?;
        let method = method.to_uppercase().parse().map_err(|_| format!("{method:?} is no method"))?;
        Self::new(method, path.trim())
    }

    /// A read, of which only the path is typed.
    pub(super) fn get(path: &str) -> Result<Self, String> {
        Self::new(Method::GET, path)
    }

    fn new(method: Method, path: &str) -> Result<Self, String> {
        if !path.starts_with('/') || path.parse::<Uri>().is_err() {
            return Err(format!("{path:?} is no path: it begins with a slash, and is encoded"));
        }
        Ok(Self { method, path: path.to_owned() })
    }
}

/// A header that every request gets, as it is typed.
pub(super) fn header(text: &str) -> Result<(HeaderName, HeaderValue), String> {
    let (name, value) = text.split_once(':').ok_or("a header is NAME: VALUE")?;
    let name: HeaderName = name.trim().parse().map_err(|_| format!("{name:?} is no header's name"))?;
    let value = value.trim().parse().map_err(|_| format!("the value of {name} is none"))?;
    Ok((name, value))
}

/// Where the service is: `http://host:port`, with or without a path that all others are below.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    host: HeaderValue,
    address: String,
    prefix: String,
}

impl Url {
    /// As it is typed.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let uri: Uri = text.parse().map_err(|error| format!("{error}"))?;
        if uri.scheme_str() != Some("http") {
            return Err("plain http:// only: name the service itself, behind whatever ends TLS".to_owned());
        }
        let authority = uri.authority().ok_or("there is no host in it")?;
        if uri.query().is_some() {
            return Err("it has a query: that belongs into --write, --claim and --read".to_owned());
        }
        let address = match authority.port_u16() {
            Some(_) => authority.as_str().to_owned(),
            None => format!("{authority}:80"),
        };
        let host = authority.as_str().parse().map_err(|_| "the host is none".to_owned())?;
        Ok(Self { host, address, prefix: uri.path().trim_end_matches('/').to_owned() })
    }
}

/// What was answered.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) body: String,
}

/// The service under test.
#[derive(Clone, Debug)]
pub(super) struct Service {
    pub(super) url: Url,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    /// For one answer.
    pub(super) patience: Duration,
}

impl Service {
    /// Whether something listens there.
    pub(super) async fn listens(&self) -> Result<(), String> {
        match timeout(self.patience, TcpStream::connect(&self.url.address)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(format!("nothing listens at {}: {error}", self.url.address)),
            Err(_) => Err(format!("{} takes no connection within {:?}", self.url.address, self.patience)),
        }
    }

    /// Sends one request on a connection of its own. An error is no answer.
    pub(super) async fn send(
        &self,
        call: &Call,
        sequencers: &[&str],
        body: String,
    ) -> Result<Answer, String> {
        let request = self.request(call, sequencers, body)?;
        match timeout(self.patience, self.exchange(request)).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(format!("no answer: {error}")),
            Err(_) => Err(format!("no answer within {:?}", self.patience)),
        }
    }

    fn request(
        &self,
        call: &Call,
        sequencers: &[&str],
        body: String,
    ) -> Result<Request<Full<Bytes>>, String> {
        let uri = format!("{}{}", self.url.prefix, call.path);
        let mut request = Request::new(Full::new(Bytes::from(body)));
        *request.method_mut() = call.method.clone();
        *request.uri_mut() = uri.parse().map_err(|_| format!("{uri:?} is no path"))?;
        let headers: &mut HeaderMap = request.headers_mut();
        headers.insert(HOST, self.url.host.clone());
        for (name, value) in &self.headers {
            headers.append(name, value.clone());
        }
        for text in sequencers {
            let value = HeaderValue::from_str(text).map_err(|_| "a sequencer is no header".to_owned())?;
            headers.append(SEQUENCER_HEADER, value);
        }
        Ok(request)
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> anyhow::Result<Answer> {
        let stream = TcpStream::connect(&self.url.address).await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let answered = async {
            let (head, body) = sender.send_request(request).await?.into_parts();
            let body =
                Limited::new(body, ANSWER_BYTES_MAX).collect().await.map_err(anyhow::Error::from_boxed)?;
            Ok(Answer { status: head.status, body: String::from_utf8_lossy(&body.to_bytes()).into_owned() })
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_plain_http_and_may_have_a_path() {
        let url = Url::parse("http://127.0.0.1:8080/v1/").unwrap();
        assert_eq!((url.address.as_str(), url.prefix.as_str()), ("127.0.0.1:8080", "/v1"));
        assert_eq!(Url::parse("http://orders").unwrap().address, "orders:80");
        for bad in ["https://orders", "orders:8080", "127.0.0.1:8080/x", "http://orders/?a=b", ""] {
            assert!(Url::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_request_is_a_method_and_a_path() {
        let call = Call::parse("put /orders/7?sync=1").unwrap();
        assert_eq!((call.method.as_str(), call.path.as_str()), ("PUT", "/orders/7?sync=1"));
        for bad in ["/orders", "POST orders", "POST /a b", "P@ST /orders"] {
            assert!(Call::parse(bad).is_err(), "{bad}");
        }
        assert!(header("Authorization: Bearer a:b").is_ok_and(|(_, value)| value == "Bearer a:b"));
        assert!(header("nothing").is_err());
    }
}
