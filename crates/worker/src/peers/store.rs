//! All other workers with cached rows, as one store: their blocks are listed and read by range, and rows that none of
//! them lists are requested from them.
//!
//! The name of a block here is its worker's name for it and that worker's address, so it names the worker to read from.
//!
//! Invariants: a peer that fails or is late is skipped, as if its blocks were gone; each call ends within its limit; at
//! most [`ASKED_PEERS_MAX`] peers get a request for rows that no worker lists, for any number of peers.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use forebay_cache::{Object, Part, PeerReplies, PeerRequest, Peers, RemoteBlocks, RowKey};
use forebay_core::rng::mix64;
use forebay_core::{Error, ErrorKind, Result, Stopwatch};
use forebay_proto::{Block, BlockPart, ClientTls, JobKey, Request};
use futures::future::join_all;
use tokio::runtime::{Builder, Runtime};

use crate::lock::lock;
use crate::peers::client::PeerClient;
use crate::peers::membership::Membership;

/// The largest block. A larger one is not listed.
const BLOCK_BYTES_MAX: u64 = 1 << 30;
/// How long a peer may take to list its blocks.
const LIST_MAX: Duration = Duration::from_secs(2);

/// The most peers that get a request for rows that no worker lists: in a small service, all. A request costs the peer
/// too, and mostly finds nothing.
const ASKED_PEERS_MAX: usize = 8;

/// Drives the connections for threads that wait for them. The worker's own runtime may end before these threads do.
static RUNTIME: OnceLock<Runtime> = OnceLock::new();

/// See the module's documentation.
pub(crate) struct PeerStore {
    membership: Arc<Membership>,
    tls: Option<ClientTls>,
    runtime: &'static Runtime,
    watch: Arc<dyn Stopwatch>,
    /// By address; only the peers that the dispatcher reported last.
    clients: Mutex<HashMap<String, Arc<PeerClient>>>,
}

impl fmt::Debug for PeerStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeerStore").field("clients", &self.clients).finish_non_exhaustive()
    }
}

impl PeerStore {
    /// Connects over TLS if the connection to the dispatcher uses it. `watch` measures how long requests take.
    ///
    /// # Errors
    /// The system's error when no thread can be started.
    pub(crate) fn new(membership: Arc<Membership>, tls: Option<ClientTls>, watch: Arc<dyn Stopwatch>) -> Result<Self> {
        let made = || Builder::new_multi_thread().worker_threads(1).thread_name("forebay-peers").enable_all().build();
        let runtime = match RUNTIME.get() {
            Some(runtime) => runtime,
            None => {
                let made = made()?;
                RUNTIME.get_or_init(|| made)
            }
        };
        Ok(Self { membership, tls, runtime, watch, clients: Mutex::default() })
    }

    /// Returns the available peers by address, and the key to show them.
    fn members(&self) -> (HashMap<String, Arc<PeerClient>>, JobKey) {
        let (addresses, key) = self.membership.current();
        let mut clients = lock(&self.clients);
        clients.retain(|address, _| addresses.contains(address));
        for address in addresses {
            if let Ok(parsed) = address.parse()
                && !clients.contains_key(&address)
            {
                let peer = PeerClient::new(parsed, self.tls.clone());
                clients.insert(address, Arc::new(peer));
            }
        }
        let asked = clients
            .iter()
            .filter(|(_, peer)| peer.is_available())
            .map(|(address, peer)| (address.clone(), peer.clone()));
        (asked.collect(), key)
    }
}

impl RemoteBlocks for PeerStore {
    fn uri(&self) -> &str {
        "peers"
    }

    fn list(&self, below: &str, limit: Duration) -> Result<Vec<Object>> {
        let (peers, key) = self.members();
        let prefix = below.rsplit('/').next().unwrap_or_default();
        let ask = async |(address, peer): (&String, &Arc<PeerClient>)| {
            let blocks = peer.blocks(prefix, key, limit.min(LIST_MAX)).await.unwrap_or_default();
            blocks.into_iter().filter_map(|block| named_object(block, address)).collect::<Vec<_>>()
        };
        let listed = self.runtime.block_on(join_all(peers.iter().map(ask)));
        Ok(listed.into_iter().flatten().collect())
    }

    fn read(&self, parts: &[Part], limit: Duration) -> Vec<Result<Bytes>> {
        let (peers, key) = self.members();
        let mut of_peers: HashMap<&str, Vec<(usize, BlockPart)>> = HashMap::new();
        for (at, Part { name, range }) in parts.iter().enumerate() {
            if let Some((name, address)) = split_name(name) {
                let part = BlockPart { name, start: range.start, end: range.end };
                of_peers.entry(address).or_default().push((at, part));
            }
        }
        let asked = of_peers.iter().filter_map(|(address, parts)| Some((peers.get(*address)?, parts)));
        let read = asked.map(|(peer, parts)| peer.parts(parts, key, limit));
        let read = self.runtime.block_on(join_all(read));
        let mut answers: Vec<_> = parts.iter().map(|part| Err(missing(&part.name))).collect();
        read.into_iter().flatten().for_each(|(at, bytes)| answers[at] = Ok(bytes));
        answers
    }
}

