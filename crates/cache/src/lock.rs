//! Locks that outlive a panic: what they guard is plain data, consistent between statements. And when waiting ends.

use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
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

/// As long as anybody waits.
const WAIT_MAX: Duration = Duration::from_secs(24 * 3600);

/// Returns when a wait of `limit` ends.
pub(crate) fn deadline(limit: Duration) -> Instant {
    Instant::now() + limit.min(WAIT_MAX)
}
