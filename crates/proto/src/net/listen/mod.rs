//! Accepts connections: finds out the protocol of each, and closes the connections that do not begin soon.
//!
//! A port is in the clear or speaks TLS; a peer that connects in the other way gets an error that says so. A worker's
//! port serves the transfer protocol besides HTTP/2; such a connection names it by ALPN, or by its first bytes (see
//! `transfer`).
//!
//! Invariants: a connection is closed if its first request has not come after [`GREETING_MAX`]. Until then it has one
//! of a bounded number of slots, which a new connection may take over (see `greeting_slots`), so silent connections do
//! not hold up others.
//!
//! HTTP/2 detects a silent peer by pings, but only after its first request. Without this bound, a peer that sends
//! nothing (or one byte a minute) would hold a descriptor for ever.

#![expect(clippy::disallowed_methods, reason = "greetings have to arrive in time")]

mod first_request;
mod greeting_slots;

use std::io::{self, IoSlice};
use std::net::{SocketAddr, UdpSocket};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use forebay_core::Error;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::Sleep;
use tokio_rustls::TlsAcceptor;
use tonic::codegen::tokio_stream::Stream;
use tonic::transport::server::{Connected, TcpConnectInfo};

use crate::messages::transfer::{Frame, FrameHead, PREFACE, tune};
use crate::net::address::Address;
use crate::net::tls::{self, Protocol, ServerTls, last_word, untrusted};
use crate::net::wire::Wire;
use first_request::FirstRequest;
pub use greeting_slots::GreetingSlot;
use greeting_slots::GreetingSlots;

/// The time for a connection to name its protocol, and then again for its first request.
pub const GREETING_MAX: Duration = Duration::from_secs(5);
/// The most connections with a known protocol that wait to be served.
const READY_MAX: usize = 256;
/// The pause when the system has no more sockets.
const PAUSE: Duration = Duration::from_millis(100);
/// The first byte of a connection over TLS: the head of a handshake.
const TLS_BEGINS: u8 = 0x16;
/// The answer to HTTP/2 without TLS: SETTINGS, and GOAWAY with INADEQUATE_SECURITY, which every client understands.
const GO_AWAY: [u8; 26] = *b"\0\0\0\x04\0\0\0\0\0\0\0\x08\x07\0\0\0\0\0\0\0\0\0\0\0\0\x0c";
/// The answer to TLS on a port without it: any text that is not TLS.
const NO_TLS: &[u8] = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\nthis port does not speak TLS\n";

/// Returns the address at which others reach a listener. For a listener on every interface: the address of the
/// interface towards `towards`. Sends nothing.
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

/// The HTTP/2 connections of a listener.
#[derive(Debug)]
pub struct Incoming(mpsc::Receiver<io::Result<Accepted>>);

impl Incoming {
    /// Accepts from a listener until the result is dropped; over TLS if `tls` is set. Connections of the transfer
    /// protocol go to `transfers`, if set. Must be called within a runtime.
    pub fn new(
        listener: TcpListener,
        tls: Option<&ServerTls>,
        transfers: Option<mpsc::Sender<TransferConnection>>,
    ) -> Self {
        let (http2, incoming) = mpsc::channel(READY_MAX);
        let protocols =
            if transfers.is_some() { &[Protocol::Transfer, Protocol::Http2][..] } else { &[Protocol::Http2] };
        let acceptor = Acceptor { tls: tls.map(|tls| tls.acceptor(protocols)), transfers, http2 };
        tokio::spawn(Arc::new(acceptor).accept(listener));
        Self(incoming)
    }
}

impl Stream for Incoming {
    type Item = io::Result<Accepted>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(cx)
    }
}

/// A connection of the transfer protocol, and its slot until its first request.
pub type TransferConnection = (Wire, GreetingSlot);

/// Accepts connections and hands each to the server of its protocol.
struct Acceptor {
    tls: Option<TlsAcceptor>,
    transfers: Option<mpsc::Sender<TransferConnection>>,
    http2: mpsc::Sender<io::Result<Accepted>>,
}

