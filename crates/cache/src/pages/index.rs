//! The pages in the folder that this process has found, and their files.
//!
//! Other processes append to known files, and create new ones. Before a page that is not in the index is fetched,
//! [`PageIndex::look_around`] searches the folder for it: it reads the times of the folders and the ends of the tables.
//!
//! Invariant: an entry names a known file. Its memory is counted with that of the index of rows.

use std::collections::HashMap;
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, SystemTime};

use crate::key::PrefixKey;
use crate::lock::{lock, read, write};
use crate::pages::PageKey;
use crate::pages::format::{FileHeader, PageSlot, list, withdraw};
use crate::quota::accounts::{LastHit, Victim};
use crate::state::CacheState;
use crate::tiers::block::BlockRef;
use crate::tiers::block::format::Trouble;
use crate::tiers::disk::tier::DiskTier;

/// The memory of a page: its entry, in a table that is half full after it has grown, and its key in its file.
const PAGE_BYTES: u64 = 160;
/// A folder that changed more recently may have changed again without a new time.
const SETTLED: Duration = Duration::from_millis(50);

/// A file of pages.
#[derive(Debug)]
pub(super) struct PageFile {
    pub(super) block: Victim,
    pub(super) path: PathBuf,
    pub(super) last_hit: Arc<LastHit>,
    keys: Mutex<Vec<PageKey>>,
    /// The first slot that was not read yet; `None` where no other process appends to the file.
    next: Mutex<Option<u32>>,
}

#[derive(Debug, Default)]
struct Known {
    pages: HashMap<PageKey, (u32, PageSlot)>,
    files: HashMap<u32, Arc<PageFile>>,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct PageIndex {
    known: RwLock<Known>,
    /// The times of the folders at the last look; `None` where they may change without a new time.
    seen: Mutex<Option<Vec<(PrefixKey, SystemTime)>>>,
}

impl PageIndex {
    /// Returns the place of a page.
    pub(super) fn find(&self, key: &PageKey) -> Option<(Arc<PageFile>, PageSlot)> {
        let known = read(&self.known);
        let (id, slot) = known.pages.get(key)?;
        Some((known.files.get(id)?.clone(), *slot))
    }

    /// Adds pages that other processes have written since the last look.
    pub(super) fn look_around(&self, cache: &CacheState, disk: &DiskTier) {
        let mut seen = lock(&self.seen);
        let Ok(changes) = disk.folder().changes() else { return };
        if seen.as_ref() != Some(&changes) {
            if let Ok(gone) = disk.refresh() {
                cache.forget_blocks(&gone);
            }
            for block_ref in disk.pages() {
                self.load(cache, disk, block_ref);
            }
            let now = SystemTime::now();
            let is_settled = |(_, at): &(_, SystemTime)| now.duration_since(*at).is_ok_and(|age| age > SETTLED);
            *seen = changes.iter().all(is_settled).then_some(changes);
        }
        let growing: Vec<Arc<PageFile>> = {
            let known = read(&self.known);
            known.files.values().filter(|file| lock(&file.next).is_some()).cloned().collect()
        };
        for file in growing {
            // Pages that cannot be read count as missing.
            let _ = self.read_on(cache, &file);
        }
    }

    /// Adds a file that is new to this process.
    fn load(&self, cache: &CacheState, disk: &DiskTier, file: BlockRef) {
        let BlockRef { id, name, last_hit, .. } = file;
        if read(&self.known).files.contains_key(&id) {
            return;
        }
        let block = Victim { prefix: name.prefix, block: id };
        let path = disk.folder().path(&name);
        let file = Arc::new(PageFile { block, path, last_hit, keys: Mutex::default(), next: Mutex::new(Some(0)) });
        if let Err(trouble) = self.read_on(cache, &file) {
            return disk.drop_block(block, &trouble);
        }
        file.last_hit.set(cache.passes(block.prefix));
    }

    /// Reads the slots that were added to a file since the last read.
    fn read_on(&self, cache: &CacheState, file: &Arc<PageFile>) -> Result<(), Trouble> {
        let mut next = lock(&file.next);
        let Some(first) = *next else { return Ok(()) };
        let opened = File::open(&file.path)?;
        let header = FileHeader::read(&opened)?;
        if header.source != file.block.prefix {
            return Err(Trouble::Broken("it is not of its folder's source".to_owned()));
        }
        // In this order: a file that is complete here gets no more slots.
        let growing = header.is_growing(&opened)?;
        let listed = list(&opened, first)?;
        *next = growing.then_some(listed.next);
        if !growing && !listed.broken.is_empty() {
            tracing::warn!(file = %file.path.display(), pages = listed.broken.len(), "broken pages are withdrawn");
            withdraw(&file.path, &listed.broken);
        }
        for (key, slot) in listed.pages {
            self.add(cache, file, key, slot);
        }
        write(&self.known).files.insert(file.block.block, file.clone());
        Ok(())
    }

    /// Adds a file that this process appends to.
    pub(super) fn begin(&self, block: Victim, path: PathBuf, last_hit: Arc<LastHit>) -> Arc<PageFile> {
        let file = Arc::new(PageFile { block, path, last_hit, keys: Mutex::default(), next: Mutex::new(None) });
        write(&self.known).files.insert(block.block, file.clone());
        file
    }

    /// Adds a page, if there is memory for it.
    pub(super) fn add(&self, cache: &CacheState, file: &PageFile, key: PageKey, slot: PageSlot) {
        if cache.memory().count_index(PAGE_BYTES) {
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
    pub(super) fn forget_file(&self, cache: &CacheState, id: u32) {
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
        cache.memory().uncount_index(keys.len() as u64 * PAGE_BYTES);
    }

    /// Returns the number of pages in the files of a source, as far as this process knows.
    pub(super) fn of(&self, source: PrefixKey) -> u64 {
        let known = read(&self.known);
        let of_source = known.files.values().filter(|file| file.block.prefix == source);
        of_source.map(|file| lock(&file.keys).len() as u64).sum()
    }
}
