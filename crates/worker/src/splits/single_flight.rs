//! Single flight for chunks that several jobs want (see `shared_chunks`): one of the jobs computes a chunk for all.
//!
//! No function here waits. The caller waits; in the simulation it does so in virtual time.

use crate::splits::chunk::ProducedChunk;
use crate::splits::shared_chunks::{InFlight, Lookup, Subscriber};
use crate::splits::split_buffer::{PutOutcome, SplitBuffer};

/// How one job gets a chunk.
pub(crate) enum Decision {
    /// Another job had computed it; it is in the split's buffer now.
    Done,
    /// Compute it here; with `Some`, for other jobs too.
    Compute(Option<InFlight>),
    /// Another thread computes it: decide again when it has, or compute it for this job alone if that takes too long.
    Wait,
}

/// Decides how to get a chunk. A chunk that another job has computed is put into the split's buffer.
pub(crate) fn decide(split: &SplitBuffer, subscriber: &Subscriber, run: u64, index: u64) -> Decision {
    // A job with known skips computes for itself: its chunks lack rows that other jobs have.
    if !subscriber.is_shared() || !split.known().is_empty() {
        return Decision::Compute(None);
    }
    match subscriber.lookup(split.key, index) {
        Lookup::Compute(in_flight) => Decision::Compute(Some(in_flight)),
        Lookup::InFlight => Decision::Wait,
        Lookup::Ready(produced) => {
            split.count_shared(produced.chunk.num_rows());
            split.put(run, index, &produced, false);
            Decision::Done
        }
    }
}

/// Puts a computed chunk into the split's buffer, and offers it to the other jobs.
pub(crate) fn publish(
    split: &SplitBuffer,
    run: u64,
    index: u64,
    mut produced: ProducedChunk,
    in_flight: Option<InFlight>,
) -> PutOutcome {
    split.count_rows(produced.chunk.num_rows());
    if let Some(in_flight) = in_flight {
        in_flight.complete(&mut produced);
    }
    split.put(run, index, &produced, false)
}
