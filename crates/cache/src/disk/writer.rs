//! The thread that writes to one level: it gathers the rows of many morsels into blocks, and publishes them.
//!
//! A block is written when it is large enough, when its first row has waited for [`FLUSH_AFTER`], when the queue is half full,
//! when no row of the prefix is missing any more, or when somebody asks; so what is lost in a crash is bounded. When a block
//! appears changes no sample.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use forebay_core::Result;
use forebay_data::Memory;

use super::format::{encode, open};
use super::queue::{Next, QUEUE_BYTES_MAX, Queue};
use super::tier::Unread;
use crate::index::{Level, Number, Segment};
use crate::lock::{read, write};
use crate::shared::{Cell, Shared};
use crate::stats::add;
use crate::table::{Place, Table};
use crate::{PrefixKey, RowKey};

/// How long rows wait for others to fill their block.
const FLUSH_AFTER: Duration = Duration::from_secs(10);

/// What is to be written.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) cell: Arc<Cell>,
    pub(crate) rows: Rows,
    pub(crate) bytes: u64,
}

/// Rows to be written.
#[derive(Debug)]
pub(crate) enum Rows {
    /// A segment by its number in the index. One that is `passing` leaves that when it is written here.
    Computed { id: u32, segment: Arc<Segment>, passing: bool },
    /// Rows that a filter removed.
    Without(Vec<Number>),
}

/// Where blocks are written to.
pub(crate) trait Sink {
    /// What waits to be written.
    fn queue(&self) -> &Queue<Message>;
    /// Which level it is.
    fn level(&self) -> Level;
    /// How many bytes of rows make a block.
    fn block_bytes(&self) -> u64;
    /// Says whether nothing is written now.
    fn is_stopped(&self) -> bool;
    /// Publishes a block, if there is room. What goes wrong is the sink's to say, and fails nobody.
    fn put(&self, shared: &Shared, cell: &Cell, block: &Bytes) -> Option<Unread>;
}

/// Rows of a prefix that wait for their block.
struct Gathered {
    cell: Arc<Cell>,
    /// Segments by their number in the index, and whether they leave it when they are written.
    segments: Vec<(u32, Arc<Segment>, bool)>,
    without: Vec<Number>,
    rows: u64,
    /// Bytes of the rows, and those that the queue counts.
    bytes: u64,
    queued: u64,
    since: Instant,
}

/// Writes until the queue is closed.
pub(crate) fn run(shared: &Shared, sink: &impl Sink) {
    let mut gathered: BTreeMap<PrefixKey, Gathered> = BTreeMap::new();
    loop {
        let oldest = gathered.values().map(|g| g.since + FLUSH_AFTER).min();
        match sink.queue().next(oldest) {
            Next::More(message) => {
                let key = message.cell.key;
                let waiting = gather(&mut gathered, message);
                let last = || gathered.get(&key).is_some_and(|g| is_last(g, sink.level()));
                if waiting >= sink.block_bytes() || last() {
                    gathered.remove(&key).into_iter().for_each(|g| write_all(shared, sink, g));
                }
                if gathered.values().map(|g| g.queued).sum::<u64>() > QUEUE_BYTES_MAX / 2 {
                    drain(shared, sink, &mut gathered, |_| true);
                }
            }
            Next::Due => drain(shared, sink, &mut gathered, |g| g.since.elapsed() >= FLUSH_AFTER),
            Next::Flush(asked) => {
                drain(shared, sink, &mut gathered, |_| true);
                sink.queue().flushed(asked);
            }
            Next::Close => {
                drain(shared, sink, &mut gathered, |_| true);
                return sink.queue().end();
            }
        }
    }
}

/// Adds rows to their prefix's; returns the bytes that wait.
fn gather(gathered: &mut BTreeMap<PrefixKey, Gathered>, message: Message) -> u64 {
    let Message { cell, rows, bytes } = message;
    let new = || Gathered {
        cell: cell.clone(),
        segments: Vec::new(),
        without: Vec::new(),
        rows: 0,
        bytes: 0,
        queued: 0,
        since: Instant::now(),
    };
    let waiting = gathered.entry(cell.key).or_insert_with(new);
    waiting.queued += bytes;
    match rows {
        Rows::Computed { id, segment, passing } => {
            waiting.rows += segment.numbers.len() as u64;
            waiting.bytes += segment.table.bytes() as u64;
            waiting.segments.push((id, segment, passing));
        }
        Rows::Without(numbers) => waiting.without.extend(numbers),
    }
    waiting.bytes
}

