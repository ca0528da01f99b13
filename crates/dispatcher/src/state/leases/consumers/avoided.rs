//! The workers that a consumer avoids because it could not fetch splits from them. Arithmetic only.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use forebay_core::{Ticks, WorkerId};

/// The longest time for which a consumer avoids a worker after one failure.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// The failed fetches of one consumer from one worker.
#[derive(Debug, Clone)]
struct FailedFetches {
    times: u32,
    /// When the dispatcher grants from this worker again.
    until: Ticks,
    /// The last failure, in words.
    cause: Arc<str>,
    /// Whether the worker could not read a file at the last failure.
    is_unreadable: bool,
}

/// The workers that one consumer avoids. At most as many as there are workers.
#[derive(Debug, Clone, Default)]
pub(in crate::state::leases) struct AvoidedWorkers(BTreeMap<WorkerId, FailedFetches>);

impl AvoidedWorkers {
    /// Notes that the consumer could not fetch from a worker. It gets no splits from this worker for the time `first`,
    /// and for twice as long each further time.
    pub(in crate::state::leases) fn add(
        &mut self,
        now: Ticks,
        worker: WorkerId,
        first: Duration,
        cause: &str,
        is_unreadable: bool,
    ) {
        let (times, until) = self.0.get(&worker).map_or((0, now), |was| (was.times, was.until));
        // The consumer reports the splits of a broken connection one by one: they count as one failure.
        if now < until {
            return;
        }
        let times = if now - until < PAUSE_MAX { times } else { 0 };
        let pause = first.saturating_mul(1 << times.min(16)).min(PAUSE_MAX);
        self.0
            .insert(worker, FailedFetches { times: times + 1, until: now + pause, cause: cause.into(), is_unreadable });
    }

    /// Returns whether the consumer avoids a worker now.
    pub(in crate::state::leases) fn has(&self, now: Ticks, worker: WorkerId) -> bool {
        self.0.get(&worker).is_some_and(|avoided| now < avoided.until)
    }

    /// Returns the workers that the consumer avoids now, and the causes.
    pub(in crate::state::leases) fn at(&self, now: Ticks) -> impl Iterator<Item = (WorkerId, &Arc<str>)> {
        self.0.iter().filter(move |(_, avoided)| now < avoided.until).map(|(id, avoided)| (*id, &avoided.cause))
    }

    /// Returns whether a worker could not read a file when the consumer fetched from it last.
    pub(in crate::state::leases) fn could_not_read(&self, worker: WorkerId) -> bool {
        self.0.get(&worker).is_some_and(|failed| failed.is_unreadable)
    }

    /// Forgets a worker that is gone.
    pub(in crate::state::leases) fn forget(&mut self, worker: WorkerId) {
        self.0.remove(&worker);
    }
}
