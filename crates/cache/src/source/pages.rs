//! Which pages are in the folder, as far as this process knows, and in which files.
//!
//! Other processes add to files that were looked at before, and make new ones: what is missing here is looked for in the folder
//! ([`Pages::look_around`]) before it is fetched. That costs a look at the folders' times and at the ends of tables.
//!
//! Invariant: a spot names a file that is known; what it costs in memory is counted with what finds rows.

use std::collections::HashMap;
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, SystemTime};

use super::PageKey;
use super::segment::{Head, Spot, list, withdraw};
use crate::PrefixKey;
use crate::disk::{Tier, Trouble, Unread};
use crate::lock::{lock, read, write};
use crate::shared::Shared;
use crate::space::{LastHit, Victim};

/// What a page costs in memory: its entry, in a table that is half full when it has just grown, and its name in its file's.
const PAGE_BYTES: u64 = 160;
/// A folder that changed so lately may have changed again without its time saying so.
const SETTLED: Duration = Duration::from_millis(50);

/// A file of pages.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) block: Victim,
    pub(super) path: PathBuf,
    pub(super) last_hit: Arc<LastHit>,
    keys: Mutex<Vec<PageKey>>,
    /// The first slot that was not read yet; `None` where nobody adds to it but this process, or nobody at all.
    next: Mutex<Option<u32>>,
}

#[derive(Debug, Default)]
struct Known {
    pages: HashMap<PageKey, (u32, Spot)>,
    segments: HashMap<u32, Arc<Segment>>,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Pages {
    known: RwLock<Known>,
    /// The times of the folders when they were looked at last, unless they may change without that.
    seen: Mutex<Option<Vec<(PrefixKey, SystemTime)>>>,
}

impl Pages {
    /// Returns where a page is.
    pub(super) fn find(&self, key: &PageKey) -> Option<(Arc<Segment>, Spot)> {
        let known = read(&self.known);
        let (id, spot) = known.pages.get(key)?;
        Some((known.segments.get(id)?.clone(), *spot))
    }

    /// Finds what other processes have brought since.
    pub(super) fn look_around(&self, shared: &Shared, tier: &Tier) {
        let mut seen = lock(&self.seen);
        let Ok(changes) = tier.folder().changes() else { return };
        if seen.as_ref() != Some(&changes) {
            if let Ok(gone) = tier.refresh() {
                shared.forget_blocks(&gone);
            }
            for unread in tier.pages() {
                self.load(shared, tier, unread);
            }
            let now = SystemTime::now();
            let is_settled = |(_, at): &(_, SystemTime)| now.duration_since(*at).is_ok_and(|age| age > SETTLED);
            *seen = changes.iter().all(is_settled).then_some(changes);
        }
        let growing: Vec<Arc<Segment>> = {
            let known = read(&self.known);
            known.segments.values().filter(|segment| lock(&segment.next).is_some()).cloned().collect()
        };
        for segment in growing {
            // What cannot be read is not there.
            let _ = self.read_on(shared, &segment);
        }
    }

    /// Takes in a file that is new here.
    fn load(&self, shared: &Shared, tier: &Tier, file: Unread) {
        let Unread { id, name, last_hit, .. } = file;
        if read(&self.known).segments.contains_key(&id) {
            return;
        }
        let block = Victim { prefix: name.prefix, block: id };
        let path = tier.folder().path(&name);
        let segment = Arc::new(Segment { block, path, last_hit, keys: Mutex::default(), next: Mutex::new(Some(0)) });
        if let Err(trouble) = self.read_on(shared, &segment) {
            return tier.drop_block(block, &trouble);
        }
        segment.last_hit.set(shared.passes(block.prefix));
    }

    /// Reads what came to a file since it was read last.
    fn read_on(&self, shared: &Shared, segment: &Arc<Segment>) -> Result<(), Trouble> {
        let mut next = lock(&segment.next);
        let Some(first) = *next else { return Ok(()) };
        let file = File::open(&segment.path)?;
        let head = Head::read(&file)?;
        if head.source != segment.block.prefix {
            return Err(Trouble::Broken("it is not of its folder's source".to_owned()));
        }
        // In this order: one that is complete by now has all that is ever in it.
        let growing = head.is_growing(&file)?;
        let listed = list(&file, first)?;
        *next = growing.then_some(listed.next);
        if !growing && !listed.broken.is_empty() {
            tracing::warn!(file = %segment.path.display(), pages = listed.broken.len(), "broken pages are withdrawn");
            withdraw(&segment.path, &listed.broken);
        }
        for (key, spot) in listed.pages {
            self.add(shared, segment, key, spot);
        }
        write(&self.known).segments.insert(segment.block.block, segment.clone());
        Ok(())
    }

    /// Takes in a file that this process adds to.
    pub(super) fn begin(&self, block: Victim, path: PathBuf, last_hit: Arc<LastHit>) -> Arc<Segment> {
        let segment = Arc::new(Segment { block, path, last_hit, keys: Mutex::default(), next: Mutex::new(None) });
        write(&self.known).segments.insert(block.block, segment.clone());
        segment
    }

    /// Notes where a page is, if there is memory for that.
    pub(super) fn add(&self, shared: &Shared, segment: &Segment, key: PageKey, spot: Spot) {
        if shared.count_index(PAGE_BYTES) {
            lock(&segment.keys).push(key);
            write(&self.known).pages.insert(key, (segment.block.block, spot));
        }
    }

    /// Forgets a page that is not what was written.
    pub(super) fn forget(&self, key: &PageKey, segment: &Segment) {
        let mut known = write(&self.known);
        // Somebody may have brought it again.
        if known.pages.get(key).is_some_and(|(id, _)| *id == segment.block.block) {
            known.pages.remove(key);
        }
    }

    /// Forgets a file that is gone.
    pub(super) fn forget_segment(&self, shared: &Shared, id: u32) {
        let keys: Vec<PageKey> = {
            let mut known = write(&self.known);
            let Some(segment) = known.segments.remove(&id) else { return };
            let keys = std::mem::take(&mut *lock(&segment.keys));
            for key in &keys {
                if known.pages.get(key).is_some_and(|(of, _)| *of == id) {
                    known.pages.remove(key);
                }
            }
            keys
        };
        shared.uncount_index(keys.len() as u64 * PAGE_BYTES);
    }

    /// Returns how many pages the files of a source have, as far as this process knows.
    pub(super) fn of(&self, source: PrefixKey) -> u64 {
        let known = read(&self.known);
        let of_source = known.segments.values().filter(|segment| segment.block.prefix == source);
        of_source.map(|segment| lock(&segment.keys).len() as u64).sum()
    }
}
