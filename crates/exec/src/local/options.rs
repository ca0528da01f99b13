//! The options of a stream in this process.

use forebay_core::ConsumerIndex;
use forebay_plan::Source;

use crate::skip::known_skips::KnownSkips;
use crate::skip::skip_log::Budget;
use crate::tail::position::Position;

/// The least threads, unless they are set, for a source in a store or on a server: each waits for its own answers.
const REMOTE_THREADS_MIN: usize = 8;

/// The options of a stream.
#[derive(Debug, Clone)]
pub struct LocalOptions {
    /// Threads that compute. 0 means one for each core, and at least 8 where the source is in a store or on a server.
    pub threads: usize,
    /// The epoch to end before. `None` means never.
    pub end_epoch: Option<u64>,
    /// Whether splits come in order. If not, chunks come as they are computed.
    pub ordered: bool,
    /// The index of this consumer.
    pub consumer: ConsumerIndex,
    /// The position to begin at.
    pub from: Position,
    /// How many samples may be skipped, where the pipeline skips samples that fail.
    pub budget: Budget,
    /// Samples that an earlier run skipped and this one must skip, too.
    pub known_skips: KnownSkips,
    /// Whether the stream ends with the first epoch that has no row, or soon after it.
    pub until_empty: bool,
}

impl Default for LocalOptions {
    fn default() -> Self {
        Self {
            threads: 0,
            end_epoch: Some(1),
            ordered: true,
            consumer: ConsumerIndex(0),
            from: Position::default(),
            budget: Budget::default(),
            known_skips: KnownSkips::default(),
            until_empty: false,
        }
    }
}

impl LocalOptions {
    /// Returns the number of threads that read a source. Threads that wait for answers need no core.
    pub(crate) fn threads_of(&self, source: &Source) -> usize {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        match self.threads {
            0 if source.is_remote() => cores.max(REMOTE_THREADS_MIN),
            0 => cores,
            threads => threads,
        }
    }
}
