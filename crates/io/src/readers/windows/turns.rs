//! Orders the threads that read windows of a group of lanes.
//!
//! The threads of a process take windows in order, but may reach the reader in another order. A window that is read
//! before its predecessor would move the cursors past it, and its bytes would be transferred twice. So a thread that
//! takes a window announces it, and later windows wait for it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::Sequential;
use super::runs::Runs;

/// Locks a mutex, also after another thread panicked: the locked state is consistent between statements.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The file of a lane.
pub(super) struct Open<F: Sequential> {
    pub(super) file: usize,
    /// The end of the last read piece: the cursor is at the first row with at least this position.
    pub(super) byte: u64,
    pub(super) cursor: F::Cursor,
}

/// The cursors of one group of lanes in one epoch, at the pieces of the window that follows the last one.
pub(super) struct Cursors<F: Sequential> {
    pub(super) runs: Runs,
    pub(super) by_lane: HashMap<usize, Open<F>>,
}

impl<F: Sequential> Default for Cursors<F> {
    fn default() -> Self {
        Self { runs: Runs::default(), by_lane: HashMap::new() }
    }
}

struct GroupState<F: Sequential> {
    /// The announced windows; each with a number, because two threads may have announced one window.
    announced: BTreeSet<(u64, u64)>,
    /// The number of the next announcement.
    next: u64,
    /// How many threads wait for each window.
    waiting: BTreeMap<u64, usize>,
    /// `None` while a thread uses them.
    cursors: Option<Cursors<F>>,
}

impl<F: Sequential> GroupState<F> {
    /// Says whether no thread waits for an earlier window or has announced one.
    fn is_first(&self, window: u64) -> bool {
        self.announced.first().is_none_or(|(first, _)| *first >= window)
            && self.waiting.first_key_value().is_none_or(|(first, _)| *first >= window)
    }

    /// Returns how many windows right behind this one threads will read.
    fn following(&self, window: u64) -> u64 {
        let is_announced = |window| self.announced.range((window, 0)..=(window, u64::MAX)).next().is_some();
        let is_expected = |window: &u64| self.waiting.contains_key(window) || is_announced(*window);
        (window + 1..).take_while(is_expected).count() as u64
    }

    /// A thread that waited for this window has the cursors: its announcement is over.
    fn begin(&mut self, window: u64) {
        if let Some(others) = self.waiting.remove(&window).filter(|threads| *threads > 1) {
            self.waiting.insert(window, others - 1);
        }
        let announced = self.announced.range((window, 0)..=(window, u64::MAX)).next().copied();
        announced.map(|announced| self.announced.remove(&announced));
    }
}

/// One group of lanes in one epoch. Threads that want its windows read one after another, the first window first.
pub(super) struct Group<F: Sequential> {
    state: Mutex<GroupState<F>>,
    /// Signalled when a thread returns the cursors.
    free: Condvar,
}

impl<F: Sequential> Default for Group<F> {
    fn default() -> Self {
        let (announced, waiting) = (BTreeSet::new(), BTreeMap::new());
        let state = GroupState { announced, next: 0, waiting, cursors: Some(Cursors::default()) };
        Self { state: Mutex::new(state), free: Condvar::new() }
    }
}

/// The cursors of a group while one thread has them. After an error the thread returns no cursors, because its own are
/// in the middle of a window.
pub(super) struct Taken<'a, F: Sequential> {
    group: &'a Group<F>,
    pub(super) cursors: Cursors<F>,
    /// How many windows right behind the wanted one threads will read.
    pub(super) following: u64,
}

impl<F: Sequential> Drop for Taken<'_, F> {
    fn drop(&mut self) {
        lock(&self.group.state).cursors = Some(std::mem::take(&mut self.cursors));
        self.group.free.notify_all();
    }
}

/// Later windows of the group wait until this one is read, or this is dropped.
struct Announced<F: Sequential> {
    group: Arc<Group<F>>,
    announcement: (u64, u64),
}

impl<F: Sequential> Drop for Announced<F> {
    fn drop(&mut self) {
        if lock(&self.group.state).announced.remove(&self.announcement) {
            self.group.free.notify_all();
        }
    }
}

impl<F: Sequential> Group<F> {
    /// Announces that a thread will read a window.
    pub(super) fn announce(self: Arc<Self>, window: u64) -> impl Send + use<F> {
        let mut state = lock(&self.state);
        let announcement = (window, state.next);
        state.next += 1;
        state.announced.insert(announcement);
        drop(state);
        Announced { group: self, announcement }
    }

    /// Waits for the cursors, and until no thread waits for an earlier window or has announced one.
    pub(super) fn take(&self, window: u64) -> Taken<'_, F> {
        let mut state = lock(&self.state);
        *state.waiting.entry(window).or_default() += 1;
        loop {
            let is_first = state.is_first(window);
            if let Some(cursors) = state.cursors.take_if(|_| is_first) {
                state.begin(window);
                return Taken { group: self, cursors, following: state.following(window) };
            }
            state = self.free.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "tests poll")]
#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::readers::tar::Tar;

    #[test]
    fn windows_that_threads_will_read_are_counted() {
        let group = Arc::new(Group::<Tar>::default());
        let _announced = [3, 1, 2, 6].map(|window| group.clone().announce(window));
        assert_eq!([0, 1, 3, 5, 6].map(|window| lock(&group.state).following(window)), [3, 2, 0, 1, 0]);
    }

    #[test]
    fn a_window_waits_for_an_earlier_one_that_was_announced() {
        let group = Arc::new(Group::<Tar>::default());
        let expected = || {
            let state = lock(&group.state);
            state.announced.len() + state.waiting.len()
        };
        let announced = [2, 1, 0].map(|window| group.clone().announce(window));
        let read = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            let take = |window| {
                let _taken = group.take(window);
                lock(&read).push(window);
            };
            scope.spawn(move || take(2));
            let deadline = Instant::now() + Duration::from_secs(20);
            while expected() < 4 {
                assert!(Instant::now() < deadline, "the thread did not wait for the other windows");
                std::thread::yield_now();
            }
            take(0);
            // The second window is not read after all.
            let [_, second, _] = announced;
            drop(second);
        });
        assert_eq!(*lock(&read), [0, 2]);
        assert_eq!(expected(), 0);
    }
}
