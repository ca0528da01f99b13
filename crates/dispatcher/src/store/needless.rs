//! Which blobs nobody needs, and since when: what may be removed, without a clock and without I/O.
//!
//! Invariant: a blob is due only when it was seen to be needless at two looks that are a grace apart, and nobody wanted it in between.
//! Bounds: as many as there are blobs.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use forebay_core::Ticks;

use super::blobs::BlobKey;

/// Keeps some blobs for as long as it lives.
pub(crate) struct Pin(#[expect(dead_code, reason = "it is looked at from elsewhere")] Arc<Vec<BlobKey>>);

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Needless(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    since: HashMap<BlobKey, Ticks>,
    pins: Vec<Weak<Vec<BlobKey>>>,
}

impl Needless {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody wants a blob.
    pub(super) fn touch(&self, key: &BlobKey) {
        self.lock().since.remove(key);
    }

    /// Somebody wants these for a while.
    pub(super) fn pin(&self, keys: Vec<BlobKey>) -> Pin {
        let keys = Arc::new(keys);
        let mut state = self.lock();
        keys.iter().for_each(|key| _ = state.since.remove(key));
        state.pins.retain(|pin| pin.strong_count() > 0);
        state.pins.push(Arc::downgrade(&keys));
        Pin(keys)
    }

    /// Looks at what is kept and what is needed of it; returns what is due.
    pub(super) fn look(
        &self,
        kept: BTreeSet<BlobKey>,
        needed: &HashSet<BlobKey>,
        now: Ticks,
        grace: Duration,
    ) -> Vec<BlobKey> {
        let mut state = self.lock();
        let pinned: HashSet<BlobKey> =
            state.pins.iter().filter_map(Weak::upgrade).flat_map(|pin| (*pin).clone()).collect();
        let wanted = |key: &BlobKey| needed.contains(key) || pinned.contains(key);
        state.since.retain(|key, _| kept.contains(key) && !wanted(key));
        let mut due = Vec::new();
        for key in kept.into_iter().filter(|key| !wanted(key)) {
            let since = *state.since.entry(key.clone()).or_insert(now);
            if now - since >= grace && since < now {
                due.push(key);
            }
        }
        due
    }

    /// Takes one that is due out, to remove it; false where somebody has wanted it since.
    pub(super) fn take(&self, key: &BlobKey) -> bool {
        self.lock().since.remove(key).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_millis(100);

    fn key(id: &str) -> BlobKey {
        ("a".to_owned(), id.to_owned())
    }

    fn look(needless: &Needless, needed: &[&str], at: u64) -> Vec<BlobKey> {
        let kept = ["1", "2", "3"].map(key).into();
        needless.look(kept, &needed.iter().map(|id| key(id)).collect(), Ticks(at), GRACE)
    }

    #[test]
    fn what_nobody_wanted_for_a_grace_is_due_and_nothing_else() {
        let needless = Needless::default();
        assert_eq!(look(&needless, &["1"], 1000), []);
        assert_eq!(look(&needless, &["1"], 1099), []);
        needless.touch(&key("2"));
        assert_eq!(look(&needless, &["1"], 1100), [key("3")], "2 was asked for");
        assert_eq!(look(&needless, &["3"], 1199), [], "1 was needed, 2 is not long needless, 3 is needed now");
        assert_eq!(look(&needless, &[], 1200), [key("2")]);
        assert!(needless.take(&key("2")) && !needless.take(&key("2")), "once");
        needless.touch(&key("1"));
        assert!(!needless.take(&key("1")), "wanted in the last moment");
    }

    #[test]
    fn what_is_pinned_stays_and_is_needless_only_after_that() {
        let needless = Needless::default();
        assert_eq!(look(&needless, &[], 1000), []);
        let pin = needless.pin(vec![key("1")]);
        assert_eq!((look(&needless, &["2", "3"], 1500), look(&needless, &["2", "3"], 1700)), (vec![], vec![]));
        drop(pin);
        assert_eq!(look(&needless, &["2", "3"], 1701), []);
        assert_eq!(look(&needless, &["2", "3"], 1801), [key("1")]);
        drop(needless.pin(Vec::new()));
        needless.pin(Vec::new());
        assert_eq!(needless.lock().pins.len(), 1, "those that ended are forgotten");
    }
}
