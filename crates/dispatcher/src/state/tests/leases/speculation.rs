//! Late splits get a backup lease, and waiting splits move to idle workers.

use crate::state::tests::*;

/// A consumer of the endless job that has seen splits end in `took`, and two workers without leases.
fn with_known_durations(took: Duration, window: u32) -> (World, ConsumerKey) {
    let mut world = World::new();
    (0..2).for_each(|i| world.hello(i));
    world.attach(ENDLESS, 0, window);
    for _ in 0..6 {
        want(&mut world, 1, 1);
        world.pass(took, None);
        world.consume(ENDLESS);
        world.flush();
    }
    let key = world.consumers[ENDLESS].key;
    (world, key)
}

fn want(world: &mut World, worker: usize, splits: u32) {
    let session = world.workers[worker].session.expect("connected");
    world.input(Input::Want { session, splits });
    world.flush();
}

fn holders(world: &World, key: ConsumerKey) -> (Vec<u128>, Vec<u128>) {
    let (leases, backups) = world.state.leases.held(key);
    let [leases, backups] = [leases, backups].map(|held| held.iter().map(|(_, worker, _)| worker.0).collect());
    (leases, backups)
}

#[test]
fn a_late_split_gets_one_backup_and_only_at_a_worker_with_room() {
    let (mut world, key) = with_known_durations(Duration::from_millis(200), 4);
    want(&mut world, 0, 4);
    assert_eq!(holders(&world, key), (vec![1; 4], vec![]));
    world.pass(Duration::from_secs(3), None);
    assert_eq!(holders(&world, key), (vec![1; 4], vec![]), "no worker has room");
    // The first split gets a backup. The splits behind it go to a worker with room, except one that a thread may have
    // begun.
    want(&mut world, 1, 2);
    world.pass(Duration::from_millis(250), None);
    assert_eq!(holders(&world, key), (vec![1, 2], vec![2]));
    assert_eq!(world.state.list_workers(world.now, None)[0].state, "slow");
    // No other backup begins while this one runs, and a slow worker gets nothing more.
    want(&mut world, 0, 4);
    world.pass(Duration::from_secs(3), None);
    assert_eq!(holders(&world, key).1.len(), 1);
    // The split is consumed: both leases end, and the slow worker may try again.
    let seen = world.consumers[ENDLESS].position;
    world.consume(ENDLESS);
    world.flush();
    assert!(world.consumers[ENDLESS].position > seen && holders(&world, key).1.is_empty());
    assert!(holders(&world, key).0.contains(&1));
    world.check_replay();
}

#[test]
fn what_waits_goes_to_a_worker_that_has_nothing_to_do_if_it_waits_long() {
    let moved = |took: u64| {
        let (mut world, key) = with_known_durations(Duration::from_millis(took), 3);
        want(&mut world, 0, 3);
        assert_eq!(holders(&world, key), (vec![1; 3], vec![]));
        want(&mut world, 1, 3);
        (0..8).for_each(|_| world.pass(Duration::from_millis(50), None));
        world.flush();
        world.check_replay();
        (holders(&world, key).0, world.state.leases.second_leases(key.0))
    };
    assert_eq!(moved(400), (vec![1, 1, 2], 1), "one goes; what waits behind a single split stays");
    assert_eq!(moved(600), (vec![1, 1, 2], 1), "a worker with a split to compute takes no more");
    assert_eq!(moved(100), (vec![1; 3], 0), "short splits stay");
}

#[test]
fn a_backup_ends_with_the_first_worker_that_has_finished_or_is_lost() {
    let backed_up = || {
        let (mut world, key) = with_known_durations(Duration::from_millis(200), 1);
        want(&mut world, 0, 1);
        world.pass(Duration::from_secs(3), None);
        want(&mut world, 1, 1);
        world.pass(Duration::from_millis(250), None);
        world.flush();
        assert_eq!(holders(&world, key), (vec![1], vec![2]));
        (world, key)
    };
    let finishes = |world: &mut World, i: usize| {
        let session = world.workers[i].session.expect("connected");
        let finished = world.workers[i].held.keys().copied().collect();
        let said = WorkerHeartbeat { finished, ..WorkerHeartbeat::default() };
        world.input(Input::WorkerHeartbeat { session, said });
        world.flush();
    };
    for winner in 0..2 {
        let (mut world, key) = backed_up();
        finishes(&mut world, winner);
        assert_eq!(holders(&world, key), (vec![winner as u128 + 1], vec![]));
        assert!(world.workers[1 - winner].held.is_empty(), "the slower one is told to stop");
        world.check_replay();
    }
    for lost in 0..2 {
        let (mut world, key) = backed_up();
        let session = world.workers[lost].session.take().expect("connected");
        world.input(Input::WorkerGone { session });
        assert_eq!(holders(&world, key), (vec![2 - lost as u128], vec![]));
        world.check_replay();
    }
    // A restarted dispatcher does not know the backup lease, and revokes it.
    let (mut world, key) = backed_up();
    world.crash();
    (0..2).for_each(|i| world.hello(i));
    world.flush();
    assert_eq!(holders(&world, key), (vec![1], vec![]));
    assert!(world.workers[1].held.is_empty());
}

