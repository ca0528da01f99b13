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
const LEAST: Duration = Duration::from_millis(50);
/// First pause after a failure.
const PAUSE_FIRST: Duration = Duration::from_millis(500);
/// Longest pause after failures.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// What came of a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing is to be done until something changes.
    Settled,
    /// Look again after this time at the latest.
    After(Duration),
    /// It failed, and is tried again after a pause.
    Failed,
}

#[derive(Default)]
struct State {
    due: HashMap<Key, Instant>,
    looked: HashMap<Key, Instant>,
    running: HashSet<Key>,
    failures: HashMap<Key, u32>,
}

/// The keys that are to be looked at.
#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    changed: Notify,
}

impl Queue {
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
    pub(crate) fn done(&self, key: &Key, next: Next) -> Duration {
        let pause = self.with(|state| state.done(key, next));
        self.changed.notify_one();
        pause
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl State {
    fn put(&mut self, key: Key, at: Instant) {
        let at = self.looked.get(&key).map_or(at, |looked| at.max(*looked + LEAST));
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
        self.looked.insert(key.clone(), now);
        self.running.insert(key.clone());
        Ok(key)
    }

    fn done(&mut self, key: &Key, next: Next) -> Duration {
        self.running.remove(key);
        if next == Next::Failed {
            let failures = self.failures.entry(key.clone()).or_default();
            let pause = (PAUSE_FIRST * 2_u32.pow((*failures).min(10))).min(PAUSE_MAX);
            *failures += 1;
            self.put(key.clone(), Instant::now() + pause);
            return pause;
        }
        self.failures.remove(key);
        if let Next::After(pause) = next {
            self.put(key.clone(), Instant::now() + pause);
        } else if !self.due.contains_key(key) {
            self.looked.remove(key);
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
    async fn a_key_is_looked_at_once_at_a_time_and_again_when_it_changed() {
        let queue = Queue::default();
        queue.add(key("a"));
        queue.add(key("a"));
        assert_eq!(queue.next().await, key("a"));
        queue.add(key("a"));
        queue.add(key("b"));
        assert_eq!(queue.next().await, key("b"), "a is being looked at");
        let start = Instant::now();
        queue.done(&key("a"), Next::Settled);
        assert_eq!(queue.next().await, key("a"));
        assert!(start.elapsed() >= LEAST);
        queue.done(&key("a"), Next::Settled);
        queue.done(&key("b"), Next::After(Duration::from_secs(9)));
        assert_eq!(queue.next().await, key("b"));
        assert!(start.elapsed() >= Duration::from_secs(9));
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_double_up_to_a_bound_and_begin_anew_after_a_success() {
        let queue = Queue::default();
        let mut pauses = Vec::new();
        queue.add(key("a"));
        for _ in 0..12 {
            let start = Instant::now();
            let next = queue.next().await;
            pauses.push(start.elapsed().as_millis());
            queue.done(&next, Next::Failed);
        }
        assert_eq!(pauses[..5], [0, 500, 1000, 2000, 4000]);
        assert!(pauses.iter().all(|ms| *ms <= 60_001));
        let next = queue.next().await;
        queue.done(&next, Next::Settled);
        assert_eq!(queue.done(&next, Next::Failed), PAUSE_FIRST);
    }
}
