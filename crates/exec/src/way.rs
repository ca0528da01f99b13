//! One way to compute the rows of a pipeline: which of its ops come before the place that is kept, if one is, and which behind it.
//!
//! Invariant: all ways of a pipeline give the same rows.

use std::sync::Arc;

use forebay_core::{Error, Result};
use forebay_data::Schema;
use forebay_plan::{EpochPlan, Seam, Stages, Work};

use crate::executable::Environment;
use crate::images::ImageWork;
use crate::meter::{OpMeter, Slot};
use crate::prefix::Prefix;
use crate::work::Compiled;

/// The ops, ready to run.
#[derive(Default)]
pub(crate) struct Way {
    /// What is before the place that is kept.
    pub(crate) prefix: Option<Prefix>,
    /// What is behind it; without one, everything.
    pub(crate) works: Vec<Compiled>,
    /// What rows run through that there is no room for.
    pub(crate) around: Option<Around>,
}

/// See [`Seam`].
pub(crate) struct Around {
    pub(crate) before: Vec<Compiled>,
    /// The columns after that.
    pub(crate) schema: Arc<Schema>,
    pub(crate) image: ImageWork,
    /// Where what that costs is counted.
    pub(crate) slot: Slot,
    pub(crate) between: usize,
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
        meter: &OpMeter,
    ) -> Result<Self> {
        let around = stages.seam(works).map(|seam| Around::new(&seam, input, plan, environment, meter)).transpose()?;
        let mut works = compile(works, input, plan, environment, meter)?;
        let before = works.drain(..stages.prefix().len()).collect();
        Ok(Self { prefix: Prefix::new(before, stages, plan, environment, meter), works, around })
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
        meter: &OpMeter,
    ) -> Result<Self> {
        Ok(Self { prefix: None, works: compile(works, input, plan, environment, meter)?, around: None })
    }
}

impl Around {
    fn new(
        seam: &Seam,
        input: &Arc<Schema>,
        plan: &EpochPlan,
        environment: &Environment,
        meter: &OpMeter,
    ) -> Result<Self> {
        let before = compile(&seam.before, input, plan, environment, meter)?;
        let schema = before.last().map_or(input, Compiled::schema).clone();
        let Work::Image { column, steps } = &seam.image else {
            return Err(Error::internal("a seam is of an image op"));
        };
        let image = ImageWork::new(column, steps, &schema, plan.seed(), environment.memory.clone())?;
        Ok(Self { before, schema, image, slot: meter.slot_of(&seam.image), between: seam.between })
    }
}

fn compile(
    works: &[Work],
    input: &Arc<Schema>,
    plan: &EpochPlan,
    environment: &Environment,
    meter: &OpMeter,
) -> Result<Vec<Compiled>> {
    let mut schema = input.clone();
    let compile = |work| {
        let compiled = Compiled::new(work, &schema, plan.seed(), environment, meter)?;
        schema = compiled.schema().clone();
        Ok(compiled)
    };
    works.iter().map(compile).collect()
}
