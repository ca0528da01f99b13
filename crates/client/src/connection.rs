//! One connection to a worker (see `forebay_proto`'s `transfer`): requests go out, frames come in.
//!
//! Invariants: what is received lies in memory that is used again, and was checked. A worker that says nothing for
//! [`SILENCE_MAX`] while it is listened to is stopped, or cut off: whoever waits for it goes elsewhere, before its lease is
//! over. A connection on which a frame was read in part is of no more use: it is dropped.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use arrow_buffer::Buffer;
use arrow_flight::FlightData;
use forebay_core::{Error, ErrorKind, Result};
use forebay_data::Memory;
use forebay_proto::{Address, ClientTls, Frame, FrameHead, Request, UNREACHED, Wire, broken, carried, receive_column};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader, ReadBuf};
use tokio::time::{Instant, Sleep};

/// How long a worker may take to accept.
const CONNECT_MAX: Duration = Duration::from_secs(2);
/// How long a worker may say nothing. One that computes says so four times meanwhile.
const SILENCE_MAX: Duration = Duration::from_secs(2);

/// A connection.
pub(crate) struct Connection {
    address: String,
    socket: BufReader<Listened>,
}

/// What came.
pub(crate) enum Received {
    /// A chunk's message; columns that are apart follow.
    Chunk(FlightData),
    /// The split is complete.
    End,
    /// The split failed, or is not here.
    Failed(Error),
    /// The name of the socket for borrowing.
    Socket(Vec<u8>),
}

impl Connection {
    /// Connects to a worker.
    ///
    /// # Errors
    /// Invalid when it is no address; Unavailable when nobody is there; PermissionDenied when the two do not trust each other.
    pub(crate) async fn open(address: &str, tls: Option<&ClientTls>) -> Result<Self> {
        let parsed: Address = address.parse()?;
        let connected = tokio::time::timeout(CONNECT_MAX, Wire::to_worker(&parsed, tls)).await;
        let connected = connected.map_err(|_| unreachable(address, &format!("no answer within {CONNECT_MAX:?}")))?;
        let socket = connected.map_err(|e| unreachable(address, &e.to_string()))?;
        Ok(Self { address: address.to_owned(), socket: BufReader::with_capacity(64 << 10, Listened::new(socket)) })
    }

    /// Says whether the worker has neither left nor spoken since.
    pub(crate) fn is_alive(&self) -> bool {
        self.socket.get_ref().socket.is_quiet()
    }

    /// Asks.
    ///
    /// # Errors
    /// Unavailable when the connection broke.
    pub(crate) async fn ask(&mut self, request: &Request) -> Result<()> {
        let socket = &mut self.socket.get_mut().socket;
        let asked = async {
            socket.write_all(&request.to_bytes()).await?;
            socket.flush().await
        };
        asked.await.map_err(|e| self.broken(&e))
    }

    /// Reads what comes next.
    ///
    /// # Errors
    /// Data when it is no frame; Unavailable when the connection broke.
    pub(crate) async fn receive(&mut self, memory: &Memory) -> Result<Received> {
        let head = loop {
            let mut head = [0; FrameHead::BYTES];
            self.exactly(&mut head).await?;
            let head = FrameHead::from_bytes(&head)?;
            if head.frame != Frame::Computing {
                break head;
            }
        };
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

    /// Reads a column that is apart, of so many bytes.
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

/// A socket that fails when nothing comes for [`SILENCE_MAX`] while somebody waits for it.
struct Listened {
    socket: Wire,
    silence: Pin<Box<Sleep>>,
    waiting: bool,
}

impl Listened {
    fn new(socket: Wire) -> Self {
        Self { socket, silence: Box::pin(tokio::time::sleep(SILENCE_MAX)), waiting: false }
    }
}

impl AsyncRead for Listened {
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
