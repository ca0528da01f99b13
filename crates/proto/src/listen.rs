//! Accepting connections: one that does not say that it speaks HTTP/2, and soon, is closed.
//!
//! HTTP/2 notices a silent peer by pings, but only once the connection has begun: before that, whoever connects and
//! says nothing (or one byte a minute) would hold a descriptor for ever.

use std::io::{self, IoSlice};
use std::net::{SocketAddr, UdpSocket};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Sleep;
use tonic::codegen::tokio_stream::Stream;
use tonic::transport::server::{Connected, TcpConnectInfo, TcpIncoming};

use crate::address::Address;

/// How long a connection may take to begin.
const GREETING_MAX: Duration = Duration::from_secs(10);
/// What a connection begins with: `PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n`.
const GREETING_BYTES: usize = 24;

/// Returns where others reach a listener; one on every interface, by the one that leads to `towards`. Nothing is sent.
pub fn reachable(listens: SocketAddr, towards: &Address) -> SocketAddr {
    if !listens.ip().is_unspecified() {
        return listens;
    }
    let route = || -> io::Result<SocketAddr> {
        let any = if listens.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = UdpSocket::bind(any)?;
        socket.connect(towards.to_string())?;
        socket.local_addr()
    };
    route().map_or(listens, |local| SocketAddr::new(local.ip(), listens.port()))
}

/// The connections of a listener.
#[derive(Debug)]
pub struct Incoming(TcpIncoming);

impl Incoming {
    /// Accepts from a listener.
    pub fn new(listener: TcpListener) -> Self {
        Self(TcpIncoming::from(listener).with_nodelay(Some(true)))
    }
}

impl Stream for Incoming {
    type Item = io::Result<Accepted>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Pin::new(&mut self.0).poll_next(cx).map(|next| next.map(|socket| socket.map(Accepted::new)))
    }
}

/// A connection.
#[derive(Debug)]
pub struct Accepted {
    socket: TcpStream,
    /// Until when it must have begun, and the bytes that came; `None` once it has.
    greeting: Option<(Pin<Box<Sleep>>, usize)>,
}

impl Accepted {
    /// Takes a connection that is to begin.
    pub fn new(socket: TcpStream) -> Self {
        Self { socket, greeting: Some((Box::pin(tokio::time::sleep(GREETING_MAX)), 0)) }
    }
}

impl AsyncRead for Accepted {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = to.filled().len();
        let read = Pin::new(&mut this.socket).poll_read(cx, to);
        let Some((deadline, seen)) = &mut this.greeting else { return read };
        *seen += to.filled().len() - before;
        if *seen >= GREETING_BYTES {
            this.greeting = None;
        } else if read.is_pending() && deadline.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the connection did not begin in time")));
        }
        read
    }
}

impl AsyncWrite for Accepted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(cx, from)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        from: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(cx, from)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

impl Connected for Accepted {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        self.socket.connect_info()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tonic::codegen::tokio_stream::StreamExt;

    #[tokio::test]
    async fn a_connection_must_begin_and_may_then_be_silent() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let mut incoming = Incoming::new(listener);
        for (said, begins) in [(&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], true), (b"PRI * HT", false)] {
            let mut peer = TcpStream::connect(address).await.expect("connects");
            peer.write_all(said).await.expect("says");
            let mut accepted = incoming.next().await.expect("one").expect("accepted");
            accepted.greeting = Some((Box::pin(tokio::time::sleep(Duration::ZERO)), 0));
            let mut heard = vec![0; said.len()];
            accepted.read_exact(&mut heard).await.expect("what was said");
            let silent = tokio::time::timeout(Duration::from_millis(50), accepted.read_u8()).await;
            assert_eq!(silent.is_err(), begins, "{silent:?}");
        }
    }
}
