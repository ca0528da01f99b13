//! How a stream reads, and the bounds that it keeps.

use std::sync::Arc;
use std::time::Duration;

use forebay_core::{ConsumerIndex, Error};
use forebay_data::{MemoryBudget, Schema};
use forebay_exec::{Budget, Position, SkippedSample};
use forebay_plan::EpochPlan;

use crate::seat::Seat;
use crate::watch::Watch;

/// Splits that a stream chooses to have ahead.
const WINDOW_MIN: u64 = 2;
const WINDOW_CHOSEN_MAX: u64 = 16;
/// Splits that a user may ask to have ahead. Each has a connection of its own.
pub(crate) const WINDOW_MAX: u32 = 64;
/// A split whose size is not known until it is read is taken to be this large.
const SPLIT_BYTES_UNKNOWN: u64 = 16 << 20;
/// How often a waiting call asks whether it should go on.
pub(crate) const POLL: Duration = Duration::from_millis(50);

/// How one consumer reads a job.
#[derive(Debug, Clone)]
pub struct StreamOptions {
    /// Which of the job's readers this is. Default: 0.
    pub consumer: ConsumerIndex,
    /// Whether splits come in order. If not, each comes as it is computed. Default: yes.
    pub ordered: bool,
    /// Splits that may be ahead of what was consumed, at most 64. Default: 2 to 16, by their size.
    pub window: Option<u32>,
    /// How much memory may be taken here. Default: as much as is of use.
    pub memory: MemoryBudget,
    /// Where to go on from. Default: from the start.
    pub from: Option<Position>,
    /// How long to wait for a dispatcher that does not answer, once there is nothing left to read. Default: 60 s.
    pub deadline: Duration,
    /// How many samples may be left out, where the pipeline leaves out those that fail. Default: one in a hundred.
    pub budget: Budget,
    /// Samples that an earlier run left out and this one must, too. Default: none.
    pub known: Vec<SkippedSample>,
    /// The place of its local worker. Default: empty.
    pub seat: Arc<Seat>,
    /// How long a reader waits for a batch that nobody computes before its user is told. Default: 10 s.
    pub patience: Duration,
    /// Tells the user, at most once for each stream. Called by whoever called `next`. Default: a warning in the log.
    pub tell: fn(&Error),
    /// Where readers end epochs together: how long the others wait for one that has no reader. Default: 5 minutes.
    pub absence: Duration,
    /// Who knows whether a batch that has not come for so long still can. Default: nobody, it is waited for.
    pub watch: Watch,
}

impl Default for StreamOptions {
    fn default() -> Self {
        Self {
            consumer: ConsumerIndex(0),
            ordered: true,
            window: None,
            memory: MemoryBudget::default(),
            from: None,
            deadline: Duration::from_secs(60),
            budget: Budget::default(),
            known: Vec::new(),
            seat: Arc::default(),
            patience: Duration::from_secs(10),
            tell: |error| tracing::warn!("{error}"),
            absence: Duration::from_secs(300),
            watch: Watch::default(),
        }
    }
}

/// Chooses how many splits to have ahead: as many as fit into the memory for chunks that wait, within reason.
pub(crate) fn window(plan: &EpochPlan, schema: &Schema, budget: MemoryBudget) -> u32 {
    let sizing = plan.sizing();
    let row = schema.fields().iter().map(|f| f.kind.row_bytes().map(|b| b as u64)).sum::<Option<u64>>();
    let rows = sizing.unit_rows.saturating_mul(sizing.split_units);
    let split = row.filter(|_| rows > 0).map_or(SPLIT_BYTES_UNKNOWN, |row| row.saturating_mul(rows)).max(1);
    (budget.arrived() as u64 / split).clamp(WINDOW_MIN, WINDOW_CHOSEN_MAX) as u32
}
