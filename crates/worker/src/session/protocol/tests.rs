//! The number of splits that a worker requests while jobs hang.

use std::collections::BTreeSet;

use forebay_proto::worker_event::Event;
use forebay_proto::worker_message::Message;
use forebay_proto::{JobDefinition, Lease, WorkerHeartbeat};

use super::*;
use crate::compute::watchdog::HELD_UP_AFTER;
use crate::simulate::{Todo, Worker};

const SLOTS: usize = 4;

fn worker() -> Worker {
    Worker::new(7, "127.0.0.1:1".to_owned(), 1, SLOTS, None)
}

/// Leases splits of a job, with these tokens.
fn lease(worker: &mut Worker, job: u64, tokens: std::ops::Range<u64>) {
    worker.heard(Ticks(0), Event::Job(JobDefinition { job, ..JobDefinition::default() }));
    for token in tokens {
        let lease = Lease { job, ordinal: token, token, ..Lease::default() };
        worker.heard(Ticks(0), Event::Lease(lease));
    }
}

/// Prepares all jobs that wait for it.
fn prepare(worker: &Worker) {
    for todo in worker.todo() {
        if let Todo::Prepare(job) = todo {
            worker.prepared(&job, Ok(()));
        }
    }
}

fn beat(worker: &mut Worker, now: Ticks) -> Vec<u64> {
    match worker.beat(now).expect("the dispatcher was heard") {
        Message::Heartbeat(WorkerHeartbeat { held_up, .. }) => held_up,
        other => panic!("{other:?}"),
    }
}

/// Returns how many splits the worker requests now.
fn asks(worker: &mut Worker) -> u32 {
    let mut splits = 0;
    while let Some(message) = worker.say() {
        let Message::Want(want) = message else { panic!("{message:?}") };
        splits += want.splits;
    }
    splits
}

fn welcome(worker: &mut Worker) {
    worker.hello();
    let welcome = forebay_proto::Welcome { heartbeat_ms: 400, lease_ms: u64::from(u32::MAX) };
    worker.welcome(Ticks(0), Event::Welcome(welcome)).expect("a welcome");
}

#[test]
fn splits_of_a_job_that_hangs_take_no_room_and_take_it_again_when_it_goes_on() {
    let mut worker = worker();
    welcome(&mut worker);
    assert_eq!(asks(&mut worker), SLOTS as u32);
    lease(&mut worker, 1, 0..SLOTS as u64);
    prepare(&worker);
    let now = Ticks(0) + HELD_UP_AFTER * 2;
    assert_eq!((beat(&mut worker, now), asks(&mut worker)), (vec![], 0), "it is full");
    worker.hang(BTreeSet::from([1, 99]));
    assert_eq!((beat(&mut worker, now), asks(&mut worker)), (vec![1], SLOTS as u32));
    // Splits of another job take room as usual.
    lease(&mut worker, 2, 10..10 + SLOTS as u64);
    prepare(&worker);
    assert_eq!((beat(&mut worker, now), asks(&mut worker)), (vec![1], 0));
    worker.check().expect("within its bounds");
    worker.hang(BTreeSet::new());
    assert_eq!((beat(&mut worker, now), asks(&mut worker)), (vec![], 0));
    worker.heard(now, Event::Forget(forebay_proto::Forget { job: 1 }));
    worker.heard(now, Event::Forget(forebay_proto::Forget { job: 2 }));
    assert_eq!(asks(&mut worker), SLOTS as u32);
}

#[test]
fn a_job_whose_preparation_hangs_is_held_up_after_a_while() {
    let mut worker = worker();
    welcome(&mut worker);
    asks(&mut worker);
    lease(&mut worker, 1, 0..SLOTS as u64);
    assert_eq!((beat(&mut worker, Ticks(0)), asks(&mut worker)), (vec![], 0));
    let late = Ticks(0) + HELD_UP_AFTER;
    assert_eq!((beat(&mut worker, late), asks(&mut worker)), (vec![1], SLOTS as u32));
    prepare(&worker);
    assert_eq!(beat(&mut worker, late), [] as [u64; 0]);
}
