//! Requests to the service under test, as its callers send them: over plain HTTP/1.1, or as calls of gRPC.

mod grpc;
mod http;
mod message;

use std::fmt;
use std::time::Duration;

use ::http::uri::PathAndQuery;
use ::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use palisade_fence::service::SEQUENCER_HEADER;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tonic::Code;

/// Bytes of an answer that are read.
const ANSWER_BYTES_MAX: usize = 8 << 20;

/// How a service is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http,
    Grpc,
}

/// One kind of request: `POST /orders`, or `orders.v1.Orders/Append`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Http { method: Method, path: String },
    Grpc(PathAndQuery),
}

impl Call {
    /// As it is typed.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let Some((method, path)) = text.trim().split_once(' ') else { return Self::grpc(text.trim()) };
        let method = method.to_uppercase().parse().map_err(|_| format!("{method:?} is no method"))?;
        Self::http(method, path.trim())
    }

    /// A read, of which over HTTP the path alone is typed.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        if text.starts_with('/') { Self::http(Method::GET, text) } else { Self::grpc(text) }
    }

    fn http(method: Method, path: &str) -> Result<Self, String> {
        if !path.starts_with('/') || path.parse::<Uri>().is_err() {
            return Err(format!("{path:?} is no path: it begins with a slash, and is encoded"));
        }
        Ok(Self::Http { method, path: path.to_owned() })
    }

    fn grpc(text: &str) -> Result<Self, String> {
        let word = |word: &str| {
            let fits = |c: char| c.is_ascii_alphanumeric() || "._".contains(c);
            !word.is_empty() && word.chars().all(fits)
        };
        let named = text.split_once('/').is_some_and(|(service, method)| word(service) && word(method));
        named.then(|| format!("/{text}").parse().ok()).flatten().map(Self::Grpc).ok_or_else(|| {
            format!("{text:?} is neither METHOD PATH, such as POST /orders, nor package.Service/Method")
        })
    }

    pub(super) fn protocol(&self) -> Protocol {
        match self {
            Self::Http { .. } => Protocol::Http,
            Self::Grpc(_) => Protocol::Grpc,
        }
    }
}

/// A header, or metadata, that every request gets, as it is typed.
pub(super) fn header(text: &str) -> Result<(HeaderName, HeaderValue), String> {
    let (name, value) = text.split_once(':').ok_or("a header is NAME: VALUE")?;
    let name: HeaderName = name.trim().parse().map_err(|_| format!("{name:?} is no header's name"))?;
    let value = value.trim().parse().map_err(|_| format!("the value of {name} is none"))?;
    Ok((name, value))
}

/// Where the service is: `http://host:port`, with or without a path that all others are below, or `grpc://host:port`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    pub(super) protocol: Protocol,
    host: HeaderValue,
    address: String,
    prefix: String,
}

impl Url {
    /// As it is typed.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let uri: Uri = text.parse().map_err(|error| format!("{error}"))?;
        let protocol = match uri.scheme_str() {
            Some("http") => Protocol::Http,
            Some("grpc") => Protocol::Grpc,
            Some(_) | None => {
                return Err(
                    "plain http:// or grpc:// only: name the service itself, behind whatever ends TLS"
                        .to_owned(),
                );
            }
        };
        let authority = uri.authority().ok_or("there is no host in it")?;
        if uri.query().is_some() {
            return Err("it has a query: that belongs into --write, --claim and --read".to_owned());
        }
        let prefix = uri.path().trim_end_matches('/').to_owned();
        let address = match (protocol, authority.port_u16()) {
            (_, Some(_)) => authority.as_str().to_owned(),
            (Protocol::Http, None) => format!("{authority}:80"),
            (Protocol::Grpc, None) => return Err("there is no port in it: grpc://host:port".to_owned()),
        };
        if protocol == Protocol::Grpc && !prefix.is_empty() {
            return Err("a gRPC service is named by its host and port alone: grpc://host:port".to_owned());
        }
        let host = authority.as_str().parse().map_err(|_| "the host is none".to_owned())?;
        Ok(Self { protocol, host, address, prefix })
    }
}

/// How a request was answered, in the words of its protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Http(StatusCode),
    Grpc(Code),
}

