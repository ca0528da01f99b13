//! How many batches or samples an epoch has, for all consumers and for one of them.

use std::sync::Arc;

use forebay_core::{ConsumerIndex, Result, Seed};
use forebay_plan::{EpochPlan, Graph, Node, Op, RowCount, Sharding, Source, Stages, ops};

use super::Pipeline;

impl Pipeline {
    /// Returns the batches (or samples) of an epoch: a number; `None` when not known before it runs; -1 when endless.
    pub(super) fn epoch_count(&self, poll: &mut dyn FnMut() -> Result<()>) -> Result<Option<i128>> {
        let uncounted = |n: &Arc<Node>| n.op.is_uncounted();
        if self.graph.nodes().iter().any(uncounted) || matches!(self.graph.source(), Source::Generator { .. }) {
            return Ok(None);
        }
        let source = self.graph.source();
        let rows = match source.rows().or_else(|| source.rows_of_mix()) {
            Some(rows) => i128::from(rows),
            None if source.is_streamed_mix() && source.is_endless() => -1,
            None if source.is_streamed_mix() => return Ok(None),
            None => {
                let extent = self.index(&self.graph, true, poll)?.extent();
                let rows = forebay_plan::rows_of_source(&self.graph, &extent);
                match rows.map_err(|e| self.graph.blame_source(e))? {
                    RowCount::Unknown => return Ok(None),
                    RowCount::Endless => -1,
                    RowCount::Rows(rows) => i128::from(rows),
                }
            }
        };
        Ok(Some(counted(&self.graph, rows)))
    }

    /// Returns why several consumers may get unequal numbers of batches: the op, and its line. `None` if the numbers
    /// are known, or an epoch has no end.
    pub(super) fn uneven_op(&self, consumers: u32) -> Result<Option<String>> {
        let (stages, _) = Sharding::choose(&self.graph, consumers, None, false)?;
        if self.graph.is_endless() {
            return Ok(None);
        }
        if self.graph.on_error().is_tolerant() {
            return Ok(Some("on_error (samples that fail are left out)".to_owned()));
        }
        let at = |node: &Node| node.site.as_ref().map_or(String::new(), |site| format!(" ({site})"));
        let named = |node: &Arc<Node>| format!("{}{}", node.title(), at(node));
        let op = stages.first_uncounted().map_or_else(|| self.graph.source().name().to_owned(), named);
        Ok(Some(op).filter(|_| !stages.counts_known))
    }

    /// Returns an epoch's batches for one of several consumers, as [`Pipeline::epoch_count`] counts; `None` if not
    /// known before it runs. `divided` is the pipeline as it is divided among them.
    pub(super) fn consumer_count(
        &self,
        (stages, sharding): (Stages, Sharding),
        consumer: ConsumerIndex,
        poll: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Option<i128>> {
        // A coordinated epoch is dealt by the lengths of rows.
        if !stages.counts_known || sharding.coordinated {
            return Ok(None);
        }
        let index = self.index(&self.graph, stages.counted, poll)?;
        let plan = EpochPlan::new(&stages, index.extent(), Seed(0), sharding, None)?;
        let Some(units) = plan.share(consumer, 0).or_else(|| plan.consumer_units(consumer)) else {
            return Ok(Some(-1));
        };
        if !plan.knows_counts() {
            return Ok(None);
        }
        // A unit is a batch, or a run of samples, of which the last one may be shorter.
        let size = plan.sizing().unit_rows;
        let (parts, part) = (plan.sharding().parts(), plan.sharding().part(consumer));
        let rows = |unit: u64| plan.rows().unwrap_or(0).saturating_sub((unit * parts + part) * size).min(size);
        let has_batches = self.graph.batch().is_some();
        let last = units.checked_sub(1).map_or(0, rows);
        let samples = units.saturating_sub(1) * size + last;
        Ok(Some(i128::from(if has_batches { units } else { samples })))
    }
}

/// Returns the batches or samples of an epoch of `rows` rows; -1 is endless.
fn counted(graph: &Graph, rows: i128) -> i128 {
    // The rows, and how many of them are made of one row.
    let (mut n, mut made) = (rows, 1);
    for node in graph.nodes() {
        let endless = n < 0;
        n = match &node.op {
            Op::Repeat(ops::Repeat { count: None }) if n != 0 => -1,
            Op::Repeat(ops::Repeat { count: Some(count) }) if !endless => n * i128::from(*count),
            Op::Take(ops::Take { count }) if endless => i128::from(*count),
            Op::Take(ops::Take { count }) => n.min(i128::from(*count)),
            Op::Skip(ops::Skip { count }) if !endless => (n - i128::from(*count)).max(0),
            Op::Shard(ops::Shard { count, index }) if !endless => {
                (n - i128::from(*index) + i128::from(*count) - 1).max(0) / i128::from(*count)
            }
            Op::FlatMap(ops::FlatMap { count: Some(count), .. }) if !endless => {
                made *= i128::from(*count);
                n * i128::from(*count)
            }
            Op::SelectRows(ops::SelectRows { rows }) => rows.len() as i128,
            Op::Part(part) if !endless => u64::try_from(n / made).map_or(n, |n| i128::from(part.count(n)) * made),
            Op::Batch(ops::Batch { size, drop_remainder })
            | Op::PaddedBatch(ops::PaddedBatch { size, drop_remainder, .. })
                if !endless =>
            {
                let short = if *drop_remainder { 0 } else { *size as i128 - 1 };
                (n + short) / *size as i128
            }
            _ => n,
        };
    }
    n
}
