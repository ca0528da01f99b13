//! The cache of a process: opened once, shared by everything that runs there.

use std::path::PathBuf;
use std::sync::Arc;

use forebay_core::Result;
use forebay_data::Schema;

use crate::prefix::Prefix;
use crate::shared::Shared;
use crate::{PrefixKey, Stats};

/// How much may be kept, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The most bytes of memory that rows take, with what is needed to find them.
    pub memory: u64,
    /// The local disk, if it is used.
    pub disk: Option<Disk>,
}

/// A folder for blocks. Processes may share it, with one quota.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disk {
    /// The folder; it is made when it is not there.
    pub folder: PathBuf,
    /// The most bytes that the blocks in it take together.
    pub bytes: u64,
}

/// The cache of a process. See the crate's documentation.
#[derive(Debug)]
pub struct Cache {
    shared: Arc<Shared>,
}

impl Cache {
    /// Opens the cache.
    ///
    /// # Errors
    /// What the system says when the folder cannot be made or read.
    pub fn open(options: &Options) -> Result<Arc<Self>> {
        Ok(Arc::new(Self { shared: Arc::new(Shared::new(options.memory)) }))
    }

    /// Returns the rows of a prefix. `rows` is how many its source has; `what` is for people: "decode_image of /data/train".
    pub fn prefix(&self, key: PrefixKey, schema: &Arc<Schema>, rows: u64, what: &str) -> Arc<Prefix> {
        let cell = self.shared.cell(key, schema, rows, what);
        Arc::new(Prefix::new(self.shared.clone(), cell))
    }

    /// Returns what is kept and how it was used since the cache was opened.
    pub fn stats(&self) -> Stats {
        self.shared.stats()
    }
}
