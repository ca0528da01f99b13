//! A prefix as a process knows it: where its rows are, its counters, and whether it is in use.

use std::fs::File;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, RwLock, Weak};

use forebay_data::Schema;

use crate::key::PrefixKey;
use crate::lock::read;
use crate::rows::index::Index;
use crate::rows::table::{Shape, shapes};
use crate::stats::{Counters, PrefixStats};

/// A prefix: its rows, and its description.
#[derive(Debug)]
pub(crate) struct PrefixState {
    pub(crate) key: PrefixKey,
    pub(crate) schema: Arc<Schema>,
    pub(crate) shapes: Arc<[Shape]>,
    pub(crate) what: String,
    /// The rows of the source.
    pub(crate) rows: u64,
    pub(crate) index: RwLock<Index>,
    pub(crate) counters: Counters,
    /// Whether its rows are written to the store.
    pub(crate) stored: AtomicBool,
    pub(super) users: Mutex<Weak<InUse>>,
}

/// Held while this process uses a prefix, so that other processes do not evict its blocks.
#[derive(Debug)]
pub(crate) struct InUse(pub(super) Option<Arc<File>>);

impl PrefixState {
    pub(super) fn new(key: PrefixKey, schema: &Arc<Schema>, rows: u64, what: &str) -> Self {
        Self {
            key,
            schema: schema.clone(),
            shapes: schema.fields().iter().flat_map(shapes).collect(),
            what: what.to_owned(),
            rows,
            index: RwLock::default(),
            counters: Counters::default(),
            stored: AtomicBool::new(true),
            users: Mutex::default(),
        }
    }

    /// Returns its figures; `add` adds those of each tier.
    pub(super) fn stats(&self, add: impl FnOnce(&Index, &mut PrefixStats)) -> PrefixStats {
        let index = read(&self.index);
        let mut stats = PrefixStats {
            key: self.key,
            what: self.what.clone(),
            rows: self.rows,
            memory_rows: 0,
            memory_bytes: 0,
            disk_rows: 0,
            peer_rows: 0,
            store_rows: 0,
            filtered_out: index.filtered_out(),
            counts: self.counters.counts(),
        };
        add(&index, &mut stats);
        stats
    }
}
