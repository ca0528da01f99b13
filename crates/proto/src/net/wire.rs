//! One connection, in the clear or over TLS, with the same interface.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsStream;

use crate::messages::transfer::{PREFACE, tune};
use crate::net::address::Address;
use crate::net::tls::{ClientTls, Protocol, explained};

/// A connection. Over TLS, written bytes are sent only by a flush.
#[derive(Debug)]
pub struct Wire(Inner);

#[derive(Debug)]
enum Inner {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Wire {
    /// Connects, with a handshake for TLS. Both sides detect a lost machine.
    ///
    /// # Errors
    /// The system's error. If the two do not trust each other, [`crate::carried`] extracts the reason from its text.
    pub async fn connect(to: &Address, tls: Option<&ClientTls>, protocol: Protocol) -> io::Result<Self> {
        let socket = TcpStream::connect(to.to_string()).await?;
        tune(&socket)?;
        match tls {
            None => Ok(Self(Inner::Plain(socket))),
            Some(tls) => Ok(Self::over_tls(tls.connect(socket, to, protocol).await?)),
        }
    }

    /// Connects to a worker's port for the protocol of `transfer`.
    ///
    /// # Errors
    /// Errors of [`Wire::connect`].
    pub async fn to_worker(to: &Address, tls: Option<&ClientTls>) -> io::Result<Self> {
        let mut wire = Self::connect(to, tls, Protocol::Transfer).await?;
        wire.write_all(&PREFACE).await?;
        wire.flush().await?;
        Ok(wire)
    }

    pub(crate) fn plain(socket: TcpStream) -> Self {
        Self(Inner::Plain(socket))
    }

    pub(crate) fn over_tls(stream: impl Into<TlsStream<TcpStream>>) -> Self {
        Self(Inner::Tls(Box::new(stream.into())))
    }

    pub(crate) fn tcp(&self) -> &TcpStream {
        match &self.0 {
            Inner::Plain(socket) => socket,
            Inner::Tls(stream) => stream.get_ref().0,
        }
    }

    /// Returns whether the peer has neither closed the connection nor sent bytes that were not read.
    pub fn is_quiet(&self) -> bool {
        let mut byte = [0];
        let looked = self.tcp().poll_peek(&mut Context::from_waker(Waker::noop()), &mut ReadBuf::new(&mut byte));
        looked.is_pending()
    }
}

impl AsyncRead for Wire {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Inner::Plain(socket) => Pin::new(socket).poll_read(cx, to),
            Inner::Tls(stream) => {
                let read = Pin::new(&mut **stream).poll_read(cx, to);
                // Only now a client learns that its certificate was refused.
                let connected = matches!(**stream, TlsStream::Client(_));
                read.map_err(|e| if connected { explained(e) } else { e })
            }
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.0 {
            Inner::Plain(socket) => Pin::new(socket).poll_write(cx, from),
            Inner::Tls(stream) => Pin::new(&mut **stream).poll_write(cx, from),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        from: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.0 {
            Inner::Plain(socket) => Pin::new(socket).poll_write_vectored(cx, from),
            Inner::Tls(stream) => Pin::new(&mut **stream).poll_write_vectored(cx, from),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.0 {
            Inner::Plain(socket) => socket.is_write_vectored(),
            Inner::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Inner::Plain(socket) => Pin::new(socket).poll_flush(cx),
            Inner::Tls(stream) => Pin::new(&mut **stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Inner::Plain(socket) => Pin::new(socket).poll_shutdown(cx),
            Inner::Tls(stream) => Pin::new(&mut **stream).poll_shutdown(cx),
        }
    }
}
