//! Source blocks that are read from their start, and windows of a shuffle whose rows are not counted.
//!
//! One thread reads; all threads of the pool run the ops on the chunks.

use std::sync::{Mutex, PoisonError};

use forebay_core::{Epoch, Result};
use forebay_data::Chunk;
use forebay_io::WindowAnnouncement;
use forebay_plan::Morsel;

use super::{Executable, MorselContext};
use crate::executable::row_source::RowSource;
use crate::ops::scratch::Scratch;
use crate::profile::op_meter::{MeterInput, READ};
use crate::skip::isolation::Isolation;

/// The most chunks of a streamed block that are computed together.
const RUN_CHUNKS: usize = 8;
/// The bytes after which chunks are computed if the next chunk may be slow; one chunk may have more.
const RUN_BYTES: usize = 4 << 20;

impl Executable {
    /// Announces that a thread is about to compute a morsel: see
    /// [`Reader::announce_window`](forebay_io::Reader::announce_window). The thread drops the announcement when the
    /// morsel has emitted a chunk, or ends.
    pub fn announce(&self, epoch: Epoch, morsel: Morsel) -> Option<WindowAnnouncement> {
        let Morsel::Block { block } = morsel else { return None };
        let window = self.plan.window(epoch, block)?;
        self.rows.as_ref()?.announce(&window)
    }

    /// Computes a source block or an uncounted window. Threads of the pool compute a run of chunks together, one chunk
    /// each; the chunks are emitted in order, and chunks before an error are emitted before it. Chunks before
    /// `first_chunk` are left out.
    pub(super) fn block(
        &self,
        rows: &RowSource,
        (block, first_chunk): (u64, u64),
        context: MorselContext<'_>,
        scratch: &mut Scratch,
        emit: &mut dyn FnMut(Chunk) -> Result<()>,
    ) -> Result<()> {
        let window = self.plan.window(context.epoch, block);
        // All rows of a window are in memory; a generator may be slow to yield the next one.
        let (chunks_max, bytes_max) = match (&window, rows) {
            (Some(_), _) => (RUN_CHUNKS, usize::MAX),
            (None, RowSource::Generator { .. }) => (1, usize::MAX),
            _ => (RUN_CHUNKS, RUN_BYTES),
        };
        let (mut run, mut bytes) = (Vec::new(), 0);
        // The first batch should not wait for the second.
        let mut run_max = 1;
        self.meter.begin(&mut scratch.tally);
        let mut reading = scratch.tally.start();
        rows.stream((block, first_chunk), window.as_ref(), context.epoch, &mut |chunk| {
            let chunk = match chunk {
                Ok(chunk) => chunk,
                Err(e) => {
                    self.run_together(std::mem::take(&mut run), context, scratch, emit)?;
                    return Err(self.locate(e));
                }
            };
            scratch.tally.stop(READ, reading, MeterInput::Places(chunk.num_rows()), Some(&chunk));
            self.meter.end(&mut scratch.tally);
            bytes += chunk.num_bytes();
            run.push(chunk);
            if run.len() >= run_max || bytes >= bytes_max {
                self.run_together(std::mem::take(&mut run), context, scratch, emit)?;
                (bytes, run_max) = (0, (run_max * 2).min(chunks_max));
            }
            // The time that the receiver of the chunks spends is not a cost of the ops.
            self.meter.begin(&mut scratch.tally);
            reading = scratch.tally.start();
            Ok(())
        })?;
        self.meter.end(&mut scratch.tally);
        self.run_together(run, context, scratch, emit)
    }

    /// Runs the row ops on a run of chunks with the pool, and emits the results in order.
    fn run_together(
        &self,
        run: Vec<Chunk>,
        context: MorselContext<'_>,
        scratch: &mut Scratch,
        emit: &mut dyn FnMut(Chunk) -> Result<()>,
    ) -> Result<()> {
        let done: Vec<Mutex<Option<Result<Chunk>>>> = run.iter().map(|_| Mutex::default()).collect();
        let log = scratch.tally.log.clone();
        let one = |at: usize, scratch: &mut Scratch| {
            // A thread that waits for the rows of one chunk may start another: each chunk has its own scratch.
            let mut scratch = scratch.beside();
            scratch.log_spans(log.clone());
            self.meter.begin(&mut scratch.tally);
            let ran = self.run_read_chunk(run[at].clone(), context, &mut scratch);
            self.meter.end(&mut scratch.tally);
            let failed = ran.as_ref().err().cloned();
            *done[at].lock().unwrap_or_else(PoisonError::into_inner) = Some(ran);
            failed.map_or(Ok(()), Err)
        };
        let ran = scratch.for_each_chunk(run.len(), &one);
        for done in done {
            match done.into_inner().unwrap_or_else(PoisonError::into_inner) {
                Some(chunk) => emit(chunk?)?,
                None => break,
            }
        }
        ran
    }

    fn run_read_chunk(&self, chunk: Chunk, context: MorselContext<'_>, scratch: &mut Scratch) -> Result<Chunk> {
        let locate = |e| self.locate(e);
        let mut isolation = Isolation::new(self.on_error(), &locate);
        isolation.take_unread(chunk.losses()).map_err(locate)?;
        self.run(chunk, context, isolation, scratch)
    }
}
