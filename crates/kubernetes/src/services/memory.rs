//! The controller's state between reconciles of a service: scaling of worker types, and the start of missing pods.
//!
//! It is in memory only. A restart of the operator loses delays, and no decision.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use forebay_core::Ticks;
use forebay_policy::provision::Reconciler;

use super::wanted_workers::WantedWorkers;
use crate::cluster::Key;
use crate::scale::{CONCURRENT_STARTS, Workload, plan};

/// Time that pods have to become ready before the status gives the cause; also the interval between reads of the cause.
const START_MAX: Duration = Duration::from_secs(60);

/// The scaling state of a worker type.
struct Scaled {
    bounds: (u32, u32),
    reconciler: Reconciler,
}

/// Missing pods of a workload.
struct MissingPods {
    since: Ticks,
    /// The time of the last read, and the cause.
    why: Option<(Ticks, String)>,
}

#[derive(Default)]
struct State {
    scaled: HashMap<(Key, String), Scaled>,
    missing: HashMap<(Key, String), MissingPods>,
    /// The last answer of the dispatcher.
    wanted: HashMap<Key, WantedWorkers>,
    /// Time of the last correction of drift, by path.
    corrected: HashMap<String, Ticks>,
}

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct Memory {
    state: Mutex<State>,
}

/// Whether pods are missing, and why.
#[derive(Debug, PartialEq)]
pub(crate) enum Missing {
    /// No pod is missing, or only for a short time.
    No,
    /// Pods are missing; the caller reads the cause.
    CauseUnknown,
    /// Pods are missing, for this cause.
    Cause(String),
}

impl Memory {
    /// Returns the desired replicas of a workload: its current replicas while the wanted number is unknown.
    pub(crate) fn replicas(
        &self,
        (service, name): (&Key, &str),
        now: Ticks,
        wanted: Option<u32>,
        workload: &Workload,
        bounds: (u32, u32),
    ) -> u32 {
        let (min, max) = bounds;
        let Some(wanted) = wanted.filter(|_| min < max) else { return workload.replicas.clamp(min, max) };
        self.with(|state| {
            let new = || Scaled { bounds, reconciler: Reconciler::new(min, max, CONCURRENT_STARTS) };
            let scaled = state.scaled.entry((service.clone(), name.to_owned())).or_insert_with(new);
            if scaled.bounds != bounds {
                *scaled = new();
            }
            plan(&mut scaled.reconciler, now, wanted, workload).clamp(min, max)
        })
    }

    /// Returns whether pods have been missing for [`START_MAX`].
    pub(crate) fn missing(&self, (service, name): (&Key, &str), now: Ticks, workload: &Workload) -> Missing {
        let key = (service.clone(), name.to_owned());
        self.with(|state| {
            if workload.ready >= workload.replicas {
                state.missing.remove(&key);
                return Missing::No;
            }
            let missing = state.missing.entry(key).or_insert(MissingPods { since: now, why: None });
            match &missing.why {
                _ if now - missing.since < START_MAX => Missing::No,
                Some((read, why)) if now - *read < START_MAX => Missing::Cause(why.clone()),
                _ => Missing::CauseUnknown,
            }
        })
    }

    /// Records the cause of missing pods.
    pub(crate) fn set_cause(&self, (service, name): (&Key, &str), now: Ticks, why: String) {
        self.with(|state| {
            if let Some(missing) = state.missing.get_mut(&(service.clone(), name.to_owned())) {
                missing.why = Some((now, why));
            }
        });
    }

    /// Records the answer of the dispatcher.
    pub(crate) fn set_wanted(&self, service: &Key, wanted: WantedWorkers) {
        self.with(|state| state.wanted.insert(service.clone(), wanted));
    }

    /// Returns the last answer of the dispatcher.
    pub(crate) fn wanted(&self, service: &Key) -> WantedWorkers {
        self.with(|state| state.wanted.get(service).cloned()).unwrap_or_default()
    }

    /// Whether the operator may correct drift of an object now: at most once within `pause`.
    pub(crate) fn may_correct(&self, path: &str, now: Ticks, pause: Duration) -> bool {
        self.with(|state| {
            state.corrected.retain(|_, at| now - *at < pause);
            let may = !state.corrected.contains_key(path);
            if may {
                state.corrected.insert(path.to_owned(), now);
            }
            may
        })
    }

    /// Removes the state of a deleted service.
    pub(crate) fn forget(&self, service: &Key) {
        self.with(|state| {
            state.scaled.retain(|(of, _), _| of != service);
            state.missing.retain(|(of, _), _| of != service);
            state.wanted.remove(service);
        });
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(replicas: u32, ready: u32) -> Workload {
        Workload { replicas, ready, present: replicas, ..Workload::default() }
    }

    #[test]
    fn replicas_follow_the_wanted_number_within_bounds_and_stay_while_it_is_unknown() {
        let (memory, key) = (Memory::default(), Key::new("ml", "s"));
        let of =
            |wanted, workload: &Workload, bounds| memory.replicas((&key, "cpu"), Ticks(9), wanted, workload, bounds);
        assert_eq!(of(Some(5), &workload(1, 1), (1, 9)), 5);
        assert_eq!(of(Some(50), &workload(5, 5), (1, 9)), 9);
        assert_eq!(of(None, &workload(5, 5), (1, 9)), 5);
        assert_eq!(of(Some(1), &workload(5, 5), (1, 9)), 1);
        assert_eq!(of(Some(1), &workload(5, 5), (3, 9)), 3, "the bounds changed");
        assert_eq!(of(None, &workload(50, 5), (1, 9)), 9);
        assert_eq!(of(Some(7), &workload(2, 2), (2, 2)), 2, "a fixed number");
    }

    #[test]
    fn missing_pods_are_reported_after_a_minute_and_their_cause_is_read_once_a_minute() {
        let (memory, key) = (Memory::default(), Key::new("ml", "s"));
        let second = |s: u64| Ticks::default() + Duration::from_secs(s);
        let at = |s, ready| memory.missing((&key, "cpu"), second(s), &workload(3, ready));
        assert_eq!([at(1, 2), at(60, 2)], [Missing::No, Missing::No]);
        assert_eq!(at(61, 2), Missing::CauseUnknown);
        memory.set_cause((&key, "cpu"), second(61), "no node".to_owned());
        assert_eq!(at(62, 2), Missing::Cause("no node".to_owned()));
        assert_eq!(at(121, 2), Missing::CauseUnknown);
        assert_eq!([at(122, 3), at(123, 2)], [Missing::No, Missing::No]);
    }

    #[test]
    fn drift_of_one_object_is_corrected_once_a_minute() {
        let memory = Memory::default();
        let may = |s: u64| memory.may_correct("p", Ticks::default() + Duration::from_secs(s), Duration::from_secs(60));
        assert_eq!([may(1), may(2), may(60), may(61)], [true, false, false, true]);
    }
}
