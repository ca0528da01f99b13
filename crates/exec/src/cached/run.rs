//! Runs the rows of a morsel by a variant with a cache point: finds cached rows, computes the others, and runs the ops
//! after the cache point on all of them.

use forebay_core::{Error, Result};
use forebay_data::{Chunk, RowId};
use forebay_io::Place;

use crate::cached::bypass::{Branch, BypassMerge};
use crate::cached::prefix::{Prefix, PrefixOutput, RowQuery};
use crate::executable::row_source::RowSource;
use crate::executable::variant::PipelineVariant;
use crate::executable::{Executable, MorselContext};
use crate::ops::compiled_op::{CompiledOp, Kernel};
use crate::ops::scratch::Scratch;
use crate::skip::isolation::Isolation;

/// A variant with a cache point, over its source.
#[derive(Clone, Copy)]
pub(crate) struct CachedVariant<'a> {
    pub(crate) variant: &'a PipelineVariant,
    pub(crate) prefix: &'a Prefix,
    pub(crate) rows: &'a RowSource,
}

impl Executable {
    /// As [`Executable::run`], by a variant with a cache point: known skips are not looked up there.
    pub(crate) fn run_cached(
        &self,
        cached: &CachedVariant<'_>,
        places: Vec<Place>,
        context: MorselContext<'_>,
        mut isolation: Isolation<'_>,
        scratch: &mut Scratch,
    ) -> Result<Chunk> {
        let CachedVariant { variant, prefix, rows } = *cached;
        let MorselContext { epoch, known_skips, boundary, known } = context;
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
            None => self.run_ops(variant.ops(boundary), chunk, known, &mut isolation, scratch)?,
            Some(bypassing) => {
                self.merge_bypass(cached, &query, (chunk, bypassing), context, &mut isolation, scratch)?
            }
        };
        Ok(chunk.with_losses(isolation.into_losses()))
    }

    /// Runs the ops after the cache point on cached rows and on `bypassing` ones, and merges them in order.
    fn merge_bypass(
        &self,
        cached: &CachedVariant<'_>,
        query: &RowQuery<'_>,
        (chunk, bypassing): (Chunk, Chunk),
        MorselContext { boundary, known, .. }: MorselContext<'_>,
        isolation: &mut Isolation<'_>,
        scratch: &mut Scratch,
    ) -> Result<Chunk> {
        let bypass = cached.variant.bypass(boundary).ok_or_else(|| Error::internal("rows without a bypass"))?;
        let mut ops = cached.variant.ops(boundary);
        let between: Vec<_> = ops.by_ref().take(bypass.between).collect();
        let Some(CompiledOp { kernel: Kernel::Image(op), slot }) = ops.next() else {
            return Err(Error::internal("a cache bypass ends at an image op"));
        };
        let chunk = self.run_ops(between, chunk, None, isolation, scratch)?;
        let branches = [
            Branch { op, slot: *slot, chunk: &chunk },
            Branch { op: &bypass.image, slot: bypass.slot, chunk: &bypassing },
        ];
        let merge = BypassMerge::new(&branches, query.ids(), self.memory())?;
        let merged = isolation.run(merge.others(), &mut |others| merge.run(others, scratch));
        self.run_ops(ops, merged.map_err(|e| self.locate(e))?, known, isolation, scratch)
    }
}
