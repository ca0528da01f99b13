//! Requests rows from peers that this process is about to compute: a peer may have computed them a moment ago, or
//! compute them now.
//!
//! Blocks that peers list are known here within about a second. In a short epoch, or where two jobs read the same
//! samples at once, many rows are not listed yet. A process claims rows before it requests them, so of two processes
//! that want the same row at least one receives the other's request, and one computes it
//! ([`InFlight::is_asked`](crate::rows::in_flight::InFlight::is_asked)). Both compute it only if the second claims it
//! within one message delay after the first was answered that no peer has it.
//!
//! Invariants: a row is accepted if its sum is right, as from any block. The wait for an answer has the bound of a read
//! from peers; rows that have not arrived by then are computed. The cost and the yield of requests decide whether
//! requests pay (`tiers::peers::ask_policy`); they are measured separately from the cost of reads.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use bytes::Bytes;
use forebay_data::Memory;

use crate::key::RowKey;
use crate::lock::{left, read, write};
use crate::rows::admit::keep_copies;
use crate::rows::answer::Answer;
use crate::rows::claimed::ClaimedRows;
use crate::rows::index::ROW_BYTES;
use crate::rows::number::{NO_NUMBER, Number};
use crate::rows::table::{Place, Table};
use crate::state::CacheState;
use crate::state::prefix::PrefixState;
use crate::stats::add;
use crate::tiers::block::format::open;
use crate::tiers::block::read::{Reading, Want, are_right};
use crate::tiers::peers::server::{PeerRequest, REPLY_BYTES_MAX};
use crate::tiers::remote::blocks::RemoteBlocks;

/// The most rows in one request.
const ROWS_MAX: usize = 1000;

/// Other processes that keep rows. Their blocks are listed and read under the names of a store's objects, and they
/// answer requests for rows that they do not list yet.
pub trait Peers: RemoteBlocks {
    /// Returns the number of processes.
    fn caches(&self) -> u64;

    /// Requests rows from a bounded number of peers. Every process that requests the same rows queries the same peers.
    /// Each peer waits at most `limit` for rows that it computes.
    fn rows(&self, asked: &PeerRequest<'_>, limit: Duration) -> PeerReplies;
}

/// The answers of peers to one request.
#[derive(Debug, Clone, Default)]
pub struct PeerReplies {
    /// Blocks of rows, in any order.
    pub blocks: Vec<Bytes>,
    /// The time of the slowest answer in nanoseconds, without its wait for rows; `None` where no peer answered.
    pub nanos: Option<u64>,
}

/// The requested rows: their places in the request, and their numbers, by key.
type Wanted = HashMap<RowKey, (u32, Number)>;

/// A lookup of rows of a prefix, some of which peers may have.
pub(super) struct PeerLookup<'a> {
    pub(super) cache: &'a CacheState,
    pub(super) state: &'a PrefixState,
    pub(super) answer: &'a mut Answer,
    pub(super) memory: &'a Memory,
}

impl PeerLookup<'_> {
    /// Requests claimed rows from peers until `until`. Rows that they send are found, and no longer claimed. `note`
    /// gets the nanoseconds of each request, and the share of its rows that it yielded.
    pub(super) fn request_rows(
        &mut self,
        peers: &dyn Peers,
        claimed: &mut ClaimedRows,
        until: Instant,
        note: impl Fn(u64, f64),
    ) {
        let mut wanted = self.wanted(claimed);
        let mut asked: Vec<RowKey> = wanted.keys().copied().collect();
        asked.sort_unstable();
        while !asked.is_empty() {
            let left = left(until);
            if left.is_zero() {
                return;
            }
            let now: Vec<RowKey> = asked.drain(..asked.len().min(ROWS_MAX)).collect();
            let request = PeerRequest { prefix: self.state.key, rows: &now, rank: self.cache.rank() };
            let PeerReplies { blocks, nanos } = peers.rows(&request, left);
            let is_full = blocks.iter().any(|block| block.len() > REPLY_BYTES_MAX / 2);
            let mut taken = HashSet::new();
            blocks.iter().for_each(|block| self.take_block(block, &mut wanted, &mut taken));
            // A full answer means that the peer has the rest, too.
            let share = if is_full && !taken.is_empty() { 1.0 } else { taken.len() as f64 / now.len() as f64 };
            nanos.into_iter().for_each(|nanos| note(nanos, share));
            if taken.is_empty() {
                continue;
            }
            claimed.release(&taken);
            // The peers may have more rows.
            if is_full {
                asked.extend(now.into_iter().filter(|key| wanted.contains_key(key)));
            }
        }
    }

    /// Accepts the requested rows of a block, if all of them are right.
    fn take_block(&mut self, bytes: &Bytes, wanted: &mut Wanted, taken: &mut HashSet<u32>) {
        let state = self.state;
        let Ok((header, layout)) = open(&bytes[..]) else { return };
        if header.prefix != state.key || header.schema != *state.schema {
            return;
        }
        let found: Vec<(usize, RowKey, u32, Number)> = (0..)
            .zip(&layout.keys)
            .filter_map(|(at, key)| wanted.get(key).map(|&(row, number)| (at, *key, row, number)))
            .collect();
        if header.filtered_out {
            let nothing = Table::new(Vec::new(), 0);
            if found.iter().any(|(at, key, ..)| nothing.sum(key, 0) != layout.sums[*at]) {
                return;
            }
            let (rows, numbers): (Vec<u32>, Vec<Number>) = found.iter().map(|&(.., row, number)| (row, number)).unzip();
            self.answer.found.add_filtered_out(&rows);
            if self.cache.memory().count_index(numbers.len() as u64 * ROW_BYTES) {
                let new = write(&state.index).add_filtered_out(&numbers);
                self.cache.memory().uncount_index((numbers.len() as u64 - new) * ROW_BYTES);
            }
            add(&state.counters.filtered_out_hits, rows.len());
        } else {
            let want =
                |(slot, (row, key, ..)): (usize, &(usize, RowKey, u32, Number))| Want { slot, row: *row, key: *key };
            let wants: Vec<Want> = found.iter().enumerate().map(want).collect();
            let mut reading = Reading::new(&state.shapes, &[(&layout, &wants)], wants.len(), self.memory);
            if reading.read(&bytes[..], &layout, &wants).is_err() {
                return;
            }
            let table = reading.finish();
            if !are_right(&table, &layout, &wants) {
                return tracing::warn!("rows that a peer gave are broken; they are computed");
            }
            let numbers: Vec<(Number, u32)> = (0..).zip(&found).map(|(at, &(.., number))| (number, at)).collect();
            keep_copies(self.cache, state, &table, &numbers);
            let id = self.answer.found.push(table, true);
            (0..)
                .zip(&found)
                .for_each(|(at, &(_, _, row, _))| self.answer.found.put(row, Place { table: id, row: at }));
            add(&state.counters.peer_hits, found.len());
        }
        for (_, key, row, _) in found {
            wanted.remove(&key);
            taken.insert(row);
        }
    }

    fn wanted(&self, claimed: &ClaimedRows) -> Wanted {
        let index = read(&self.state.index);
        let numbered = claimed.numbered_rows().filter(|(_, number)| *number != NO_NUMBER);
        numbered.map(|(row, number)| (index.key_of(number), (row, number))).collect()
    }
}
