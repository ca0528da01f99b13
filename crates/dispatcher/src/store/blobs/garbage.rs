//! Finds garbage: the blobs that no job has needed for a grace period. Without a clock and without I/O.
//!
//! Invariants: a blob is due only if no job needed it at two checks a grace period apart, and no caller wanted it in
//! between. While a blob is being deleted, no call reports that it exists: callers that want it wait until it is gone.
//! Bounds: one entry for each blob; a caller waits as long as a deletion takes.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use forebay_core::Ticks;

use super::key::BlobKey;

/// Keeps blobs from becoming garbage while it lives.
pub(crate) struct Pin(#[expect(dead_code, reason = "it is looked at from elsewhere")] Arc<Vec<BlobKey>>);

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct GarbageTracker {
    state: Mutex<State>,
    deleted: Condvar,
}

#[derive(Debug, Default)]
struct State {
    since: HashMap<BlobKey, Ticks>,
    /// Blobs that are being deleted.
    deleting: HashSet<BlobKey>,
    pins: Vec<Weak<Vec<BlobKey>>>,
}

/// A blob that is being deleted, until this is dropped.
pub(in crate::store) struct Deleting<'a> {
    of: &'a GarbageTracker,
    key: BlobKey,
}

impl Drop for Deleting<'_> {
    fn drop(&mut self) {
        self.of.lock().deleting.remove(&self.key);
        self.of.deleted.notify_all();
    }
}

impl GarbageTracker {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a blob is wanted. Waits while it is being deleted; a blob that exists afterwards stays for a grace
    /// period.
    pub(in crate::store) fn touch(&self, key: &BlobKey) {
        let deleted = self.deleted.wait_while(self.lock(), |state| state.deleting.contains(key));
        deleted.unwrap_or_else(PoisonError::into_inner).since.remove(key);
    }

    /// Keeps these blobs: no deletion of them begins while the pin lives.
    pub(in crate::store) fn pin(&self, keys: Vec<BlobKey>) -> Pin {
        let keys = Arc::new(keys);
        let mut state = self.lock();
        keys.iter().for_each(|key| _ = state.since.remove(key));
        state.pins.retain(|pin| pin.strong_count() > 0);
        state.pins.push(Arc::downgrade(&keys));
        Pin(keys)
    }

    /// Compares the stored blobs with the needed ones; returns the blobs that are due.
    pub(in crate::store) fn find_due(
        &self,
        stored: BTreeSet<BlobKey>,
        needed: &HashSet<BlobKey>,
        now: Ticks,
        grace: Duration,
    ) -> Vec<BlobKey> {
        let mut state = self.lock();
        let pinned: HashSet<BlobKey> =
            state.pins.iter().filter_map(Weak::upgrade).flat_map(|pin| (*pin).clone()).collect();
        let wanted = |key: &BlobKey| needed.contains(key) || pinned.contains(key);
        state.since.retain(|key, _| stored.contains(key) && !wanted(key));
        let mut due = Vec::new();
        for key in stored.into_iter().filter(|key| !wanted(key)) {
            let since = *state.since.entry(key.clone()).or_insert(now);
            if now - since >= grace && since < now {
                due.push(key);
            }
        }
        due
    }

    /// Begins to delete a blob that is due; `None` if it was wanted since.
    pub(in crate::store) fn take(&self, key: &BlobKey) -> Option<Deleting<'_>> {
        let mut state = self.lock();
        state.since.remove(key)?;
        state.deleting.insert(key.clone());
        Some(Deleting { of: self, key: key.clone() })
    }
}

#[cfg(test)]
pub(in crate::store) mod tests {
    use std::sync::mpsc::RecvTimeoutError;

    use super::*;

    const GRACE: Duration = Duration::from_millis(100);
    /// How long a test waits for a thread that should be blocked.
    pub(in crate::store) const NOTHING_SAID: Duration = Duration::from_millis(100);

    fn key(id: &str) -> BlobKey {
        ("a".to_owned(), id.to_owned())
    }

    fn find_due(garbage: &GarbageTracker, needed: &[&str], at: u64) -> Vec<BlobKey> {
        let stored = ["1", "2", "3"].map(key).into();
        garbage.find_due(stored, &needed.iter().map(|id| key(id)).collect(), Ticks(at), GRACE)
    }

    #[test]
    fn a_blob_that_was_unwanted_for_a_grace_is_due_and_no_other() {
        let garbage = GarbageTracker::default();
        assert_eq!(find_due(&garbage, &["1"], 1000), []);
        assert_eq!(find_due(&garbage, &["1"], 1099), []);
        garbage.touch(&key("2"));
        assert_eq!(find_due(&garbage, &["1"], 1100), [key("3")], "2 was asked for");
        assert_eq!(find_due(&garbage, &["3"], 1199), [], "1 was needed, 2 is not long needless, 3 is needed now");
        assert_eq!(find_due(&garbage, &[], 1200), [key("2")]);
        assert!(garbage.take(&key("2")).is_some() && garbage.take(&key("2")).is_none(), "once");
        garbage.touch(&key("1"));
        assert!(garbage.take(&key("1")).is_none(), "wanted in the last moment");
    }

    #[test]
    fn a_caller_that_wants_a_blob_on_its_way_out_waits_until_it_is_gone() {
        let garbage = GarbageTracker::default();
        find_due(&garbage, &[], 1000);
        let deleting = garbage.take(&key("1"));
        let (says, said) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let garbage = &garbage;
            scope.spawn(move || {
                says.send("wants it").expect("the test receives");
                garbage.touch(&key("1"));
                says.send("has it").expect("the test receives");
            });
            garbage.touch(&key("2"));
            drop(garbage.pin(vec![key("1")]));
            assert_eq!(said.recv(), Ok("wants it"));
            assert_eq!(said.recv_timeout(NOTHING_SAID), Err(RecvTimeoutError::Timeout), "it is on its way out");
            drop(deleting);
            assert_eq!(said.recv(), Ok("has it"));
        });
    }

    #[test]
    fn what_is_pinned_stays_and_is_garbage_only_after_that() {
        let garbage = GarbageTracker::default();
        assert_eq!(find_due(&garbage, &[], 1000), []);
        let pin = garbage.pin(vec![key("1")]);
        assert_eq!((find_due(&garbage, &["2", "3"], 1500), find_due(&garbage, &["2", "3"], 1700)), (vec![], vec![]));
        drop(pin);
        assert_eq!(find_due(&garbage, &["2", "3"], 1701), []);
        assert_eq!(find_due(&garbage, &["2", "3"], 1801), [key("1")]);
        drop(garbage.pin(Vec::new()));
        garbage.pin(Vec::new());
        assert_eq!(garbage.lock().pins.len(), 1, "pins that ended are forgotten");
    }
}
