//! Keys that are to be looked at: each at most once at a time, and again when it changed meanwhile.
//!
//! A key that failed waits for 0.5 s, then twice as long each time, up to 60 s; a change of one of its objects ends the
//! wait, but never makes it be looked at more often than every [`LEAST`], so that nothing turns in circles at full
//! speed.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::Key;

/// Least time between two looks at one key.
const INTERVAL_MIN: Duration = Duration::from_millis(50);
/// First pause after a failure.
const BACKOFF_MIN: Duration = Duration::from_millis(500);
/// Longest pause after failures.
const BACKOFF_MAX: Duration = Duration::from_secs(60);

/// What came of a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Requeue {
    /// Nothing is to be done until something changes.
    OnChange,
    /// Look again after this time at the latest.
    After(Duration),
    /// It failed, and is tried again after a pause.
    WithBackoff,
}

#[derive(Default)]
struct State {
    due: HashMap<Key, Instant>,
    started: HashMap<Key, Instant>,
    running: HashSet<Key>,
    failures: HashMap<Key, u32>,
}

/// The keys that are to be looked at.
#[derive(Default)]
pub(crate) struct WorkQueue {
    state: Mutex<State>,
    changed: Notify,
}

impl WorkQueue {
    /// Has a key looked at soon.
    pub(crate) fn add(&self, key: Key) {
        self.with(|state| state.put(key, Instant::now()));
        self.changed.notify_one();
    }

    /// How many keys are due now or later, or are being looked at.
    pub(crate) fn len(&self) -> usize {
        self.with(|state| state.due.len() + state.running.len())
    }

    /// Returns the next key; call [`Queue::done`] after the look.
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

    /// Says what came of a look; returns the pause after a failure.
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

    /// Takes a key that is due, else says when the next one is.
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
