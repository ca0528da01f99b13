//! The thread that writes to one tier: it gathers the rows of many morsels into blocks, and publishes them.
//!
//! A block is written when it is large enough, when its first row has waited for [`FLUSH_AFTER`], when the queue is
//! half full, when every row of the prefix is there, or on a flush. So a crash loses a bounded number of rows. The time
//! when a block appears changes no sample.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use forebay_core::Result;
use forebay_data::Memory;

use crate::key::{PrefixKey, RowKey};
use crate::lock::{read, write};
use crate::rows::index::{Number, Segment};
use crate::rows::table::{Place, Table};
use crate::state::{CacheState, PrefixState};
use crate::stats::add;
use crate::tiers::TierId;
use crate::tiers::block::format::{encode, open};
use crate::tiers::block::queue::{Next, QUEUE_BYTES_MAX};
use crate::tiers::tier::BlockSink;

/// The longest wait of a row for its block to fill.
const FLUSH_AFTER: Duration = Duration::from_secs(10);

/// Rows to be written, with their bytes in the queue.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) state: Arc<PrefixState>,
    pub(crate) rows: Rows,
    pub(crate) bytes: u64,
}

/// Rows to be written.
#[derive(Debug)]
pub(crate) enum Rows {
    /// A segment by its number in the index. A `passing` segment leaves the index when it is written here.
    Computed { id: u32, segment: Arc<Segment>, passing: bool },
    /// Rows that a filter removed.
    FilteredOut(Vec<Number>),
}

/// Rows of a prefix that wait for their block.
struct Gathered {
    state: Arc<PrefixState>,
    /// Segments by their number in the index, and whether they leave it when they are written.
    segments: Vec<(u32, Arc<Segment>, bool)>,
    filtered_out: Vec<Number>,
    rows: u64,
    /// The bytes of the rows, and the bytes that the queue counts for them.
    bytes: u64,
    queued: u64,
    since: Instant,
}

/// Writes until the queue is closed.
pub(crate) fn run(cache: &CacheState, sink: &dyn BlockSink) {
    let mut gathered: BTreeMap<PrefixKey, Gathered> = BTreeMap::new();
    loop {
        let oldest = gathered.values().map(|g| g.since + FLUSH_AFTER).min();
        match sink.queue().next(oldest) {
            Next::More(message) => {
                let key = message.state.key;
                let waiting = gather(&mut gathered, message);
                let last = || gathered.get(&key).is_some_and(|g| is_last(g, sink.id()));
                if waiting >= sink.block_bytes() || last() {
                    gathered.remove(&key).into_iter().for_each(|g| write_all(cache, sink, g));
                }
                if gathered.values().map(|g| g.queued).sum::<u64>() > QUEUE_BYTES_MAX / 2 {
                    drain(cache, sink, &mut gathered, |_| true);
                }
            }
            Next::Due => drain(cache, sink, &mut gathered, |g| g.since.elapsed() >= FLUSH_AFTER),
            Next::Flush(asked) => {
                drain(cache, sink, &mut gathered, |_| true);
                sink.queue().flushed(asked);
            }
            Next::Close => {
                drain(cache, sink, &mut gathered, |_| true);
                return sink.queue().end();
            }
        }
    }
}

/// Adds rows to those of their prefix; returns the bytes that wait.
fn gather(gathered: &mut BTreeMap<PrefixKey, Gathered>, message: Message) -> u64 {
    let Message { state, rows, bytes } = message;
    let new = || Gathered {
        state: state.clone(),
        segments: Vec::new(),
        filtered_out: Vec::new(),
        rows: 0,
        bytes: 0,
        queued: 0,
        since: Instant::now(),
    };
    let waiting = gathered.entry(state.key).or_insert_with(new);
    waiting.queued += bytes;
    match rows {
        Rows::Computed { id, segment, passing } => {
            waiting.rows += segment.numbers.len() as u64;
            waiting.bytes += segment.table.bytes() as u64;
            waiting.segments.push((id, segment, passing));
        }
        Rows::FilteredOut(numbers) => waiting.filtered_out.extend(numbers),
    }
    waiting.bytes
}

/// Says whether no row can follow, because every row of the prefix is gathered or in the tier.
fn is_last(gathered: &Gathered, tier: TierId) -> bool {
    let index = read(&gathered.state.index);
    index.rows_on(tier) + index.filtered_out() + gathered.rows >= gathered.state.rows
}

