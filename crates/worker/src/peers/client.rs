//! Requests to one other worker for its cached rows, and the connections to it (see `forebay_proto`'s `transfer`).
//!
//! Invariants: after a failure or a late answer a peer gets no request for a while ([`Pause`]), for longer if the same
//! kind of request fails again: answering one kind does not end the pause of another, so a peer that lists its blocks
//! and then hangs when they are read is paused like one that fails. At most [`IDLE_MAX`] idle connections are kept. A
//! connection on which an answer was read in part is dropped.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use bytes::Bytes;
use forebay_core::{Error, Result};
use forebay_proto::{
    Address, Block, BlockPart, ClientTls, Frame, FrameHead, JobKey, PARTS_MAX, Request, Wire, receive_column,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};

use crate::lock::lock;

/// How long a peer may take to accept.
const CONNECT_MAX: Duration = Duration::from_secs(1);
/// How long an answer may take beyond the time that the peer was allowed to wait.
const ANSWER_MAX: Duration = Duration::from_secs(1);
/// Blocks in an answer: one of rows, and one of rows that a filter removed.
const REPLY_BLOCKS_MAX: usize = 2;
/// Idle connections to a peer that are kept for the next request.
const IDLE_MAX: usize = 8;
/// How long a peer gets no request after its first failure; each further failure doubles it, ...
const PAUSE_FIRST: Duration = Duration::from_secs(1);
/// ... up to this.
const PAUSE_LAST: Duration = Duration::from_secs(30);

/// A peer's answer to a request for rows.
#[derive(Debug, Default)]
pub(crate) struct RowsReply {
    /// Blocks with the rows that it has.
    pub(crate) blocks: Vec<Bytes>,
    /// Nanoseconds that it waited for rows that it was computing.
    pub(crate) waited: u64,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct PeerClient {
    address: Address,
    tls: Option<ClientTls>,
    idle: Mutex<Vec<BufReader<Wire>>>,
    /// Indexed by [`RequestKind`].
    pauses: Mutex<[Pause; REQUEST_KINDS]>,
}

/// The kinds of requests. An answer from a peer's memory says nothing about its disk, or about rows that it computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestKind {
    Blocks,
    Parts,
    Rows,
}

const REQUEST_KINDS: usize = 3;

/// A pause after a request of one kind failed.
#[derive(Debug, Default)]
struct Pause {
    until: Option<Instant>,
    last: Duration,
}

impl PeerClient {
    pub(crate) fn new(address: Address, tls: Option<ClientTls>) -> Self {
        Self { address, tls, idle: Mutex::default(), pauses: Mutex::default() }
    }

    /// Returns whether no kind of request is paused.
    pub(crate) fn is_available(&self) -> bool {
        let now = Instant::now();
        lock(&self.pauses).iter().all(|pause| pause.until.is_none_or(|until| now >= until))
    }

    /// Starts or lengthens a pause, after a peer failed or was late.
    fn failed(&self, kind: RequestKind, error: &Error) {
        tracing::debug!(peer = %self.address, ?kind, error = error.message(), "a peer failed and is not asked for a while");
        let pause = &mut lock(&self.pauses)[kind as usize];
        // Requests that were under way together fail together: that is one failure.
        if pause.until.is_none_or(|until| Instant::now() >= until) {
            pause.last = (pause.last * 2).clamp(PAUSE_FIRST, PAUSE_LAST);
            pause.until = Some(Instant::now() + pause.last);
        }
        lock(&self.idle).clear();
    }

    /// Requests the blocks of a prefix.
    pub(crate) async fn blocks(&self, prefix: &str, key: JobKey, limit: Duration) -> Result<Vec<Block>> {
        let listed = async {
            let mut connection = self.connect().await?;
            send_request(&mut connection, &Request::Blocks { prefix: prefix.to_owned(), key }).await?;
            let (frame, body) = read_frame(&mut connection).await?;
            if frame != Frame::Blocks {
                return Err(unexpected(frame, &body));
            }
            let blocks =
                serde_json::from_slice(&body).map_err(|e| Error::data(format!("not a list of blocks: {e}")))?;
            self.keep(connection, RequestKind::Blocks);
            Ok(blocks)
        };
        let listed = with_timeout(limit, listed).await;
        listed.inspect_err(|error| self.failed(RequestKind::Blocks, error))
    }

