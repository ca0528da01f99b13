//! Grants: by weight and priority, and not from workers that a consumer cannot reach.

use std::collections::BTreeSet;

use crate::state::tests::*;

#[test]
fn a_worker_that_a_consumer_cannot_reach_is_left_out_for_longer_and_longer() {
    let mut world = World::new();
    (0..2).for_each(|i| world.hello(i));
    let endless = 2;
    world.attach(endless, 0, 4);
    let key = world.consumers[endless].key;
    let held = |world: &World| {
        let (leases, _) = world.state.leases.held(key);
        leases.iter().filter(|(_, w, _)| *w == WorkerId(1)).map(|(p, _, token)| (*p, *token)).collect::<Vec<_>>()
    };
    let go_on = |world: &mut World| {
        for session in world.workers.iter().filter_map(|w| w.session).collect::<Vec<_>>() {
            world.input(Input::Want { session, splits: 4 });
        }
        world.flush();
        world.consume(endless);
    };
    for pause in [2, 4, 8].map(Duration::from_secs) {
        go_on(&mut world);
        let session = world.consumers[endless].session.expect("attached");
        // Its splits are reported one by one: that is one failure, not three.
        for (position, token) in held(&world) {
            let error = Error::unavailable("silent").with(UNREACHED, "worker-0:1");
            world.input(Input::Unreachable { session, position, token, error });
        }
        go_on(&mut world);
        world.pass(pause - Duration::from_millis(50), None);
        go_on(&mut world);
        assert_eq!(held(&world), [], "after {pause:?}");
        world.pass(Duration::from_millis(50), None);
        go_on(&mut world);
        assert!(!held(&world).is_empty(), "after {pause:?}");
    }
    let session = world.workers[1].session.take().expect("open");
    world.input(Input::WorkerGone { session });
    let session = world.consumers[endless].session.expect("attached");
    for (position, token) in held(&world) {
        let error = Error::unavailable("silent").with(UNREACHED, "worker-0:1");
        world.input(Input::Unreachable { session, position, token, error });
    }
    world.pass(Duration::from_millis(500), None);
    go_on(&mut world);
    assert!(!held(&world).is_empty(), "there is no other");
}

#[test]
fn a_job_that_weighs_three_times_as_much_gets_three_times_as_many_splits() {
    let mut world = World::new();
    // Another pipeline, so that they share no work.
    let (name, graph) = ("heavy".to_owned(), "another".to_owned());
    world.create(JobRecord { name, graph, weight: 3, ..record(TWIN_OF) });
    world.hello(0);
    world.attach(ENDLESS, 0, 100);
    world.attach(TWIN, 0, 100);
    let session = world.workers[0].session.expect("connected");
    let leases = |world: &World, consumer: usize| world.state.leases.held(world.consumers[consumer].key).0.len();
    for splits in [4, 8, 20] {
        world.input(Input::Want { session, splits });
        assert_eq!(leases(&world, TWIN), 3 * leases(&world, ENDLESS));
    }
    assert_eq!(leases(&world, ENDLESS), 8);
}

#[test]
fn a_consumer_that_reaches_no_worker_for_a_while_goes_on_and_is_told_after_a_minute() {
    for (cut, ends) in [(30, false), (90, true)].map(|(seconds, ends)| (Duration::from_secs(seconds), ends)) {
        let mut world = World::new();
        (0..2).for_each(|i| world.hello(i));
        world.attach(ENDLESS, 0, 4);
        let (key, start) = (world.consumers[ENDLESS].key, world.now);
        let mut ended = false;
        while !ended && world.now - start < cut {
            let Some(session) = world.consumers[ENDLESS].session else { break };
            for worker in world.workers.iter().filter_map(|w| w.session).collect::<Vec<_>>() {
                world.input(Input::Want { session: worker, splits: 4 });
            }
            for (position, _, token) in world.state.leases.held(key).0 {
                let error = Error::unavailable("refused").with(UNREACHED, "worker-0:1");
                world.input(Input::Unreachable { session, position, token, error });
            }
            world.pass(Duration::from_millis(250), None);
            ended = !world.state.leases.is_attached(key);
        }
        assert_eq!(ended, ends, "after {cut:?}");
        if ends {
            assert!(world.now - start >= Duration::from_secs(60));
        }
    }
}

