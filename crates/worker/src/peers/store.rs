//! Other workers that keep rows, as a store that is read: what they have is listed, and read by range.
//!
//! A block is called what its worker calls it, with the worker's address: whoever reads it need not remember who had it.
//!
//! Invariants: a peer that fails, or is late, is missed: what it has is as if it were gone; each call is over when its limit is; at most
//! [`ASKED_MAX`] are asked for rows that nobody shows, however many there are.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use forebay_cache::{Answers, Asked, Object, Part, Peers as AskPeers, RowKey, Store};
use forebay_core::rng::mix64;
use forebay_core::{Error, ErrorKind, Result, Stopwatch};
use forebay_proto::{Block, BlockPart, ClientTls, JobKey, Request};
use futures::future::join_all;
use tokio::runtime::{Builder, Runtime};

use crate::lock::lock;
use crate::peers::client::PeerClient;
use crate::peers::membership::Membership;

/// No block has more bytes than this.
const BLOCK_BYTES_MAX: u64 = 1 << 30;
/// How long it may take to say what it has.
const LIST_MAX: Duration = Duration::from_secs(2);

/// How many are asked for rows that nobody shows: all of a small service. Each question costs whoever is asked, too, and mostly in vain.
const ASKED_MAX: usize = 8;

/// Drives connections for threads that wait for them. The worker's own ends before those do.
static RUNTIME: OnceLock<Runtime> = OnceLock::new();

/// See the module's documentation.
pub(crate) struct PeerStore {
    membership: Arc<Membership>,
    tls: Option<ClientTls>,
    runtime: &'static Runtime,
    watch: Arc<dyn Stopwatch>,
    /// By address; only those that were told last.
    known: Mutex<HashMap<String, Arc<PeerClient>>>,
}

impl fmt::Debug for PeerStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeerStore").field("known", &self.known).finish_non_exhaustive()
    }
}

impl PeerStore {
    /// Asks over TLS where the dispatcher is asked so. `watch` measures what questions take.
    ///
    /// # Errors
    /// What the system says when there is no thread left.
    pub(crate) fn new(membership: Arc<Membership>, tls: Option<ClientTls>, watch: Arc<dyn Stopwatch>) -> Result<Self> {
        let made = || Builder::new_multi_thread().worker_threads(1).thread_name("forebay-peers").enable_all().build();
        let runtime = match RUNTIME.get() {
            Some(runtime) => runtime,
            None => {
                let made = made()?;
                RUNTIME.get_or_init(|| made)
            }
        };
        Ok(Self { membership, tls, runtime, watch, known: Mutex::default() })
    }

    /// Returns those to be asked now, by address, and what to show them.
    fn members(&self) -> (HashMap<String, Arc<PeerClient>>, JobKey) {
        let (addresses, key) = self.membership.now();
        let mut known = lock(&self.known);
        known.retain(|address, _| addresses.contains(address));
        for address in addresses {
            if let Ok(parsed) = address.parse()
                && !known.contains_key(&address)
            {
                let peer = PeerClient::new(parsed, self.tls.clone());
                known.insert(address, Arc::new(peer));
            }
        }
        let asked =
            known.iter().filter(|(_, peer)| peer.is_asked()).map(|(address, peer)| (address.clone(), peer.clone()));
        (asked.collect(), key)
    }
}

impl Store for PeerStore {
    fn uri(&self) -> &str {
        "peers"
    }

    fn list(&self, below: &str, limit: Duration) -> Result<Vec<Object>> {
        let (peers, key) = self.members();
        let prefix = below.rsplit('/').next().unwrap_or_default();
        let ask = async |(address, peer): (&String, &Arc<PeerClient>)| {
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
        let read = asked.map(|(peer, parts)| peer.parts(parts, key, limit));
        let read = self.runtime.block_on(join_all(read));
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

    fn caches(&self) -> u64 {
        self.membership.now().0.len() as u64
    }
}

impl AskPeers for PeerStore {
    fn rows(&self, asked: &Asked<'_>, limit: Duration) -> Answers {
        let (peers, key) = self.members();
        let of_file = |rows: &[RowKey]| {
            let file = format!("{:032x}", u128::from_be_bytes(rows[0].file.0));
            (file, rows.iter().map(|row| row.row).collect())
        };
        let rows = asked.rows.chunk_by(|a, b| a.file == b.file).map(of_file).collect();
        let (prefix, rank, wait_ms) = (asked.prefix.to_string(), asked.rank, limit.as_millis() as u64);
        let request = Request::Rows { prefix, rows, rank, wait_ms, key };
        let ask = async |address: String| {
            let began = self.watch.nanos();
            let given = peers.get(&address)?.rows(&request, limit).await?;
            let nanos = self.watch.nanos().saturating_sub(began);
            Some((given.blocks, nanos.saturating_sub(given.waited)))
        };
        let chosen = chosen(peers.keys().cloned().collect(), asked.rows);
        let answered = self.runtime.block_on(join_all(chosen.into_iter().map(ask)));
        let (blocks, nanos): (Vec<_>, Vec<u64>) = answered.into_iter().flatten().unzip();
        Answers { blocks: blocks.concat(), nanos: nanos.into_iter().max() }
    }
}

/// Returns who is asked for rows: the first by a rank that follows from the rows, so that whoever asks for the same asks the same, and
/// all are asked as often.
fn chosen(mut addresses: Vec<String>, rows: &[RowKey]) -> Vec<String> {
    let first = rows.iter().min().map_or(0, |row| {
        let file = u128::from_be_bytes(row.file.0);
        mix64(file as u64 ^ mix64((file >> 64) as u64 ^ mix64(row.row)))
    });
    addresses.sort_by_cached_key(|address| address.bytes().fold(first, |rank, byte| mix64(rank ^ u64::from(byte))));
    addresses.truncate(ASKED_MAX);
    addresses
}

/// What is not read is as if it were gone: it is computed, and looked for again with the next list.
fn gone(name: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("no peer gave {name}"))
}

/// Returns a peer's block under a name that says whose it is. One that is larger than any is none: what is read of a block, and
/// room made for, is checked against its length.
fn object(block: Block, address: &str) -> Option<Object> {
    let name =
        block.name.strip_suffix(".arrow").filter(|name| !name.contains('@') && block.bytes <= BLOCK_BYTES_MAX)?;
    Some(Object { name: format!("{name}@{address}.arrow"), bytes: block.bytes, modified: SystemTime::UNIX_EPOCH })
}

/// Returns what a peer calls a block, and whose it is.
fn parted(name: &str) -> Option<(String, &str)> {
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
            let chosen = chosen(addresses.clone(), &rows);
            assert_eq!(chosen.len(), ASKED_MAX);
            assert_eq!(chosen, super::chosen(reversed.clone(), &rows[1..]));
            chosen.into_iter().for_each(|address| *asked.entry(address).or_default() += 1);
        }
        // 250 each.
        assert!(asked.len() == 64 && asked.values().all(|&often| (150..350).contains(&often)), "{asked:?}");
        let few = addresses[..ASKED_MAX].to_vec();
        assert_eq!(chosen(few, &[]).len(), ASKED_MAX);
    }

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
        let lie = Block { name: "1/ab/cd.arrow".to_owned(), bytes: 1 << 40 };
        assert!(object(lie, "host:1").is_none(), "nobody has such a block");
        assert!(parted("1/ab/cd.arrow").is_none());
    }
}