#[test]
fn what_gives_way_to_a_job_of_a_higher_priority_is_not_late_and_what_does_not_is_timed() {
    let (mut world, low) = with_known_durations(Duration::from_millis(200), 4);
    let (name, graph) = ("urgent".to_owned(), "another".to_owned());
    world.create(JobRecord { name, graph, priority: 1, ..record(TWIN_OF) });
    want(&mut world, 0, 4);
    assert_eq!(holders(&world, low), (vec![1; 4], vec![]));
    world.attach(TWIN, 0, 2);
    let high = world.consumers[TWIN].key;
    want(&mut world, 0, 2);
    assert_eq!(holders(&world, high), (vec![1; 2], vec![]));
    // The worker computes the urgent splits all the time; another one takes a waiting split, and has room that nothing
    // wants.
    want(&mut world, 1, 2);
    for _ in 0..5 {
        world.pass(Duration::from_secs(1), None);
        assert_eq!(holders(&world, low).1, [0; 0], "what waits is not late");
        assert_eq!(world.state.leases.begun(WorkerId(1)), [high], "of a thread's");
    }
}

/// The first worker has begun a split of 2 s when an urgent one comes; the second worker is idle.
fn gives_way() -> (World, ConsumerKey) {
    let (mut world, low) = with_known_durations(Duration::from_secs(2), 1);
    let (name, graph) = ("urgent".to_owned(), "another".to_owned());
    world.create(JobRecord { name, graph, priority: 1, ..record(TWIN_OF) });
    want(&mut world, 0, 1);
    world.pass(Duration::from_secs(1), None);
    world.attach(TWIN, 0, 1);
    want(&mut world, 0, 1);
    assert_eq!(holders(&world, low), (vec![1], vec![]));
    want(&mut world, 1, 1);
    (world, low)
}

#[test]
fn what_gives_way_stays_for_a_while_where_it_was_begun() {
    let (mut world, low) = gives_way();
    world.pass(Duration::from_millis(1900), None);
    assert_eq!(holders(&world, low), (vec![1], vec![]), "half of it is done there");
    world.pass(Duration::from_millis(500), None);
    assert_eq!(holders(&world, low), (vec![2], vec![]));
}

#[test]
fn what_gave_way_says_nothing_of_how_long_splits_take() {
    let (mut world, low) = gives_way();
    let durations = |world: &World| world.state.leases.split_durations(low.0);
    let before = durations(&world);
    world.pass(Duration::from_millis(100), None);
    world.consume(ENDLESS);
    assert_eq!(durations(&world), before);
}

#[test]
fn a_worker_that_comes_takes_what_is_needed_first_of_what_waits_for_long() {
    let mut world = World::new();
    world.hello(0);
    world.attach(ENDLESS, 0, 8);
    want(&mut world, 0, 4);
    let key = world.consumers[ENDLESS].key;
    // No split has ended yet, so its duration is taken to be the first split's age.
    let comes = |world: &mut World, i: usize, after: Duration| {
        world.pass(after, None);
        world.hello(i);
        want(world, i, 2);
        world.check_replay();
        holders(world, key).0
    };
    assert_eq!(comes(&mut world, 1, Duration::from_millis(100)), [1, 1, 1, 1, 2, 2], "they may be short");
    assert_eq!(
        comes(&mut world, 2, Duration::from_secs(6)),
        [1, 3, 1, 1, 2, 2, 3],
        "and then the splits that no worker holds"
    );
    assert_eq!(world.state.leases.second_leases(key.0), 1);
}
