//! One compiled variant of a pipeline: the ops before the cache point, the ops after it, and one suffix for each
//! placement boundary.
//!
//! Ops before the first boundary are compiled once. Ops between it and a later one are compiled for each boundary;
//! duplicates are cheap (`forebay_plan::Stages::placement_boundaries`).
//!
//! Invariant: all variants of a pipeline yield the same rows.

use std::sync::Arc;

use forebay_core::{Error, Result};
use forebay_data::Schema;
use forebay_plan::{EpochPlan, FusedOp, PlacementBoundary, Stages};

use crate::cached::bypass::CompiledBypass;
use crate::cached::prefix::Prefix;
use crate::executable::environment::Environment;
use crate::ops::compiled_op::{CompiledOp, compile};
use crate::profile::op_meter::OpMeter;

/// The ops of a pipeline, compiled.
pub(crate) struct PipelineVariant {
    /// The ops before the cache point.
    pub(crate) prefix: Option<Prefix>,
    /// The ops after the cache point that all boundaries share; without a cache point, from the first op on.
    shared: Vec<CompiledOp>,
    /// The bypass of the cache point, where it ends among the shared ops.
    bypass: Option<CompiledBypass>,
    /// The other ops, for each boundary: the ops up to it, or for a consumer the ops after it.
    suffixes: Vec<Suffix>,
}

#[derive(Default)]
struct Suffix {
    ops: Vec<CompiledOp>,
    /// The bypass of the cache point, where it ends among these ops.
    bypass: Option<CompiledBypass>,
}

impl PipelineVariant {
    /// Compiles the row ops of `stages` up to each boundary: `boundaries` holds the number of ops before each, the
    /// fewest first. Rows are cached after [`Prefix::open`] was called.
    ///
    /// # Errors
    /// Invalid where an op's arguments cannot work together.
    pub(crate) fn new(
        stages: &Stages,
        boundaries: &[u32],
        input: &Arc<Schema>,
        plan: &EpochPlan,
        environment: &Environment,
        meter: &OpMeter,
    ) -> Result<Self> {
        let pipelines: Vec<_> = boundaries.iter().map(|&ops| stages.first_ops(ops as usize)).collect();
        let (Some(first), Some(last)) = (pipelines.first(), pipelines.last()) else {
            return Err(Error::internal("a pipeline has a boundary"));
        };
        // An image op that is fused with more steps before a later boundary is not shared.
        let same = |(a, b): &(&FusedOp, &FusedOp)| a.steps().len() == b.steps().len();
        let common = first.iter().zip(last).take_while(same).count();
        let in_prefix = stages.prefix().len();
        let bypass = |fused_ops: &[FusedOp]| {
            let found = stages.cache_bypass(fused_ops);
            found.map(|bypass| CompiledBypass::new(&bypass, input, plan, environment, meter)).transpose()
        };
        let shared_bypass = bypass(&first[..common])?;
        let mut shared = compile(&first[..common], input, plan, environment, meter)?;
        let schema = shared.last().map_or(input, CompiledOp::schema).clone();
        let suffix = |pipeline: &Vec<FusedOp>| {
            let ops = compile(&pipeline[common..], &schema, plan, environment, meter)?;
            Ok(Suffix { ops, bypass: if shared_bypass.is_some() { None } else { bypass(pipeline)? } })
        };
        let suffixes = pipelines.iter().map(suffix).collect::<Result<_>>()?;
        let before = shared.drain(..in_prefix).collect();
        let prefix = Prefix::new(before, stages, plan, environment, meter);
        Ok(Self { prefix, shared, bypass: shared_bypass, suffixes })
    }

    /// Compiles the ops after each boundary, for a consumer.
    ///
    /// # Errors
    /// As [`PipelineVariant::new`].
    pub(crate) fn after_boundaries(
        boundaries: &[PlacementBoundary],
        plan: &EpochPlan,
        environment: &Environment,
        meter: &OpMeter,
    ) -> Result<Self> {
        let suffix = |boundary: &PlacementBoundary| {
            let ops = compile(&boundary.consumer, &boundary.schema, plan, environment, meter)?;
            Ok(Suffix { ops, bypass: None })
        };
        let suffixes = boundaries.iter().map(suffix).collect::<Result<_>>()?;
        Ok(Self { prefix: None, shared: Vec::new(), bypass: None, suffixes })
    }

    /// Returns the ops after the cache point up to the boundary of that index; for a consumer, the ops after the
    /// boundary.
    pub(crate) fn ops(&self, boundary: usize) -> impl Iterator<Item = &CompiledOp> {
        self.shared.iter().chain(self.suffixes.get(boundary).into_iter().flat_map(|suffix| &suffix.ops))
    }

    /// Returns the bypass of the cache point, up to the boundary of that index.
    pub(crate) fn bypass(&self, boundary: usize) -> Option<&CompiledBypass> {
        self.bypass.as_ref().or_else(|| self.suffixes.get(boundary)?.bypass.as_ref())
    }
}
