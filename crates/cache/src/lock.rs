//! Locks that survive a panic, because their data is plain and consistent between statements; and deadlines of waits.

#![expect(clippy::disallowed_methods, reason = "the ends of waits")]

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for a value until `until`. The thread that sets it notifies `changed`.
pub(crate) fn wait_for<T: Clone>(there: &Mutex<Option<T>>, changed: &Condvar, until: Instant) -> Option<T> {
    let mut there = lock(there);
    loop {
        if let Some(there) = &*there {
            return Some(there.clone());
        }
        let left = Some(left(until)).filter(|left| !left.is_zero())?;
        there = changed.wait_timeout(there, left).unwrap_or_else(PoisonError::into_inner).0;
    }
}

/// Returns the rest of a wait until `until`.
pub(crate) fn left(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now())
}

/// The longest wait.
const WAIT_MAX: Duration = Duration::from_secs(24 * 3600);

/// Returns the end of a wait of `limit`.
pub(crate) fn deadline(limit: Duration) -> Instant {
    Instant::now() + limit.min(WAIT_MAX)
}