impl Status {
    pub(super) fn protocol(self) -> Protocol {
        match self {
            Self::Http(_) => Protocol::Http,
            Self::Grpc(_) => Protocol::Grpc,
        }
    }

    pub(super) fn is_success(self) -> bool {
        match self {
            Self::Http(status) => status.is_success(),
            Self::Grpc(code) => code == Code::Ok,
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http(status) => status.fmt(f),
            Self::Grpc(code) => f.write_str(&code_name(*code)),
        }
    }
}

/// As the gRPC protocol spells it: `FAILED_PRECONDITION`.
pub(super) fn code_name(code: Code) -> String {
    let mut name = String::new();
    for letter in format!("{code:?}").chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_uppercase());
    }
    name
}

/// What was answered.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) status: Status,
    /// As text: of a message of gRPC what is text in it, of a refusal its message.
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

    /// Whether this can be sent at all: in gRPC a body is a message as [`message`] has it.
    pub(super) fn takes(&self, body: &str) -> Result<(), String> {
        match self.url.protocol {
            Protocol::Http => Ok(()),
            Protocol::Grpc => message::encode(body).map(drop),
        }
    }

    /// Sends one request on a connection of its own. An error is no answer.
    pub(super) async fn send(
        &self,
        call: &Call,
        sequencers: &[&str],
        body: String,
    ) -> Result<Answer, String> {
        let headers = self.headers(sequencers)?;
        let exchange = async {
            match call {
                Call::Http { method, path } => {
                    let request = http::request(&self.url, method, path, headers, body)?;
                    http::exchange(&self.url.address, request).await
                }
                Call::Grpc(path) => {
                    let message = message::encode(&body).map_err(anyhow::Error::msg)?;
                    grpc::exchange(&self.url.address, path.clone(), headers, message).await
                }
            }
        };
        match timeout(self.patience, exchange).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(format!("no answer: {error:#}")),
            Err(_) => Err(format!("no answer within {:?}", self.patience)),
        }
    }

    fn headers(&self, sequencers: &[&str]) -> Result<HeaderMap, String> {
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            headers.append(name, value.clone());
        }
        for text in sequencers {
            let value = HeaderValue::from_str(text).map_err(|_| "a sequencer is no header".to_owned())?;
            headers.append(SEQUENCER_HEADER, value);
        }
        Ok(headers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_plain_and_over_http_it_may_have_a_path() {
        let url = Url::parse("http://127.0.0.1:8080/v1/").unwrap();
        assert_eq!((url.address.as_str(), url.prefix.as_str()), ("127.0.0.1:8080", "/v1"));
        assert_eq!(Url::parse("http://orders").unwrap().address, "orders:80");
        assert_eq!(Url::parse("grpc://orders:50051").unwrap().protocol, Protocol::Grpc);
        for bad in [
            "https://orders",
            "orders:8080",
            "127.0.0.1:8080/x",
            "http://orders/?a=b",
            "",
            "grpc://orders",
            "grpc://orders:1/x",
        ] {
            assert!(Url::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_request_is_a_method_and_a_path_or_a_method_of_a_service() {
        let put = Call::Http { method: Method::PUT, path: "/orders/7?sync=1".to_owned() };
        assert_eq!(Call::parse("put /orders/7?sync=1"), Ok(put));
        let append = Call::Grpc(PathAndQuery::from_static("/orders.v1.Orders/Append"));
        assert_eq!(Call::parse("orders.v1.Orders/Append"), Ok(append.clone()));
        assert_eq!(Call::read("orders.v1.Orders/Append"), Ok(append));
        assert_eq!(Call::read("/orders").map(|call| call.protocol()), Ok(Protocol::Http));
        for bad in
            ["/orders", "POST orders", "POST /a b", "P@ST /orders", "Orders", "Orders/", "a/b/c", "a/b?c"]
        {
            assert!(Call::parse(bad).is_err(), "{bad}");
        }
        assert!(header("Authorization: Bearer a:b").is_ok_and(|(_, value)| value == "Bearer a:b"));
        assert!(header("nothing").is_err());
    }

    #[test]
    fn a_code_has_the_name_that_the_protocol_gives_it() {
        assert_eq!(Status::Grpc(Code::FailedPrecondition).to_string(), "FAILED_PRECONDITION");
        assert_eq!(Status::Http(StatusCode::OK).to_string(), "200 OK");
    }
}
