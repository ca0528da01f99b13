//! The options of a stream, and its bounds.

use std::sync::Arc;
use std::time::Duration;

use forebay_core::{ConsumerIndex, Error};
use forebay_data::{MemoryBudget, Schema};
use forebay_exec::{Budget, Position, SkippedSample};
use forebay_plan::EpochPlan;

use crate::local_worker::LocalWorkerSlot;
use crate::stream::liveness::LivenessCheck;

/// The default window: splits ahead of the consumer.
const WINDOW_MIN: u64 = 2;
const WINDOW_CHOSEN_MAX: u64 = 16;
/// The most windows of row groups of which a consumer may have splits ahead. Each of this many workers decodes one.
const SHUFFLE_WINDOWS_MAX: u64 = 16;
/// The most splits that may be ahead of the consumer. Each split has a connection of its own.
pub(crate) const WINDOW_MAX: u32 = 256;
/// The assumed size of a split whose size is unknown before it is read.
const SPLIT_BYTES_UNKNOWN: u64 = 16 << 20;
/// How often a waiting call calls `poll`.
pub(crate) const POLL: Duration = Duration::from_millis(50);

/// The options of one consumer's stream.
#[derive(Debug, Clone)]
pub struct StreamOptions {
    /// The index of this consumer in the job. Default: 0.
    pub consumer: ConsumerIndex,
    /// Whether splits are delivered in order; if not, in the order of their computation. Default: yes.
    pub ordered: bool,
    /// Splits that may be ahead of the consumer, at most 256. Default: 2 to 16, depending on their size; more for a shuffle
    /// over windows of row groups.
    pub window: Option<u32>,
    /// The memory that the stream may use. Default: as much as is useful.
    pub memory: MemoryBudget,
    /// The position to resume from. Default: the start.
    pub from: Option<Position>,
    /// How long to wait for a dispatcher that does not answer, once all assigned splits are consumed. Default: 60 s.
    pub deadline: Duration,
    /// How many samples may be skipped, if the pipeline skips failing samples. Default: one in a hundred.
    pub budget: Budget,
    /// Samples that an earlier run skipped, so that this one must skip them, too. Default: none.
    pub known: Vec<SkippedSample>,
    /// The slot of the consumer's local worker. Default: empty.
    pub local_worker: Arc<LocalWorkerSlot>,
    /// How long a consumer waits for a batch that no worker computes before it warns the user. Default: 10 s.
    pub patience: Duration,
    /// Warns the user, at most once for each stream, on the thread that called `next`. Default: a warning in the log.
    pub warn: fn(&Error),
    /// If consumers end epochs together: how long to wait for a consumer that is not running. Default: 5 minutes.
    pub rank_timeout: Duration,
    /// Checks whether a batch that is late can still come. Default: no check; the stream waits.
    pub liveness: LivenessCheck,
    /// Ends the stream before this epoch, if the job has as many. Default: it ends with the job.
    pub end_epoch: Option<u64>,
    /// Whether the stream ends with the first epoch that has no row, or soon after it. Default: no.
    pub until_empty: bool,
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
            local_worker: Arc::default(),
            patience: Duration::from_secs(10),
            warn: |error| tracing::warn!("{error}"),
            rank_timeout: Duration::from_secs(300),
            liveness: LivenessCheck::default(),
            end_epoch: None,
            until_empty: false,
        }
    }
}

/// Chooses the window: as many splits as fit into the memory for waiting chunks, within [`WINDOW_MIN`] and
/// [`WINDOW_CHOSEN_MAX`].
pub(crate) fn choose_window(plan: &EpochPlan, schema: &Schema, budget: MemoryBudget) -> u32 {
    let sizing = plan.sizing();
    let row = schema.fields().iter().map(|f| f.kind.row_bytes().map(|b| b as u64)).sum::<Option<u64>>();
    let rows = sizing.unit_rows.saturating_mul(sizing.split_units);
    let split = row.filter(|_| rows > 0).map_or(SPLIT_BYTES_UNKNOWN, |row| row.saturating_mul(rows)).max(1);
    let chosen = (budget.arrived() as u64 / split).clamp(WINDOW_MIN, WINDOW_CHOSEN_MAX);
    // Workers hold the splits of these windows, within their own memory.
    let of_windows = plan.window_layout().map_or(0, |layout| {
        let windows = (u64::from(WINDOW_MAX) / layout.splits()).min(SHUFFLE_WINDOWS_MAX);
        if windows > 1 { windows * layout.splits() } else { 0 }
    });
    chosen.max(of_windows) as u32
}
