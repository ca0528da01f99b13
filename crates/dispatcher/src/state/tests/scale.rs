//! Scaling: reports reach the policy, decisions are kept and shown, and tenants do not affect each other.

use forebay_policy::scaling::Policy;
use forebay_proto::Caching;

use super::*;
use crate::options::Scaling;

/// Half a second of a trainer with steps of 20 ms, and of workers with one thread that take 80 ms for a batch of one
/// row.
fn half_second(world: &mut World, consumers: &[usize], workers: usize) {
    half_second_of(world, consumers, workers, 20);
}

pub(super) fn half_second_of(world: &mut World, consumers: &[usize], workers: usize, step: u64) {
    world.half_second();
    let batches = (6 * workers as u64).min(500 / step);
    for i in 0..workers {
        let spent = consumers.iter().map(|&r| Spent {
            job: world.consumers[r].key.0,
            compute_us: batches * 80_000 / workers as u64,
            rows: batches / workers as u64,
        });
        let spent = spent.collect();
        world.spends(i, spent);
    }
    for &r in consumers {
        world.reads(r, batches * step, batches);
    }
}

#[test]
fn what_is_wanted_follows_from_what_is_said_and_is_told_with_its_reason() {
    let mut world = World::new();
    assert_eq!(world.state.wanted(world.now).wanted, 0, "jobs of which nothing is known may come back any moment");
    world.pass(Timing::default().consumer_timeout, None);
    assert_eq!(world.state.wanted(world.now).wanted, 1, "no consumer reads");
    world.hello(0);
    world.attach(ENDLESS, 0, 3);
    half_second(&mut world, &[ENDLESS], 1);
    assert_eq!(world.state.wanted(world.now).wanted, 0, "not known yet");
    (0..16).for_each(|_| half_second(&mut world, &[ENDLESS], 1));
    let scale = world.state.wanted(world.now);
    assert_eq!((scale.wanted, scale.workers), (5, 1), "50 batches a second, of which a worker makes 12");
    let jobs = world.state.list_jobs(world.now, None, "job 1");
    let told: Vec<_> = jobs[0].decisions.iter().map(|d| (d.before, d.workers)).collect();
    assert_eq!((jobs.len(), jobs[0].workers, &told[..]), (1, 5, &[(1, 1), (1, 5), (5, 5)][..]), "{jobs:?}");
    assert!(jobs[0].decisions[1].reason.starts_with("5 workers: the trainer takes 50.00 batches/s"), "{jobs:?}");
    let json: serde_json::Value = serde_json::from_str(&jobs[0].decisions[1].json).expect("JSON");
    assert_eq!(json["rule"], "demand");
    // It is unknown whether five are right, so a restarted dispatcher says so, and no worker is ended.
    world.crash();
    assert_eq!(world.state.wanted(world.now).wanted, 0);
}

#[test]
fn another_job_on_the_same_samples_begins_where_one_came_to_rest_and_nowhere_else() {
    let mut world = World::new();
    world.pass(Timing::default().consumer_timeout, None);
    world.hello(0);
    world.attach(ENDLESS, 0, 3);
    (0..16).for_each(|_| half_second_of(&mut world, &[ENDLESS], 1, 31));
    assert_eq!(world.state.wanted(world.now).wanted, 3, "32 batches a second, of which a worker makes 12");
    let of = |world: &World, name| world.state.list_jobs(world.now, None, name).remove(0);
    world.create(JobRecord { name: "soon".to_owned(), ..record(TWIN_OF) });
    assert_eq!(of(&world, "soon").workers, 0, "the first job has not come to rest with three workers");
    [1, 2].into_iter().for_each(|worker| world.hello(worker));
    (0..40).for_each(|_| half_second_of(&mut world, &[ENDLESS], 3, 31));
    world.add_twin();
    let twin = of(&world, "twin");
    let told: Vec<_> = twin.decisions.iter().map(|d| &*d.reason).collect();
    assert_eq!((twin.workers, told), (3, vec!["3 workers to begin with, as was right for these samples before"]));
}

