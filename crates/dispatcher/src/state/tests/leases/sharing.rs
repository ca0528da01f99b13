//! Jobs with the same samples: their splits go to the same workers.

use crate::state::tests::*;

/// Which worker has each split of a consumer.
fn held(world: &World, consumer: usize) -> Vec<(u64, u128)> {
    let (leases, _) = world.state.leases.held(world.consumers[consumer].key);
    leases.iter().map(|(p, worker, _)| (p.ordinal, worker.0)).collect()
}

fn want(world: &mut World, worker: usize, splits: u32) {
    let session = world.workers[worker].session.expect("connected");
    world.input(Input::Want { session, splits });
}

/// Two workers, two jobs with the same samples.
fn world() -> World {
    let mut world = World::new();
    world.add_twin();
    (0..2).for_each(|i| world.hello(i));
    world
}

#[test]
fn a_split_goes_to_the_worker_that_has_it_for_the_other_job_with_or_without_room() {
    let mut world = world();
    world.attach(ENDLESS, 0, 4);
    want(&mut world, 0, 1);
    want(&mut world, 1, 1);
    assert_eq!(held(&world, ENDLESS), [(0, 1), (1, 2)]);
    // No worker has room, and the second job wants four.
    world.attach(TWIN, 0, 4);
    assert_eq!(held(&world, TWIN), [(0, 1), (1, 2)]);
    // The first to get a split decides for both, and takes the room of two.
    want(&mut world, 1, 2);
    assert_eq!(held(&world, ENDLESS), held(&world, TWIN));
    assert_eq!(held(&world, TWIN)[2..], [(2, 2)]);
    // Splits that the first job has consumed are still at the worker that computed them.
    world.flush();
    (0..3).for_each(|_| world.consume(ENDLESS));
    let session = world.consumers[TWIN].session.take().expect("attached");
    world.input(Input::ConsumerGone { session });
    world.attach(TWIN, 0, 3);
    assert_eq!(held(&world, TWIN), [(0, 1), (1, 2), (2, 2)]);
}

#[test]
fn a_split_of_a_worker_that_left_or_failed_goes_to_any_worker() {
    let mut world = world();
    world.attach(ENDLESS, 0, 2);
    want(&mut world, 0, 2);
    assert_eq!(held(&world, ENDLESS), [(0, 1), (1, 1)]);
    let session = world.workers[0].session.take().expect("connected");
    world.input(Input::WorkerGone { session });
    want(&mut world, 1, 8);
    world.attach(TWIN, 0, 2);
    world.pass(Duration::from_secs(6), Some(0));
    want(&mut world, 1, 8);
    assert_eq!(held(&world, TWIN), [(0, 2), (1, 2)]);
    assert_eq!(held(&world, ENDLESS), [(0, 2), (1, 2)]);
    world.hello(0);
    world.flush();
    let session = world.consumers[TWIN].session.expect("attached");
    let token = world.consumers[TWIN].assigned[&Position::default()];
    let error = Error::unavailable("it broke");
    world.input(Input::Unreachable { session, position: Position::default(), token, error });
    want(&mut world, 0, 8);
    assert_eq!(held(&world, TWIN), [(0, 1), (1, 2)], "it failed at the other");
}

#[test]
fn a_job_with_other_samples_shares_nothing() {
    let mut world = world();
    world.attach(4, 0, 1);
    world.attach(ENDLESS, 0, 1);
    want(&mut world, 0, 1);
    let leases = |consumer| held(&world, consumer).len();
    assert_eq!(leases(4) + leases(ENDLESS), 1);
}
