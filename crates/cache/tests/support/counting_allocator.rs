//! The system's allocator with a count of the held bytes: for tests that bound the memory of an operation. Such a test
//! counts all memory of its process, so it has a process of its own, and includes this file by its path.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static LARGEST: AtomicUsize = AtomicUsize::new(0);

fn count(layout: Layout) {
    let held = HELD.fetch_add(layout.size(), Relaxed) + layout.size();
    LARGEST.fetch_max(held, Relaxed);
}

// SAFETY: every call is passed to the system's allocator unchanged, and counting neither allocates nor panics.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout);
        // SAFETY: the caller guarantees it.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout);
        // SAFETY: the caller guarantees it.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller guarantees it.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs `work`. Returns its result, and the most bytes that it held at one time beyond those before.
pub(crate) fn most_held<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = HELD.load(Relaxed);
    LARGEST.store(before, Relaxed);
    let done = work();
    (done, LARGEST.load(Relaxed).saturating_sub(before))
}
