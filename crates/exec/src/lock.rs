//! Locks a mutex, even after a panic.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The data is plain and consistent between statements: a panic in another thread does not corrupt it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
