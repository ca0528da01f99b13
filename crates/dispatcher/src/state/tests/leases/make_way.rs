//! A consumer that comes to full workers gets splits at once.

use crate::state::tests::*;

/// Creates another job of any number of splits; returns its consumer.
fn create(world: &mut World, name: &str, priority: u32, weight: u32) -> usize {
    let (name, graph) = (name.to_owned(), name.to_owned());
    world.create(JobRecord { name, graph, priority, weight, ..record(TWIN_OF) });
    world.consumers.len() - 1
}

fn want(world: &mut World, worker: usize, splits: u32) {
    let session = world.workers[worker].session.expect("connected");
    world.input(Input::Want { session, splits });
    world.flush();
}

/// Attaches a consumer 20 ms later, and delivers its events.
fn attach(world: &mut World, consumer: usize, window: u32) {
    world.now = world.now + Duration::from_millis(20);
    world.attach(consumer, 0, window);
    world.flush();
}

/// Returns the splits of a consumer that a worker holds, by the worker's own account.
fn held(world: &World, worker: usize, consumer: usize) -> usize {
    let (job, consumer) = world.consumers[consumer].key;
    world.workers[worker].held.values().filter(|lease| (lease.job, lease.consumer) == (job, consumer)).count()
}

#[test]
fn a_consumer_that_comes_to_full_workers_gets_its_share_of_what_waits_there() {
    let mut world = World::new();
    let [equal, heavy] = [("equal", 1), ("heavy", 3)].map(|(name, weight)| create(&mut world, name, 0, weight));
    (0..2).for_each(|worker| world.hello(worker));
    attach(&mut world, ENDLESS, 100);
    (0..2).for_each(|worker| want(&mut world, worker, 6));
    assert_eq!([0, 1].map(|worker| held(&world, worker, ENDLESS)), [6, 6]);
    attach(&mut world, equal, 100);
    let of = |world: &World, worker: usize| [ENDLESS, equal, heavy].map(|consumer| held(world, worker, consumer));
    assert_eq!([of(&world, 0), of(&world, 1)], [[3, 3, 0], [3, 3, 0]], "half, and at each worker");
    attach(&mut world, heavy, 100);
    let all: Vec<usize> = (0..3).map(|i| of(&world, 0)[i] + of(&world, 1)[i]).collect();
    assert!(all[2] >= 6 && all[0] >= 2 && all[1] >= 2, "no more than waited there: {all:?}");
    assert_eq!(all.iter().sum::<usize>(), 12, "no worker holds more than it requested");
    world.check_replay();
    // The splits that lost their places are granted again, in order.
    want(&mut world, 0, 40);
    let positions: Vec<_> = world.state.leases.held(world.consumers[ENDLESS].key).0.iter().map(|(p, ..)| *p).collect();
    assert!(positions.len() > 6 && (0..).zip(&positions).all(|(i, p)| *p == Position::new(0, i)), "{positions:?}");
}

#[test]
fn where_nothing_waits_a_consumer_gets_one_split_beside_and_the_next_when_it_has_none() {
    let mut world = World::new();
    let others: Vec<usize> = (0..40).map(|i| create(&mut world, &format!("late {i}"), 0, 1)).collect();
    world.hello(0);
    attach(&mut world, ENDLESS, 100);
    want(&mut world, 0, 1);
    assert_eq!(held(&world, 0, ENDLESS), 1);
    for (i, &other) in others.iter().enumerate() {
        attach(&mut world, other, 4);
        // At a worker with 32 unfinished splits, it waits.
        assert_eq!(held(&world, 0, other), usize::from(i < 31), "job {i}");
    }
    assert_eq!(held(&world, 0, ENDLESS), 1, "what is under way stays");
    world.now = world.now + Duration::from_millis(20);
    world.consume(others[0]);
    world.flush();
    assert_eq!(held(&world, 0, others[0]) + held(&world, 0, others[31]), 1, "one of both has the place");
    world.check_replay();
}

#[test]
fn a_lower_priority_takes_no_place_and_a_higher_one_takes_all_that_wait() {
    let mut world = World::new();
    let [urgent, late] = [("urgent", 2), ("late", 1)].map(|(name, priority)| create(&mut world, name, priority, 1));
    world.hello(0);
    attach(&mut world, ENDLESS, 100);
    want(&mut world, 0, 4);
    attach(&mut world, urgent, 100);
    let of = |world: &World| [ENDLESS, urgent, late].map(|consumer| held(world, 0, consumer));
    assert_eq!(of(&world), [1, 3, 0], "what is under way stays");
    attach(&mut world, late, 100);
    assert_eq!(of(&world), [1, 3, 1], "one beside, which its worker begins last");
}

proptest! {
    /// In any order in which jobs come to full workers, each gets a split at once, and no worker loses a split that it
    /// may have begun.
    #[test]
    fn a_consumer_never_waits_for_a_split_of_another_one_to_end(
        rooms in prop::collection::vec(1u32..8, 1..=WORKERS),
        windows in prop::collection::vec(1u32..20, 1..6),
        finish in any::<u64>(),
    ) {
        let mut world = World::new();
        let consumers: Vec<usize> =
            (0..windows.len()).map(|i| create(&mut world, &format!("late {i}"), 0, 1 + i as u32 % 3)).collect();
        rooms.iter().enumerate().for_each(|(worker, _)| world.hello(worker));
        attach(&mut world, ENDLESS, 100);
        for (worker, &room) in rooms.iter().enumerate() {
            want(&mut world, worker, room);
        }
        for (&consumer, &window) in consumers.iter().zip(&windows) {
            let before: Vec<_> = (0..rooms.len()).map(|w| world.state.leases.begun(WorkerId(w as u128 + 1))).collect();
            attach(&mut world, consumer, window);
            let got: usize = (0..rooms.len()).map(|worker| held(&world, worker, consumer)).sum();
            prop_assert!(got > 0, "it waits");
            for (worker, before) in before.iter().enumerate() {
                let after = world.state.leases.begun(WorkerId(worker as u128 + 1));
                prop_assert!(before.iter().all(|key| after.contains(key)), "{before:?} {after:?}");
            }
            let finished = world.workers[0].held.keys().copied().skip(1).filter(|token| finish >> (token % 64) & 1 == 1);
            let said = WorkerHeartbeat { finished: finished.collect(), ..WorkerHeartbeat::default() };
            let session = world.workers[0].session.expect("connected");
            world.input(Input::WorkerHeartbeat { session, said });
        }
        world.check_replay();
    }
}
