//! Begins an iteration in this process, from the start or from a saved state.

use std::sync::Arc;

use forebay_core::{ConsumerIndex, Error, Result, Seed, SystemClock};
use forebay_data::Memory;
use forebay_exec::{Budget, Environment, LocalIteration, LocalOptions, Position, SavedSkip, SavedState};
use forebay_plan::Sharding;
use pyo3::prelude::*;

use super::Pipeline;
use crate::errors::{guard, interruptible};
use crate::functions::runner::Runner;
use crate::iter::{Iteration, NativeIterator};

/// The most samples that may be skipped: a whole number, or a share.
#[derive(Clone, Copy, FromPyObject)]
pub(crate) enum ErrorBudget {
    Count(u64),
    Share(f64),
}

impl From<ErrorBudget> for Budget {
    fn from(budget: ErrorBudget) -> Self {
        match budget {
            ErrorBudget::Count(count) => Budget::Count(count),
            ErrorBudget::Share(share) => Budget::Share(share),
        }
    }
}

/// The arguments of an iteration, as Python gives them.
pub(super) struct Start<'a> {
    pub(super) seed: u64,
    pub(super) epoch: u64,
    pub(super) epochs: Option<u64>,
    pub(super) threads: usize,
    pub(super) consumer: u32,
    pub(super) consumers: u32,
    pub(super) even: Option<bool>,
    pub(super) coordinated: bool,
    pub(super) ordered: bool,
    pub(super) executor: &'a str,
    pub(super) budget: ErrorBudget,
    pub(super) memory: Option<&'a str>,
    pub(super) state: Option<&'a str>,
}

impl Start<'_> {
    /// Starts iterating.
    pub(super) fn iterate(self, py: Python<'_>, pipeline: &Pipeline) -> PyResult<NativeIterator> {
        let Self { seed, epoch, epochs, threads, consumer, consumers, even, coordinated, ordered, executor, .. } = self;
        let Self { budget, memory, state, .. } = self;
        let (state, said) = guard(py, || Ok((state.map(saved).transpose()?, crate::memory_budget::said(memory)?)))?;
        // Each thread that calls functions in processes starts one, so these do not outnumber the cores.
        let is_default = threads == 0 && executor == "process";
        let threads = if is_default { crate::service::cores() } else { threads };
        let runner = Runner::new(py, executor, pipeline.blobs.iter().map(|(id, _)| id.clone()).collect())?;
        let started = interruptible(py, |poll| {
            let blobs = Arc::new(pipeline.blobs.clone());
            let (functions, keeping) = (runner.functions(), crate::cache::keeping(&pipeline.graph)?);
            let environment = Environment {
                blobs,
                functions,
                memory: Memory::reused().with_budget(forebay_server::memory_budget(said)),
                cache_context: keeping,
                watch: Arc::new(SystemClock::default()),
            };
            let sizing = state.as_ref().and_then(|s| s.sizing);
            let divided = Sharding::choose(&pipeline.graph, consumers, even, coordinated)?;
            let executable = pipeline.prepare(divided, Seed(seed), sizing, &environment, poll)?;
            let (plan, consumer) = (executable.plan().clone(), ConsumerIndex(consumer));
            let source = executable.stages().graph.source().clone();
            crate::memory_budget::check(said, executable.stages(), &plan)?;
            let from = match &state {
                Some(saved) => saved.position_in(&plan, consumer)?,
                None => Position { epoch, ..Position::default() },
            };
            let left_out = state.map(|s| s.left_out).unwrap_or_default();
            let end_epoch = epochs.map(|n| epoch.saturating_add(n));
            check_epoch(from.epoch, epoch, end_epoch)?;
            let (budget, known_skips) = (budget.into(), SavedSkip::known_skips(&left_out));
            let options = LocalOptions {
                threads,
                end_epoch,
                ordered,
                consumer,
                from: from.clone(),
                budget,
                known_skips,
                until_empty: false,
            };
            Ok((LocalIteration::start(executable, options)?, from, plan, consumer, left_out, source))
        });
        let (stream, from, plan, consumer, left_out, source) = started?;
        pipeline.listing.warn_of_changes(py, &source, plan.extent().bytes)?;
        let iteration = Iteration::Local(Box::new(stream), pipeline.listing.clone());
        Ok(NativeIterator::new(iteration, from, plan, consumer, left_out, runner))
    }
}

/// Reads the saved state of an iterator.
pub(crate) fn saved(json: &str) -> Result<SavedState> {
    serde_json::from_str(json).map_err(|e| Error::invalid(format!("this is not a state of an iterator: {e}")))
}

/// Refuses a state of an epoch outside of the iteration: it would yield nothing, or the wrong epochs.
fn check_epoch(at: u64, first: u64, end: Option<u64>) -> Result<()> {
    if at >= first && end.is_none_or(|end| at <= end) {
        return Ok(());
    }
    let all = end.map_or(format!("{first} and all that follow"), |end| format!("{first}..{end}"));
    Err(Error::invalid(format!("the saved state is in epoch {at}, and this iterator has epochs {all}"))
        .hint("give iter() the epoch and the epochs that the saved iterator had"))
}
