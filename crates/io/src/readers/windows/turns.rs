//! Orders the threads that read windows of a group of lanes.
//!
//! The threads of a process take windows in order, but may reach the reader in another order. A window that is read
//! before its predecessor would move the cursors past it, and its bytes would be transferred twice. So a thread that
//! takes a window announces it, and later windows wait for it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::Sequential;

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

/// The cursors of one group of lanes in one epoch.
pub(super) struct Cursors<F: Sequential> {
    /// The window whose pieces the cursors are at; `None` without cursors.
    pub(super) next: Option<u64>,
    /// How many consecutive windows were read.
    pub(super) run: u32,
    pub(super) by_lane: HashMap<usize, Open<F>>,
}

impl<F: Sequential> Default for Cursors<F> {
    fn default() -> Self {
        Self { next: None, run: 0, by_lane: HashMap::new() }
    }
}

impl<F: Sequential> Cursors<F> {
    /// Returns how many consecutive windows are read when `index` is read next.
    pub(super) fn run_at(&self, index: u64) -> u32 {
        match self.next {
            Some(next) if next == index => self.run.saturating_add(1),
            // A process that reads the first window of an epoch most likely also reads the second one, unless it has
            // already read it.
            None => u32::from(index == 0),
            Some(_) => 0,
        }
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
                return Taken { group: self, cursors };
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
    fn only_windows_that_follow_each_other_are_asked_for_ahead() {
        let at = |next, run, index| Cursors::<Tar> { next, run, by_lane: HashMap::new() }.run_at(index);
        assert_eq!((at(None, 0, 0), at(None, 0, 5)), (1, 0));
        assert_eq!((at(Some(1), 1, 1), at(Some(9), 4, 9)), (2, 5));
        assert_eq!((at(Some(9), 4, 10), at(Some(9), 4, 3)), (0, 0));
        // The second window was read before the first one: its bytes are not requested again.
        assert_eq!(at(Some(2), 0, 0), 0);
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
