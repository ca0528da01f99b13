//! One other worker that keeps rows: connections to it, and what is asked over them (see `forebay_proto`'s `transfer`).
//!
//! Invariants: one that fails, or is late, is not asked for a while ([`Pause`]), for longer while the same question is what fails: one
//! that says at once what it has, and hangs when that is read, is no better; it has at most [`IDLE_MAX`] connections that nobody uses; a
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
/// How long an answer may be on its way.
const ANSWER_MAX: Duration = Duration::from_secs(1);
/// Blocks in an answer: of rows, and of rows that a filter removed.
const GIVEN_MAX: usize = 2;
/// Connections to a peer that are kept for the next question.
const IDLE_MAX: usize = 8;
/// A peer that fails is not asked for so long at first, twice as long each time, ...
const PAUSE_FIRST: Duration = Duration::from_secs(1);
/// ... and no longer than this.
const PAUSE_LAST: Duration = Duration::from_secs(30);

/// What a peer gave.
#[derive(Debug, Default)]
pub(crate) struct RowsReply {
    /// Blocks of what it has.
    pub(crate) blocks: Vec<Bytes>,
    /// How long it waited for rows that it computes, in nanoseconds.
    pub(crate) waited: u64,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct PeerClient {
    address: Address,
    tls: Option<ClientTls>,
    idle: Mutex<Vec<BufReader<Wire>>>,
    /// By [`RequestKind`].
    pauses: Mutex<[Pause; REQUEST_KINDS]>,
}

/// What a peer is asked. What it answers from its memory says nothing of its disk, nor of what it computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestKind {
    Blocks,
    Parts,
    Rows,
}

const REQUEST_KINDS: usize = 3;

/// Until when a peer is not asked, because one kind of question failed.
#[derive(Debug, Default)]
struct Pause {
    until: Option<Instant>,
    last: Duration,
}

impl PeerClient {
    pub(crate) fn new(address: Address, tls: Option<ClientTls>) -> Self {
        Self { address, tls, idle: Mutex::default(), pauses: Mutex::default() }
    }

    /// Says whether it is asked now.
    pub(crate) fn is_asked(&self) -> bool {
        let now = Instant::now();
        lock(&self.pauses).iter().all(|pause| pause.until.is_none_or(|until| now >= until))
    }

    /// Notes that it failed, or was late.
    fn failed(&self, asked: RequestKind, error: &Error) {
        tracing::debug!(peer = %self.address, ?asked, error = error.message(), "a peer is not asked for a while");
        let pause = &mut lock(&self.pauses)[asked as usize];
        // Questions that were under way together fail together: that is one failure.
        if pause.until.is_none_or(|until| Instant::now() >= until) {
            pause.last = (pause.last * 2).clamp(PAUSE_FIRST, PAUSE_LAST);
            pause.until = Some(Instant::now() + pause.last);
        }
        lock(&self.idle).clear();
    }

    /// Asks which blocks it has of a prefix.
    pub(crate) async fn blocks(&self, prefix: &str, key: JobKey, limit: Duration) -> Result<Vec<Block>> {
        let listed = async {
            let mut connection = self.connect().await?;
            say(&mut connection, &Request::Blocks { prefix: prefix.to_owned(), key }).await?;
            let (frame, body) = hear(&mut connection).await?;
            if frame != Frame::Blocks {
                return Err(refused(frame, &body));
            }
            let blocks =
                serde_json::from_slice(&body).map_err(|e| Error::data(format!("not a list of blocks: {e}")))?;
            self.give_back(connection, RequestKind::Blocks);
            Ok(blocks)
        };
        let listed = within(limit, listed).await;
        listed.inspect_err(|error| self.failed(RequestKind::Blocks, error))
    }

    /// Reads parts of blocks. Returns those that came, also where others were late.
    pub(crate) async fn parts(
        &self,
        parts: &[(usize, BlockPart)],
        key: JobKey,
        limit: Duration,
    ) -> Vec<(usize, Bytes)> {
        let mut read = Vec::with_capacity(parts.len());
        if let Err(error) = within(limit, self.try_parts(parts, key, &mut read)).await {
            self.failed(RequestKind::Parts, &error);
        }
        read
    }

