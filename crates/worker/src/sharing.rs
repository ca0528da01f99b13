//! Who computes a chunk that several jobs with the same samples want: one of them, for all (see `window`). Nobody waits here: how a
//! thread waits is its caller's affair, which in the simulation is in virtual time.

use crate::held::{Held, Made, Put};
use crate::window::{Flight, Member, Taken};

/// What is to be done for a chunk.
pub(crate) enum Want {
    /// Nothing: another job had computed it, and it is in its place now.
    Nothing,
    /// It is to be computed; for other jobs, too, where there are some.
    Computed(Option<Flight>),
    /// Another thread computes it: look again when it has, and compute it for this job alone where that takes too long.
    Wait,
}

/// Puts a chunk in its place that another job with the same samples has computed, if there is one.
pub(crate) fn want(split: &Held, member: &Member, run: u64, index: u64) -> Want {
    // What this job alone leaves out is its own.
    if !member.is_shared() || !split.known().is_empty() {
        return Want::Computed(None);
    }
    match member.take(split.key, index) {
        Taken::Mine(flight) => Want::Computed(Some(flight)),
        Taken::Flying => Want::Wait,
        Taken::Chunk(made) => {
            split.count_shared(made.chunk.num_rows());
            split.put(run, index, &made, false);
            Want::Nothing
        }
    }
}

/// Puts a chunk in its place that was computed, and gives it to the other jobs that want it.
pub(crate) fn put(split: &Held, run: u64, index: u64, mut made: Made, flight: Option<Flight>) -> Put {
    split.count_rows(made.chunk.num_rows());
    if let Some(flight) = flight {
        flight.give(&mut made);
    }
    split.put(run, index, &made, false)
}
