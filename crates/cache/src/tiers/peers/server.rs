//! Answers a peer that is about to compute rows: sends the rows that this process has, or computes now, as blocks.
//!
//! Rows in memory or on the disk are sent at once. The answer waits for rows that are being computed only where this
//! cannot deadlock: a claim that is [committed](InFlight::commit) computes and waits for no peer, and of two
//! uncommitted claims, the process with the lower rank goes first ([`InFlight::is_asked`]). So no two processes wait
//! for each other.
//!
//! Bounds: one answer has at most [`REPLY_BYTES_MAX`] of rows, and no more are read or copied for it. It waits at most
//! the limit of the request, and at most [`REPLY_WAIT`]. The answer has the time that it waited, because that time is
//! not part of the cost of a request.

#![expect(clippy::disallowed_methods, reason = "it measures how long a peer waited")]

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use forebay_core::{Error, Result};
use forebay_data::Memory;

use crate::key::{PrefixKey, RowKey};
use crate::lock::{deadline, read};
use crate::rows::answer::Answer;
use crate::rows::found::Found;
use crate::rows::in_flight::InFlight;
use crate::rows::index::{Numbering, RowLocation};
use crate::rows::number::Number;
use crate::rows::table::{Place, Table};
use crate::rows::tier_read::TierRead;
use crate::state::CacheState;
use crate::state::prefix::PrefixState;
use crate::tiers::TierId;
use crate::tiers::block::format::encode;

/// The most bytes of rows in one answer.
pub(crate) const REPLY_BYTES_MAX: usize = 8 << 20;
/// The longest wait for rows that are being computed.
const REPLY_WAIT: Duration = Duration::from_secs(5);

/// A request for rows that its sender would otherwise compute.
#[derive(Debug, Clone, Copy)]
pub struct PeerRequest<'a> {
    /// The prefix.
    pub prefix: PrefixKey,
    /// The rows.
    pub rows: &'a [RowKey],
    /// The rank of the requesting process. Of two processes that want to compute the same rows, the lower rank goes
    /// first.
    pub rank: u64,
}

/// The answer to a [`PeerRequest`].
#[derive(Debug, Clone, Default)]
pub struct PeerReply {
    /// Blocks with the rows that are here.
    pub blocks: Vec<Bytes>,
    /// How long the answer waited for rows that this process computes.
    pub waited: Duration,
}

/// The remaining room of an answer.
struct ReplyRoom {
    left: usize,
    /// A row was left out that would fit into another answer.
    is_full: bool,
}

impl ReplyRoom {
    /// Takes the room of a row, if it fits; returns whether it does.
    fn take(&mut self, bytes: usize) -> bool {
        let fits = bytes <= self.left;
        self.left -= if fits { bytes } else { 0 };
        self.is_full |= !fits && bytes <= REPLY_BYTES_MAX;
        fits
    }
}

/// Returns blocks of the rows that are here, and of the rows that a filter removed.
fn reply(
    cache: &CacheState,
    state: &Arc<PrefixState>,
    request: &PeerRequest<'_>,
    limit: Duration,
) -> Result<PeerReply> {
    let until = deadline(limit.min(REPLY_WAIT));
    let mut room = ReplyRoom { left: REPLY_BYTES_MAX, is_full: false };
    let (mut answer, mut filtered_out) = (Answer::new(Found::new(&state.schema), cache.passes(state.key)), Vec::new());
    let mut on_disk = TierRead::new(TierId::Disk);
    let mut awaited: Vec<(u32, Number, Arc<InFlight>)> = Vec::new();
    {
        let (index, mut numbering) = (read(&state.index), Numbering::default());
        let gives_way = request.rank < cache.rank();
        for (row, key) in (0..).zip(request.rows) {
            let Some(number) = numbering.find(&index, key) else { continue };
            let location = index.location(number);
            match location {
                RowLocation::FilteredOut => filtered_out.push(row),
                // The peer requests rows again that did not fit.
                _ if index.bytes_here(location).is_some_and(|bytes| !room.take(bytes)) => {}
                RowLocation::Memory(slot) if answer.take(row, slot, &index) => {}
                RowLocation::InTier(TierId::Disk, slot) if on_disk.want(row, number, slot, &index) => {}
                _ if room.is_full => {}
                _ => {
                    let in_flight = index.in_flight.get(&number).filter(|in_flight| in_flight.is_asked(gives_way));
                    awaited.extend(in_flight.map(|in_flight| (row, number, in_flight.clone())));
                }
            }
        }
    }
    if let Some(disk) = cache.disk().filter(|_| !on_disk.is_empty()) {
        on_disk.read(disk, cache, state, &mut answer, &Memory::default());
    }
    let began = Instant::now();
    let mut tables: HashMap<*const InFlight, Option<u32>> = HashMap::new();
    for (row, number, in_flight) in awaited {
        if room.is_full {
            break;
        }
        let Some(outcome) = in_flight.wait(until) else { continue };
        let push = || outcome.table.clone().map(|table| answer.found.push(table, false));
        let table = *tables.entry(Arc::as_ptr(&in_flight)).or_insert_with(push);
        match outcome.rows.get(&number).zip(table).zip(outcome.table.as_ref()) {
            Some(((&at, table), rows)) if room.take(rows.row_bytes(at as usize)) => {
                answer.found.put(row, Place { table, row: at });
            }
            Some(_) => {}
            None => filtered_out.extend(outcome.filtered_out.contains(&number).then_some(row)),
        }
    }
    let waited = began.elapsed();
    Ok(PeerReply { blocks: blocks(cache, state, request.rows, answer.found, filtered_out)?, waited })
}

/// Encodes the found rows as one block, and the rows that a filter removed as another.
fn blocks(
    cache: &CacheState,
    state: &PrefixState,
    asked: &[RowKey],
    mut found: Found,
    mut filtered_out: Vec<u32>,
) -> Result<Vec<Bytes>> {
    let keys = |rows: &[u32]| rows.iter().map(|&row| asked[row as usize]).collect::<Vec<_>>();
    let mut blocks = Vec::new();
    let rows = found.rows();
    if !rows.is_empty() {
        let table = Table::of(&state.schema, &found.columns(&Memory::default())?, rows.len())?;
        blocks.push(encode(&cache.header(state, false), &table, &keys(&rows))?.into());
    }
    if !filtered_out.is_empty() {
        filtered_out.sort_unstable();
        let table = Table::new(Vec::new(), filtered_out.len());
        blocks.push(encode(&cache.header(state, true), &table, &keys(&filtered_out))?.into());
    }
    Ok(blocks)
}

impl CacheState {
    /// Answers a peer.
    ///
    /// # Errors
    /// NotFound where this process does not know the prefix; or the error of encoding a block.
    pub(crate) fn reply(&self, request: &PeerRequest<'_>, limit: Duration) -> Result<PeerReply> {
        match self.known_prefix(request.prefix) {
            Some(state) => reply(self, &state, request, limit),
            None => Err(Error::new(forebay_core::ErrorKind::NotFound, "nothing is kept of that")),
        }
    }
}