    async fn try_parts(&self, parts: &[(usize, BlockPart)], key: JobKey, read: &mut Vec<(usize, Bytes)>) -> Result<()> {
        let mut connection = self.connect().await?;
        for asked in parts.chunks(PARTS_MAX) {
            let wanted = asked.iter().map(|(_, part)| part.clone()).collect();
            say(&mut connection, &Request::Parts { parts: wanted, key }).await?;
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
                    // Why does not matter here: it is gone, and nobody else has it.
                    Frame::Failed => drop(connection.read_exact(&mut body).await?),
                    frame => return Err(refused(frame, &[])),
                }
            }
        }
        self.give_back(connection, RequestKind::Parts);
        Ok(())
    }

    /// Asks for rows; returns blocks of what it has, or computes by then: `limit` at most. Nothing where it does not answer.
    pub(crate) async fn rows(&self, request: &Request, limit: Duration) -> Option<RowsReply> {
        let given = within(limit + ANSWER_MAX, self.try_rows(request)).await;
        given.inspect_err(|error| self.failed(RequestKind::Rows, error)).ok()
    }

    async fn try_rows(&self, request: &Request) -> Result<RowsReply> {
        let mut connection = self.connect().await?;
        say(&mut connection, request).await?;
        let mut given = RowsReply::default();
        loop {
            let mut head = [0; FrameHead::BYTES];
            connection.read_exact(&mut head).await?;
            let head = FrameHead::from_bytes(&head)?;
            let mut body = vec![0; head.body as usize];
            match head.frame {
                Frame::Part if given.blocks.len() < GIVEN_MAX => {
                    receive_column(&mut connection, &mut body).await?;
                    given.blocks.push(body.into());
                }
                Frame::End => {
                    connection.read_exact(&mut body).await?;
                    given.waited = body.try_into().map_or(0, u64::from_le_bytes);
                    break;
                }
                // It keeps nothing of that.
                Frame::Failed => {
                    connection.read_exact(&mut body).await?;
                    break;
                }
                frame => return Err(refused(frame, &[])),
            }
        }
        self.give_back(connection, RequestKind::Rows);
        Ok(given)
    }

    async fn connect(&self) -> Result<BufReader<Wire>> {
        while let Some(connection) = { lock(&self.idle).pop() } {
            if connection.get_ref().is_quiet() {
                return Ok(connection);
            }
        }
        let connect = Wire::to_worker(&self.address, self.tls.as_ref());
        let connected = tokio::time::timeout(CONNECT_MAX, connect).await;
        Ok(BufReader::new(connected.map_err(|_| Error::unavailable("it does not accept connections"))??))
    }

    /// It answered: it is asked that as before, also over this connection.
    fn give_back(&self, connection: BufReader<Wire>, asked: RequestKind) {
        lock(&self.pauses)[asked as usize] = Pause::default();
        let mut idle = lock(&self.idle);
        if idle.len() < IDLE_MAX {
            idle.push(connection);
        }
    }
}

/// Waits for an answer, but not for ever.
async fn within<T>(limit: Duration, answer: impl Future<Output = Result<T>>) -> Result<T> {
    let answered = tokio::time::timeout(limit, answer).await;
    answered.unwrap_or_else(|_| Err(Error::unavailable("it says nothing")))
}

async fn say(connection: &mut BufReader<Wire>, request: &Request) -> Result<()> {
    let wire = connection.get_mut();
    wire.write_all(&request.to_bytes()).await?;
    Ok(wire.flush().await?)
}

/// Reads a frame that has only a body.
async fn hear(connection: &mut BufReader<Wire>) -> Result<(Frame, Vec<u8>)> {
    let mut head = [0; FrameHead::BYTES];
    connection.read_exact(&mut head).await?;
    let head = FrameHead::from_bytes(&head)?;
    let mut body = vec![0; head.body as usize];
    connection.read_exact(&mut body).await?;
    Ok((head.frame, body))
}

fn refused(frame: Frame, body: &[u8]) -> Error {
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

    /// Answers questions, but those for parts: with no blocks, and with no rows after a wait.
    async fn answer(mut socket: TcpStream) -> Result<()> {
        socket.read_exact(&mut [0; forebay_proto::PREFACE.len()]).await?;
        while let Some(request) = Request::read(&mut socket).await? {
            let (frame, body) = match request {
                Request::Blocks { .. } => (Frame::Blocks, b"[]".to_vec()),
                Request::Rows { .. } => (Frame::End, 7_u64.to_le_bytes().to_vec()),
                // As one whose disk hangs.
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
            let paused = |asked| {
                peer.failed(asked, &late);
                assert!(!peer.is_asked());
            };
            paused(RequestKind::Rows);
            let given = peer.rows(&any_rows(key), LIMIT).await.expect("an answer");
            assert!((given.blocks.len(), given.waited) == (0, 7) && peer.is_asked());
            paused(RequestKind::Blocks);
            assert_eq!(peer.blocks("00", key, LIMIT).await, Ok(Vec::new()));
            assert!(peer.is_asked());
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
                assert!(!peer.is_asked());
                let is_over = {
                    let pause = &mut lock(&peer.pauses)[RequestKind::Parts as usize];
                    pause.until = None;
                    pause.last == PAUSE_FIRST * (1 << round)
                };
                assert!(is_over && peer.is_asked(), "{peer:?}");
                assert_eq!(peer.blocks("00", key, LIMIT).await, Ok(Vec::new()));
                assert!(peer.rows(&any_rows(key), LIMIT).await.is_some());
            }
        });
    }
}
