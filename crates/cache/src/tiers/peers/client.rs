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
use crate::lock::{deadline, read, write};
use crate::rows::admit::keep_copies;
use crate::rows::claim::Claim;
use crate::rows::index::{NO_NUMBER, Number, ROW_BYTES};
use crate::rows::prefix::{Answer, Prefix};
use crate::rows::table::{Place, Table};
use crate::stats::add;
use crate::tiers::block::format::open;
use crate::tiers::block::read::{Reading, Want, are_right};
use crate::tiers::peers::server::{PeerRequest, REPLY_BYTES_MAX};
use crate::tiers::peers::tier::PeersTier;
use crate::tiers::remote::blocks::RemoteBlocks;
use crate::tiers::remote::cost::patience;

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

impl Prefix {
    /// Requests the rows of a claim from peers. Rows that they send are found, and no longer claimed.
    pub(crate) fn ask_peers(&self, tier: &PeersTier, answer: &mut Answer, claim: &mut Claim, memory: &Memory) {
        let compute = self.compute_nanos(claim.rows().len());
        if tier.pays_to_ask(compute) {
            self.request_rows(tier, answer, claim, memory, deadline(patience(compute)));
        }
    }

    /// Returns the nanoseconds that computing `rows` rows takes, if known.
    fn compute_nanos(&self, rows: usize) -> Option<f64> {
        let row_bytes = self.cache.row_bytes(&self.state)?;
        Some(self.cache.cost(&self.state)? * row_bytes * rows as f64)
    }

    fn request_rows(&self, tier: &PeersTier, answer: &mut Answer, claim: &mut Claim, memory: &Memory, until: Instant) {
        let mut wanted = self.wanted(claim);
        let mut asked: Vec<RowKey> = wanted.keys().copied().collect();
        asked.sort_unstable();
        while !asked.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let now: Vec<RowKey> = asked.drain(..asked.len().min(ROWS_MAX)).collect();
            let request = PeerRequest { prefix: self.state.key, rows: &now, rank: self.cache.rank() };
            let PeerReplies { blocks, nanos } = tier.peers().rows(&request, left);
            let is_full = blocks.iter().any(|block| block.len() > REPLY_BYTES_MAX / 2);
            let mut taken = HashSet::new();
            blocks.iter().for_each(|block| self.take_block(block, &mut wanted, &mut taken, answer, memory));
            // A full answer means that the peer has the rest, too.
            let share = if is_full && !taken.is_empty() { 1.0 } else { taken.len() as f64 / now.len() as f64 };
            nanos.into_iter().for_each(|nanos| tier.note_request(nanos, share));
            if taken.is_empty() {
                continue;
            }
            claim.release(&taken);
            // The peers may have more rows.
            if is_full {
                asked.extend(now.into_iter().filter(|key| wanted.contains_key(key)));
            }
        }
    }

    /// Accepts the requested rows of a block, if all of them are right.
    fn take_block(
        &self,
        bytes: &Bytes,
        wanted: &mut Wanted,
        taken: &mut HashSet<u32>,
        answer: &mut Answer,
        memory: &Memory,
    ) {
        let state = &self.state;
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
            answer.found.add_filtered_out(&rows);
            if self.cache.memory().count_index(numbers.len() as u64 * ROW_BYTES) {
                let new = write(&state.index).add_filtered_out(&numbers);
                self.cache.memory().uncount_index((numbers.len() as u64 - new) * ROW_BYTES);
            }
            add(&state.counters.filtered_out_hits, rows.len());
        } else {
            let want =
                |(slot, (row, key, ..)): (usize, &(usize, RowKey, u32, Number))| Want { slot, row: *row, key: *key };
            let wants: Vec<Want> = found.iter().enumerate().map(want).collect();
            let mut reading = Reading::new(&state.shapes, &[(&layout, &wants)], wants.len(), memory);
            if reading.read(&bytes[..], &layout, &wants).is_err() {
                return;
            }
            let table = reading.finish();
            if !are_right(&table, &layout, &wants) {
                return tracing::warn!("rows that a peer gave are broken; they are computed");
            }
            let numbers: Vec<(Number, u32)> = (0..).zip(&found).map(|(at, &(.., number))| (number, at)).collect();
            keep_copies(&self.cache, state, &table, &numbers);
            let id = answer.found.push(table, true);
            (0..).zip(&found).for_each(|(at, &(_, _, row, _))| answer.found.put(row, Place { table: id, row: at }));
            add(&state.counters.peer_hits, found.len());
        }
        for (_, key, row, _) in found {
            wanted.remove(&key);
            taken.insert(row);
        }
    }

    fn wanted(&self, claim: &Claim) -> Wanted {
        let index = read(&self.state.index);
        let numbered = claim.numbered_rows().filter(|(_, number)| *number != NO_NUMBER);
        numbered.map(|(row, number)| (index.key_of(number), (row, number))).collect()
    }
}
