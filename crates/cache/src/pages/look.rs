//! Looks for pages that other processes have written: they append to known files, and create new ones.
//!
//! A page that is not in the index is looked for in the folder ([`PageIndex::look_around`]) before it is fetched, which
//! reads the times of the folders and the ends of the tables.

#![expect(clippy::disallowed_methods, reason = "times of folders are compared with the clock")]

use std::fs::File;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use crate::lock::{lock, read, write};
use crate::pages::format::{FileHeader, list, withdraw};
use crate::pages::index::{PageFile, PageIndex};
use crate::quota::accounts::Victim;
use crate::state::CacheState;
use crate::tiers::block::BlockRef;
use crate::tiers::block::read_at::Trouble;
use crate::tiers::disk::tier::DiskTier;

/// A folder that changed more recently may have changed again without a new time.
const SETTLED: Duration = Duration::from_millis(50);

impl PageIndex {
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
            // Pages that cannot be read are missing.
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
            self.add(cache.memory(), file, key, slot);
        }
        write(&self.known).files.insert(file.block.block, file.clone());
        Ok(())
    }
}