fn drain(
    cache: &CacheState,
    sink: &dyn BlockSink,
    gathered: &mut BTreeMap<PrefixKey, Gathered>,
    due: impl Fn(&Gathered) -> bool,
) {
    let keys: Vec<PrefixKey> = gathered.iter().filter(|(_, g)| due(g)).map(|(key, _)| *key).collect();
    keys.iter().filter_map(|key| gathered.remove(key)).collect::<Vec<_>>().into_iter().for_each(|g| {
        write_all(cache, sink, g);
    });
}

/// Writes the gathered rows of a prefix, in as many blocks as needed. Rows in memory that only waited to be written are
/// dropped.
fn write_all(cache: &CacheState, sink: &dyn BlockSink, gathered: Gathered) {
    let state = &gathered.state;
    let places = unwritten(&gathered, sink.id());
    let tables: Vec<&Table> = gathered.segments.iter().map(|(_, segment, _)| &segment.table).collect();
    let number = |place: &Place| gathered.segments[place.table as usize].1.numbers[place.row as usize];
    for block in cut(&tables, &places, sink.block_bytes()) {
        let numbers = block.iter().map(number).collect();
        // The rows are copied only if there is still room.
        let table = || Table::gather(&state.shapes, &tables, block, &Memory::default());
        publish(cache, sink, state, numbers, false, table);
    }
    if !gathered.filtered_out.is_empty() {
        let rows = gathered.filtered_out.len();
        publish(cache, sink, state, gathered.filtered_out.clone(), true, || Table::new(Vec::new(), rows));
    }
    let mut index = write(&state.index);
    gathered.segments.iter().filter(|(.., passing)| *passing).for_each(|(id, ..)| _ = index.drop_segment(*id));
    drop(index);
    sink.queue().release(gathered.queued);
}

/// Returns the gathered rows that are not in the tier yet.
fn unwritten(gathered: &Gathered, tier: TierId) -> Vec<Place> {
    let index = read(&gathered.state.index);
    let places = gathered.segments.iter().enumerate().flat_map(|(table, (_, segment, _))| {
        (0..).zip(&segment.numbers).map(move |(row, number)| (*number, Place { table: table as u32, row }))
    });
    places.filter(|(number, _)| !index.is_on(tier, *number)).map(|(_, place)| place).collect()
}

/// Splits rows into runs of about `bytes` each: a run exceeds it by less than one row.
fn cut<'a>(tables: &[&Table], places: &'a [Place], bytes: u64) -> Vec<&'a [Place]> {
    let (mut blocks, mut first, mut held) = (Vec::new(), 0, 0);
    for (i, place) in places.iter().enumerate() {
        held += tables[place.table as usize].row_bytes(place.row as usize) as u64;
        if held >= bytes {
            blocks.push(&places[first..=i]);
            (first, held) = (i + 1, 0);
        }
    }
    blocks.extend((first < places.len()).then(|| &places[first..]));
    blocks
}

fn publish(
    cache: &CacheState,
    sink: &dyn BlockSink,
    state: &Arc<PrefixState>,
    numbers: Vec<Number>,
    filtered_out: bool,
    table: impl FnOnce() -> Table,
) {
    let rows = numbers.len();
    let refused = || {
        add(sink.refused(&state.counters), rows);
    };
    if sink.is_stopped() {
        return refused();
    }
    let keys: Vec<RowKey> = {
        let index = read(&state.index);
        numbers.iter().map(|&number| index.key_of(number)).collect()
    };
    let Ok(bytes) = encode_block(cache, state, &table(), &keys, filtered_out) else {
        return add(&state.counters.unfit, rows);
    };
    let bytes = Bytes::from(bytes);
    let Some(block) = sink.put(cache, state, &bytes) else { return refused() };
    if let (false, Ok((_, layout))) = (filtered_out, open(&bytes[..])) {
        cache.add_block(sink.id(), state, &block, layout, numbers);
        cache.shrink();
    }
}

fn encode_block(
    cache: &CacheState,
    state: &PrefixState,
    table: &Table,
    keys: &[RowKey],
    filtered_out: bool,
) -> Result<Vec<u8>> {
    encode(&cache.header(state, filtered_out), table, keys)
}
