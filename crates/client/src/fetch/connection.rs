//! One connection to a worker (see `forebay_proto`'s `transfer`): requests go out, frames come in.
//!
//! Invariants: chunks are received into reused memory, and were checked. A worker that sends nothing for
//! [`SILENCE_MAX`] while this process waits for it has stopped or is cut off: the fetch goes to another worker before
//! the lease is over. A connection on which a frame was read in part is dropped.

#![expect(clippy::disallowed_methods, reason = "a silent connection to a worker is broken off")]

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use arrow_buffer::Buffer;
use arrow_flight::FlightData;
use forebay_core::{Error, ErrorKind, Result, tracer};
use forebay_data::Memory;
use forebay_proto::{Address, ClientTls, Frame, FrameHead, Request, UNREACHED, Wire, broken, carried, receive_column};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader, ReadBuf};
use tokio::time::{Instant, Sleep};

/// Time for a worker to accept a connection.
const CONNECT_MAX: Duration = Duration::from_secs(2);
/// How long a worker may send nothing. A worker that computes sends four Computing frames in this time.
const SILENCE_MAX: Duration = Duration::from_secs(2);

/// A connection to a worker.
pub(crate) struct Connection {
    address: String,
    socket: BufReader<TimedSocket>,
    /// When the last frame arrived, by the tracer's clock; 0 if no trace was recorded.
    pub(crate) arrived: u64,
}

/// A received frame.
pub(crate) enum Received {
    /// The message of a chunk; its apart columns follow.
    Chunk(FlightData),
    /// The split is complete.
    End,
    /// The split failed, or the worker does not hold it.
    Failed(Error),
    /// The name of the socket for shared memory; empty if the worker lends none.
    Socket(Vec<u8>),
}

impl Connection {
    /// Connects to a worker.
    ///
    /// # Errors
    /// Invalid for a malformed address; Unavailable if no worker answers; PermissionDenied if either side does not
    /// trust the other.
    pub(crate) async fn open(address: &str, tls: Option<&ClientTls>) -> Result<Self> {
        let parsed: Address = address.parse()?;
        let connected = tokio::time::timeout(CONNECT_MAX, Wire::to_worker(&parsed, tls)).await;
        let connected = connected.map_err(|_| unreachable(address, &format!("no answer within {CONNECT_MAX:?}")))?;
        let socket = connected.map_err(|e| unreachable(address, &e.to_string()))?;
        let socket = BufReader::with_capacity(64 << 10, TimedSocket::new(socket));
        Ok(Self { address: address.to_owned(), socket, arrived: 0 })
    }

    /// Returns whether the worker has neither closed the connection nor sent anything since the last frame.
    pub(crate) fn is_alive(&self) -> bool {
        self.socket.get_ref().socket.is_quiet()
    }

    /// Sends a request.
    ///
    /// # Errors
    /// Unavailable if the connection broke.
    pub(crate) async fn ask(&mut self, request: &Request) -> Result<()> {
        let socket = &mut self.socket.get_mut().socket;
        let asked = async {
            socket.write_all(&request.to_bytes()).await?;
            socket.flush().await
        };
        asked.await.map_err(|e| self.broken(&e))
    }

    /// Reads the next frame; skips Computing frames.
    ///
    /// # Errors
    /// Data if the bytes are not a frame; Unavailable if the connection broke.
    pub(crate) async fn receive(&mut self, memory: &Memory) -> Result<Received> {
        let head = loop {
            let mut head = [0; FrameHead::BYTES];
            self.exactly(&mut head).await?;
            let head = FrameHead::from_bytes(&head)?;
            if head.frame != Frame::Computing {
                break head;
            }
        };
        self.arrived = if tracer().is_on() { tracer().now() } else { 0 };
        let mut small = vec![0; (head.metadata + head.header) as usize];
        self.exactly(&mut small).await?;
        if head.frame != Frame::Chunk {
            let mut body = vec![0; head.body as usize];
            self.exactly(&mut body).await?;
            return Ok(match head.frame {
                Frame::Failed => Received::Failed(Error::from_json(&String::from_utf8_lossy(&body))),
                Frame::Socket => Received::Socket(body),
                Frame::End => Received::End,
                other => return Err(Error::data(format!("a worker answered with a frame of kind {other:?}"))),
            });
        }
        let mut body = memory.take(head.body as usize);
        self.exactly(body.as_mut_slice()).await?;
        let header = small.split_off(head.metadata as usize);
        let body = bytes::Bytes::from_owner(Buffer::from(body));
        Ok(Received::Chunk(FlightData::new().with_app_metadata(small).with_data_header(header).with_data_body(body)))
    }

    /// Reads an apart column of `len` bytes.
    ///
    /// # Errors
    /// As [`Connection::receive`].
    pub(crate) async fn column(&mut self, len: usize, memory: &Memory) -> Result<Buffer> {
        let mut bytes = memory.take(len);
        let received = receive_column(&mut self.socket, bytes.as_mut_slice()).await;
        received.map_err(|e| if e.kind() == ErrorKind::Unavailable { e.with(UNREACHED, &self.address) } else { e })?;
        Ok(bytes.into())
    }

    async fn exactly(&mut self, bytes: &mut [u8]) -> Result<()> {
        match self.socket.read_exact(bytes).await {
            Ok(_) => Ok(()),
            Err(e) => Err(self.broken(&e)),
        }
    }

    fn broken(&self, error: &std::io::Error) -> Error {
        broken(error).with("address", &self.address).with(UNREACHED, &self.address)
    }
}

pub(crate) fn unreachable(address: &str, cause: &str) -> Error {
    let unavailable = || Error::unavailable(format!("the worker at {address} cannot be reached")).with("cause", cause);
    carried(cause).unwrap_or_else(unavailable).with("address", address).with(UNREACHED, address)
}

/// A socket whose reads fail if nothing arrives for [`SILENCE_MAX`].
struct TimedSocket {
    socket: Wire,
    silence: Pin<Box<Sleep>>,
    waiting: bool,
}

impl TimedSocket {
    fn new(socket: Wire) -> Self {
        Self { socket, silence: Box::pin(tokio::time::sleep(SILENCE_MAX)), waiting: false }
    }
}

impl AsyncRead for TimedSocket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if let Poll::Ready(read) = Pin::new(&mut this.socket).poll_read(cx, to) {
            this.waiting = false;
            return Poll::Ready(read);
        }
        if !std::mem::replace(&mut this.waiting, true) {
            this.silence.as_mut().reset(Instant::now() + SILENCE_MAX);
        }
        ready!(this.silence.as_mut().poll(cx));
        this.waiting = false;
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the worker says nothing")))
    }
}
