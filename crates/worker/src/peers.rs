//! Other workers that keep rows on a disk, as a store that is read: what they have is listed, and read by range, over the plain
//! connection (see `forebay_proto`'s `transfer`).
//!
//! A block is called what its worker calls it, with the worker's address: whoever reads it need not remember who had it.
//!
//! Invariants: a peer that fails, or is late, is missed: what it has is as if it were gone, and it is not asked for a while
//! ([`Pause`]); each call is over when its limit is; a peer has at most [`IDLE_MAX`] connections that nobody uses.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use forebay_cache::{Object, Part, Store};
use forebay_core::{Error, ErrorKind, Result};
use forebay_proto::{
    Address, Block, BlockPart, ClientTls, Frame, FrameHead, JobKey, PARTS_MAX, PREFACE, Peers as Told, Request, Speaks,
    Wire, receive_column,
};
use futures::future::join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::runtime::{Builder, Runtime};

use crate::lock::lock;

/// How long a peer may take to accept.
const CONNECT_MAX: Duration = Duration::from_secs(1);
/// How long it may take to say what it has.
const LIST_MAX: Duration = Duration::from_secs(2);
/// Connections to a peer that are kept for the next question.
const IDLE_MAX: usize = 8;
/// A peer that fails is not asked for so long at first, twice as long each time, ...
const PAUSE_FIRST: Duration = Duration::from_secs(1);
/// ... and no longer than this.
const PAUSE_LAST: Duration = Duration::from_secs(30);

/// Drives connections for threads that wait for them. The worker's own ends before those do.
static RUNTIME: OnceLock<Runtime> = OnceLock::new();

/// Who the peers are, as the dispatcher says, and what workers show each other. No I/O.
#[derive(Debug, Default)]
pub(crate) struct Membership(Mutex<Members>);

#[derive(Debug, Default)]
struct Members {
    addresses: Vec<String>,
    /// The key, once it is known, and the one before: a dispatcher that takes over makes another.
    keys: Vec<Vec<u8>>,
}

impl Membership {
    pub(crate) fn tell(&self, told: Told) {
        let mut members = lock(&self.0);
        members.addresses = told.addresses;
        members.keys.retain(|key| *key != told.key);
        members.keys.insert(0, told.key);
        members.keys.truncate(2);
    }

    /// Says whether somebody who shows this key is one of us. Nobody is before the dispatcher has told who is.
    pub(crate) fn admits(&self, shown: &JobKey) -> bool {
        lock(&self.0).keys.iter().any(|key| shown.opens(key))
    }

