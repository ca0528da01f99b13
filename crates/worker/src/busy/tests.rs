//! Which threads are held up, and who may have one then.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use super::*;

/// A thread in virtual time.
#[derive(Clone, Default)]
struct Hand {
    stale: Arc<AtomicBool>,
    used_ms: Arc<AtomicU64>,
}

impl Asked for Hand {
    fn is_stale(&self) -> bool {
        self.stale.load(Relaxed)
    }

    fn used(&self) -> Option<Duration> {
        Some(Duration::from_millis(self.used_ms.load(Relaxed)))
    }
}

const EVERY: Duration = Duration::from_millis(250);

/// Looks until a time has passed; returns how many were found to be held up.
fn pass(busy: &mut Busy, now: &mut Instant, by: Duration) -> usize {
    let until = *now + by;
    let mut found = 0;
    while *now < until {
        *now += EVERY;
        found += busy.look(*now).len();
    }
    found
}

fn begin(busy: &mut Busy, now: Instant, job: u64) -> (PieceId, Hand) {
    let hand = Hand::default();
    (busy.begin(now, Some((job, 0)), hand.clone()), hand)
}

#[test]
fn a_thread_that_waits_is_replaced_once_whoever_wants_one_and_comes_back() {
    let (mut busy, mut now) = (Busy::default(), Instant::now());
    let [(slow, _), (good, _)] = [1, 2].map(|job| begin(&mut busy, now, job));
    assert_eq!(pass(&mut busy, &mut now, HELD_UP_AFTER - EVERY), 0);
    busy.go_on(now, good);
    assert_eq!(pass(&mut busy, &mut now, EVERY), 1);
    assert_eq!((pass(&mut busy, &mut now, EVERY), busy.computing(), busy.held_up(), busy.away()), (0, 1, 1, 1));
    assert_eq!(busy.jobs_held_up(), [1].into());
    busy.go_on(now, slow);
    assert_eq!((busy.computing(), busy.held_up()), (2, 0), "it goes on");
    assert_eq!(pass(&mut busy, &mut now, HELD_UP_AFTER), 2);
    [slow, good].into_iter().for_each(|id| busy.end(id));
    assert_eq!((busy.computing(), busy.held_up(), busy.away()), (0, 0, 0));
}

#[test]
fn a_thread_that_computes_is_not_replaced_however_long_it_takes() {
    let (mut busy, mut now) = (Busy::default(), Instant::now());
    let (_, computes) = begin(&mut busy, now, 1);
    for _ in 0..120 {
        // A machine with forty such threads on a core.
        computes.used_ms.fetch_add(25, Relaxed);
        assert_eq!(pass(&mut busy, &mut now, Duration::from_secs(1)), 0);
    }
    // Now it waits: what it used before is no excuse.
    assert_eq!(pass(&mut busy, &mut now, HELD_UP_AFTER + Duration::from_secs(4)), 1);
}

#[test]
fn work_that_nobody_wants_is_left_sooner_and_one_that_waits_for_its_reader_is_not_held_up() {
    let (mut busy, mut now) = (Busy::default(), Instant::now());
    let (piece, hand) = begin(&mut busy, now, 1);
    assert_eq!(pass(&mut busy, &mut now, CANCELLED_AFTER), 0);
    hand.stale.store(true, Relaxed);
    busy.step_aside(piece);
    assert_eq!((pass(&mut busy, &mut now, HELD_UP_AFTER * 2), busy.computing()), (0, 0));
    busy.go_on(now, piece);
    assert_eq!(pass(&mut busy, &mut now, CANCELLED_AFTER), 1);
}

#[test]
fn jobs_that_hang_one_after_the_other_take_a_thread_each_and_one_that_brings_something_as_many_as_there_are() {
    const MOST: usize = 4;
    let (mut busy, mut now) = (Busy::default(), Instant::now());
    // Takes threads for a job as long as it is served; returns how many.
    let take = |busy: &mut Busy, now: Instant, job: u64| {
        let mut taken = Vec::new();
        while busy.computing() < MOST && busy.turn(MOST)((job, 0)) != When::Never {
            taken.push(begin(busy, now, job).0);
        }
        taken
    };
    let first = take(&mut busy, now, 1);
    assert_eq!(first.len(), MOST);
    assert_eq!(pass(&mut busy, &mut now, HELD_UP_AFTER), MOST);
    for job in 2..30 {
        assert!(take(&mut busy, now, 1).is_empty(), "it has lost its threads");
        assert_eq!(take(&mut busy, now, job).len(), 1);
        assert_eq!(pass(&mut busy, &mut now, HELD_UP_AFTER), 1);
    }
    let good = take(&mut busy, now, 99);
    assert_eq!(good.len(), 1);
    busy.end(good[0]);
    assert_eq!((take(&mut busy, now, 99).len(), busy.computing()), (MOST, MOST));
    // One thread of the first comes back: it is served when no other is, and counts those that it still lacks.
    assert_eq!(busy.turn(MOST)((1, 0)), When::Never);
    busy.end(first[0]);
    assert_eq!(busy.turn(MOST)((1, 0)), When::Never, "all threads compute");
    let mut more = Busy::default();
    let mut now = Instant::now();
    let pieces = take(&mut more, now, 1);
    pass(&mut more, &mut now, HELD_UP_AFTER);
    more.end(pieces[0]);
    assert_eq!((more.turn(MOST)((1, 0)), take(&mut more, now, 1).len()), (When::Last, 1));
    pieces.into_iter().for_each(|id| more.end(id));
    assert_eq!(more.turn(MOST)((1, 0)), When::InTurn);
}