#[test]
fn a_split_whose_file_a_worker_cannot_read_goes_to_each_other_worker_before_it_comes_back() {
    let mut world = World::new();
    let workers = 3;
    (0..workers).for_each(|i| world.hello(i));
    world.attach(ENDLESS, 0, 1);
    let key = world.consumers[ENDLESS].key;
    let mut tried = Vec::new();
    for _ in 0..=workers {
        for session in world.workers.iter().filter_map(|w| w.session).collect::<Vec<_>>() {
            world.input(Input::Want { session, splits: 4 });
        }
        world.pass(Duration::from_secs(5), None);
        let (position, worker, token) = world.state.leases.held(key).0[0];
        tried.push(worker);
        let session = world.consumers[ENDLESS].session.expect("attached");
        let error = Error::new(ErrorKind::NotFound, "there is no such file").with(UNREADABLE, "worker-0:1");
        let is_new = tried.len() <= workers;
        world.input(Input::Unreachable { session, position, token, error });
        assert_eq!(world.state.leases.is_attached(key), is_new, "the second failure of one worker ends the consumer");
    }
    let first: BTreeSet<_> = tried[..workers].iter().collect();
    assert_eq!(first.len(), workers, "{tried:?}");
}

#[test]
fn a_split_that_the_other_workers_cannot_read_waits_for_the_successor_of_a_lost_worker() {
    for is_replaced in [true, false] {
        let mut world = World::new();
        (0..2).for_each(|i| world.hello(i));
        world.attach(ENDLESS, 0, 1);
        let key = world.consumers[ENDLESS].key;
        let held = |world: &World| world.state.leases.held(key).0.first().copied();
        let want = |world: &mut World| {
            for session in world.workers.iter().filter_map(|w| w.session).collect::<Vec<_>>() {
                world.input(Input::Want { session, splits: 4 });
            }
            world.pass(Duration::from_millis(50), None);
        };
        want(&mut world);
        let (position, able, token) = held(&world).expect("granted");
        // The consumer notices the death first.
        let session = world.consumers[ENDLESS].session.expect("attached");
        let error = Error::unavailable("reset").with(UNREACHED, "worker-0:1");
        world.input(Input::Unreachable { session, position, token, error });
        let session = world.workers[able.0 as usize - 1].session.take().expect("open");
        world.input(Input::WorkerGone { session });
        want(&mut world);
        let (position, blind, token) = held(&world).expect("granted");
        let session = world.consumers[ENDLESS].session.expect("attached");
        let error = Error::new(ErrorKind::NotFound, "there is no such file").with(UNREADABLE, "worker-0:1");
        world.input(Input::Unreachable { session, position, token, error });
        world.pass(Duration::from_secs(30), None);
        want(&mut world);
        assert_eq!(held(&world), None, "it waits");
        if is_replaced {
            world.hello(2);
        } else {
            world.pass(Duration::from_secs(31), None);
        }
        want(&mut world);
        let (_, next, _) = held(&world).expect("granted");
        assert_eq!(next, if is_replaced { WorkerId(3) } else { blind });
    }
}

#[test]
fn a_job_of_a_higher_priority_gets_the_places_of_splits_that_wait_and_the_room_of_those_that_end() {
    let mut world = World::new();
    let (name, graph) = ("urgent".to_owned(), "another".to_owned());
    world.create(JobRecord { name, graph, priority: 1, ..record(TWIN_OF) });
    world.hello(0);
    world.attach(ENDLESS, 0, 100);
    let session = world.workers[0].session.expect("connected");
    let held = |world: &World, consumer: usize| {
        let job = world.consumers[consumer].key.0;
        world.workers[0].held.values().filter(|lease| lease.job == job).count()
    };
    world.input(Input::Want { session, splits: 4 });
    world.flush();
    assert_eq!(held(&world, ENDLESS), 4);
    world.now = world.now + Duration::from_millis(20);
    world.attach(TWIN, 0, 6);
    world.flush();
    assert_eq!([held(&world, ENDLESS), held(&world, TWIN)], [1, 3], "what is under way stays");
    for (urgent, others) in [(4, 1), (5, 1), (6, 1), (6, 2)] {
        // A split has ended, so there is room for another.
        world.input(Input::Want { session, splits: 1 });
        world.flush();
        assert_eq!([held(&world, ENDLESS), held(&world, TWIN)], [others, urgent], "its reader takes six ahead");
    }
}
