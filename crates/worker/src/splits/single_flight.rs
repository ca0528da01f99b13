//! Who computes a chunk that several jobs with the same samples want: one of them, for all (see `shared_chunks`). Nobody waits here: how a
//! thread waits is its caller's affair, which in the simulation is in virtual time.

use crate::splits::chunk::ProducedChunk;
use crate::splits::shared_chunks::{InFlight, Lookup, Subscriber};
use crate::splits::split_buffer::{PutOutcome, SplitBuffer};

/// What is to be done for a chunk.
pub(crate) enum Decision {
    /// Nothing: another job had computed it, and it is in its place now.
    Done,
    /// It is to be computed; for other jobs, too, where there are some.
    Compute(Option<InFlight>),
    /// Another thread computes it: look again when it has, and compute it for this job alone where that takes too long.
    Wait,
}

/// Puts a chunk in its place that another job with the same samples has computed, if there is one.
pub(crate) fn decide(split: &SplitBuffer, subscriber: &Subscriber, run: u64, index: u64) -> Decision {
    // What this job alone leaves out is its own.
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

/// Puts a chunk in its place that was computed, and gives it to the other jobs that want it.
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
