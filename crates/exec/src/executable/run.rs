//! Computes one morsel: reads its rows, or finds them in the cache, and runs the ops up to a boundary.

use forebay_core::{ConsumerIndex, Epoch, Error, Result};
use forebay_data::{Chunk, RowId};
use forebay_io::Place;
use forebay_plan::Morsel;

use super::{Executable, MorselContext, MorselRequest};
use crate::cached::run::CachedVariant;
use crate::cached::trial::MorselTrial;
use crate::executable::morsel_rows::MorselRows;
use crate::executable::row_source::RowSource;
use crate::ops::compiled_op::{CompiledOp, Kernel};
use crate::ops::scratch::Scratch;
use crate::profile::op_meter::{MeterInput, READ};
use crate::skip::isolation::Isolation;
use crate::threads::preemption::between_rows;

impl Executable {
    /// Computes one morsel and emits its chunks in order. A counted morsel yields exactly one chunk, which may be
    /// empty; a source block yields any number. Where the pipeline skips rows that fail, their chunk lists them, and
    /// rows in `known_skips` are skipped, too.
    ///
    /// # Errors
    /// The error of a row or of the source, with op, line and sample; any error of `emit`.
    pub fn morsel(
        &self,
        request: &MorselRequest<'_>,
        scratch: &mut Scratch,
        emit: &mut dyn FnMut(Chunk) -> Result<()>,
    ) -> Result<()> {
        let MorselRequest { epoch, consumer, morsel, first_chunk, known_skips, ops } = *request;
        let context = MorselContext { epoch, known_skips, boundary: self.boundary_index(ops)?, known: None };
        let rows = self.rows.as_ref().ok_or_else(|| Error::internal("this executable reads no source"))?;
        if let Morsel::Block { block } = morsel {
            return self.block(rows, (block, first_chunk), context, scratch, emit);
        }
        let (mut places, mut known) = (Vec::new(), MorselRows::of(&self.stages));
        let id = |place: Place| RowId { sample: rows.sample(place.row), epoch: place.epoch };
        self.plan.placed(epoch, consumer, morsel, |placed| match &mut known {
            Some(known) => known.add(placed, &mut places, id),
            None => places.push(Place { row: placed.row, epoch: placed.epoch }),
        });
        let context = MorselContext { known: known.as_ref(), ..context };
        self.meter.begin(&mut scratch.tally);
        let mut trial = MorselTrial::begin(self.autocache.as_ref(), &self.variant);
        let chunk = self.compute(&mut trial, rows, &places, context, scratch)?;
        self.meter.end(&mut scratch.tally);
        trial.end(places.len(), || self.epoch_share(epoch, consumer, morsel));
        emit(chunk)?;
        // A known skip may be a row that ends its process: a probe must not compute it.
        if known_skips.is_empty() {
            trial.probe(rows, &places, self.stages.aligned.map(|b| b.size), context.boundary);
        }
        Ok(())
    }

    /// Returns the epoch of a consumer, and the share of it that is complete at the end of a morsel.
    fn epoch_share(&self, epoch: Epoch, consumer: ConsumerIndex, morsel: Morsel) -> Option<(u64, f64)> {
        let Morsel::Units { first, count } = morsel else { return None };
        let units = self.plan.consumer_units(consumer)?;
        Some((epoch.0, (first + count) as f64 / units.max(1) as f64))
    }

    /// Computes rows by the variant of a trial: reads them, or finds them in the cache, and runs the ops up to the
    /// boundary.
    fn compute(
        &self,
        trial: &mut MorselTrial<'_>,
        rows: &RowSource,
        places: &[Place],
        context: MorselContext<'_>,
        scratch: &mut Scratch,
    ) -> Result<Chunk> {
        let (variant, locate) = (trial.variant(), |e| self.locate(e));
        let mut isolation = Isolation::new(self.on_error(), &locate);
        if let Some(prefix) = &variant.prefix {
            let cached = CachedVariant { variant, prefix, rows };
            return self.run_cached(&cached, places.to_vec(), context, isolation, scratch);
        }
        let read = scratch.metered(READ, MeterInput::Places(places.len()), |_| isolation.gather(rows, places));
        let chunk = read.map_err(locate)?;
        trial.note_read();
        self.run(chunk, context, isolation, scratch)
    }

    /// Runs the row ops on rows as they were read.
    pub(super) fn run(
        &self,
        chunk: Chunk,
        MorselContext { epoch, known_skips, boundary, known }: MorselContext<'_>,
        mut isolation: Isolation<'_>,
        scratch: &mut Scratch,
    ) -> Result<Chunk> {
        let chunk = chunk.with_losses(Vec::new());
        isolation.set_source(&chunk);
        let chunk = isolation.skip_known(chunk, known_skips, epoch)?;
        let chunk = self.run_ops(self.variant.ops(boundary), chunk, known, &mut isolation, scratch)?;
        Ok(chunk.with_losses(isolation.into_losses()))
    }

    /// Runs ops on rows that may be skipped. With `known`, it also numbers rows, and takes the rows of the morsel from
    /// the rows that the ops made.
    pub(crate) fn run_ops<'a>(
        &self,
        ops: impl IntoIterator<Item = &'a CompiledOp>,
        mut chunk: Chunk,
        known: Option<&MorselRows>,
        isolation: &mut Isolation<'_>,
        scratch: &mut Scratch,
    ) -> Result<Chunk> {
        let batch = self.stages.aligned.map(|b| b.size);
        for op in ops {
            between_rows();
            let ran = match (&op.kernel, known) {
                (Kernel::Number(step), Some(known)) => known.number(&chunk, step),
                _ => isolation.run(&chunk, &mut |chunk| op.run(chunk, batch, scratch)),
            };
            chunk = ran.map_err(|e| self.locate(e))?;
            if let (Kernel::FlatMap(op), Some(known)) = (&op.kernel, known) {
                chunk = known.take(op.place(), chunk)?;
            }
        }
        Ok(chunk)
    }

    /// Runs the remaining row ops on given rows, on which `ops` have run: on a chunk that arrived from a worker, or on
    /// the record of a skipped row. No row may fail; the losses in the chunk stay.
    ///
    /// # Errors
    /// The error of a row, with op and line; Data where the pipeline has no boundary after that number of ops.
    pub fn finish(&self, chunk: Chunk, ops: u32) -> Result<Chunk> {
        let boundary = self.boundary_index(ops)?;
        let (batch, mut scratch) = (self.stages.aligned.map(|b| b.size), Scratch::default());
        self.meter.begin(&mut scratch.tally);
        let losses = chunk.losses().to_vec();
        let mut done = match &self.variant.prefix {
            Some(prefix) => prefix.run(&chunk, &mut scratch).map_err(|e| self.locate(e))?,
            None => chunk,
        };
        for op in self.variant.ops(boundary) {
            done = op.run(&done, batch, &mut scratch).map_err(|e| self.locate(e))?;
        }
        self.meter.end(&mut scratch.tally);
        Ok(done.with_losses(losses))
    }
}
