//! The way of one split to this consumer, for a trace: the wait for its worker, transfers, and the spans of the worker.

use forebay_core::{ChunkPlace, Span, Track, tracer};
use forebay_proto::spans_from_bytes;

use crate::stream::reorder_buffer::Assignment;

/// The trace of one fetch of a split; made only while a trace is recorded.
pub(crate) struct SplitTrace {
    /// The next chunk of the split.
    place: ChunkPlace,
    worker: String,
    /// When this consumer was told of the worker.
    began: u64,
    /// When the last chunk was complete here.
    last: u64,
}

impl SplitTrace {
    /// Begins when the dispatcher has told which worker has the split.
    pub(crate) fn begin(stream: u64, assignment: &Assignment) -> Option<Self> {
        let Assignment { split, from_chunk, address, .. } = assignment;
        let place = ChunkPlace { stream, epoch: split.epoch, split: split.ordinal, chunk: *from_chunk };
        let began = tracer().now();
        tracer().is_on().then(|| Self { place, worker: address.clone(), began, last: began })
    }

    /// Notes that a chunk has come. `arrived` is when its first bytes did; `spans` is what its worker says, which is left
    /// out if it cannot be read: the rows do not depend on it.
    pub(crate) fn came(&mut self, index: u64, arrived: u64, spans: &[u8]) {
        self.place.chunk = index;
        let arrived = if arrived == 0 { tracer().now() } else { arrived };
        match spans_from_bytes(spans, arrived, &self.worker, self.place) {
            Ok(spans) => tracer().add(spans),
            Err(error) => tracing::debug!(error = error.message(), "spans of a worker are left out"),
        }
        let waited = arrived.saturating_sub(self.last);
        let wait = Span {
            name: "wait for worker".into(),
            process: "".into(),
            track: Track::Split,
            start: self.last,
            nanos: waited,
            chunk: Some(self.place),
        };
        tracer().add([wait]);
        self.did("transfer", arrived);
    }

    /// Notes that something was done to the last chunk since `start`.
    pub(crate) fn did(&mut self, what: &str, start: u64) {
        tracer().ended(what, Track::Split, start, Some(self.place));
        self.last = tracer().now();
    }
}

impl Drop for SplitTrace {
    fn drop(&mut self) {
        tracer().ended("split", Track::Split, self.began, Some(self.place));
    }
}
