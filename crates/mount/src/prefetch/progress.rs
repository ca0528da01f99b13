//! The progress of a prefetch, which its thread writes, and any program may ask the mount for.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

/// The state of a prefetch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PrefetchState {
    /// It lists the folders of the sources.
    #[default]
    Counting,
    /// It reads files.
    Reading,
    /// It has read all files, except the files that failed.
    Done,
    /// It has read as many bytes as the cache folder may have.
    Full,
    /// The mount ended before.
    Stopped,
}

/// The progress of a prefetch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrefetchProgress {
    /// Its state.
    pub state: PrefetchState,
    /// The remote files of the mount that were found.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The files that were read, or were in the cache folder before.
    pub files_done: u64,
    /// The bytes that were read, or were in the cache folder before.
    pub bytes_done: u64,
    /// The files that could not be read, and the folders that could not be listed.
    pub failed: u64,
    /// Of these, the folders: how many files they have is not known.
    #[serde(default)]
    pub unlisted: u64,
}

/// The progress that a thread writes and others read. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shared {
    progress: Arc<Mutex<PrefetchProgress>>,
    is_stopped: Arc<AtomicBool>,
}

impl Shared {
    pub(crate) fn get(&self) -> PrefetchProgress {
        *self.lock()
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut PrefetchProgress)) {
        change(&mut self.lock());
    }

    pub(super) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, PrefetchProgress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
