//! One connection, in the clear or over TLS. What is written and read over it need not know which.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsStream;

use crate::messages::transfer::{PREFACE, tune};
use crate::net::address::Address;
use crate::net::tls::{ClientTls, Protocol, explained};

/// A connection. What is written over TLS is on its way only once it was flushed.
#[derive(Debug)]
pub struct Wire(Inner);

#[derive(Debug)]
enum Inner {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Wire {
    /// Connects, and shakes hands where there is TLS. Both sides of a connection notice when the other machine is gone.
    ///
    /// # Errors
    /// What the system says; or what [`crate::carried`] returns of its text, when the two do not trust each other.
    pub async fn connect(to: &Address, tls: Option<&ClientTls>, speaks: Protocol) -> io::Result<Self> {
        let socket = TcpStream::connect(to.to_string()).await?;
        tune(&socket)?;
        match tls {
            None => Ok(Self(Inner::Plain(socket))),
            Some(tls) => Ok(Self::over_tls(tls.connect(socket, to, speaks).await?)),
        }
    }

    /// Connects to a worker's port as one of ours does: what follows is as `transfer` says.
    ///
    /// # Errors
    /// As [`Wire::connect`].
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

    /// Says whether the other side has neither left nor said anything that was not read.
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
                // Whoever connects learns only now that its certificate was refused.
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
