//! The memory and counters that one thread reuses from morsel to morsel.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use forebay_core::Result;
use forebay_data::Chunk;

use crate::image::{self, Limits};
use crate::profile::op_meter::{MeterInput, OpSlot, ThreadTally};
use crate::profile::span_log::SpanLog;
use crate::threads::preemption::own_nanos;
use crate::threads::row_pool::{PoolHandle, RowPool};

/// The memory and counters that one thread reuses from morsel to morsel.
#[derive(Default)]
pub struct Scratch {
    images: Option<image::Scratch>,
    pool: Option<PoolHandle>,
    /// Counts the costs of the current morsel.
    pub(crate) tally: ThreadTally,
}

impl Scratch {
    /// Shares the rows of the next morsel with a pool. `order` is the morsel's place in the stream: the pool runs rows
    /// of the lowest first. Until the rows of the morsel are done, this thread runs only rows of the same `stream`.
    pub fn share(&mut self, pool: &Arc<RowPool>, stream: u64, order: u64) {
        self.pool = Some(PoolHandle { pool: pool.clone(), stream, order });
    }

    /// Sets the log of the next morsel's spans.
    pub fn log_spans(&mut self, log: Option<Arc<SpanLog>>) {
        self.tally.log = log;
    }

    /// Runs `body` for each row: on this thread, or with the pool.
    pub(crate) fn for_each_row(
        &mut self,
        rows: usize,
        body: &(dyn Fn(usize, &mut Scratch) -> Result<()> + Sync),
    ) -> Result<()> {
        let Some(handle) = self.pool.clone().filter(|_| rows > 1) else {
            return (0..rows).try_for_each(|row| body(row, self));
        };
        let Some(watch) = self.tally.watch() else { return handle.for_each_row(rows, self, body) };
        let (began, spent) = (own_nanos(&*watch), AtomicU64::new(0));
        let timed = |row: usize, scratch: &mut Scratch| {
            let began = own_nanos(&*watch);
            let done = body(row, scratch);
            spent.fetch_add(own_nanos(&*watch).saturating_sub(began), Relaxed);
            done
        };
        let done = handle.for_each_row(rows, self, &timed);
        self.tally.shared(spent.into_inner(), own_nanos(&*watch).saturating_sub(began));
        done
    }

    /// Returns an empty scratch that shares rows at the same place in the stream.
    pub(crate) fn beside(&self) -> Self {
        Self { pool: self.pool.clone(), ..Self::default() }
    }

    /// Runs `body` for each of these chunks: on this thread, or with the pool.
    pub(crate) fn for_each_chunk(
        &mut self,
        chunks: usize,
        body: &(dyn Fn(usize, &mut Scratch) -> Result<()> + Sync),
    ) -> Result<()> {
        match self.pool.clone().filter(|_| chunks > 1) {
            Some(handle) => handle.for_each_row(chunks, self, body),
            None => (0..chunks).try_for_each(|chunk| body(chunk, self)),
        }
    }

    /// Runs `work` on rows, and counts its cost for an op.
    pub(crate) fn metered(
        &mut self,
        slot: OpSlot,
        input: MeterInput<'_>,
        work: impl FnOnce(&mut Self) -> Result<Chunk>,
    ) -> Result<Chunk> {
        let timer = self.tally.start();
        let done = work(self);
        self.tally.stop(slot, timer, input, done.as_ref().ok());
        done
    }

    /// Drops state that a panic may have left inconsistent.
    pub(crate) fn reset(&mut self) {
        self.images = None;
    }

    /// Returns the image buffers. They are made at first use: a pipeline without images needs no decoder.
    pub(crate) fn images(&mut self) -> &mut image::Scratch {
        self.images.get_or_insert_with(|| image::Scratch::new(Limits::default()))
    }
}
