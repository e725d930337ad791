//! Sockets.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};

/// A boxed future.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A byte stream.
pub trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// A byte stream, whatever carries it.
pub type BoxedIo = Box<dyn Io>;

/// Where connections come in.
pub trait Listener: Send {
    /// The next connection, and who made it.
    fn accept(&mut self) -> BoxFuture<'_, io::Result<(BoxedIo, SocketAddr)>>;

    /// Where it listens, with the port that it was given.
    fn local_addr(&self) -> io::Result<SocketAddr>;
}

/// Where sockets are opened.
pub trait Net: Send + Sync {
    /// Listens at `address`, `host:port`.
    fn listen<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Listener>>>;

    /// Connects to `address`, `host:port`. The caller sets a deadline.
    fn connect<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<BoxedIo>>;
}

/// A network that is handed around.
pub type SharedNet = Arc<dyn Net>;

/// TCP of the machine, with Nagle's algorithm off.
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpNet;

impl Net for TcpNet {
    fn listen<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Listener>>> {
        Box::pin(async move {
            let listener = TcpListener::bind(address).await?;
            Ok(Box::new(listener) as Box<dyn Listener>)
        })
    }

    fn connect<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<BoxedIo>> {
        Box::pin(async move {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream) as BoxedIo)
        })
    }
}

impl Listener for TcpListener {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<(BoxedIo, SocketAddr)>> {
        Box::pin(async move {
            let (stream, from) = Self::accept(self).await?;
            stream.set_nodelay(true)?;
            Ok((Box::new(stream) as BoxedIo, from))
        })
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Self::local_addr(self)
    }
}
