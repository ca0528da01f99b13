//! Jobs that hang at a worker: the splits that they keep there, and the rest, which other jobs get.

use crate::state::leases::grants::held_up::JOBS_MAX;
use crate::state::tests::*;

/// Creates another job of any number of splits, and its consumer. Of tenant `a` in a world with tenants, as the first.
fn create(world: &mut World, name: &str) -> usize {
    let (name, graph) = (name.to_owned(), name.to_owned());
    world.create(JobRecord { name, graph, ..record(TWIN_OF) });
    world.consumers.len() - 1
}

/// A worker reports which jobs are held up there, and requests `splits` splits.
fn says(world: &mut World, worker: usize, held_up: &[u64], splits: u32) {
    let session = world.workers[worker].session.expect("connected");
    let said = WorkerHeartbeat { held_up: held_up.to_vec(), ..WorkerHeartbeat::default() };
    world.input(Input::WorkerHeartbeat { session, said });
    if splits > 0 {
        world.input(Input::Want { session, splits });
    }
    world.flush();
}

/// Returns the number of a consumer's splits that a worker holds.
fn held(world: &World, worker: usize, consumer: usize) -> usize {
    let (job, consumer) = world.consumers[consumer].key;
    world.workers[worker].held.values().filter(|lease| (lease.job, lease.consumer) == (job, consumer)).count()
}

#[test]
fn a_job_that_is_held_up_keeps_what_it_has_and_others_get_what_is_asked_for_beside_it() {
    let mut world = World::new();
    let other = create(&mut world, "other");
    world.hello(0);
    world.attach(ENDLESS, 0, 100);
    says(&mut world, 0, &[], 4);
    world.attach(other, 0, 2);
    let job = world.consumers[ENDLESS].key.0;
    assert_eq!([ENDLESS, other].map(|consumer| held(&world, 0, consumer)), [4, 0]);
    says(&mut world, 0, &[job], 4);
    assert_eq!([ENDLESS, other].map(|consumer| held(&world, 0, consumer)), [4, 2], "the rest is for who comes next");
    let next = create(&mut world, "next");
    world.attach(next, 0, 1);
    world.flush();
    assert_eq!(held(&world, 0, next), 1);
    // Another worker has room for it while it hangs here; and so has this one once the job continues.
    world.hello(1);
    says(&mut world, 1, &[], 3);
    assert_eq!((held(&world, 0, ENDLESS), held(&world, 1, ENDLESS)), (4, 3));
    says(&mut world, 0, &[], 0);
    assert_eq!(held(&world, 0, ENDLESS), 5, "the room that was left");
    world.check_replay();
}

#[test]
fn a_job_that_is_held_up_is_given_what_keeps_a_thread_busy() {
    let mut world = World::new();
    world.hello(0);
    world.attach(ENDLESS, 0, 100);
    let job = world.consumers[ENDLESS].key.0;
    says(&mut world, 0, &[job], 4);
    assert_eq!(held(&world, 0, ENDLESS), 1, "the worker has one thread");
    // A slow source brings a split now and then.
    for _ in 0..3 {
        world.consume(ENDLESS);
        world.flush();
        says(&mut world, 0, &[job], 0);
        assert_eq!(held(&world, 0, ENDLESS), 1);
    }
}

#[test]
fn splits_of_one_tenant_that_hang_take_no_leases_from_others() {
    let mut world = World::with(true);
    world.hello(0);
    let mut held_up = Vec::new();
    for i in 0..=JOBS_MAX {
        let consumer = create(&mut world, &format!("hangs {i}"));
        world.attach(consumer, 0, 100);
        says(&mut world, 0, &held_up, 2);
        let expected = if i < JOBS_MAX { 2 } else { 0 };
        assert_eq!(held(&world, 0, consumer), expected, "of one more, when {i} hang");
        held_up.push(world.consumers[consumer].key.0);
    }
    let (of_another_tenant, job) = (4, 3);
    assert_ne!(world.tenant(job).name, world.tenant(TWIN_OF).name);
    world.attach(of_another_tenant, 0, 1);
    world.flush();
    assert_eq!(held(&world, 0, of_another_tenant), 1);
}

#[test]
fn a_worker_that_is_slow_is_given_a_split_of_another_job_though_one_hangs_there() {
    let mut world = World::new();
    let other = create(&mut world, "other");
    world.hello(0);
    world.attach(ENDLESS, 0, 100);
    says(&mut world, 0, &[], 2);
    world.state.leases.set_slow(WorkerId(1));
    world.attach(other, 0, 4);
    let job = world.consumers[ENDLESS].key.0;
    says(&mut world, 0, &[], 4);
    assert_eq!(held(&world, 0, other), 0, "it has one at a time");
    says(&mut world, 0, &[job], 0);
    assert_eq!(held(&world, 0, other), 1);
}

#[test]
fn a_split_that_may_end_workers_does_not_wait_for_what_hangs_and_that_goes_on_later() {
    let mut world = World::new();
    let other = create(&mut world, "other");
    let died = |world: &mut World, i: usize| {
        let session = world.workers[i].session.take().expect("connected");
        world.input(Input::WorkerGone { session });
        world.workers[i].held.clear();
        world.pass(Duration::from_secs(6), None);
    };
    // It ends two workers, one after the other; a third computes splits of another job.
    world.attach(other, 0, 1);
    world.hello(1);
    says(&mut world, 1, &[], 1);
    died(&mut world, 1);
    world.hello(2);
    says(&mut world, 2, &[], 1);
    assert_eq!(held(&world, 2, other), 1);
    world.hello(0);
    says(&mut world, 0, &[], 3);
    world.attach(ENDLESS, 0, 3);
    died(&mut world, 2);
    says(&mut world, 0, &[], 3);
    let has = |world: &World| [ENDLESS, other].map(|consumer| held(world, 0, consumer));
    assert_eq!(has(&world), [3, 0], "it waits for what goes on");
    let job = world.consumers[ENDLESS].key.0;
    says(&mut world, 0, &[job], 0);
    assert_eq!(has(&world), [0, 1], "and not for what hangs");
    world.consume(other);
    world.flush();
    says(&mut world, 0, &[], 3);
    assert_eq!(held(&world, 0, ENDLESS), 3);
    world.check_replay();
}
