//! Which blobs nobody needs, and since when: what may be removed, without a clock and without I/O.
//!
//! Invariants: a blob is due only when it was seen to be needless at two looks that are a grace apart, and nobody wanted it in between.
//! While one is on its way out nobody is told that it is there: whoever wants it waits until it is gone.
//! Bounds: as many as there are blobs; one is waited for as long as it takes to remove it.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use forebay_core::Ticks;

use super::store::BlobKey;

/// Keeps some blobs for as long as it lives.
pub(crate) struct Pin(#[expect(dead_code, reason = "it is looked at from elsewhere")] Arc<Vec<BlobKey>>);

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Needless {
    state: Mutex<State>,
    left: Condvar,
}

#[derive(Debug, Default)]
struct State {
    since: HashMap<BlobKey, Ticks>,
    /// On their way out.
    leaving: HashSet<BlobKey>,
    pins: Vec<Weak<Vec<BlobKey>>>,
}

/// A blob on its way out, until it is dropped.
pub(in crate::store) struct Leaving<'a> {
    of: &'a Needless,
    key: BlobKey,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.of.lock().leaving.remove(&self.key);
        self.of.left.notify_all();
    }
}

impl Needless {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody wants a blob. Waits while that is on its way out: what is then there stays for a grace.
    pub(in crate::store) fn touch(&self, key: &BlobKey) {
        let left = self.left.wait_while(self.lock(), |state| state.leaving.contains(key));
        left.unwrap_or_else(PoisonError::into_inner).since.remove(key);
    }

    /// Somebody wants these for a while: none of them begins to leave meanwhile.
    pub(in crate::store) fn pin(&self, keys: Vec<BlobKey>) -> Pin {
        let keys = Arc::new(keys);
        let mut state = self.lock();
        keys.iter().for_each(|key| _ = state.since.remove(key));
        state.pins.retain(|pin| pin.strong_count() > 0);
        state.pins.push(Arc::downgrade(&keys));
        Pin(keys)
    }

    /// Looks at what is kept and what is needed of it; returns what is due.
    pub(in crate::store) fn look(
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

    /// Takes one that is due out, to remove it; `None` where somebody has wanted it since.
    pub(in crate::store) fn take(&self, key: &BlobKey) -> Option<Leaving<'_>> {
        let mut state = self.lock();
        state.since.remove(key)?;
        state.leaving.insert(key.clone());
        Some(Leaving { of: self, key: key.clone() })
    }
}

#[cfg(test)]
pub(in crate::store) mod tests {
    use std::sync::mpsc::RecvTimeoutError;

    use super::*;

    const GRACE: Duration = Duration::from_millis(100);
    /// So long a thread that does not wait, where it should, is given to be seen.
    pub(in crate::store) const NOTHING_SAID: Duration = Duration::from_millis(100);

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
        assert!(needless.take(&key("2")).is_some() && needless.take(&key("2")).is_none(), "once");
        needless.touch(&key("1"));
        assert!(needless.take(&key("1")).is_none(), "wanted in the last moment");
    }

    #[test]
    fn whoever_wants_one_on_its_way_out_waits_until_it_is_gone() {
        let needless = Needless::default();
        look(&needless, &[], 1000);
        let leaving = needless.take(&key("1"));
        let (says, said) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let needless = &needless;
            scope.spawn(move || {
                says.send("wants it").expect("somebody listens");
                needless.touch(&key("1"));
                says.send("has it").expect("somebody listens");
            });
            needless.touch(&key("2"));
            drop(needless.pin(vec![key("1")]));
            assert_eq!(said.recv(), Ok("wants it"));
            assert_eq!(said.recv_timeout(NOTHING_SAID), Err(RecvTimeoutError::Timeout), "it is on its way out");
            drop(leaving);
            assert_eq!(said.recv(), Ok("has it"));
        });
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
