//! The work queue of a controller. Two reconciles of one key never run at once; a key that is added during its
//! reconcile is reconciled again.
//!
//! A failed key waits for [`BACKOFF_MIN`], then twice as long each time, up to [`BACKOFF_MAX`]. A watch event ends the
//! wait. Reconciles of one key start at least [`INTERVAL_MIN`] apart, which bounds the load of a loop of events.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::Key;

/// Shortest time between the starts of two reconciles of one key.
const INTERVAL_MIN: Duration = Duration::from_millis(50);
/// Delay after the first failure.
const BACKOFF_MIN: Duration = Duration::from_millis(500);
/// Longest delay after failures.
const BACKOFF_MAX: Duration = Duration::from_secs(60);

/// When a key is reconciled again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Requeue {
    /// At the next watch event.
    OnChange,
    /// After this time, or at an earlier watch event.
    After(Duration),
    /// After a delay that doubles with each failure in a row.
    WithBackoff,
}

#[derive(Default)]
struct State {
    due: HashMap<Key, Instant>,
    started: HashMap<Key, Instant>,
    running: HashSet<Key>,
    failures: HashMap<Key, u32>,
}

/// The keys to reconcile.
#[derive(Default)]
pub(crate) struct WorkQueue {
    state: Mutex<State>,
    changed: Notify,
}

impl WorkQueue {
    /// Queues a key.
    pub(crate) fn add(&self, key: Key) {
        self.with(|state| state.put(key, Instant::now()));
        self.changed.notify_one();
    }

    /// Number of queued and running keys.
    pub(crate) fn len(&self) -> usize {
        self.with(|state| state.due.len() + state.running.len())
    }

    /// Waits for the next key; call [`WorkQueue::done`] after its reconcile.
    pub(crate) async fn next(&self) -> Key {
        loop {
            let found = self.with(State::take);
            match found {
                Ok(key) => return key,
                Err(None) => self.changed.notified().await,
                Err(Some(at)) => {
                    tokio::select! {
                        () = tokio::time::sleep_until(at) => {}
                        () = self.changed.notified() => {}
                    }
                }
            }
        }
    }

    /// Ends the reconcile of a key, and requeues it; returns the delay after a failure.
    pub(crate) fn done(&self, key: &Key, requeue: Requeue) -> Duration {
        let delay = self.with(|state| state.done(key, requeue));
        self.changed.notify_one();
        delay
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl State {
    fn put(&mut self, key: Key, at: Instant) {
        let at = self.started.get(&key).map_or(at, |started| at.max(*started + INTERVAL_MIN));
        let due = self.due.entry(key).or_insert(at);
        *due = at.min(*due);
    }

    /// Takes a key that is due; otherwise returns when the next key is due.
    fn take(&mut self) -> Result<Key, Option<Instant>> {
        let now = Instant::now();
        let waiting = self.due.iter().filter(|(key, _)| !self.running.contains(*key));
        let Some((key, at)) = waiting.min_by_key(|(_, at)| **at).map(|(key, at)| (key.clone(), *at)) else {
            return Err(None);
        };
        if at > now {
            return Err(Some(at));
        }
        self.due.remove(&key);
        self.started.insert(key.clone(), now);
        self.running.insert(key.clone());
        Ok(key)
    }

    fn done(&mut self, key: &Key, requeue: Requeue) -> Duration {
        self.running.remove(key);
        if requeue == Requeue::WithBackoff {
            let failures = self.failures.entry(key.clone()).or_default();
            let delay = (BACKOFF_MIN * 2_u32.pow((*failures).min(10))).min(BACKOFF_MAX);
            *failures += 1;
            self.put(key.clone(), Instant::now() + delay);
            return delay;
        }
        self.failures.remove(key);
        if let Requeue::After(delay) = requeue {
            self.put(key.clone(), Instant::now() + delay);
        } else if !self.due.contains_key(key) {
            self.started.remove(key);
        }
        Duration::ZERO
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Key::new("ns", name)
    }

    #[tokio::test(start_paused = true)]
    async fn one_key_is_reconciled_once_at_a_time_and_again_after_a_change() {
        let queue = WorkQueue::default();
        queue.add(key("a"));
        queue.add(key("a"));
        assert_eq!(queue.next().await, key("a"));
        queue.add(key("a"));
        queue.add(key("b"));
        assert_eq!(queue.next().await, key("b"), "a is being reconciled");
        let start = Instant::now();
        queue.done(&key("a"), Requeue::OnChange);
        assert_eq!(queue.next().await, key("a"));
        assert!(start.elapsed() >= INTERVAL_MIN);
        queue.done(&key("a"), Requeue::OnChange);
        queue.done(&key("b"), Requeue::After(Duration::from_secs(9)));
        assert_eq!(queue.next().await, key("b"));
        assert!(start.elapsed() >= Duration::from_secs(9));
    }

    #[tokio::test(start_paused = true)]
    async fn backoff_doubles_up_to_its_bound_and_is_reset_by_a_success() {
        let queue = WorkQueue::default();
        let mut delays = Vec::new();
        queue.add(key("a"));
        for _ in 0..12 {
            let start = Instant::now();
            let next = queue.next().await;
            delays.push(start.elapsed().as_millis());
            queue.done(&next, Requeue::WithBackoff);
        }
        assert_eq!(delays[..5], [0, 500, 1000, 2000, 4000]);
        assert!(delays.iter().all(|ms| *ms <= 60_001));
        let next = queue.next().await;
        queue.done(&next, Requeue::OnChange);
        assert_eq!(queue.done(&next, Requeue::WithBackoff), BACKOFF_MIN);
    }
}
