//! One morsel under `autocache()`: which variant runs it, how long it takes, and whether a probe follows. Without
//! `autocache()`, this module does nothing.

use forebay_io::Place;

use crate::cached::autocache::{AutoCache, ProbeRows};
use crate::executable::row_source::RowSource;
use crate::executable::variant::PipelineVariant;

/// See the module's documentation.
pub(crate) struct MorselTrial<'a> {
    autocache: Option<&'a AutoCache>,
    /// The variant without a cache point.
    uncached: &'a PipelineVariant,
    began: u64,
    /// When the rows were read, if they were read.
    read_at: Option<u64>,
}

impl<'a> MorselTrial<'a> {
    /// Begins to time a morsel. `uncached` is the variant that runs unless `autocache()` chose another one.
    pub(crate) fn begin(autocache: Option<&'a AutoCache>, uncached: &'a PipelineVariant) -> Self {
        Self { autocache, uncached, began: autocache.map_or(0, AutoCache::own_nanos), read_at: None }
    }

    /// Returns the variant to run.
    pub(crate) fn variant(&self) -> &'a PipelineVariant {
        self.autocache.and_then(AutoCache::variant).unwrap_or(self.uncached)
    }

    /// Records that the rows were read, and no op has run yet.
    pub(crate) fn note_read(&mut self) {
        self.read_at = self.autocache.map(AutoCache::own_nanos);
    }

    /// Records that `rows` rows are computed. `share` returns the epoch, and the share of it that is complete.
    pub(crate) fn end(&self, rows: usize, share: impl FnOnce() -> Option<(u64, f64)>) {
        if let Some(autocache) = self.autocache {
            let took = autocache.own_nanos().saturating_sub(self.began);
            autocache.record_work(rows, took, autocache.nanos(), share());
        }
    }

    /// Measures the other variants on the rows, if that is due. `batch` is the number of rows of a batch, where splits
    /// are whole batches, and `boundary` the index of the boundary.
    pub(crate) fn probe(&self, rows: &RowSource, places: &[Place], batch: Option<usize>, boundary: usize) {
        if let Some(autocache) = self.autocache {
            let read = self.read_at.map(|at| (at - self.began) as f64 / places.len().max(1) as f64);
            autocache.probe(&ProbeRows { rows, places, read, batch, uncached: self.uncached, boundary });
        }
    }
}
