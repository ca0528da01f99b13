//! The pages in the folder that this process has found, and their files.
//!
//! Invariant: an entry names a known file. Its memory is counted with that of the index of rows.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, RwLock};
use std::time::SystemTime;

use crate::key::PrefixKey;
use crate::lock::{lock, read, write};
use crate::pages::format::PageSlot;
use crate::pages::page::PageKey;
use crate::quota::accounts::{LastHit, Victim};
use crate::tiers::memory::accounts::MemoryTier;

/// The memory of a page: its entry, in a table that is half full after it has grown, and its key in its file.
const PAGE_BYTES: u64 = 160;
/// A file of pages.
#[derive(Debug)]
pub(super) struct PageFile {
    pub(super) block: Victim,
    pub(super) path: PathBuf,
    pub(super) last_hit: Arc<LastHit>,
    pub(super) keys: Mutex<Vec<PageKey>>,
    /// The first slot that was not read yet; `None` where no other process appends to the file.
    pub(super) next: Mutex<Option<u32>>,
}

#[derive(Debug, Default)]
pub(super) struct Known {
    pages: HashMap<PageKey, (u32, PageSlot)>,
    pub(super) files: HashMap<u32, Arc<PageFile>>,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct PageIndex {
    pub(super) known: RwLock<Known>,
    /// The times of the folders at the last search; `None` where they may change without a new time.
    pub(super) seen: Mutex<Option<Vec<(PrefixKey, SystemTime)>>>,
}

impl PageIndex {
    /// Returns the place of a page.
    pub(super) fn find(&self, key: &PageKey) -> Option<(Arc<PageFile>, PageSlot)> {
        let known = read(&self.known);
        let (id, slot) = known.pages.get(key)?;
        Some((known.files.get(id)?.clone(), *slot))
    }

    /// Adds a file that this process appends to.
    pub(super) fn begin(&self, block: Victim, path: PathBuf, last_hit: Arc<LastHit>) -> Arc<PageFile> {
        let file = Arc::new(PageFile { block, path, last_hit, keys: Mutex::default(), next: Mutex::new(None) });
        write(&self.known).files.insert(block.block, file.clone());
        file
    }

    /// Adds a page, if there is memory for it.
    pub(super) fn add(&self, memory: &MemoryTier, file: &PageFile, key: PageKey, slot: PageSlot) {
        if memory.count_index(PAGE_BYTES) {
            lock(&file.keys).push(key);
            write(&self.known).pages.insert(key, (file.block.block, slot));
        }
    }

    /// Forgets a page with a wrong sum.
    pub(super) fn forget(&self, key: &PageKey, file: &PageFile) {
        let mut known = write(&self.known);
        // Another thread may have fetched it again.
        if known.pages.get(key).is_some_and(|(id, _)| *id == file.block.block) {
            known.pages.remove(key);
        }
    }

    /// Forgets a file that is gone.
    pub(super) fn forget_file(&self, memory: &MemoryTier, id: u32) {
        let keys: Vec<PageKey> = {
            let mut known = write(&self.known);
            let Some(file) = known.files.remove(&id) else { return };
            let keys = std::mem::take(&mut *lock(&file.keys));
            for key in &keys {
                if known.pages.get(key).is_some_and(|(of, _)| *of == id) {
                    known.pages.remove(key);
                }
            }
            keys
        };
        memory.uncount_index(keys.len() as u64 * PAGE_BYTES);
    }

    /// Returns the number of pages in the files of a source, as far as this process knows.
    pub(super) fn of(&self, source: PrefixKey) -> u64 {
        let known = read(&self.known);
        let of_source = known.files.values().filter(|file| file.block.prefix == source);
        of_source.map(|file| lock(&file.keys).len() as u64).sum()
    }
}
