//! The thread that writes pages: it appends them to the open file of their source.
//!
//! Invariants: a page can be found before its claim is released. No caller waits for a write. A disk that fails is not
//! written to for a while, as for rows.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::key::PrefixKey;
use crate::pages::PAGE_BYTES;
use crate::pages::SourceState;
use crate::pages::checksums::stored_bytes;
use crate::pages::fetch::ArrivedPage;
use crate::pages::format::{GrowingFile, HEAD};
use crate::pages::index::PageFile;
use crate::quota::accounts::{LastHit, Victim};
use crate::state::CacheState;
use crate::stats::add;
use crate::tiers::block::queue::Next;
use crate::tiers::disk::tier::DiskTier;

/// The open files of this process, by source.
type Open = HashMap<PrefixKey, (GrowingFile, Arc<PageFile>)>;

/// Writes until the queue is closed.
pub(crate) fn run(cache: &CacheState, disk: &DiskTier) {
    let shared = cache.pages();
    let mut open = Open::new();
    loop {
        match shared.queue.next(None) {
            Next::More(ArrivedPage { state, key, bytes, claim }) => {
                let kept = !disk.is_left_alone() && keep(cache, disk, &mut open, &state, (&key, &bytes));
                let left = open.get(&state.key).map_or(0, |(growing, _)| growing.room_left());
                state.room_left.store(left, Ordering::Relaxed);
                if !kept {
                    add(&state.counters.not_kept, 1);
                }
                shared.remove_in_flight(&key);
                drop(claim);
                shared.queue.release(bytes.len() as u64);
            }
            Next::Due => {}
            Next::Flush(asked) => {
                complete(disk, open.drain().map(|(_, file)| file));
                shared.queue.flushed(asked);
            }
            Next::Close => {
                complete(disk, open.drain().map(|(_, file)| file));
                return shared.queue.end();
            }
        }
    }
}

/// Writes a page, if there is room; returns whether it did.
fn keep(
    cache: &CacheState,
    disk: &DiskTier,
    open: &mut Open,
    state: &Arc<SourceState>,
    page: (&super::PageKey, &[u8]),
) -> bool {
    match disk.make_again().and_then(|()| write(cache, disk, open, state, page)) {
        Ok(true) => {
            disk.go_on();
            true
        }
        Ok(false) => false,
        // Another process holds the folder's lock for too long, or files are being deleted: a later write may succeed.
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => false,
        Err(e) if e.kind() == io::ErrorKind::NotFound && disk.folder().root().exists() => false,
        Err(e) => {
            disk.stop(&e.to_string());
            complete(disk, open.drain().map(|(_, file)| file));
            false
        }
    }
}

fn write(
    cache: &CacheState,
    disk: &DiskTier,
    open: &mut Open,
    state: &Arc<SourceState>,
    (key, bytes): (&super::PageKey, &[u8]),
) -> io::Result<bool> {
    if open.get(&state.key).is_some_and(|(growing, _)| !growing.takes(bytes.len())) {
        complete(disk, open.remove(&state.key));
    }
    let (growing, file) = match open.entry(state.key) {
        Entry::Occupied(begun) => begun.into_mut(),
        Entry::Vacant(place) => match begin(cache, disk, state)? {
            Some(file) => place.insert(file),
            None => return Ok(false),
        },
    };
    if !growing.takes(bytes.len()) {
        return Ok(false);
    }
    let slot = growing.add(key, bytes)?;
    cache.pages().index.add(cache, file, *key, slot);
    Ok(true)
}

/// Returns the length of a new file: room for a page at least, and one byte more than is ever used.
pub(super) fn file_bytes(disk: &DiskTier) -> u64 {
    disk.block_bytes.max((HEAD + stored_bytes(PAGE_BYTES as usize) + 1) as u64)
}

/// Creates a file for the pages of a source, if there is room.
fn begin(cache: &CacheState, disk: &DiskTier, state: &SourceState) -> io::Result<Option<(GrowingFile, Arc<PageFile>)>> {
    let room = file_bytes(disk);
    let (gone, incoming) = disk.make_room(state.key, room, cache.uses(), |prefix| cache.in_use(prefix))?;
    cache.forget_blocks(&gone);
    let Some(incoming) = incoming else { return Ok(None) };
    let grown = incoming.grow(state.key, &GrowingFile::header(state.key, &state.what, room), room);
    if grown.is_err() {
        disk.give_back(room);
    }
    let (name, file) = grown?;
    let (path, last_hit) = (disk.folder().path(&name), Arc::<LastHit>::default());
    last_hit.set(cache.passes(state.key));
    let block = Victim { prefix: state.key, block: disk.add(name, room, last_hit.clone()) };
    Ok(Some((GrowingFile::new(file, room), cache.pages().index.begin(block, path, last_hit))))
}

/// Truncates files to their content.
fn complete(disk: &DiskTier, files: impl IntoIterator<Item = (GrowingFile, Arc<PageFile>)>) {
    for (growing, file) in files {
        // If this fails, the next process that opens the folder does it.
        if let Ok(bytes) = growing.complete() {
            disk.shrink(file.block, bytes);
        }
    }
}
