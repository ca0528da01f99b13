//! One way to compute the rows of a pipeline: which of its ops come before the place that is kept, if one is, and which behind it,
//! up to each place where a service may cut it.
//!
//! Ops that are common to all cuts are prepared once; what comes between the first cut and a later one is cheap to have twice
//! (`forebay_plan::Stages::cuts`). Invariant: all ways of a pipeline give the same rows.

use std::sync::Arc;

use forebay_core::{Error, Result};
use forebay_data::Schema;
use forebay_plan::{Cut, EpochPlan, Seam, Stages, Work};

use crate::executable::Environment;
use crate::images::ImageWork;
use crate::meter::{OpMeter, Slot};
use crate::prefix::Prefix;
use crate::work::Compiled;

/// The ops, ready to run.
pub(crate) struct Way {
    /// What is before the place that is kept.
    pub(crate) prefix: Option<Prefix>,
    /// What is behind it, wherever the pipeline is cut; without one, from the first op on.
    works: Vec<Compiled>,
    /// What rows run through that there is no room for, where that is among these works.
    around: Option<Around>,
    /// What is left to do up to each cut; at a reader, from there on.
    ends: Vec<End>,
}

#[derive(Default)]
struct End {
    works: Vec<Compiled>,
    around: Option<Around>,
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
    /// Prepares the row ops of `stages` up to each of some cuts: how many ops each has before it, the fewest first. Rows are kept
    /// once [`Prefix::open`] was called.
    ///
    /// # Errors
    /// Invalid where an op's arguments cannot work together.
    pub(crate) fn new(
        stages: &Stages,
        cuts: &[u32],
        input: &Arc<Schema>,
        plan: &EpochPlan,
        environment: &Environment,
        meter: &OpMeter,
    ) -> Result<Self> {
        let ends: Vec<_> = cuts.iter().map(|&ops| stages.first_ops(ops as usize)).collect();
        let (Some(first), Some(last)) = (ends.first(), ends.last()) else {
            return Err(Error::internal("a pipeline ends somewhere"));
        };
        // An image op that a later cut makes longer is none of these.
        let same = |(a, b): &(&Work, &Work)| a.steps().len() == b.steps().len();
        let common = first.iter().zip(last).take_while(same).count();
        let kept = stages.prefix().len();
        let around = |works: &[Work]| {
            stages.seam(works).map(|seam| Around::new(&seam, input, plan, environment, meter)).transpose()
        };
        let shared = around(&first[..common])?;
        let mut works = compile(&first[..common], input, plan, environment, meter)?;
        let schema = works.last().map_or(input, Compiled::schema).clone();
        let end = |end: &Vec<Work>| {
            let works = compile(&end[common..], &schema, plan, environment, meter)?;
            Ok(End { works, around: if shared.is_some() { None } else { around(end)? } })
        };
        let ends = ends.iter().map(end).collect::<Result<_>>()?;
        let before = works.drain(..kept).collect();
        Ok(Self { prefix: Prefix::new(before, stages, plan, environment, meter), works, around: shared, ends })
    }

    /// Prepares the ops behind each cut.
    ///
    /// # Errors
    /// As [`Way::new`].
    pub(crate) fn behind(cuts: &[Cut], plan: &EpochPlan, environment: &Environment, meter: &OpMeter) -> Result<Self> {
        let end = |cut: &Cut| {
            let works = compile(&cut.reader, &cut.schema, plan, environment, meter)?;
            Ok(End { works, around: None })
        };
        let ends = cuts.iter().map(end).collect::<Result<_>>()?;
        Ok(Self { prefix: None, works: Vec::new(), around: None, ends })
    }

    /// Returns what is behind the place that is kept, up to (or at a reader, from) the cut of that number on.
    pub(crate) fn works(&self, cut: usize) -> impl Iterator<Item = &Compiled> {
        self.works.iter().chain(self.ends.get(cut).into_iter().flat_map(|end| &end.works))
    }

    /// Returns what rows run through that there is no room for.
    pub(crate) fn around(&self, cut: usize) -> Option<&Around> {
        self.around.as_ref().or_else(|| self.ends.get(cut)?.around.as_ref())
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
