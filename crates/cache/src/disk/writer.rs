//! The thread that writes: it gathers the rows of many morsels into blocks, and publishes them.
//!
//! A block is written when it is large enough, when its first row has waited for [`FLUSH_AFTER`], when the queue is half full,
//! or when somebody asks; so what is lost in a crash is bounded. When a block appears changes no sample.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_core::Result;
use forebay_data::Memory;

use super::format::{Head, encode, open};
use super::queue::{Next, QUEUE_BYTES_MAX};
use super::tier::{Tier, Unread};
use crate::index::{Number, Segment};
use crate::lock::{read, write};
use crate::shared::{Cell, Shared};
use crate::space::LastHit;
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
    /// A segment by its number in the index. One that is not `kept` in memory leaves it when it is written.
    Computed { id: u32, segment: Arc<Segment>, kept: bool },
    /// Rows that a filter removed.
    Without(Vec<Number>),
}

/// Rows of a prefix that wait for their block.
struct Gathered {
    cell: Arc<Cell>,
    segments: Vec<(u32, Arc<Segment>, bool)>,
    without: Vec<Number>,
    /// Bytes of the rows, and those that the queue counts.
    bytes: u64,
    queued: u64,
    since: Instant,
}

/// Writes until the queue is closed.
pub(crate) fn run(shared: &Shared, tier: &Tier) {
    let mut gathered: BTreeMap<PrefixKey, Gathered> = BTreeMap::new();
    loop {
        let oldest = gathered.values().map(|g| g.since + FLUSH_AFTER).min();
        match tier.queue.next(oldest) {
            Next::More(message) => {
                let key = message.cell.key;
                let waiting = gather(&mut gathered, message);
                if waiting >= tier.block_bytes {
                    gathered.remove(&key).into_iter().for_each(|g| write_all(shared, tier, g));
                }
                if gathered.values().map(|g| g.queued).sum::<u64>() > QUEUE_BYTES_MAX / 2 {
                    drain(shared, tier, &mut gathered, |_| true);
                }
            }
            Next::Due => drain(shared, tier, &mut gathered, |g| g.since.elapsed() >= FLUSH_AFTER),
            Next::Flush(asked) => {
                drain(shared, tier, &mut gathered, |_| true);
                tier.queue.flushed(asked);
            }
            Next::Close => {
                drain(shared, tier, &mut gathered, |_| true);
                return tier.queue.end();
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
        bytes: 0,
        queued: 0,
        since: Instant::now(),
    };
    let waiting = gathered.entry(cell.key).or_insert_with(new);
    waiting.queued += bytes;
    match rows {
        Rows::Computed { id, segment, kept } => {
            waiting.bytes += segment.table.bytes() as u64;
            waiting.segments.push((id, segment, kept));
        }
        Rows::Without(numbers) => waiting.without.extend(numbers),
    }
    waiting.bytes
}

fn drain(shared: &Shared, tier: &Tier, gathered: &mut BTreeMap<PrefixKey, Gathered>, due: impl Fn(&Gathered) -> bool) {
    let keys: Vec<PrefixKey> = gathered.iter().filter(|(_, g)| due(g)).map(|(key, _)| *key).collect();
    keys.iter().filter_map(|key| gathered.remove(key)).collect::<Vec<_>>().into_iter().for_each(|g| {
        write_all(shared, tier, g);
    });
}

/// Writes rows of a prefix, as many blocks as it takes. What is only waiting to be written leaves the memory.
fn write_all(shared: &Shared, tier: &Tier, gathered: Gathered) {
    let cell = &gathered.cell;
    let places = unwritten(&gathered);
    let tables: Vec<&Table> = gathered.segments.iter().map(|(_, segment, _)| &segment.table).collect();
    let number = |place: &Place| gathered.segments[place.table as usize].1.numbers[place.row as usize];
    for block in cut(&tables, &places, tier.block_bytes) {
        let numbers = block.iter().map(number).collect();
        // Room may be gone: then nothing is gathered for nothing.
        let table = || Table::gather(&cell.shapes, &tables, block, &Memory::default());
        publish(shared, tier, cell, numbers, false, table);
    }
    if !gathered.without.is_empty() {
        let rows = gathered.without.len();
        publish(shared, tier, cell, gathered.without.clone(), true, || Table::new(Vec::new(), rows));
    }
    let mut index = write(&cell.index);
    gathered.segments.iter().filter(|(.., kept)| !kept).for_each(|(id, ..)| _ = index.drop_segment(*id));
    drop(index);
    tier.queue.release(gathered.queued);
}

/// Returns the gathered rows that are not on disk yet.
fn unwritten(gathered: &Gathered) -> Vec<Place> {
    let index = read(&gathered.cell.index);
    let places = gathered.segments.iter().enumerate().flat_map(|(table, (_, segment, _))| {
        (0..).zip(&segment.numbers).map(move |(row, number)| (*number, Place { table: table as u32, row }))
    });
    places.filter(|(number, _)| !index.is_on_disk(*number)).map(|(_, place)| place).collect()
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
    tier: &Tier,
    cell: &Arc<Cell>,
    numbers: Vec<Number>,
    without: bool,
    table: impl FnOnce() -> Table,
) {
    let refused = |rows| add(&cell.counters.disk_refused, rows);
    let rows = numbers.len();
    if tier.stopped().is_some() {
        return refused(rows);
    }
    let keys: Vec<RowKey> = {
        let index = read(&cell.index);
        numbers.iter().map(|&number| index.key_of(number)).collect()
    };
    let Ok(bytes) = encode_block(cell, &table(), &keys, without) else {
        return add(&cell.counters.unfit, rows);
    };
    match put(shared, tier, cell, &bytes) {
        Ok(Some(block)) if !without => {
            let layout = open(&bytes[..]).ok();
            layout.into_iter().for_each(|(_, layout)| shared.add_block(tier, cell, &block, layout, numbers.clone()));
            shared.shrink();
        }
        Ok(Some(_)) => {}
        Ok(None) => refused(rows),
        // Whoever has the folder's lock does not move, or somebody cleans up: perhaps another time.
        Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::NotFound) => refused(rows),
        Err(e) => {
            refused(rows);
            tier.stop(&e.to_string());
        }
    }
}

fn encode_block(cell: &Cell, table: &Table, keys: &[RowKey], without: bool) -> Result<Vec<u8>> {
    let schema = (*cell.schema).clone();
    let head = Head { prefix: cell.key, what: cell.what.clone(), schema, without };
    encode(&head, table, keys)
}

/// Puts a block into the folder, if there is room.
fn put(shared: &Shared, tier: &Tier, cell: &Cell, bytes: &[u8]) -> io::Result<Option<Unread>> {
    let len = bytes.len() as u64;
    let own = |prefix| shared.in_use(prefix);
    let (gone, incoming) = tier.make_room(cell.key, len, shared.uses(), own)?;
    shared.forget_blocks(&gone);
    let Some(incoming) = incoming else { return Ok(None) };
    let published = incoming.publish(cell.key, bytes);
    if published.is_err() {
        tier.give_back(len);
    }
    let name = published?;
    let last_hit = Arc::<LastHit>::default();
    last_hit.set(shared.passes(cell.key));
    let id = tier.add(name.clone(), len, last_hit.clone());
    Ok(Some((id, name, last_hit)))
}
