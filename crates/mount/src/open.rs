//! The files and folders of a mount that are open, by the numbers that the system has for them.
//!
//! Bound: [`OPEN_FILES_MAX`].

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use crate::reader::OpenFile;
use crate::tree::{Listed, Node};

/// The most files and folders that are open at once.
pub const OPEN_FILES_MAX: usize = 65_536;

/// What is open.
#[derive(Debug, Clone)]
pub(crate) enum Open {
    File(Arc<OpenedFile>),
    /// A folder, as it was listed when it was opened.
    Folder(Arc<Node>, Listed),
}

/// A file that is open.
#[derive(Debug)]
pub(crate) struct OpenedFile {
    pub(crate) node: Arc<Node>,
    pub(crate) file: OpenFile,
    /// The log has said that reading it fails.
    pub(crate) was_told: AtomicBool,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct OpenTable {
    all: RwLock<HashMap<u64, Open>>,
    last: AtomicU64,
}

impl OpenTable {
    pub(crate) fn get(&self, number: u64) -> Option<Open> {
        self.all.read().unwrap_or_else(PoisonError::into_inner).get(&number).cloned()
    }

    /// Adds an open file; `None` where there are too many, which the log says.
    pub(crate) fn add(&self, open: Open) -> Option<u64> {
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= OPEN_FILES_MAX {
            tracing::warn!(open = all.len(), "no more files of this mount may be open");
            return None;
        }
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        all.insert(number, open);
        Some(number)
    }

    pub(crate) fn remove(&self, number: u64) {
        let closed = self.all.write().unwrap_or_else(PoisonError::into_inner).remove(&number);
        // Blocks are dropped here, without the lock.
        drop(closed);
    }
}
