//! The files and folders of a mount that are open, by the numbers that the system has for them.
//!
//! Where another process may take the mount over, they are noted in a [`Journal`]; a process that took one over knows from
//! it what the process before had open, and opens that when it is used. Bound: [`OPEN_FILES_MAX`].

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use crate::journal::{Journal, Left, OpenRecord};
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

impl Open {
    fn record(&self) -> OpenRecord {
        let (node, is_folder) = match self {
            Self::File(opened) => (&opened.node, false),
            Self::Folder(node, _) => (node, true),
        };
        OpenRecord { ino: node.ino, source: node.source, is_folder, path: node.path.to_path_buf() }
    }
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct OpenTable {
    all: RwLock<HashMap<u64, Open>>,
    last: AtomicU64,
    journal: Option<Journal>,
    /// The files and folders that the process before had open, and that no program has used since.
    left: Mutex<HashMap<u64, OpenRecord>>,
}

impl OpenTable {
    /// Makes a table that notes what is open, and knows what the process before left.
    pub(crate) fn noted(journal: Journal, left: Left) -> Self {
        let last = AtomicU64::new(left.last);
        Self { all: RwLock::default(), last, journal: Some(journal), left: Mutex::new(left.open) }
    }

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
        let record = self.journal.as_ref().map(|journal| (journal, open.record()));
        all.insert(number, open);
        drop(all);
        if let Some((journal, record)) = record {
            journal.opened(number, record);
        }
        Some(number)
    }

    pub(crate) fn remove(&self, number: u64) {
        let closed = self.all.write().unwrap_or_else(PoisonError::into_inner).remove(&number);
        // Blocks are dropped here, without the lock.
        drop(closed);
        if let Some(journal) = &self.journal {
            self.left().remove(&number);
            journal.closed(number);
        }
    }

    fn left(&self) -> MutexGuard<'_, HashMap<u64, OpenRecord>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the file or folder that the process before had open by this number, if no program has used it since.
    pub(crate) fn left_open(&self, number: u64) -> Option<OpenRecord> {
        self.left().get(&number).cloned()
    }

    /// Returns the files of this inode that the process before had open.
    pub(crate) fn left_inode(&self, ino: u64) -> Option<OpenRecord> {
        self.left().values().find(|record| record.ino == ino).cloned()
    }

    /// Opens again what the process before had open by this number; returns what is open by it.
    pub(crate) fn restore(&self, number: u64, open: Open) -> Open {
        let mut left = self.left();
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        // A program that closed it meanwhile has removed it from the list.
        if left.remove(&number).is_some() {
            all.insert(number, open.clone());
        }
        all.get(&number).cloned().unwrap_or(open)
    }
}
