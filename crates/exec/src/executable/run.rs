//! Computes one morsel: reads its rows, or finds them in the cache, and runs the ops up to a boundary.

use forebay_core::{ConsumerIndex, Epoch, Error, Result};
use forebay_data::{Chunk, RowId};
use forebay_io::Place;
use forebay_plan::Morsel;

use super::{Executable, MorselContext, MorselRequest};
use crate::cached::autocache::{AutoCache, ProbeRows};
use crate::cached::bypass::{Branch, BypassMerge};
use crate::cached::prefix::{Prefix, PrefixOutput, RowQuery};
use crate::executable::row_source::RowSource;
use crate::executable::variant::PipelineVariant;
use crate::ops::compiled_op::{CompiledOp, Kernel};
use crate::ops::scratch::Scratch;
use crate::profile::op_meter::{MeterInput, READ};
use crate::skip::isolation::Isolation;

impl Executable {
    /// Computes one morsel and emits its chunks in order. A counted morsel gives exactly one chunk, which may be empty;
    /// a source block gives as many as it takes. Where the pipeline skips rows that fail, their chunk names them, and
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
        let MorselRequest { epoch, consumer, morsel, known_skips, ops } = *request;
        let context = MorselContext { epoch, known_skips, boundary: self.boundary_index(ops)? };
        let rows = self.rows.as_ref().ok_or_else(|| Error::internal("this executable reads no source"))?;
        if let Morsel::Block { block } = morsel {
            return self.block(rows, block, context, scratch, emit);
        }
        let mut places = Vec::new();
        self.plan.places(epoch, consumer, morsel, |row, epoch| places.push(Place { row, epoch }));
        self.meter.begin(&mut scratch.tally);
        let Some(autocache) = &self.autocache else {
            let (chunk, _) = self.units(&self.variant, rows, &places, context, scratch)?;
            self.meter.end(&mut scratch.tally);
            return emit(chunk);
        };
        let began = autocache.nanos();
        let variant = autocache.variant().unwrap_or(&self.variant);
        let (chunk, read_at) = self.units(variant, rows, &places, context, scratch)?;
        self.meter.end(&mut scratch.tally);
        let now = autocache.nanos();
        autocache.record_work(places.len(), now - began, now, self.epoch_share(epoch, consumer, morsel));
        emit(chunk)?;
        // A known skip may be a row that ends the process that computes it: a probe must not compute it.
        if known_skips.is_empty() {
            let read = read_at.map(|at| (at - began) as f64 / places.len().max(1) as f64);
            let batch = self.stages.aligned.map(|b| b.size);
            let uncached = &self.variant;
            autocache.probe(&ProbeRows { rows, places: &places, read, batch, uncached, boundary: context.boundary });
        }
        Ok(())
    }

    /// Returns the epoch of a consumer, and the share of it that is complete at the end of a morsel.
    fn epoch_share(&self, epoch: Epoch, consumer: ConsumerIndex, morsel: Morsel) -> Option<(u64, f64)> {
        let Morsel::Units { first, count } = morsel else { return None };
        let units = self.plan.consumer_units(consumer)?;
        Some((epoch.0, (first + count) as f64 / units.max(1) as f64))
    }

    /// Computes rows by one variant. Also returns when they had been read, where `autocache()` needs that time.
    fn units(
        &self,
        variant: &PipelineVariant,
        rows: &RowSource,
        places: &[Place],
        context: MorselContext<'_>,
        scratch: &mut Scratch,
    ) -> Result<(Chunk, Option<u64>)> {
        let locate = |e| self.locate(e);
        let mut isolation = Isolation::new(self.on_error(), &locate);
        if let Some(prefix) = &variant.prefix {
            let cached = Cached { variant, prefix, rows };
            return Ok((self.run_cached(&cached, places.to_vec(), context, isolation, scratch)?, None));
        }
        let read = scratch.metered(READ, MeterInput::Places(places.len()), |_| isolation.gather(rows, places));
        let chunk = read.map_err(locate)?;
        let read_at = self.autocache.as_ref().map(AutoCache::nanos);
        Ok((self.run(chunk, context, isolation, scratch)?, read_at))
    }

    /// Runs the row ops on rows as they were read.
    pub(super) fn run(
        &self,
        chunk: Chunk,
        MorselContext { epoch, known_skips, boundary }: MorselContext<'_>,
        mut isolation: Isolation<'_>,
        scratch: &mut Scratch,
    ) -> Result<Chunk> {
        let chunk = chunk.with_losses(Vec::new());
        isolation.set_source(&chunk);
        let chunk = isolation.skip_known(chunk, known_skips, epoch)?;
        let chunk = self.run_ops(self.variant.ops(boundary), chunk, &mut isolation, scratch)?;
        Ok(chunk.with_losses(isolation.into_losses()))
    }

    /// As [`Executable::run`], by a variant with a cache point: known skips are not looked up there.
    fn run_cached(
        &self,
        cached: &Cached<'_>,
        places: Vec<Place>,
        MorselContext { epoch, known_skips, boundary }: MorselContext<'_>,
        mut isolation: Isolation<'_>,
        scratch: &mut Scratch,
    ) -> Result<Chunk> {
        let Cached { variant, prefix, rows } = *cached;
        let locate = |e| self.locate(e);
        let id = |place: &Place| RowId { sample: rows.sample(place.row), epoch: place.epoch };
        let is_known = |place: &Place| !known_skips.is_empty() && known_skips.get(epoch, id(place)).is_some();
        let (skipped, places): (Vec<_>, Vec<_>) = places.into_iter().partition(is_known);
        if !skipped.is_empty() {
            let read = isolation.gather(rows, &skipped).map_err(locate)?;
            isolation.set_source(&read);
            isolation.skip_known(read, known_skips, epoch)?;
        }
        let query = RowQuery { rows, places: &places, on_error: self.on_error(), locate: &locate };
        let output = prefix.output(&query, variant.bypass(boundary), scratch)?;
        let read_again = |row: RowId| {
            let at = places.iter().position(|place| id(place) == row)?;
            rows.gather(&places[at..=at]).ok()
        };
        let PrefixOutput { chunk, losses, bypassing } = output;
        isolation.take(losses);
        let mut isolation = isolation.reading(&read_again);
        let chunk = match bypassing {
            None => self.run_ops(variant.ops(boundary), chunk, &mut isolation, scratch)?,
            Some(bypassing) => {
                self.merge_bypass(cached, &query, (chunk, bypassing), boundary, &mut isolation, scratch)?
            }
        };
        Ok(chunk.with_losses(isolation.into_losses()))
    }

    /// Runs the ops after the cache point on cached rows and on `bypassing` ones, and merges them in order.
    fn merge_bypass(
        &self,
        cached: &Cached<'_>,
        query: &RowQuery<'_>,
        (chunk, bypassing): (Chunk, Chunk),
        boundary: usize,
        isolation: &mut Isolation<'_>,
        scratch: &mut Scratch,
    ) -> Result<Chunk> {
        let bypass = cached.variant.bypass(boundary).ok_or_else(|| Error::internal("rows without a bypass"))?;
        let mut ops = cached.variant.ops(boundary);
        let between: Vec<_> = ops.by_ref().take(bypass.between).collect();
        let Some(CompiledOp { kernel: Kernel::Image(op), slot }) = ops.next() else {
            return Err(Error::internal("a cache bypass ends at an image op"));
        };
        let chunk = self.run_ops(between, chunk, isolation, scratch)?;
        let branches = [
            Branch { op, slot: *slot, chunk: &chunk },
            Branch { op: &bypass.image, slot: bypass.slot, chunk: &bypassing },
        ];
        let merge = BypassMerge::new(&branches, query.ids(), &self.environment.memory)?;
        let merged = isolation.run(merge.others(), &mut |others| merge.run(others, scratch));
        self.run_ops(ops, merged.map_err(|e| self.locate(e))?, isolation, scratch)
    }

    fn run_ops<'a>(
        &self,
        ops: impl IntoIterator<Item = &'a CompiledOp>,
        mut chunk: Chunk,
        isolation: &mut Isolation<'_>,
        scratch: &mut Scratch,
    ) -> Result<Chunk> {
        let batch = self.stages.aligned.map(|b| b.size);
        for op in ops {
            let ran = isolation.run(&chunk, &mut |chunk| op.run(chunk, batch, scratch));
            chunk = ran.map_err(|e| self.locate(e))?;
        }
        Ok(chunk)
    }

    /// Runs the remaining row ops on rows at hand, on which `ops` have run: on a chunk that arrived from a worker, or
    /// on the record of a skipped row. No row may fail; the losses that the chunk names stay.
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

/// A variant with a cache point, over its source.
#[derive(Clone, Copy)]
struct Cached<'a> {
    variant: &'a PipelineVariant,
    prefix: &'a Prefix,
    rows: &'a RowSource,
}