#[test]
fn a_worker_of_one_tenant_says_nothing_of_anothers_job() {
    let mut world = World::with(true);
    world.hello(1);
    world.attach(0, 0, 3);
    let job = world.consumers[0].key.0;
    let session = world.workers[1].session.expect("connected");
    let beat = |job| {
        let spent = vec![Spent { job, compute_us: 7, rows: 1 }];
        let caching = vec![Caching { job, json: "{}".to_owned() }];
        Input::WorkerHeartbeat { session, said: WorkerHeartbeat { spent, caching, ..WorkerHeartbeat::default() } }
    };
    world.input(beat(job));
    assert_eq!(world.state.load.spent_us(), 7);
    world.input(beat(world.consumers[3].key.0));
    world.input(beat(999));
    assert_eq!(world.state.load.spent_us(), 7);
    let told =
        |world: &World| world.state.list_jobs(world.now, None, "").iter().map(|j| j.caching.len()).sum::<usize>();
    assert_eq!(told(&world), 1, "nor what it keeps of it");
    world.workers[1].session = None;
    world.input(Input::WorkerGone { session });
    world.pass(Duration::from_secs(6), Some(1));
    assert_eq!(told(&world), 0, "with it, what it kept is gone");
}

#[test]
fn the_most_holds_for_all_jobs_together_and_decisions_are_bounded() {
    let mut world = World::new();
    world.state.set_scaling(Scaling { policy: Policy::fixed(3), workers_max: 4, ..Scaling::default() });
    world.hello(0);
    let endless = [ENDLESS, 4];
    endless.iter().for_each(|&r| world.attach(r, 0, 3));
    (0..400).for_each(|_| half_second(&mut world, &endless, 1));
    assert_eq!(world.state.wanted(world.now).wanted, 4, "three each");
    let jobs = world.state.list_jobs(world.now, None, "");
    assert!(jobs.iter().all(|job| job.decisions.len() <= 1), "the same again is not kept");
}

#[test]
fn jobs_that_share_workers_see_that_they_have_what_they_want() {
    let mut world = World::new();
    (0..2).for_each(|i| world.hello(i));
    let consumers = [ENDLESS, 4];
    consumers.iter().for_each(|&r| world.attach(r, 0, 3));
    // Each takes 10 batches/s and waits for none; a worker makes 12.
    for _ in 0..60 {
        world.half_second();
        for (worker, consumer) in consumers.into_iter().enumerate() {
            let job = world.consumers[consumer].key.0;
            world.spends(worker, vec![Spent { job, compute_us: 400_000, rows: 5 }]);
            world.reads(consumer, 500, 5);
        }
    }
    assert_eq!(world.state.wanted(world.now).wanted, 2, "one each");
    let jobs = world.state.list_jobs(world.now, None, "");
    let read = jobs.iter().filter(|job| job.workers > 0);
    let last = read.map(|job| &job.decisions.last().expect("decided").json);
    let rules: Vec<String> =
        last.map(|json| serde_json::from_str::<serde_json::Value>(json).expect("JSON")["rule"].to_string()).collect();
    assert_eq!(rules, ["\"enough\"", "\"enough\""]);
}

#[test]
fn nonsense_that_a_worker_says_of_its_time_is_bounded_as_it_comes() {
    let mut world = World::new();
    world.hello(0);
    let job = world.consumers[ENDLESS].key.0;
    (0..2).for_each(|_| world.spends(0, vec![Spent { job, compute_us: u64::MAX, rows: u64::MAX }]));
    assert_eq!(
        world.state.load.spent_us(),
        2 * crate::state::limits::REPORTED_MAX,
        "others' busy time is still told from it"
    );
    let billed = world.state.fleet.cost(job);
    assert_eq!(billed[0].seconds, 2.0 * crate::state::limits::REPORTED_MAX as f64 / 1e6);
}
