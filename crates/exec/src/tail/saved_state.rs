//! The state of a stream that a user saves, and the position where a consumer resumes from it.
//!
//! Rows are a pure function of the pipeline and the seed, so any process, service or job can resume from a state. The
//! same consumer of the same number of consumers resumes at its exact row. Any other consumer resumes from the frontier
//! that all had reached (`plan::Sharding`), in O(1).

use forebay_core::{ConsumerIndex, Error, Result};
use forebay_plan::{EpochPlan, Extent, Sharding, Sizing};
use serde::{Deserialize, Serialize};

use crate::skip::saved_skip::SavedSkip;
use crate::tail::position::Position;

/// The position of a consumer, and the figures to interpret it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedState {
    /// The first row that was not delivered.
    pub position: Position,
    /// The index of the consumer, and the number of consumers.
    pub consumer: (u32, u32),
    /// Whether the consumers were coordinated: all of them then have the same position.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub coordinated: bool,
    /// The sizes of units, chunks and splits; `None` if the stream had not begun.
    #[serde(default)]
    pub sizing: Option<Sizing>,
    /// The extent of the source; `None` if the source was not opened.
    #[serde(default)]
    pub source: Option<Extent>,
    /// The samples of this epoch and later ones that were skipped, and might not fail again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<SavedSkip>,
}

impl SavedState {
    /// Returns the state of a consumer of a plan.
    pub fn new(plan: &EpochPlan, consumer: ConsumerIndex, position: Position, mut left_out: Vec<SavedSkip>) -> Self {
        left_out.retain(|l| l.epoch >= position.epoch);
        let consumer = (consumer.0, plan.consumers());
        let coordinated = plan.sharding().coordinated;
        Self {
            position,
            consumer,
            coordinated,
            sizing: Some(plan.sizing()),
            source: Some(plan.extent().clone()),
            left_out,
        }
    }

    /// Returns the position where a consumer of `plan` resumes.
    ///
    /// # Errors
    /// Invalid when the source has changed, or when the rest of the epoch cannot be resharded from there.
    pub fn position_in(&self, plan: &EpochPlan, consumer: ConsumerIndex) -> Result<Position> {
        self.check_source(plan)?;
        let begins = Position::start_of(self.position.epoch);
        let Some(sizing) = self.sizing else { return Ok(begins) };
        let coordinated = plan.sharding().coordinated;
        let same = self.coordinated == coordinated && (coordinated || self.consumer == (consumer.0, plan.consumers()));
        if same && sizing == plan.sizing() || self.position == begins {
            return Ok(self.position.clone());
        }
        let ours = plan.sizing();
        if self.position.inside.is_some() || !self.position.passed.is_empty() {
            return Err(self.out_of_order(plan, consumer));
        }
        // Delivered steps cannot be converted to rows of units.
        if self.position.given > 0 || !plan.can_reshard() || sizing.unit_rows != ours.unit_rows || sizing.unit_rows == 0
        {
            return Err(self.cannot_reshard(plan, consumer));
        }
        let (unit, rows) = self.passed(plan, sizing);
        if rows > 0 && !same {
            return Err(self.within_unit(sizing.unit_rows));
        }
        let theirs = Sharding::from(self.consumer.1);
        let frontier = theirs.frontier(ConsumerIndex(self.consumer.0), unit, self.position.phase);
        let (passed, phase) = plan.sharding().resume(consumer, frontier);
        let dealt = plan.consumer_units(consumer);
        let end = plan.share(consumer, phase).or(dealt);
        if rows == 0 && end.is_some_and(|end| passed >= end) {
            return Ok(Position::start_of(self.position.epoch + 1));
        }
        let (split, chunk, unit) = ours.find_unit(passed);
        Ok(Position { epoch: self.position.epoch, split, chunk, rows: unit * ours.unit_rows + rows, phase, ..begins })
    }

    /// Returns the number of units that the saved consumer had completed in its epoch, and its rows of the next unit.
    fn passed(&self, plan: &EpochPlan, sizing: Sizing) -> (u64, u64) {
        let at = &self.position;
        let unit = sizing.first_unit(at.split, at.chunk).saturating_add(at.rows / sizing.unit_rows);
        let (index, count) = self.consumer;
        let dealt = plan.units().map(|units| Sharding::from(count).consumer_units(ConsumerIndex(index), units));
        match dealt {
            // After the last chunk, which may be short.
            Some(dealt) if unit >= dealt => (dealt, 0),
            _ => (unit, at.rows % sizing.unit_rows),
        }
    }

    fn check_source(&self, plan: &EpochPlan) -> Result<()> {
        let (Some(was), is) = (&self.source, plan.extent()) else { return Ok(()) };
        if was == is {
            return Ok(());
        }
        let describe = |e: &Extent| {
            let rows = e.rows.map_or(String::new(), |rows| format!("{rows} rows, "));
            format!("{rows}{} blocks, {} bytes", e.blocks, e.bytes)
        };
        Err(Error::invalid(format!(
            "the source has changed since this state was saved: it had {}, and now has {}",
            describe(was),
            describe(is)
        ))
        .hint("resume over the files that were there, or start over"))
    }

    fn cannot_reshard(&self, plan: &EpochPlan, consumer: ConsumerIndex) -> Error {
        let ((index, count), n) = (self.consumer, plan.consumers());
        Error::invalid(format!(
            "this state is of consumer {index} of {count}, and this is consumer {} of {n}: the rows of a consumer of this \
             pipeline are known only when it runs (after a filter, a pack, over files that are not counted, or where \
             samples may be skipped), so the rest of the epoch cannot be divided again",
            consumer.0
        ))
        .hint(
            "with the same number of consumers, let each load the state that it saved itself; change their number at the \
             start of an epoch",
        )
    }

    fn out_of_order(&self, plan: &EpochPlan, consumer: ConsumerIndex) -> Error {
        let ((index, count), n) = (self.consumer, plan.consumers());
        Error::invalid(format!(
            "this state is of consumer {index} of {count} with ordered=False, and this is consumer {} of {n}: the rest of \
             an epoch that came out of order cannot be divided again",
            consumer.0
        ))
        .hint(
            "with the same number of consumers, let each load the state that it saved itself; change their number at the \
             start of an epoch",
        )
    }

    fn within_unit(&self, unit_rows: u64) -> Error {
        Error::invalid(format!(
            "this state is of another consumer, and was saved within a run of {unit_rows} samples that go to one consumer \
             together"
        ))
        .hint(format!("use batch in the pipeline, or save after a multiple of {unit_rows} samples"))
    }
}
