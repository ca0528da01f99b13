//! The waits of the threads of a pool, during which other threads compute.

use std::sync::Arc;
use std::time::Instant;

use forebay_exec::add_waited;

use super::{CURRENT, PoolShared};
use crate::compute::turn::Turn;
use crate::lock::lock;

/// The most threads that wait for a store while others compute in their place: one process, too, reads a store with
/// eight threads.
const STORE_WAITS_MAX: usize = 8;

impl PoolShared {
    /// Runs `wait`, for the block's consumer, while another thread may compute in this one's place. The wait is not
    /// charged.
    pub(crate) fn wait_for_consumer<T>(self: &Arc<Self>, wait: impl FnOnce() -> T) -> T {
        Turn::with(|turn| {
            if let Some(charge) = turn.charge.take() {
                lock(&self.state).queue.correct(charge, turn.since.elapsed());
            }
        });
        let waited = self.aside(wait);
        Turn::with(|turn| {
            turn.charge = Some(lock(&self.state).queue.go_on(turn.flow, true));
            turn.since = Instant::now();
        });
        waited
    }

    /// Runs `wait` while another thread may compute in this one's place. Afterwards both compute: for the length of one
    /// morsel, one thread more than configured.
    pub(crate) fn aside<T>(self: &Arc<Self>, wait: impl FnOnce() -> T) -> T {
        let mut state = lock(&self.state);
        state.watchdog.step_aside(CURRENT.get());
        self.clone().fill(&mut state);
        drop(state);
        self.work.notify_one();
        let done = wait();
        self.go_on();
        done
    }

    /// Runs `wait`, for the answer of a store. Another thread computes in this one's place, unless [`STORE_WAITS_MAX`]
    /// threads already wait for a store and are replaced.
    ///
    /// A worker of T threads has up to T + [`STORE_WAITS_MAX`] of these waits at once. So a wait costs its job
    /// T / (T + [`STORE_WAITS_MAX`]) of a thread's time, and the costs of all waits add up to T threads.
    pub(super) fn wait_for_store(self: &Arc<Self>, wait: &mut dyn FnMut()) {
        let began = Instant::now();
        let (place, threads) = self.store_place();
        match place {
            Some(_place) => self.aside(wait),
            None => wait(),
        }
        let free = began.elapsed().mul_f64(STORE_WAITS_MAX as f64 / (threads + STORE_WAITS_MAX) as f64);
        add_waited(free.as_nanos() as u64);
        Turn::with(|turn| turn.since += free);
    }

    /// Takes one of the places of threads that wait for a store, if one is free. Also returns how many threads compute
    /// at once.
    fn store_place(&self) -> (Option<StorePlace<'_>>, usize) {
        let mut state = lock(&self.state);
        let is_free = state.store_waits < STORE_WAITS_MAX;
        state.store_waits += usize::from(is_free);
        (is_free.then(|| StorePlace(self)), state.threads_max)
    }
}

/// The place of a thread that waits for a store. It is free again when this is dropped, also after a panic.
struct StorePlace<'a>(&'a PoolShared);

impl Drop for StorePlace<'_> {
    fn drop(&mut self) {
        lock(&self.0.state).store_waits -= 1;
    }
}
