//! What the ops of a pipeline cost on rows that are at hand, and whether another order of them gives the same, faster.
//!
//! For whoever chooses an order by measuring. Invariant: nothing here reaches a sample. What comes of it is an order that
//! was legal before anything was measured; here it is checked once more, on real rows.

use std::sync::Arc;
use std::time::Duration;

use forebay_core::{Error, Result};
use forebay_data::Chunk;
use forebay_plan::{EpochPlan, Figures, OpFigures, Reorder, Stages, Work};

use crate::alike;
use crate::executable::{Environment, Executable};
use crate::meter::OpMeter;
use crate::work::{Compiled, Scratch};

/// Runs of each order. The fastest counts: what disturbs a run only makes it slower.
const ROUNDS: usize = 3;

/// Tells the time since some moment. Whoever calls has the clock.
pub type Now<'a> = &'a dyn Fn() -> Duration;

/// Runs each row op of a split by itself, in the order as written, and says what a row cost it and how many it kept.
/// `stages` are of the graph as written; ops that come after the merge are not run.
///
/// # Errors
/// What goes wrong with a row.
pub fn measure(
    stages: &Stages,
    plan: &EpochPlan,
    environment: &Environment,
    rows: &Chunk,
    now: Now<'_>,
) -> Result<Figures> {
    let mut figures = Figures { ops: vec![OpFigures::default(); stages.graph.nodes().len()] };
    let (mut chunk, mut scratch) = (rows.clone(), Scratch::default());
    let batch = stages.aligned.map(|batching| batching.size);
    let meter = OpMeter::new(environment.watch.clone());
    for step in stages.split.iter().flat_map(Work::steps) {
        let work = Compiled::new(&Work::of(step.clone()), chunk.schema(), plan.seed(), environment, &meter)?;
        // What an op makes once (tables, an unpickled function) is no row's cost.
        work.run(&chunk.slice(0, chunk.num_rows().min(1)), batch, &mut scratch)?;
        let start = now();
        let done = work.run(&chunk, batch, &mut scratch)?;
        let (spent, given) = (now().saturating_sub(start), chunk.num_rows() as f64);
        if given > 0.0 {
            let kept = Some(done.num_rows() as f64 / given);
            figures.ops[step.place] = OpFigures { ns: Some(spent.as_nanos() as f64 / given), kept };
        }
        chunk = done.with_losses(Vec::new());
    }
    Ok(figures)
}

/// Runs the row ops of two executables on the same rows, in turns, and returns the time of the first by that of the second;
/// `None` where the other, in the relaxed mode, does not give what could be of the same distribution.
///
/// # Errors
/// What goes wrong with a row; Internal when they do not give the same bytes in the exact mode.
pub fn compare(
    written: &Arc<Executable>,
    other: &Arc<Executable>,
    mode: Reorder,
    rows: &Chunk,
    now: Now<'_>,
) -> Result<Option<f64>> {
    let mut least = [Duration::MAX; 2];
    let touched = other.stages().touched()?;
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
            if alike::difference(&as_written, &otherwise, &touched)?.is_some() {
                return Ok(None);
            }
        } else if !as_written.same_bits(&otherwise) {
            return Err(Error::internal("another order of the ops gave other bytes")
                .hint("please report this as a bug; order=\"off\" runs them as written"));
        }
    }
    Ok(Some(least[0].as_secs_f64() / least[1].as_secs_f64().max(f64::MIN_POSITIVE)))
}