    /// Reads parts of blocks. Returns the parts that arrived, even if others were late.
    pub(crate) async fn parts(
        &self,
        parts: &[(usize, BlockPart)],
        key: JobKey,
        limit: Duration,
    ) -> Vec<(usize, Bytes)> {
        let mut read = Vec::with_capacity(parts.len());
        if let Err(error) = with_timeout(limit, self.try_parts(parts, key, &mut read)).await {
            self.failed(RequestKind::Parts, &error);
        }
        read
    }

    async fn try_parts(&self, parts: &[(usize, BlockPart)], key: JobKey, read: &mut Vec<(usize, Bytes)>) -> Result<()> {
        let mut connection = self.connect().await?;
        for asked in parts.chunks(PARTS_MAX) {
            let wanted = asked.iter().map(|(_, part)| part.clone()).collect();
            send_request(&mut connection, &Request::Parts { parts: wanted, key }).await?;
            for (at, part) in asked {
                let mut head = [0; FrameHead::BYTES];
                connection.read_exact(&mut head).await?;
                let head = FrameHead::from_bytes(&head)?;
                let mut body = vec![0; head.body as usize];
                match head.frame {
                    Frame::Part if head.body == part.end - part.start => {
                        receive_column(&mut connection, &mut body).await?;
                        read.push((*at, body.into()));
                    }
                    // The reason does not matter: the part is gone, and no other worker has it.
                    Frame::Failed => drop(connection.read_exact(&mut body).await?),
                    frame => return Err(unexpected(frame, &[])),
                }
            }
        }
        self.keep(connection, RequestKind::Parts);
        Ok(())
    }

    /// Requests rows. Returns blocks of the rows that the peer has, or computes within `limit`; `None` if it does not
    /// answer.
    pub(crate) async fn rows(&self, request: &Request, limit: Duration) -> Option<RowsReply> {
        let reply = with_timeout(limit + ANSWER_MAX, self.try_rows(request)).await;
        reply.inspect_err(|error| self.failed(RequestKind::Rows, error)).ok()
    }

    async fn try_rows(&self, request: &Request) -> Result<RowsReply> {
        let mut connection = self.connect().await?;
        send_request(&mut connection, request).await?;
        let mut reply = RowsReply::default();
        loop {
            let mut head = [0; FrameHead::BYTES];
            connection.read_exact(&mut head).await?;
            let head = FrameHead::from_bytes(&head)?;
            let mut body = vec![0; head.body as usize];
            match head.frame {
                Frame::Part if reply.blocks.len() < REPLY_BLOCKS_MAX => {
                    receive_column(&mut connection, &mut body).await?;
                    reply.blocks.push(body.into());
                }
                Frame::End => {
                    connection.read_exact(&mut body).await?;
                    reply.waited = body.try_into().map_or(0, u64::from_le_bytes);
                    break;
                }
                // It keeps no rows of this prefix.
                Frame::Failed => {
                    connection.read_exact(&mut body).await?;
                    break;
                }
                frame => return Err(unexpected(frame, &[])),
            }
        }
        self.keep(connection, RequestKind::Rows);
        Ok(reply)
    }

    async fn connect(&self) -> Result<BufReader<Wire>> {
        while let Some(connection) = { lock(&self.idle).pop() } {
            if connection.get_ref().is_quiet() {
                return Ok(connection);
            }
        }
        let connect = Wire::to_worker(&self.address, self.tls.as_ref());
        let connected = tokio::time::timeout(CONNECT_MAX, connect).await;
        Ok(BufReader::new(connected.map_err(|_| Error::unavailable("the peer does not accept connections"))??))
    }

    /// Ends the pause for this kind of request, and keeps the connection.
    fn keep(&self, connection: BufReader<Wire>, kind: RequestKind) {
        lock(&self.pauses)[kind as usize] = Pause::default();
        let mut idle = lock(&self.idle);
        if idle.len() < IDLE_MAX {
            idle.push(connection);
        }
    }
}

/// Waits for an answer, up to a limit.
async fn with_timeout<T>(limit: Duration, answer: impl Future<Output = Result<T>>) -> Result<T> {
    let answered = tokio::time::timeout(limit, answer).await;
    answered.unwrap_or_else(|_| Err(Error::unavailable("the peer did not answer in time")))
}

