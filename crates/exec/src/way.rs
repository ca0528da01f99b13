//! One way to compute the rows of a pipeline: which of its ops come before the place that is kept, if one is, and which behind it.
//!
//! Invariant: all ways of a pipeline give the same rows.

use std::sync::Arc;

use forebay_core::Result;
use forebay_data::Schema;
use forebay_plan::{EpochPlan, Stages, Work};

use crate::executable::Environment;
use crate::prefix::Prefix;
use crate::work::Compiled;

/// The ops, ready to run.
#[derive(Default)]
pub(crate) struct Way {
    /// What is before the place that is kept.
    pub(crate) prefix: Option<Prefix>,
    /// What is behind it; without one, everything.
    pub(crate) works: Vec<Compiled>,
}

impl Way {
    /// Prepares `works`, which begin with the prefix of `stages`. Rows are kept once [`Prefix::open`] was called.
    ///
    /// # Errors
    /// Invalid where an op's arguments cannot work together.
    pub(crate) fn new(
        stages: &Stages,
        works: &[Work],
        input: &Arc<Schema>,
        plan: &EpochPlan,
        environment: &Environment,
    ) -> Result<Self> {
        let mut works = compile(works, input, plan, environment)?;
        let before = works.drain(..stages.prefix().len()).collect();
        Ok(Self { prefix: Prefix::new(before, stages, plan, environment), works })
    }

    /// Prepares ops that come behind anything that is kept.
    ///
    /// # Errors
    /// As [`Way::new`].
    pub(crate) fn behind(
        works: &[Work],
        input: &Arc<Schema>,
        plan: &EpochPlan,
        environment: &Environment,
    ) -> Result<Self> {
        Ok(Self { prefix: None, works: compile(works, input, plan, environment)? })
    }
}

fn compile(works: &[Work], input: &Arc<Schema>, plan: &EpochPlan, environment: &Environment) -> Result<Vec<Compiled>> {
    let mut schema = input.clone();
    let compile = |work| {
        let compiled = Compiled::new(work, &schema, plan.seed(), environment)?;
        schema = compiled.schema().clone();
        Ok(compiled)
    };
    works.iter().map(compile).collect()
}