impl Acceptor {
    async fn accept(self: Arc<Self>, listener: TcpListener) {
        let slots = Arc::<GreetingSlots>::default();
        loop {
            let accepted = tokio::select! {
                () = self.http2.closed() => return,
                accepted = listener.accept() => accepted,
            };
            let Ok((socket, peer)) =
                accepted.inspect_err(|error| tracing::warn!(%error, "a connection was not accepted"))
            else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            let slot = slots.acquire(peer.ip()).await;
            tokio::spawn(self.clone().begin(socket, slot));
        }
    }

    /// Detects the protocol of a connection, and hands it on.
    async fn begin(self: Arc<Self>, socket: TcpStream, mut slot: GreetingSlot) {
        let greeted = tokio::select! {
            () = slot.evicted() => return,
            greeted = tokio::time::timeout(GREETING_MAX, self.greet(socket)) => greeted,
        };
        match greeted {
            // The server may have ended.
            Ok(Ok(Some((wire, Protocol::Http2)))) => drop(self.http2.send(Ok(Accepted::new(wire, slot))).await),
            Ok(Ok(Some((wire, Protocol::Transfer)))) => {
                if let Some(transfers) = &self.transfers {
                    let _ = transfers.send((wire, slot)).await;
                }
            }
            Ok(Err(error)) => tracing::debug!(%error, "a connection did not begin"),
            Ok(Ok(None)) | Err(_) => {}
        }
    }

    /// Detects the protocol of a connection; `None` if it was refused.
    async fn greet(&self, mut socket: TcpStream) -> io::Result<Option<(Wire, Protocol)>> {
        socket.set_nodelay(true)?;
        let mut first = [0];
        socket.peek(&mut first).await?;
        let greeted = match (&self.tls, first == [TLS_BEGINS]) {
            (Some(tls), true) => {
                let (mut stream, protocol) = tls::accept(tls, socket).await?;
                if protocol == Protocol::Transfer {
                    stream.read_exact(&mut [0; PREFACE.len()]).await?;
                }
                (Wire::over_tls(stream), protocol)
            }
            (None, false) => {
                let protocol = if self.transfers.is_some() { protocol_of(&socket).await? } else { Protocol::Http2 };
                if protocol == Protocol::Transfer {
                    socket.read_exact(&mut [0; PREFACE.len()]).await?;
                }
                (Wire::plain(socket), protocol)
            }
            (Some(_), false) => {
                refuse_plain(socket).await?;
                return Ok(None);
            }
            (None, true) => {
                last_word(socket, NO_TLS).await;
                return Ok(None);
            }
        };
        if greeted.1 == Protocol::Transfer {
            tune(greeted.0.tcp())?;
        }
        Ok(Some(greeted))
    }
}

