//! Measures the processor time that threads spend on a future, for example on sending and receiving.
//!
//! The time is summed poll by poll, because a runtime's threads run other tasks in between. Time that the kernel spends
//! in interrupts for a socket is not counted.

use std::future::poll_fn;
use std::pin::pin;

use forebay_core::Stopwatch;
use rustix::time::{ClockId, clock_gettime};

/// The processor time of the calling thread.
#[derive(Debug, Clone, Copy, Default)]
pub struct ThreadTime;

impl Stopwatch for ThreadTime {
    fn nanos(&self) -> u64 {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }
}

/// Drives a future; returns its output and the nanoseconds of processor time that it used.
///
/// # Cancel safety
/// The future's own.
pub async fn metered<T>(watch: &impl Stopwatch, work: impl Future<Output = T>) -> (T, u64) {
    let (mut work, mut nanos) = (pin!(work), 0);
    let value = poll_fn(|cx| {
        let began = watch.nanos();
        let polled = work.as_mut().poll(cx);
        nanos += watch.nanos().saturating_sub(began);
        polled
    });
    let value = value.await;
    (value, nanos)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    use std::task::Poll;

    use super::*;

    /// The clock of a thread, which a test sets.
    #[derive(Default)]
    struct Hand(AtomicU64);

    impl Stopwatch for Hand {
        fn nanos(&self) -> u64 {
            self.0.load(Relaxed)
        }
    }

    #[tokio::test]
    async fn time_between_two_polls_is_not_counted() {
        let hand = Hand::default();
        let work = |nanos| hand.0.fetch_add(nanos, Relaxed);
        let mut polls = 0;
        let sending = poll_fn(|_| {
            work(7);
            polls += 1;
            if polls == 3 { Poll::Ready("sent") } else { Poll::Pending }
        });
        let mut metered = pin!(metered(&hand, sending));
        let found = poll_fn(|cx| {
            // No task wakes this future: the test polls it again.
            work(1000);
            let polled = metered.as_mut().poll(cx);
            if polled.is_pending() {
                cx.waker().wake_by_ref();
            }
            polled
        });
        assert_eq!(found.await, ("sent", 21));
    }

    #[test]
    fn a_thread_that_works_is_seen_to() {
        let began = ThreadTime.nanos();
        let mut sum = 0_u64;
        while ThreadTime.nanos() == began {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(ThreadTime.nanos() > began);
    }
}
