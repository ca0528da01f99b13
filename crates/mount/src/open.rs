//! The table of a mount's open files and folders, by file handle.
//!
//! If another process may take the mount over, the table also records them in a [`Journal`]. The next process reads
//! there which files the previous process had open, and opens each at its first use. Bound: [`OPEN_FILES_MAX`].

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use crate::journal::{Journal, Left, OpenRecord};
use crate::reader::OpenFile;
use crate::tree::{Listed, Node};

/// Most open files and folders.
pub const OPEN_FILES_MAX: usize = 65_536;

/// An open file or folder.
#[derive(Debug, Clone)]
pub(crate) enum Open {
    File(Arc<OpenedFile>),
    /// A folder, with its list at the time of the open.
    Folder(Arc<Node>, Listed),
}

/// An open file.
#[derive(Debug)]
pub(crate) struct OpenedFile {
    pub(crate) node: Arc<Node>,
    pub(crate) file: OpenFile,
    /// A failed read of this file is in the log.
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
    /// Open files and folders of the previous process that no program has used since.
    left: Mutex<HashMap<u64, OpenRecord>>,
}

impl OpenTable {
    /// Creates a table with a journal, and with the open files of the previous process.
    pub(crate) fn noted(journal: Journal, left: Left) -> Self {
        let last = AtomicU64::new(left.last);
        Self { all: RwLock::default(), last, journal: Some(journal), left: Mutex::new(left.open) }
    }

    pub(crate) fn get(&self, number: u64) -> Option<Open> {
        self.all.read().unwrap_or_else(PoisonError::into_inner).get(&number).cloned()
    }

    /// Adds an open file; `None`, and a line in the log, if the table is full.
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
        // The file's blocks are dropped after the lock is released.
        drop(closed);
        if let Some(journal) = &self.journal {
            self.left().remove(&number);
            journal.closed(number);
        }
    }

    fn left(&self) -> MutexGuard<'_, HashMap<u64, OpenRecord>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the previous process's open file of this handle, if no program has used it since.
    pub(crate) fn left_open(&self, number: u64) -> Option<OpenRecord> {
        self.left().get(&number).cloned()
    }

    /// Returns an open file of the previous process with this inode.
    pub(crate) fn left_inode(&self, ino: u64) -> Option<OpenRecord> {
        self.left().values().find(|record| record.ino == ino).cloned()
    }

    /// Adds a reopened file of the previous process under its handle; returns the open file of this handle.
    pub(crate) fn restore(&self, number: u64, open: Open) -> Open {
        let mut left = self.left();
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        // A program may have closed the file meanwhile.
        if left.remove(&number).is_some() {
            all.insert(number, open.clone());
        }
        all.get(&number).cloned().unwrap_or(open)
    }
}
