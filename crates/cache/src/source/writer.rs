//! The thread that keeps pages: it adds them to the file of their source that this process has begun.
//!
//! Invariants: a page is to be found before its claim is let go; nobody waits for a write, and a disk that refuses one is
//! written to no more, as for rows.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Cell;
use super::blocks::stored_bytes;
use super::landing::Arrived;
use super::pages::Segment;
use super::segment::{Growing, HEAD};
use crate::PrefixKey;
use crate::disk::{Next, Tier};
use crate::shared::Shared;
use crate::source::PAGE_BYTES;
use crate::space::{LastHit, Victim};
use crate::stats::add;

/// Files that this process adds to, by source.
type Open = HashMap<PrefixKey, (Growing, Arc<Segment>)>;

/// Writes until the queue is closed.
pub(crate) fn run(shared: &Shared, tier: &Tier) {
    let sources = shared.sources();
    let mut open = Open::new();
    loop {
        match sources.queue.next(None) {
            Next::More(Arrived { cell, key, bytes, claim }) => {
                let kept = !tier.is_left_alone() && keep(shared, tier, &mut open, &cell, (&key, &bytes));
                let left = open.get(&cell.key).map_or(0, |(growing, _)| growing.room_left());
                cell.room_left.store(left, Ordering::Relaxed);
                if !kept {
                    add(&cell.counters.not_kept, 1);
                }
                sources.landed(&key);
                drop(claim);
                sources.queue.release(bytes.len() as u64);
            }
            Next::Due => {}
            Next::Flush(asked) => {
                complete(tier, open.drain().map(|(_, file)| file));
                sources.queue.flushed(asked);
            }
            Next::Close => {
                complete(tier, open.drain().map(|(_, file)| file));
                return sources.queue.end();
            }
        }
    }
}

/// Writes a page, if there is room; says whether it did.
fn keep(shared: &Shared, tier: &Tier, open: &mut Open, cell: &Arc<Cell>, page: (&super::PageKey, &[u8])) -> bool {
    match tier.make_again().and_then(|()| write(shared, tier, open, cell, page)) {
        Ok(true) => {
            tier.go_on();
            true
        }
        Ok(false) => false,
        // Whoever has the folder's lock does not move, or somebody cleans up: perhaps another time.
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => false,
        Err(e) if e.kind() == io::ErrorKind::NotFound && tier.folder().root().exists() => false,
        Err(e) => {
            tier.stop(&e.to_string());
            complete(tier, open.drain().map(|(_, file)| file));
            false
        }
    }
}

fn write(
    shared: &Shared,
    tier: &Tier,
    open: &mut Open,
    cell: &Arc<Cell>,
    (key, bytes): (&super::PageKey, &[u8]),
) -> io::Result<bool> {
    if open.get(&cell.key).is_some_and(|(growing, _)| !growing.takes(bytes.len())) {
        complete(tier, open.remove(&cell.key));
    }
    let (growing, segment) = match open.entry(cell.key) {
        Entry::Occupied(begun) => begun.into_mut(),
        Entry::Vacant(place) => match begin(shared, tier, cell)? {
            Some(file) => place.insert(file),
            None => return Ok(false),
        },
    };
    if !growing.takes(bytes.len()) {
        return Ok(false);
    }
    let spot = growing.add(key, bytes)?;
    shared.sources().pages.add(shared, segment, *key, spot);
    Ok(true)
}

/// Returns how long a file is made: with room for a page at least, and one byte more than is ever used.
pub(super) fn file_bytes(tier: &Tier) -> u64 {
    tier.block_bytes.max((HEAD + stored_bytes(PAGE_BYTES as usize) + 1) as u64)
}

/// Makes a file for the pages of a source, if there is room for one.
fn begin(shared: &Shared, tier: &Tier, cell: &Cell) -> io::Result<Option<(Growing, Arc<Segment>)>> {
    let room = file_bytes(tier);
    let (gone, incoming) = tier.make_room(cell.key, room, shared.uses(), |prefix| shared.in_use(prefix))?;
    shared.forget_blocks(&gone);
    let Some(incoming) = incoming else { return Ok(None) };
    let grown = incoming.grow(cell.key, &Growing::head(cell.key, &cell.what, room), room);
    if grown.is_err() {
        tier.give_back(room);
    }
    let (name, file) = grown?;
    let (path, last_hit) = (tier.folder().path(&name), Arc::<LastHit>::default());
    last_hit.set(shared.passes(cell.key));
    let block = Victim { prefix: cell.key, block: tier.add(name, room, last_hit.clone()) };
    Ok(Some((Growing::new(file, room), shared.sources().pages.begin(block, path, last_hit))))
}

/// Cuts files to what is in them.
fn complete(tier: &Tier, files: impl IntoIterator<Item = (Growing, Arc<Segment>)>) {
    for (growing, segment) in files {
        // Where that fails, whoever opens the folder next does it.
        if let Ok(bytes) = growing.complete() {
            tier.shrink(segment.block, bytes);
        }
    }
}