impl Peers for PeerStore {
    fn caches(&self) -> u64 {
        self.membership.current().0.len() as u64
    }

    fn rows(&self, request: &PeerRequest<'_>, limit: Duration) -> PeerReplies {
        let (peers, key) = self.members();
        let of_file = |rows: &[RowKey]| {
            let file = format!("{:032x}", u128::from_be_bytes(rows[0].file.0));
            (file, rows.iter().map(|row| row.row).collect())
        };
        let rows = request.rows.chunk_by(|a, b| a.file == b.file).map(of_file).collect();
        let (prefix, rank, wait_ms) = (request.prefix.to_string(), request.rank, limit.as_millis() as u64);
        let question = Request::Rows { prefix, rows, rank, wait_ms, key };
        let ask = async |address: String| {
            let began = self.watch.nanos();
            let reply = peers.get(&address)?.rows(&question, limit).await?;
            let nanos = self.watch.nanos().saturating_sub(began);
            Some((reply.blocks, nanos.saturating_sub(reply.waited)))
        };
        let chosen = choose_peers(peers.keys().cloned().collect(), request.rows);
        let answered = self.runtime.block_on(join_all(chosen.into_iter().map(ask)));
        let (blocks, nanos): (Vec<_>, Vec<u64>) = answered.into_iter().flatten().unzip();
        PeerReplies { blocks: blocks.concat(), nanos: nanos.into_iter().max() }
    }
}

/// Chooses the peers for a request for rows. Their order follows from the first row, so workers that want the same rows
/// choose the same peers, and over many rows all peers get equally many requests.
fn choose_peers(mut addresses: Vec<String>, rows: &[RowKey]) -> Vec<String> {
    let first = rows.iter().min().map_or(0, |row| {
        let file = u128::from_be_bytes(row.file.0);
        mix64(file as u64 ^ mix64((file >> 64) as u64 ^ mix64(row.row)))
    });
    addresses.sort_by_cached_key(|address| address.bytes().fold(first, |rank, byte| mix64(rank ^ u64::from(byte))));
    addresses.truncate(ASKED_PEERS_MAX);
    addresses
}

/// A part that is not read counts as gone: its rows are computed, and the next listing finds the block again.
fn missing(name: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("no peer gave {name}"))
}

/// Returns a peer's block under its name here. A block larger than [`BLOCK_BYTES_MAX`] is left out: memory is reserved
/// by its length.
fn named_object(block: Block, address: &str) -> Option<Object> {
    let name =
        block.name.strip_suffix(".arrow").filter(|name| !name.contains('@') && block.bytes <= BLOCK_BYTES_MAX)?;
    Some(Object { name: format!("{name}@{address}.arrow"), bytes: block.bytes, modified: SystemTime::UNIX_EPOCH })
}

/// Splits a name into the peer's name of the block, and the peer's address.
fn split_name(name: &str) -> Option<(String, &str)> {
    let (name, address) = name.strip_suffix(".arrow")?.split_once('@')?;
    Some((format!("{name}.arrow"), address))
}

#[cfg(test)]
mod tests {
    use forebay_cache::FileKey;

    use super::*;

    #[test]
    fn a_bounded_number_is_asked_the_same_by_all_who_ask_for_the_same_and_each_as_often() {
        let addresses: Vec<String> = (0..64).map(|n| format!("10.0.0.{n}:7070")).collect();
        let reversed: Vec<String> = addresses.iter().rev().cloned().collect();
        let mut asked: HashMap<String, usize> = HashMap::new();
        for row in 0..2000 {
            let rows = [9, 0, 4].map(|more| RowKey { file: FileKey([7; 16]), row: row + more });
            let chosen = choose_peers(addresses.clone(), &rows);
            assert_eq!(chosen.len(), ASKED_PEERS_MAX);
            assert_eq!(chosen, super::choose_peers(reversed.clone(), &rows[1..]));
            chosen.into_iter().for_each(|address| *asked.entry(address).or_default() += 1);
        }
        // 250 each.
        assert!(asked.len() == 64 && asked.values().all(|&often| (150..350).contains(&often)), "{asked:?}");
        let few = addresses[..ASKED_PEERS_MAX].to_vec();
        assert_eq!(choose_peers(few, &[]).len(), ASKED_PEERS_MAX);
    }

    #[test]
    fn a_block_is_found_again_by_its_name() {
        for address in ["host:7070", "[::1]:7070", "10.0.0.1:1"] {
            let block = Block { name: "1/ab/cd.arrow".to_owned(), bytes: 3 };
            let object = named_object(block, address).expect("a block");
            assert_eq!(split_name(&object.name), Some(("1/ab/cd.arrow".to_owned(), address)));
        }
        assert!(
            named_object(Block { name: "1/ab/c@d.arrow".to_owned(), bytes: 3 }, "host:1").is_none(),
            "whose would it be?"
        );
        let lie = Block { name: "1/ab/cd.arrow".to_owned(), bytes: 1 << 40 };
        assert!(named_object(lie, "host:1").is_none(), "no worker has such a block");
        assert!(split_name("1/ab/cd.arrow").is_none());
    }
}
