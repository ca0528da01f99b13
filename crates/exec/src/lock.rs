//! Locks a mutex, also after a panic.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Plain data that is consistent between statements: a panic elsewhere does not spoil it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
