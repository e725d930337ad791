//! gRPC over a [`Net`]: the same settings for every connection, whatever carries it.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinHandle;
use tonic::transport::server::Connected;
use tonic::transport::{Channel, Endpoint, Server};
use tower::service_fn;

use crate::net::{BoxedIo, Listener, SharedNet};

/// Bytes in flight on one HTTP/2 stream; the default of 64 KiB throttles large batches.
const STREAM_WINDOW: u32 = 4 << 20;
/// Bytes in flight on one connection.
const CONNECTION_WINDOW: u32 = 8 << 20;
/// A connection attempt that takes longer has failed.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Streams that one connection may have open.
const STREAMS_MAX: u32 = 1_024;
/// Accepted connections that wait to be served.
const ACCEPT_QUEUE: usize = 64;
/// How long to rest after `accept` failed, so that a full table of files is not hammered.
const ACCEPT_REST: Duration = Duration::from_millis(50);

/// A channel to `address` (`host:port`), connected when first used and again after each loss. A silent peer is found
/// dead within `keepalive` and as long again.
///
/// # Errors
///
/// When `address` cannot stand in a URI.
pub fn channel(
    net: SharedNet,
    address: &str,
    keepalive: Duration,
) -> Result<Channel, tonic::transport::Error> {
    let endpoint = Endpoint::from_shared(format!("http://{address}"))?
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .http2_keep_alive_interval(keepalive)
        .keep_alive_timeout(keepalive)
        .keep_alive_while_idle(true)
        .http2_max_header_list_size(16 << 10)
        .connect_timeout(CONNECT_TIMEOUT);
    let address = address.to_owned();
    Ok(endpoint.connect_with_connector_lazy(service_fn(move |_| {
        let net = net.clone();
        let address = address.clone();
        async move {
            match tokio::time::timeout(CONNECT_TIMEOUT, net.connect(&address)).await {
                Ok(stream) => stream.map(TokioIo::new),
                Err(_) => Err(io::ErrorKind::TimedOut.into()),
            }
        }
    })))
}

/// A gRPC server with bounds on what one connection may cost.
pub fn server(keepalive: Duration) -> Server {
    Server::builder()
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_concurrent_streams(STREAMS_MAX)
        .http2_keepalive_interval(Some(keepalive))
        .http2_keepalive_timeout(Some(keepalive))
        .http2_max_header_list_size(16 << 10)
        .http2_max_pending_accept_reset_streams(Some(20))
}

/// Accepted connections, for `Server::serve_with_incoming`. One failed `accept` ends nothing.
pub struct Incoming {
    /// Accepted, and not yet taken.
    connections: mpsc::Receiver<Connection>,
    task: JoinHandle<()>,
}

impl Incoming {
    /// Accepts until dropped.
    pub fn new(listener: Box<dyn Listener>) -> Self {
        Self::at_most(Semaphore::MAX_PERMITS, listener)
    }

    /// Accepts until dropped. While `max` connections are open, one more is closed as soon as it is accepted.
    pub fn at_most(max: usize, mut listener: Box<dyn Listener>) -> Self {
        let open = Arc::new(Semaphore::new(max.min(Semaphore::MAX_PERMITS)));
        let (sender, connections) = mpsc::channel(ACCEPT_QUEUE);
        let task = tokio::spawn(async move {
            loop {
                match listener.accept().await {
                    Ok((io, from)) => {
                        let Ok(permit) = open.clone().try_acquire_owned() else { continue };
                        if sender.send(Connection { io, from, _permit: permit }).await.is_err() {
                            return;
                        }
                    }
                    Err(_) => tokio::time::sleep(ACCEPT_REST).await,
                }
            }
        });
        Self { connections, task }
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl futures_core::Stream for Incoming {
    type Item = io::Result<Connection>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.connections.poll_recv(context).map(|connection| connection.map(Ok))
    }
}

/// One accepted connection.
pub struct Connection {
    io: BoxedIo,
    from: SocketAddr,
    /// Given back when it is closed.
    _permit: OwnedSemaphorePermit,
}

impl Connected for Connection {
    type ConnectInfo = SocketAddr;

    fn connect_info(&self) -> SocketAddr {
        self.from
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}
