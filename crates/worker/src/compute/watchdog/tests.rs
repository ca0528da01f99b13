//! Threads that are held up, and the jobs that may get one then.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use super::*;

/// A thread in virtual time.
#[derive(Clone, Default)]
struct FakeThread {
    stale: Arc<AtomicBool>,
    used_ms: Arc<AtomicU64>,
}

impl WatchedThread for FakeThread {
    fn is_stale(&self) -> bool {
        self.stale.load(Relaxed)
    }

    fn used(&self) -> Option<Duration> {
        Some(Duration::from_millis(self.used_ms.load(Relaxed)))
    }
}

const EVERY: Duration = Duration::from_millis(250);

/// Looks until a time has passed; returns how many threads were found to be held up.
fn pass(watchdog: &mut Watchdog, now: &mut Instant, by: Duration) -> usize {
    let until = *now + by;
    let mut found = 0;
    while *now < until {
        *now += EVERY;
        found += watchdog.find_hung(*now).len();
    }
    found
}

fn begin(watchdog: &mut Watchdog, now: Instant, job: u64) -> (TaskId, FakeThread) {
    let fake = FakeThread::default();
    (watchdog.begin(now, Some((job, 0)), fake.clone()), fake)
}

#[test]
fn a_thread_that_waits_is_replaced_once_and_may_come_back() {
    let (mut watchdog, mut now) = (Watchdog::default(), Instant::now());
    let [(slow, _), (good, _)] = [1, 2].map(|job| begin(&mut watchdog, now, job));
    assert_eq!(pass(&mut watchdog, &mut now, HELD_UP_AFTER - EVERY), 0);
    watchdog.go_on(now, good);
    assert_eq!(pass(&mut watchdog, &mut now, EVERY), 1);
    assert_eq!(
        (pass(&mut watchdog, &mut now, EVERY), watchdog.computing(), watchdog.held_up(), watchdog.away()),
        (0, 1, 1, 1)
    );
    assert_eq!(watchdog.jobs_held_up(), [1].into());
    watchdog.go_on(now, slow);
    assert_eq!((watchdog.computing(), watchdog.held_up()), (2, 0), "it goes on");
    assert_eq!(pass(&mut watchdog, &mut now, HELD_UP_AFTER), 2);
    [slow, good].into_iter().for_each(|id| watchdog.end(id));
    assert_eq!((watchdog.computing(), watchdog.held_up(), watchdog.away()), (0, 0, 0));
}

#[test]
fn a_thread_that_computes_is_not_replaced_however_long_it_takes() {
    let (mut watchdog, mut now) = (Watchdog::default(), Instant::now());
    let (_, computes) = begin(&mut watchdog, now, 1);
    for _ in 0..120 {
        // As on a machine with forty such threads on each core.
        computes.used_ms.fetch_add(25, Relaxed);
        assert_eq!(pass(&mut watchdog, &mut now, Duration::from_secs(1)), 0);
    }
    // Now it waits: its earlier processor time does not count.
    assert_eq!(pass(&mut watchdog, &mut now, HELD_UP_AFTER + Duration::from_secs(4)), 1);
}

#[test]
fn work_that_is_not_wanted_is_left_sooner_and_one_that_waits_for_its_consumer_is_not_held_up() {
    let (mut watchdog, mut now) = (Watchdog::default(), Instant::now());
    let (piece, fake) = begin(&mut watchdog, now, 1);
    assert_eq!(pass(&mut watchdog, &mut now, CANCELLED_AFTER), 0);
    fake.stale.store(true, Relaxed);
    watchdog.step_aside(piece);
    assert_eq!((pass(&mut watchdog, &mut now, HELD_UP_AFTER * 2), watchdog.computing()), (0, 0));
    watchdog.go_on(now, piece);
    assert_eq!(pass(&mut watchdog, &mut now, CANCELLED_AFTER), 1);
}

#[test]
fn jobs_that_hang_one_after_the_other_take_a_thread_each_and_one_that_brings_something_as_many_as_there_are() {
    const MOST: usize = 4;
    let (mut watchdog, mut now) = (Watchdog::default(), Instant::now());
    // Takes threads for a job as long as it is served; returns how many.
    let take = |watchdog: &mut Watchdog, now: Instant, job: u64| {
        let mut taken = Vec::new();
        while watchdog.computing() < MOST && watchdog.eligibility(MOST)((job, 0)) != Eligibility::Never {
            taken.push(begin(watchdog, now, job).0);
        }
        taken
    };
    let first = take(&mut watchdog, now, 1);
    assert_eq!(first.len(), MOST);
    assert_eq!(pass(&mut watchdog, &mut now, HELD_UP_AFTER), MOST);
    for job in 2..30 {
        assert!(take(&mut watchdog, now, 1).is_empty(), "it has lost its threads");
        assert_eq!(take(&mut watchdog, now, job).len(), 1);
        assert_eq!(pass(&mut watchdog, &mut now, HELD_UP_AFTER), 1);
    }
    let good = take(&mut watchdog, now, 99);
    assert_eq!(good.len(), 1);
    watchdog.end(good[0]);
    assert_eq!((take(&mut watchdog, now, 99).len(), watchdog.computing()), (MOST, MOST));
    // One thread of the first job comes back: the job is served after all others, and its threads that still hang
    // count.
    assert_eq!(watchdog.eligibility(MOST)((1, 0)), Eligibility::Never);
    watchdog.end(first[0]);
    assert_eq!(watchdog.eligibility(MOST)((1, 0)), Eligibility::Never, "all threads compute");
    let mut more = Watchdog::default();
    let mut now = Instant::now();
    let pieces = take(&mut more, now, 1);
    pass(&mut more, &mut now, HELD_UP_AFTER);
    more.end(pieces[0]);
    assert_eq!((more.eligibility(MOST)((1, 0)), take(&mut more, now, 1).len()), (Eligibility::Last, 1));
    pieces.into_iter().for_each(|id| more.end(id));
    assert_eq!(more.eligibility(MOST)((1, 0)), Eligibility::InTurn);
}