    fn now(&self) -> (Vec<String>, JobKey) {
        let members = lock(&self.0);
        (members.addresses.clone(), members.keys.first().map_or_else(JobKey::default, |key| JobKey::from_bytes(key)))
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Peers {
    membership: Arc<Membership>,
    tls: Option<ClientTls>,
    runtime: &'static Runtime,
    /// By address; only those that were told last.
    known: Mutex<HashMap<String, Arc<Peer>>>,
}

/// One of them.
#[derive(Debug)]
struct Peer {
    address: Address,
    tls: Option<ClientTls>,
    idle: Mutex<Vec<BufReader<Wire>>>,
    pause: Mutex<Pause>,
}

/// Until when a peer is not asked.
#[derive(Debug, Default)]
struct Pause {
    until: Option<Instant>,
    last: Duration,
}

impl Peers {
    /// Asks over TLS where the dispatcher is asked so.
    ///
    /// # Errors
    /// What the system says when there is no thread left.
    pub(crate) fn new(membership: Arc<Membership>, tls: Option<ClientTls>) -> Result<Self> {
        let made = || Builder::new_multi_thread().worker_threads(1).thread_name("forebay-peers").enable_all().build();
        let runtime = match RUNTIME.get() {
            Some(runtime) => runtime,
            None => {
                let made = made()?;
                RUNTIME.get_or_init(|| made)
            }
        };
        Ok(Self { membership, tls, runtime, known: Mutex::default() })
    }

    /// Returns those to be asked now, by address, and what to show them.
    fn members(&self) -> (HashMap<String, Arc<Peer>>, JobKey) {
        let (addresses, key) = self.membership.now();
        let mut known = lock(&self.known);
        known.retain(|address, _| addresses.contains(address));
        for address in addresses {
            if let Ok(parsed) = address.parse()
                && !known.contains_key(&address)
            {
                let peer =
                    Peer { address: parsed, tls: self.tls.clone(), idle: Mutex::default(), pause: Mutex::default() };
                known.insert(address, Arc::new(peer));
            }
        }
        let asked =
            known.iter().filter(|(_, peer)| peer.is_asked()).map(|(address, peer)| (address.clone(), peer.clone()));
        (asked.collect(), key)
    }
}

impl Store for Peers {
    fn uri(&self) -> &str {
        "peers"
    }

    fn list(&self, below: &str, limit: Duration) -> Result<Vec<Object>> {
        let (peers, key) = self.members();
        let prefix = below.rsplit('/').next().unwrap_or_default();
        let ask = async |(address, peer): (&String, &Arc<Peer>)| {
            let blocks = peer.blocks(prefix, key, limit.min(LIST_MAX)).await.unwrap_or_default();
            blocks.into_iter().filter_map(|block| object(block, address)).collect::<Vec<_>>()
        };
        let listed = self.runtime.block_on(join_all(peers.iter().map(ask)));
        Ok(listed.into_iter().flatten().collect())
    }

    fn read(&self, parts: &[Part], limit: Duration) -> Vec<Result<Bytes>> {
        let (peers, key) = self.members();
        let mut of_peers: HashMap<&str, Vec<(usize, BlockPart)>> = HashMap::new();
        for (at, Part { name, range }) in parts.iter().enumerate() {
            if let Some((name, address)) = parted(name) {
                let part = BlockPart { name, start: range.start, end: range.end };
                of_peers.entry(address).or_default().push((at, part));
            }
        }
        let asked = of_peers.iter().filter_map(|(address, parts)| Some((peers.get(*address)?, parts)));
        let ask = async |(peer, parts): (&Arc<Peer>, &Vec<(usize, BlockPart)>)| {
            let mut read = Vec::with_capacity(parts.len());
            // What came before one was late is there.
            let _ = tokio::time::timeout(limit, peer.parts(parts, key, &mut read)).await.map_err(|_| peer.failed());
            read
        };
        let read = self.runtime.block_on(join_all(asked.map(ask)));
        let mut answers: Vec<_> = parts.iter().map(|part| Err(gone(&part.name))).collect();
        read.into_iter().flatten().for_each(|(at, bytes)| answers[at] = Ok(bytes));
        answers
    }

    fn put(&self, name: &str, _: Bytes, _: Duration) -> Result<()> {
        Err(Error::internal(format!("{name} was to be written to a peer")))
    }

    fn touch(&self, name: &str, limit: Duration) -> Result<()> {
        self.put(name, Bytes::new(), limit)
    }

    fn delete(&self, name: &str, limit: Duration) -> Result<()> {
        self.put(name, Bytes::new(), limit)
    }
}

/// What is not read is as if it were gone: it is computed, and looked for again with the next list.
fn gone(name: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("no peer gave {name}"))
}

/// Returns a peer's block under a name that says whose it is.
fn object(block: Block, address: &str) -> Option<Object> {
    let name = block.name.strip_suffix(".arrow").filter(|name| !name.contains('@'))?;
    Some(Object { name: format!("{name}@{address}.arrow"), bytes: block.bytes, modified: SystemTime::UNIX_EPOCH })
}

/// Returns what a peer calls a block, and whose it is.
fn parted(name: &str) -> Option<(String, &str)> {
    let (name, address) = name.strip_suffix(".arrow")?.split_once('@')?;
    Some((format!("{name}.arrow"), address))
}

impl Peer {
    fn is_asked(&self) -> bool {
        lock(&self.pause).until.is_none_or(|until| Instant::now() >= until)
    }