async fn send_request(connection: &mut BufReader<Wire>, request: &Request) -> Result<()> {
    let wire = connection.get_mut();
    wire.write_all(&request.to_bytes()).await?;
    Ok(wire.flush().await?)
}

/// Reads a frame that has only a body.
async fn read_frame(connection: &mut BufReader<Wire>) -> Result<(Frame, Vec<u8>)> {
    let mut head = [0; FrameHead::BYTES];
    connection.read_exact(&mut head).await?;
    let head = FrameHead::from_bytes(&head)?;
    let mut body = vec![0; head.body as usize];
    connection.read_exact(&mut body).await?;
    Ok((head.frame, body))
}

fn unexpected(frame: Frame, body: &[u8]) -> Error {
    match frame {
        Frame::Failed => Error::from_json(&String::from_utf8_lossy(body)),
        other => Error::data(format!("a peer answered with a frame of kind {other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::{TcpListener, TcpStream};
    use tokio::runtime::Builder;

    use super::*;

    /// Answers requests for blocks with none, and for rows with none after a wait; requests for parts are not answered.
    async fn answer(mut socket: TcpStream) -> Result<()> {
        socket.read_exact(&mut [0; forebay_proto::PREFACE.len()]).await?;
        while let Some(request) = Request::read(&mut socket).await? {
            let (frame, body) = match request {
                Request::Blocks { .. } => (Frame::Blocks, b"[]".to_vec()),
                Request::Rows { .. } => (Frame::End, 7_u64.to_le_bytes().to_vec()),
                // Like a peer whose disk hangs.
                _ => std::future::pending().await,
            };
            socket.write_all(&FrameHead::of_body(frame, body.len()).to_bytes()).await?;
            socket.write_all(&body).await?;
        }
        Ok(())
    }

    fn with_peer(check: impl AsyncFnOnce(PeerClient)) {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let address = listener.local_addr().expect("bound").to_string().parse().expect("an address");
            tokio::spawn(async move {
                while let Ok((socket, _)) = listener.accept().await {
                    tokio::spawn(answer(socket));
                }
            });
            check(PeerClient::new(address, None)).await;
        });
    }

    fn any_rows(key: JobKey) -> Request {
        Request::Rows { prefix: "00".to_owned(), rows: Vec::new(), rank: 1, wait_ms: 0, key }
    }

    const LIMIT: Duration = Duration::from_secs(30);

    #[test]
    fn a_good_answer_is_the_end_of_a_pause_and_what_was_waited_for_is_told() {
        with_peer(async |peer| {
            let (key, late) = (JobKey::default(), Error::unavailable("late"));
            let paused = |kind| {
                peer.failed(kind, &late);
                assert!(!peer.is_available());
            };
            paused(RequestKind::Rows);
            let reply = peer.rows(&any_rows(key), LIMIT).await.expect("an answer");
            assert!((reply.blocks.len(), reply.waited) == (0, 7) && peer.is_available());
            paused(RequestKind::Blocks);
            assert_eq!(peer.blocks("00", key, LIMIT).await, Ok(Vec::new()));
            assert!(peer.is_available());
            paused(RequestKind::Blocks);
            assert_eq!(lock(&peer.pauses)[RequestKind::Blocks as usize].last, PAUSE_FIRST, "as if nothing had been");
        });
    }

    #[test]
    fn one_that_says_what_it_has_and_never_gives_it_is_left_alone_for_longer_and_longer() {
        with_peer(async |peer| {
            let key = JobKey::default();
            let part = BlockPart { name: "1/ab/cd.arrow".to_owned(), start: 0, end: 3 };
            for round in 0..4 {
                assert_eq!(peer.parts(&[(0, part.clone())], key, Duration::from_millis(1)).await, []);
                assert!(!peer.is_available());
                let is_over = {
                    let pause = &mut lock(&peer.pauses)[RequestKind::Parts as usize];
                    pause.until = None;
                    pause.last == PAUSE_FIRST * (1 << round)
                };
                assert!(is_over && peer.is_available(), "{peer:?}");
                assert_eq!(peer.blocks("00", key, LIMIT).await, Ok(Vec::new()));
                assert!(peer.rows(&any_rows(key), LIMIT).await.is_some());
            }
        });
    }
}
