//! The costs of a pipeline's ops on sample rows, and a comparison of two orders of the ops: whether they yield the same
//! samples, and which is faster.
//!
//! `Dataset.optimize` chooses an order by these measurements.
//!
//! Invariant: no measurement reaches a sample. Only legal orders are measured; `compare` checks an order again, on real
//! rows.

use std::sync::Arc;
use std::time::Duration;

use forebay_core::{Error, Result};
use forebay_data::Chunk;
use forebay_plan::{EpochPlan, FusedOp, MeasuredCosts, MeasuredOp, Reorder, Stages};

use crate::executable::Executable;
use crate::executable::environment::Environment;
use crate::ops::compiled_op::CompiledOp;
use crate::ops::scratch::Scratch;
use crate::profile::distribution_check;
use crate::profile::op_meter::OpMeter;

/// Runs of each order. The fastest counts, because a disturbance only makes a run slower.
const ROUNDS: usize = 3;

/// Returns the time since an arbitrary moment; the caller has the clock.
pub type Now<'a> = &'a dyn Fn() -> Duration;

/// Runs each row op of a split by itself, in the order as written, and returns its cost per row and the share of rows
/// that it kept. `stages` are of the graph as written; ops after the merge are not run.
///
/// # Errors
/// The error of a row.
pub fn measure(
    stages: &Stages,
    plan: &EpochPlan,
    environment: &Environment,
    rows: &Chunk,
    now: Now<'_>,
) -> Result<MeasuredCosts> {
    let mut figures = MeasuredCosts { ops: vec![MeasuredOp::default(); stages.graph.nodes().len()] };
    let (mut chunk, mut scratch) = (rows.clone(), Scratch::default());
    let batch = stages.aligned.map(|batching| batching.size);
    let meter = OpMeter::new(environment.watch.clone());
    for step in stages.split.iter().flat_map(FusedOp::steps) {
        let op = CompiledOp::new(&FusedOp::of(step.clone()), chunk.schema(), plan.seed(), environment, &meter)?;
        // One row first: the one-time costs of an op (tables, unpickling) are not a cost per row.
        op.run(&chunk.slice(0, chunk.num_rows().min(1)), batch, &mut scratch)?;
        let start = now();
        let done = op.run(&chunk, batch, &mut scratch)?;
        let (spent, given) = (now().saturating_sub(start), chunk.num_rows() as f64);
        if given > 0.0 {
            let kept = Some(done.num_rows() as f64 / given);
            figures.ops[step.place] = MeasuredOp { ns: Some(spent.as_nanos() as f64 / given), kept };
        }
        chunk = done.with_losses(Vec::new());
    }
    Ok(figures)
}

/// Runs the row ops of two executables on the same rows, in turns. Returns the time of the first divided by that of the
/// second; `None` where, in the relaxed mode, the second does not draw from the same distribution.
///
/// # Errors
/// The error of a row; Internal when they do not yield the same bytes in the exact mode.
pub fn compare(
    written: &Arc<Executable>,
    other: &Arc<Executable>,
    mode: Reorder,
    rows: &Chunk,
    now: Now<'_>,
) -> Result<Option<f64>> {
    let mut least = [Duration::MAX; 2];
    let changed = other.stages().changed_columns()?;
    for _ in 0..ROUNDS {
        let run = |executable: &Executable, least: &mut Duration| {
            let start = now();
            let done = executable.finish(rows.clone(), 0)?;
            *least = now().saturating_sub(start).min(*least);
            Ok::<_, Error>(done)
        };
        let [first, second] = &mut least;
        let (as_written, otherwise) = (run(written, first)?, run(other, second)?);
        if mode == Reorder::Relaxed {
            if distribution_check::difference(&as_written, &otherwise, &changed)?.is_some() {
                return Ok(None);
            }
        } else if !as_written.same_bits(&otherwise) {
            return Err(Error::internal("another order of the ops gave other bytes")
                .hint("please report this as a bug; order=\"off\" runs them as written"));
        }
    }
    Ok(Some(least[0].as_secs_f64() / least[1].as_secs_f64().max(f64::MIN_POSITIVE)))
}