    fn failed(&self) {
        let mut pause = lock(&self.pause);
        // Questions that were under way together fail together: that is one failure.
        if pause.until.is_none_or(|until| Instant::now() >= until) {
            pause.last = (pause.last * 2).clamp(PAUSE_FIRST, PAUSE_LAST);
            pause.until = Some(Instant::now() + pause.last);
        }
        lock(&self.idle).clear();
    }

    /// Asks which blocks it has of a prefix.
    async fn blocks(&self, prefix: &str, key: JobKey, limit: Duration) -> Result<Vec<Block>> {
        let listed = async {
            let mut connection = self.connect().await?;
            say(&mut connection, &Request::Blocks { prefix: prefix.to_owned(), key }).await?;
            let (frame, body) = hear(&mut connection).await?;
            if frame != Frame::Blocks {
                return Err(refused(frame, &body));
            }
            let blocks =
                serde_json::from_slice(&body).map_err(|e| Error::data(format!("not a list of blocks: {e}")))?;
            self.give_back(connection);
            Ok(blocks)
        };
        let listed = tokio::time::timeout(limit, listed).await;
        let listed = listed.unwrap_or_else(|_| Err(Error::unavailable("it says nothing")));
        listed.inspect_err(|error| {
            tracing::debug!(peer = %self.address, error = error.message(), "a peer is not asked for a while");
            self.failed();
        })
    }

    /// Reads parts of blocks; `read` has those that came.
    async fn parts(&self, parts: &[(usize, BlockPart)], key: JobKey, read: &mut Vec<(usize, Bytes)>) {
        if let Err(error) = self.try_parts(parts, key, read).await {
            tracing::debug!(peer = %self.address, error = error.message(), "a peer is not asked for a while");
            self.failed();
        }
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
        *lock(&self.pause) = Pause::default();
        self.give_back(connection);
        Ok(())
    }

    async fn connect(&self) -> Result<BufReader<Wire>> {
        while let Some(connection) = { lock(&self.idle).pop() } {
            if connection.get_ref().is_quiet() {
                return Ok(connection);
            }
        }
        let connect = async {
            let mut wire = Wire::connect(&self.address, self.tls.as_ref(), Speaks::Transfer).await?;
            wire.write_all(&PREFACE).await?;
            Ok::<_, std::io::Error>(BufReader::new(wire))
        };
        let connected = tokio::time::timeout(CONNECT_MAX, connect).await;
        Ok(connected.map_err(|_| Error::unavailable("it does not accept connections"))??)
    }

    fn give_back(&self, connection: BufReader<Wire>) {
        let mut idle = lock(&self.idle);
        if idle.len() < IDLE_MAX {
            idle.push(connection);
        }
    }
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
    use super::*;

    #[test]
    fn a_block_is_found_again_by_its_name() {
        for address in ["host:7070", "[::1]:7070", "10.0.0.1:1"] {
            let block = Block { name: "1/ab/cd.arrow".to_owned(), bytes: 3 };
            let object = object(block, address).expect("a block");
            assert_eq!(parted(&object.name), Some(("1/ab/cd.arrow".to_owned(), address)));
        }
        assert!(
            object(Block { name: "1/ab/c@d.arrow".to_owned(), bytes: 3 }, "host:1").is_none(),
            "whose would it be?"
        );
        assert!(parted("1/ab/cd.arrow").is_none());
    }

    #[test]
    fn who_shows_the_key_or_the_one_before_is_one_of_us_and_nobody_is_before_there_is_one() {
        let membership = Membership::default();
        let keys = [1, 2, 3].map(|byte| JobKey::from_bytes(&[byte; 16]));
        let admitted = |membership: &Membership| keys.map(|key| membership.admits(&key));
        assert!(!membership.admits(&JobKey::default()) && admitted(&membership) == [false; 3]);
        for (told, after) in
            [(0, [true, false, false]), (0, [true, false, false]), (1, [true, true, false]), (2, [false, true, true])]
        {
            membership.tell(Told { addresses: Vec::new(), key: keys[told].to_vec() });
            assert_eq!(admitted(&membership), after);
        }
        membership.tell(Told::default());
        assert!(membership.admits(&JobKey::default()), "nobody is asked where there are no tokens");
    }
}
