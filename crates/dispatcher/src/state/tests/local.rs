//! Local workers: whose splits they are given, what they are not counted among, and what becomes of them when cores are short.

use forebay_proto::{Spare, Spent};

use super::*;

/// A local worker of the first of two readers of the same job, and a worker for everybody.
fn with_local() -> World {
    let mut world = World::new();
    world.local = Some((LOCAL, world.readers[0].key));
    [0, LOCAL].into_iter().for_each(|i| world.hello(i));
    world
}

fn want(world: &mut World, worker: usize, splits: u32) {
    let session = world.workers[worker].session.expect("connected");
    world.input(Input::Want { session, splits });
    world.flush();
}

fn threads(world: &mut World, threads: u32) {
    let session = world.workers[LOCAL].session.expect("connected");
    world.input(Input::Threads { session, threads });
    world.flush();
}

/// The readers of the splits that a worker holds.
fn held(world: &World, worker: usize) -> Vec<ConsumerKey> {
    world.workers[worker].held.values().map(|lease| (lease.job, lease.consumer)).collect()
}

#[test]
fn a_local_worker_is_given_the_splits_of_its_reader_alone() {
    let mut world = with_local();
    want(&mut world, LOCAL, 9);
    world.attach(1, 0, 3);
    world.attach(ENDLESS, 0, 3);
    assert_eq!(held(&world, LOCAL), [], "neither another job's, nor those of another reader of the same");
    world.attach(0, 0, 3);
    world.flush();
    assert_eq!(held(&world, LOCAL), [world.readers[0].key; 3]);
    // With as much to do, it comes behind the others.
    world.consume(0);
    world.flush();
    let jobs = world.state.list_jobs(world.now, None, "job 0");
    assert_eq!((jobs[0].local_threads, &*jobs[0].state), (1, "running"));
    let told: Vec<_> = world.state.list_workers(world.now, None).iter().map(|w| w.local).collect();
    assert_eq!(told, [false, true]);
    world.check_replay();
}

#[test]
fn of_equals_the_others_come_first() {
    let mut world = with_local();
    want(&mut world, LOCAL, 1);
    want(&mut world, 0, 1);
    world.attach(0, 0, 3);
    world.flush();
    let of = |worker: usize| world.workers[worker].held.values().map(|l| l.ordinal).collect::<Vec<_>>();
    assert_eq!((of(0), of(LOCAL)), (vec![0], vec![1]));
}

#[test]
fn one_of_another_tenants_reader_or_of_none_is_refused_as_of_a_job_that_does_not_exist() {
    let mut world = World::with(true);
    let refused = |world: &mut World, only: ConsumerKey, serves: Option<&str>| {
        let (session, mut out) = (world.session(), Vec::new());
        let (worker, address, held) = (WorkerId(99), Arc::from("127.0.0.1:1"), Vec::new());
        let serves = serves.map(Arc::from);
        let hello =
            Input::Hello { session, worker, address, threads: 1, held, serves, place: "".into(), only: Some(only) };
        world.state.handle(world.now, hello, &mut out);
        match out.as_slice() {
            [Effect::End(_, error)] => Some(error.to_json().replace(&format!("job {}", only.0), "job ?")),
            _ => None,
        }
    };
    let own = world.readers[0].key;
    let [other, none, beyond] = [(3, 0), (99, 0), (own.0, 7)].map(|key| refused(&mut world, key, Some("a")));
    assert!(other.is_some() && other == none && none == beyond, "{other:?} {none:?} {beyond:?}");
    assert!(!world.state.workers.contains_key(&WorkerId(99)));
    assert_eq!(refused(&mut world, own, Some("a")), None);
}

#[test]
fn one_that_has_no_threads_rests_and_what_waits_there_goes_to_others() {
    let mut world = with_local();
    world.attach(0, 0, 3);
    want(&mut world, LOCAL, 9);
    assert_eq!(held(&world, LOCAL).len(), 3);
    threads(&mut world, 0);
    assert_eq!(held(&world, LOCAL).len(), 1, "what it is at stays");
    want(&mut world, 0, 9);
    assert_eq!(held(&world, 0).len(), 2);
    world.consume(0);
    world.consume(0);
    world.flush();
    assert_eq!(held(&world, LOCAL).len(), 0, "it is given nothing, whatever it has asked for");
    threads(&mut world, 2);
    assert_eq!(world.state.list_jobs(world.now, None, "job 0")[0].local_threads, 2);
    world.check_replay();
}

#[test]
fn it_is_nobody_elses_worker() {
    let mut world = with_local();
    assert_eq!(world.state.wanted(world.now).workers, 1);
    world.attach(0, 0, 3);
    let (job, session) = (world.readers[0].key.0, world.workers[LOCAL].session.expect("connected"));
    let spent = vec![Spent { job, compute_us: 7, rows: 1 }];
    world.input(Input::WorkerHeartbeat { session, said: WorkerHeartbeat { spent, ..WorkerHeartbeat::default() } });
    assert_eq!(world.state.spent_us, 0, "what gives way to a trainer says nothing of what others take");
    // A tenant's quota of workers is for those of the service.
    let mut world = World::with(true);
    world.local = Some((LOCAL, world.readers[0].key));
    [0, LOCAL].into_iter().for_each(|i| world.hello(i));
    world.attach(0, 0, 3);
    want(&mut world, LOCAL, 1);
    want(&mut world, 0, 1);
    want(&mut world, LOCAL, 1);
    assert_eq!((held(&world, LOCAL).len(), held(&world, 0).len()), (2, 1));
}

#[test]
fn what_may_end_workers_is_tried_on_a_trainers_machine_last() {
    let mut world = with_local();
    world.attach(0, 0, 1);
    want(&mut world, 0, 1);
    let lost = world.workers[0].session.take().expect("connected");
    world.input(Input::WorkerGone { session: lost });
    world.workers[0].held.clear();
    world.pass(Duration::from_secs(3), Some(0));
    world.hello(2);
    want(&mut world, LOCAL, 4);
    assert_eq!(held(&world, LOCAL), [], "another has no room, but will have");
    want(&mut world, 2, 1);
    assert_eq!((held(&world, LOCAL).len(), held(&world, 2).len()), (0, 1));
}

#[test]
fn a_reader_that_says_what_it_has_to_spare_is_told_how_much_of_it_to_use() {
    let mut world = with_local();
    world.attach(0, 0, 3);
    let session = world.readers[0].session.expect("connected");
    let mut answer = |spare: Option<Spare>| {
        let said =
            ConsumerHeartbeat { batch_wait_ms: 250, step_ms: 250, batches: 2, spare, ..ConsumerHeartbeat::default() };
        let mut out = Vec::new();
        world.state.handle(world.now, Input::ConsumerHeartbeat { session, said }, &mut out);
        out.into_iter().find_map(|effect| match effect {
            Effect::Consumer(_, consumer_event::Event::Heartbeat(reply)) => Some(reply.local_threads),
            _ => None,
        })
    };
    let spare = Spare { millicores: 2500, memory: 8 << 30, ..Spare::default() };
    assert_eq!([1, 2, 3, 4].map(|_| answer(Some(spare))), [Some(0), Some(0), Some(0), Some(2)]);
    assert_eq!(answer(Some(Spare { millicores: 100, ..spare })), Some(0), "at once");
    assert_eq!(answer(None), Some(0));
}