/// Peeks at the first bytes without consuming them.
async fn protocol_of(socket: &TcpStream) -> io::Result<Protocol> {
    let mut seen = [0; PREFACE.len()];
    loop {
        let n = socket.peek(&mut seen).await?;
        if n == 0 || seen[..n] != PREFACE[..n] {
            return Ok(Protocol::Http2);
        }
        if n == PREFACE.len() {
            return Ok(Protocol::Transfer);
        }
        // Half a preface: the rest is on its way.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Tells a peer that connected in the clear, in its own protocol, that this port speaks TLS.
async fn refuse_plain(socket: TcpStream) -> io::Result<()> {
    if protocol_of(&socket).await? == Protocol::Http2 {
        last_word(socket, &GO_AWAY).await;
        return Ok(());
    }
    let error = speaks_tls_only().to_json();
    let frame = [&FrameHead::of_body(Frame::Failed, error.len()).to_bytes()[..], error.as_bytes()].concat();
    last_word(socket, &frame).await;
    Ok(())
}

/// Returns the error of a peer that connects in the clear to a port with TLS.
pub(crate) fn speaks_tls_only() -> Error {
    untrusted(
        "the other side speaks TLS, and this side does not",
        "name the authority to trust: the certificate of the authority that signed the service's (--tls-ca, FOREBAY_TLS_CA, \
         fb.connect(..., tls=fb.Tls(ca=...)))",
    )
}

/// An accepted HTTP/2 connection.
#[derive(Debug)]
pub struct Accepted {
    socket: Wire,
    /// `None` after its first request.
    greeting: Option<Greeting>,
}

#[derive(Debug)]
struct Greeting {
    /// The time by which its first request must have come.
    deadline: Pin<Box<Sleep>>,
    first_request: FirstRequest,
    slot: GreetingSlot,
}

impl Accepted {
    /// Wraps a connection that has sent no request yet.
    fn new(socket: Wire, slot: GreetingSlot) -> Self {
        let deadline = Box::pin(tokio::time::sleep(GREETING_MAX));
        Self { socket, greeting: Some(Greeting { deadline, first_request: FirstRequest::new(), slot }) }
    }
}

impl AsyncRead for Accepted {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = to.filled().len();
        let read = Pin::new(&mut this.socket).poll_read(cx, to);
        let Some(greeting) = &mut this.greeting else { return read };
        if greeting.first_request.scan(&to.filled()[before..]) {
            this.greeting = None;
        } else if read.is_pending()
            && (greeting.deadline.as_mut().poll(cx).is_ready() || greeting.slot.poll_evicted(cx).is_ready())
        {
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
        self.socket.tcp().connect_info()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;
    use tonic::codegen::tokio_stream::StreamExt;

    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    const REQUEST: &[u8] = &[0, 0, 0, 1, 5, 0, 0, 0, 1];

    async fn listen() -> (SocketAddr, Incoming) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        (listener.local_addr().expect("bound"), Incoming::new(listener, None, None))
    }

    #[tokio::test]
    async fn a_connection_must_begin_and_may_then_be_silent() {
        let (address, mut incoming) = listen().await;
        for (said, begins) in [([PREFACE, REQUEST].concat(), true), (PREFACE.to_vec(), false), (vec![b'P'], false)] {
            let mut peer = TcpStream::connect(address).await.expect("connects");
            peer.write_all(&said).await.expect("says");
            let mut accepted = incoming.next().await.expect("one").expect("accepted");
            let greeting = accepted.greeting.as_mut().expect("it is new");
            greeting.deadline = Box::pin(tokio::time::sleep(Duration::ZERO));
            let mut heard = vec![0; said.len()];
            accepted.read_exact(&mut heard).await.expect("what was said");
            let silent = tokio::time::timeout(Duration::from_millis(50), accepted.read_u8()).await;
            assert_eq!(silent.is_err(), begins, "{silent:?}");
        }
    }

    /// An older listener let 256 silent connections hold up all others for ten seconds.
    #[tokio::test]
    async fn nine_hundred_silent_connections_do_not_hold_up_others_and_the_oldest_are_evicted() {
        let (address, mut incoming) = listen().await;
        let mut silent = Vec::new();
        for i in 0..900 {
            let mut peer = TcpStream::connect(address).await.expect("connects");
            if i % 2 == 0 {
                peer.write_all(PREFACE).await.expect("says");
            }
            silent.push(peer);
        }
        let mut peer = TcpStream::connect(address).await.expect("connects");
        peer.write_all(&[PREFACE, REQUEST].concat()).await.expect("says");
        let served = async {
            let mut kept = Vec::new();
            loop {
                let mut accepted = incoming.next().await.expect("one").expect("accepted");
                let mut heard = [0; 33];
                let read = tokio::time::timeout(Duration::from_millis(1), accepted.read_exact(&mut heard)).await;
                if read.is_ok_and(|read| read.is_ok()) {
                    return kept;
                }
                kept.push(accepted);
            }
        };
        let kept = tokio::time::timeout(GREETING_MAX - Duration::from_secs(1), served).await;
        assert!(kept.is_ok(), "it waited for silent connections");
    }
}
