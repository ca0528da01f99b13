//! Worker types: how many of each are wanted, how fast they are, and which jobs pay for their idle time.

use forebay_policy::scaling::Policy;
use forebay_proto::KindWanted;

use super::scale::half_second_of;
use super::*;
use crate::options::Scaling;

const OFFERS: [&str; 2] = ["kind=big,price=4,threads=1", "kind=big,price=1,threads=1,max=2,spot"];

fn offered(policy: Policy) -> World {
    let mut world = World::new();
    world.state.set_scaling(Scaling { policy, ..Scaling::default() });
    world.state.set_offers(OFFERS.iter().map(|offer| offer.parse().expect("an offer")).collect());
    world
}

/// A worker of one of the types comes.
fn come(world: &mut World, worker: usize, price: f64, spot: bool) {
    world.hello(worker);
    let id = WorkerId(worker as u128 + 1);
    world.state.fleet.set_worker_type(id, WorkerType::new("big", price, spot).expect("a kind"));
}

fn kinds(world: &World) -> Vec<KindWanted> {
    world.state.wanted(world.now).kinds
}

fn wanted(world: &World) -> Vec<Option<u32>> {
    kinds(world).iter().map(|kind| kind.wanted).collect()
}

#[test]
fn the_cheapest_type_is_wanted_and_what_it_replaces_stays_until_it_is_there() {
    let mut world = offered(Policy::fixed(2));
    assert_eq!(wanted(&world), [None, None], "no policy has decided yet");
    come(&mut world, 0, 4.0, false);
    world.attach(ENDLESS, 0, 3);
    world.half_second();
    assert_eq!(wanted(&world), [None, None], "nothing is decided");
    let pass = |world: &mut World, seconds: u32, workers: usize| {
        (0..2 * seconds).for_each(|_| half_second_of(world, &[ENDLESS], workers, 20));
        wanted(world)
    };
    assert_eq!(pass(&mut world, 10, 1), [Some(1), Some(2)]);
    assert_eq!(world.state.wanted(world.now).wanted, 3);
    assert_eq!(kinds(&world).swap_remove(0).reason, "one stays until what replaces it is there");
    come(&mut world, 1, 1.0, true);
    assert_eq!(pass(&mut world, 10, 2), [Some(1), Some(2)]);
    come(&mut world, 2, 1.0, true);
    assert_eq!(pass(&mut world, 10, 3), [Some(0), Some(2)]);
    assert_eq!(kinds(&world).iter().map(|kind| kind.workers).collect::<Vec<_>>(), [1, 2]);
    // Another dispatcher does not know how many are wanted, until it has looked at a job again.
    world.state.set_offers(OFFERS.iter().map(|offer| offer.parse().expect("an offer")).collect());
    assert_eq!(wanted(&world), [None, None]);
}

#[test]
fn a_type_is_as_fast_as_it_is_beside_others_that_work_for_the_same_job() {
    let mut world = offered(Policy::fixed(2));
    come(&mut world, 0, 4.0, false);
    come(&mut world, 1, 1.0, true);
    world.attach(ENDLESS, 0, 3);
    let job = world.consumers[ENDLESS].key.0;
    for _ in 0..400 {
        world.half_second();
        world.spends(0, vec![Spent { job, compute_us: 400_000, rows: 8 }]);
        world.spends(1, vec![Spent { job, compute_us: 400_000, rows: 2 }]);
        world.reads(ENDLESS, 500, 10);
    }
    let [fast, slow] = [0, 1].map(|kind| kinds(&world)[kind].pace);
    assert!((fast / slow - 4.0).abs() < 0.1, "{fast} {slow}");
}

#[test]
fn ops_that_workers_do_not_run_are_a_cost_of_the_consumer() {
    let mut world = World::new();
    come(&mut world, 0, 3600.0, false);
    // No job has a consumer, so no job pays.
    for _ in 0..20 {
        world.half_second();
        world.spends(0, Vec::new());
    }
    let consumers = [ENDLESS, 4];
    consumers.iter().for_each(|&consumer| world.attach(consumer, 0, 3));
    let job = world.consumers[ENDLESS].key.0;
    for _ in 0..200 {
        world.half_second();
        world.spends(0, vec![Spent { job, compute_us: 300_000, rows: 5 }]);
        consumers.iter().for_each(|&consumer| world.reads(consumer, 500, 5));
    }
    let jobs = world.state.list_jobs(world.now, None, "");
    let bills: Vec<_> = jobs.iter().flat_map(|job| &job.worked).collect();
    let worked: f64 = bills.iter().map(|bill| bill.seconds).sum();
    assert!((worked - 60.0).abs() < 1e-6, "{bills:?}");
    // Two fifths of 100 s, between two that want one worker each.
    for bill in &bills {
        assert!((bill.idle_seconds - 20.0).abs() < 1.5, "{bills:?}");
        assert!((bill.idle_cost - bill.idle_seconds).abs() < 1e-6, "it costs 1 a second: {bills:?}");
    }
    assert_eq!(bills.len(), 2);
}

/// One large worker stands for four small wanted ones: the job has as many as it wants, and is watched.
#[test]
fn a_job_counts_workers_as_large_as_those_that_its_number_was_found_with() {
    let mut world = offered(Policy::default());
    world.state.set_offers(["kind=big,price=4,threads=4"].iter().map(|o| o.parse().expect("an offer")).collect());
    world.hello(0);
    world.attach(ENDLESS, 0, 3);
    let job = world.consumers[ENDLESS].key.0;
    let half_second = |world: &mut World, step: u64, made: [u64; 2]| {
        world.half_second();
        for (i, rows) in made.into_iter().enumerate().filter(|(_, rows)| *rows > 0) {
            world.spends(i, vec![Spent { job, compute_us: rows * 80_000, rows }]);
        }
        let batches = made.iter().sum::<u64>().min(500 / step);
        world.reads(ENDLESS, batches * step, batches);
        (world.state.scaling.wanted(job), wanted(world))
    };
    let mut pass = |seconds: u32, step: u64, made: [u64; 2]| {
        if made[1] > 0 && world.workers[1].session.is_none() {
            come(&mut world, 1, 4.0, false);
            world.state.leases.set_worker_threads(WorkerId(2), 4);
        }
        (0..2 * seconds).map(|_| half_second(&mut world, step, made)).last()
    };
    // The trainers demand 50 batches a second, and a thread makes 12.5: five workers of one thread, of which one is
    // there.
    assert_eq!(pass(10, 20, [6, 0]), Some((Some(5), vec![Some(1)])));
    assert_eq!(pass(20, 20, [5, 20]), Some((Some(5), vec![Some(1)])));
    // They demand a little more, and it waits.
    assert_eq!(pass(40, 15, [6, 25]), Some((Some(6), vec![Some(2)])));
}
