//! Lists of remote folders, kept for the refresh time.
//!
//! Invariants: one thread lists a folder, and the others wait for it. Bounds: a folder has at most [`FOLDER_NAMES_MAX`]
//! names, and lists of at most [`LISTED_NAMES_MAX`] names are kept; the oldest is dropped first.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forebay_core::{Result, Ticks};
use forebay_io::TreeEntry;

/// The most names of a folder: about 200 MB.
pub const FOLDER_NAMES_MAX: usize = 1_000_000;
/// The most names in lists that are kept: about 400 MB.
pub const LISTED_NAMES_MAX: usize = 2_000_000;

/// The entries of a folder, sorted by name.
#[derive(Debug)]
pub(crate) struct List {
    pub(crate) entries: Vec<TreeEntry>,
    was_opened: AtomicBool,
}

impl List {
    pub(super) fn new(entries: Vec<TreeEntry>) -> Self {
        Self { entries, was_opened: AtomicBool::new(false) }
    }

    /// Finds an entry by its name.
    pub(super) fn find(&self, name: &OsStr) -> Option<&TreeEntry> {
        let at = self.entries.binary_search_by(|entry| entry.name.as_os_str().cmp(name)).ok()?;
        self.entries.get(at)
    }

    /// Whether the kernel has had this list before, so that it may use its cached entries.
    pub(crate) fn open(&self) -> bool {
        self.was_opened.swap(true, Ordering::Relaxed)
    }
}

/// A list, and the time of its request.
#[derive(Debug, Clone)]
pub(crate) struct Listed {
    pub(crate) list: Arc<List>,
    at: Ticks,
}

impl Listed {
    pub(super) fn new(list: List, at: Ticks) -> Self {
        Self { list: Arc::new(list), at }
    }

    /// Returns the time until the list is too old.
    pub(super) fn left(&self, refresh: Duration, now: Ticks) -> Duration {
        refresh.saturating_sub(now - self.at)
    }
}

/// Index of a source, and a folder of it.
type Key = (usize, Arc<Path>);
/// Locked while the folder is listed.
type Place = Arc<Mutex<Option<Listed>>>;

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Lists {
    all: Mutex<HashMap<Key, Place>>,
    /// The most names of all.
    pub(super) names_max: usize,
}

impl Default for Lists {
    fn default() -> Self {
        Self { all: Mutex::default(), names_max: LISTED_NAMES_MAX }
    }
}

impl Lists {
    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Place>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a list that is not older than `refresh`; calls `list` if none is cached.
    pub(super) fn get(
        &self,
        key: Key,
        refresh: Duration,
        now: Ticks,
        list: impl FnOnce() -> Result<Vec<TreeEntry>>,
    ) -> Result<Listed> {
        let place = self.lock().entry(key).or_default().clone();
        let mut kept = place.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(listed) = kept.as_ref().filter(|listed| !listed.left(refresh, now).is_zero()) {
            return Ok(listed.clone());
        }
        let listed = Listed::new(List::new(list()?), now);
        *kept = Some(listed.clone());
        drop(kept);
        self.make_room();
        Ok(listed)
    }

    /// Drops a list, so that the next to ask makes it anew.
    pub(super) fn forget(&self, key: &Key) {
        self.lock().remove(key);
    }

    /// Drops the oldest lists, and entries of folders whose list failed.
    fn make_room(&self) {
        let mut lists = self.lock();
        let mut known: Vec<(Ticks, usize, Key)> = Vec::new();
        lists.retain(|key, place| match place.try_lock().as_deref() {
            Ok(Some(listed)) => {
                known.push((listed.at, listed.list.entries.len(), key.clone()));
                true
            }
            // A thread lists the folder, or waits for the list.
            _ => Arc::strong_count(place) > 1,
        });
        let mut names: usize = known.iter().map(|(_, names, _)| names).sum();
        if names <= self.names_max {
            return;
        }
        known.sort();
        for (_, gone, key) in known {
            if names <= self.names_max {
                return;
            }
            lists.remove(&key);
            names -= gone;
        }
    }

    #[cfg(test)]
    pub(super) fn names(&self) -> usize {
        let kept = |place: &Place| Some(place.try_lock().ok()?.as_ref()?.list.entries.len());
        self.lock().values().filter_map(kept).sum()
    }
}