/// Says whether nothing can follow: with what was gathered, every row of the prefix is there.
fn is_last(gathered: &Gathered, level: Level) -> bool {
    let index = read(&gathered.cell.index);
    index.rows_on(level) + index.without() + gathered.rows >= gathered.cell.rows
}

fn drain(
    shared: &Shared,
    sink: &impl Sink,
    gathered: &mut BTreeMap<PrefixKey, Gathered>,
    due: impl Fn(&Gathered) -> bool,
) {
    let keys: Vec<PrefixKey> = gathered.iter().filter(|(_, g)| due(g)).map(|(key, _)| *key).collect();
    keys.iter().filter_map(|key| gathered.remove(key)).collect::<Vec<_>>().into_iter().for_each(|g| {
        write_all(shared, sink, g);
    });
}

/// Writes rows of a prefix, as many blocks as it takes. What is only waiting to be written leaves the memory.
fn write_all(shared: &Shared, sink: &impl Sink, gathered: Gathered) {
    let cell = &gathered.cell;
    let places = unwritten(&gathered, sink.level());
    let tables: Vec<&Table> = gathered.segments.iter().map(|(_, segment, _)| &segment.table).collect();
    let number = |place: &Place| gathered.segments[place.table as usize].1.numbers[place.row as usize];
    for block in cut(&tables, &places, sink.block_bytes()) {
        let numbers = block.iter().map(number).collect();
        // Room may be gone: then nothing is gathered for nothing.
        let table = || Table::gather(&cell.shapes, &tables, block, &Memory::default());
        publish(shared, sink, cell, numbers, false, table);
    }
    if !gathered.without.is_empty() {
        let rows = gathered.without.len();
        publish(shared, sink, cell, gathered.without.clone(), true, || Table::new(Vec::new(), rows));
    }
    let mut index = write(&cell.index);
    gathered.segments.iter().filter(|(.., passing)| *passing).for_each(|(id, ..)| _ = index.drop_segment(*id));
    drop(index);
    sink.queue().release(gathered.queued);
}

/// Returns the gathered rows that are not on the level yet.
fn unwritten(gathered: &Gathered, level: Level) -> Vec<Place> {
    let index = read(&gathered.cell.index);
    let places = gathered.segments.iter().enumerate().flat_map(|(table, (_, segment, _))| {
        (0..).zip(&segment.numbers).map(move |(row, number)| (*number, Place { table: table as u32, row }))
    });
    places.filter(|(number, _)| !index.is_on(level, *number)).map(|(_, place)| place).collect()
}

/// Cuts rows into runs of about `bytes` each: no more, but for one row.
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
    shared: &Shared,
    sink: &impl Sink,
    cell: &Arc<Cell>,
    numbers: Vec<Number>,
    without: bool,
    table: impl FnOnce() -> Table,
) {
    let rows = numbers.len();
    let refused = || {
        let counters = &cell.counters;
        add(if sink.level() == Level::Disk { &counters.disk_refused } else { &counters.store_refused }, rows);
    };
    if sink.is_stopped() {
        return refused();
    }
    let keys: Vec<RowKey> = {
        let index = read(&cell.index);
        numbers.iter().map(|&number| index.key_of(number)).collect()
    };
    let Ok(bytes) = encode_block(shared, cell, &table(), &keys, without) else {
        return add(&cell.counters.unfit, rows);
    };
    let bytes = Bytes::from(bytes);
    let Some(block) = sink.put(shared, cell, &bytes) else { return refused() };
    if let (false, Ok((_, layout))) = (without, open(&bytes[..])) {
        shared.add_block(sink.level(), cell, &block, layout, numbers);
        shared.shrink();
    }
}

fn encode_block(shared: &Shared, cell: &Cell, table: &Table, keys: &[RowKey], without: bool) -> Result<Vec<u8>> {
    encode(&shared.head(cell, without), table, keys)
}
