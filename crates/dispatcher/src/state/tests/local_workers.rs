//! Local workers: the consumers whose splits they get, the counts without them, and a shortage of cores.

use forebay_proto::Spare;

use super::*;

/// A local worker of the first of two consumers of a job, and a worker for all tenants.
fn with_local() -> World {
    let mut world = World::new();
    world.local = Some((LOCAL, world.consumers[0].key));
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

/// The consumers of the splits that a worker holds.
fn held(world: &World, worker: usize) -> Vec<ConsumerKey> {
    world.workers[worker].held.values().map(|lease| (lease.job, lease.consumer)).collect()
}

#[test]
fn a_local_worker_is_given_the_splits_of_its_consumer_alone() {
    let mut world = with_local();
    want(&mut world, LOCAL, 9);
    world.attach(1, 0, 3);
    world.attach(ENDLESS, 0, 3);
    assert_eq!(held(&world, LOCAL), [], "neither another job's, nor those of another reader of the same");
    world.attach(0, 0, 3);
    world.flush();
    assert_eq!(held(&world, LOCAL), [world.consumers[0].key; 3]);
    // With equal load it comes after the others.
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
fn one_of_another_tenants_consumer_or_of_none_is_refused_as_of_a_job_that_does_not_exist() {
    let mut world = World::with(true);
    let refused = |world: &mut World, only: ConsumerKey, serves: Option<&str>| {
        let (session, mut out) = (world.session(), Vec::new());
        let (worker, address, held) = (WorkerId(99), Arc::from("127.0.0.1:1"), Vec::new());
        let serves = serves.map(Arc::from);
        let hello = Input::Hello(Arrival {
            session,
            worker,
            address,
            threads: 1,
            held,
            serves,
            place: "".into(),
            only: Some(only),
            local_key: JobKey::from_bytes(&LOCAL_KEY),
            worker_type: WorkerType::default(),
            bits: BitVersions::own(),
        });
        world.state.handle(world.now, hello, &mut out);
        match out.as_slice() {
            [Effect::End(_, error)] => Some(error.to_json().replace(&format!("job {}", only.0), "job ?")),
            _ => None,
        }
    };
    let own = world.consumers[0].key;
    let [other, none, beyond] = [(3, 0), (99, 0), (own.0, 7)].map(|key| refused(&mut world, key, Some("a")));
    assert!(other.is_some() && other == none && none == beyond, "{other:?} {none:?} {beyond:?}");
    assert!(world.state.leases.worker(WorkerId(99)).is_none());
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
    assert_eq!(held(&world, LOCAL).len(), 0, "it is given nothing, although it has asked");
    threads(&mut world, 2);
    assert_eq!(world.state.list_jobs(world.now, None, "job 0")[0].local_threads, 2);
    world.check_replay();
}

#[test]
fn it_computes_for_no_other_consumer() {
    let mut world = with_local();
    assert_eq!(world.state.wanted(world.now).workers, 1);
    world.attach(0, 0, 3);
    let (job, session) = (world.consumers[0].key.0, world.workers[LOCAL].session.expect("connected"));
    let spent = vec![Spent { job, compute_us: 7, rows: 1 }];
    world.input(Input::WorkerHeartbeat { session, said: WorkerHeartbeat { spent, ..WorkerHeartbeat::default() } });
    assert_eq!(world.state.load.spent_us(), 0, "what gives way to a trainer says nothing of what others take");
    // A tenant's quota of workers concerns the fleet's workers only.
    let mut world = World::with(true);
    world.local = Some((LOCAL, world.consumers[0].key));
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

/// Half a second of a trainer with steps of 20 ms and so many millicores to spare, of a worker with one thread that
/// takes 80 ms for a batch of one row, and of local threads that make 10 batches per second each. Returns the wanted
/// threads.
fn half_second(world: &mut World, threads: u32, millicores: u32) -> u32 {
    world.half_second();
    let job = world.consumers[ENDLESS].key.0;
    for (worker, rows) in [(0, 6), (LOCAL, u64::from(5 * threads))] {
        world.spends(worker, vec![Spent { job, compute_us: rows * 80_000, rows }]);
    }
    let batches = u64::from(6 + 5 * threads).min(25);
    let own_millicores = millicores.min(threads * 1000);
    let spare = Spare { millicores, limit_millicores: 4000, threads, own_millicores, asks: true, ..Spare::default() };
    let said = ConsumerHeartbeat { spare: Some(spare), ..half_second_read(batches * 20, batches) };
    let session = world.consumers[ENDLESS].session.expect("connected");
    let mut out = Vec::new();
    world.state.handle(world.now, Input::ConsumerHeartbeat { session, said }, &mut out);
    let told = out.into_iter().find_map(|effect| match effect {
        Effect::Consumer(_, consumer_event::Event::Heartbeat(reply)) => Some(reply.local_threads),
        _ => None,
    });
    told.expect("an answer")
}

/// Repeats [`half_second`], and applies each answer at once.
fn obeyed(world: &mut World, times: usize, threads: u32, millicores: u32) -> u32 {
    (0..times).fold(threads, |had, _| {
        let wanted = half_second(world, had, millicores);
        if wanted != had {
            self::threads(world, wanted);
        }
        wanted
    })
}

#[test]
fn idle_cores_of_the_trainers_machine_are_used_before_workers_are_wanted_and_given_back_when_it_wants_them() {
    let mut world = World::new();
    world.local = Some((LOCAL, world.consumers[ENDLESS].key));
    [0, LOCAL].into_iter().for_each(|i| world.hello(i));
    threads(&mut world, 0);
    world.attach(ENDLESS, 0, 3);
    assert_eq!(obeyed(&mut world, 24, 0, 2500), 3, "50 batches a second are wanted, and a worker makes 12");
    let wanted = |world: &World| world.state.wanted(world.now).wanted;
    assert_eq!(wanted(&world), 2, "the other 20 or so");
    let jobs = world.state.list_jobs(world.now, None, "job 1");
    let told = &jobs[0].decisions[1];
    assert!(told.reason.starts_with("2 workers and 3 threads at the trainer: "), "{told:?}");
    let json: serde_json::Value = serde_json::from_str(&told.json).expect("JSON");
    assert_eq!((&json["local"], &json["figures"]["spare"]), (&3.into(), &2.5.into()));
    // The trainer takes its cores: the policy does not wait for a window.
    assert_eq!(obeyed(&mut world, 12, 3, 0), 0);
    assert_eq!(wanted(&world), 5);
    let jobs = world.state.list_jobs(world.now, None, "job 1");
    assert!(jobs[0].decisions.iter().any(|d| d.json.contains("\"yields\"")), "{jobs:?}");
}

#[test]
fn what_threads_make_whose_number_was_set_is_wanted_of_no_worker() {
    // With or without the consumer's report of its host's spare cores.
    let spare =
        Spare { millicores: 3000, own_millicores: 2000, limit_millicores: 4000, threads: 2, ..Spare::default() };
    for spare in [None, Some(spare)] {
        let mut world = World::new();
        world.local = Some((LOCAL, world.consumers[ENDLESS].key));
        [0, LOCAL].into_iter().for_each(|i| world.hello(i));
        world.attach(ENDLESS, 0, 3);
        for _ in 0..24 {
            world.half_second();
            let job = world.consumers[ENDLESS].key.0;
            for (worker, rows) in [(0, 6), (LOCAL, 10)] {
                world.spends(worker, vec![Spent { job, compute_us: rows * 80_000, rows }]);
            }
            let session = world.consumers[ENDLESS].session.expect("connected");
            let said = ConsumerHeartbeat { spare, ..half_second_read(320, 16) };
            world.input(Input::ConsumerHeartbeat { session, said });
        }
        assert_eq!(world.state.wanted(world.now).wanted, 3, "50 a second, of which 20 are made beside the trainer");
        let job = world.state.list_jobs(world.now, None, "job 1").remove(0);
        assert!(job.decisions.iter().all(|d| d.json.contains("\"local\":0")), "they are not decided on: {job:?}");
    }
}

#[test]
fn threads_are_dealt_to_consumers_by_what_each_can_spare() {
    let mut world = World::new();
    world.hello(0);
    [0, 1].into_iter().for_each(|consumer| world.attach(consumer, 0, 3));
    let says = |world: &mut World, consumer: usize, spare: Spare| {
        let session = world.consumers[consumer].session.expect("connected");
        let said = ConsumerHeartbeat { spare: Some(spare), ..ConsumerHeartbeat::default() };
        world.input(Input::ConsumerHeartbeat { session, said });
    };
    let job = world.consumers[0].key.0;
    let dealt = |world: &mut World, threads: u32| {
        let spare = Some(Spare { asks: true, ..Spare::default() });
        let said = ConsumerHeartbeat { spare, ..ConsumerHeartbeat::default() };
        world.state.scaling.dealt(job, threads, &said)
    };
    let of = |millicores| Spare { millicores, limit_millicores: 2000, asks: true, ..Spare::default() };
    for (consumer, millicores) in [(0, 3000), (1, 1000)] {
        says(&mut world, consumer, of(millicores));
    }
    assert_eq!([1, 3, 9].map(|threads| dealt(&mut world, threads)), [[1, 0], [2, 1], [2, 2]]);
    // Consumers on one host share its two cores; a consumer that requests none gets none.
    [0, 1].into_iter().for_each(|consumer| says(&mut world, consumer, Spare { machine: 7, ..of(2000) }));
    assert_eq!([2, 9].map(|threads| dealt(&mut world, threads)), [[1, 1], [1, 1]]);
    says(&mut world, 0, Spare { asks: false, ..of(2000) });
    assert_eq!(dealt(&mut world, 2), [0, 2]);
}

#[test]
fn a_consumer_that_only_reports_spare_cores_gets_no_threads_even_if_no_worker_computes() {
    let mut world = World::new();
    world.attach(ENDLESS, 0, 3);
    let told = |world: &mut World, asks: bool| {
        let spare = Some(Spare { millicores: 3000, limit_millicores: 4000, asks, ..Spare::default() });
        let said = ConsumerHeartbeat { spare, ..ConsumerHeartbeat::default() };
        let (session, mut out) = (world.consumers[ENDLESS].session.expect("connected"), Vec::new());
        world.state.handle(world.now, Input::ConsumerHeartbeat { session, said }, &mut out);
        let reply = |effect| match effect {
            Effect::Consumer(_, consumer_event::Event::Heartbeat(reply)) => Some(reply.local_threads),
            _ => None,
        };
        out.into_iter().find_map(reply).expect("an answer")
    };
    assert_eq!((told(&mut world, false), told(&mut world, true)), (0, 3));
}

/// A worker that claims to be the local one of the first consumer, with another key than that consumer's, and with a
/// lease of another worker.
fn stranger(world: &mut World, held: Vec<forebay_proto::Lease>) -> SessionId {
    let (session, key) = (world.session(), world.consumers[0].key);
    world.workers[LOCAL].session = Some(session);
    world.input(Input::Hello(Arrival {
        session,
        worker: WorkerId(LOCAL as u128 + 1),
        address: "127.0.0.1:1".into(),
        threads: 4,
        held,
        serves: None,
        place: "".into(),
        only: Some(key),
        local_key: JobKey::from_bytes(&[8; 16]),
        worker_type: WorkerType::default(),
        bits: BitVersions::own(),
    }));
    session
}

#[test]
fn a_worker_that_the_consumer_did_not_start_is_given_nothing_of_its_and_is_not_believed() {
    let mut world = World::new();
    world.hello(0);
    world.attach(0, 0, 3);
    want(&mut world, 0, 1);
    // It names a lease of another worker, which stays there.
    let held_by_other: Vec<_> = world.workers[0].held.values().cloned().collect();
    let session = stranger(&mut world, held_by_other.clone());
    want(&mut world, LOCAL, 9);
    assert_eq!((held(&world, LOCAL).len(), held(&world, 0).len()), (0, 1));
    // It ends no other worker's split, and its reports on the job are ignored.
    let (job, token) = (world.consumers[0].key.0, held_by_other[0].token);
    let spent = vec![Spent { job, compute_us: 7, rows: 1 }];
    let caching = vec![forebay_proto::Caching { job, json: "{}".to_owned() }];
    let said = WorkerHeartbeat { finished: vec![token], spent, caching, ..WorkerHeartbeat::default() };
    world.input(Input::WorkerHeartbeat { session, said });
    let jobs = world.state.list_jobs(world.now, None, "job 0");
    assert_eq!((jobs[0].local_threads, jobs[0].caching.len()), (0, 0));
    assert!(!world.state.leases.has_finished_splits(WorkerId(1)));
    // A worker that the consumer started gets its splits, and its reports on other jobs are ignored.
    world.local = Some((LOCAL, world.consumers[0].key));
    world.input(Input::WorkerGone { session });
    world.hello(LOCAL);
    want(&mut world, LOCAL, 9);
    assert_eq!(held(&world, LOCAL).len(), 2);
    let session = world.workers[LOCAL].session.expect("connected");
    let caching = [1, 2].map(|job| forebay_proto::Caching { job, json: "{}".to_owned() }).to_vec();
    world.input(Input::WorkerHeartbeat { session, said: WorkerHeartbeat { caching, ..WorkerHeartbeat::default() } });
    let kept: Vec<_> = world.state.list_jobs(world.now, None, "").iter().map(|job| job.caching.len()).collect();
    assert_eq!(kept, [1, 0, 0, 0]);
    world.check_replay();
}

#[test]
fn what_a_local_worker_holds_goes_to_others_when_another_consumer_takes_the_consumer() {
    let mut world = with_local();
    world.attach(0, 0, 3);
    want(&mut world, LOCAL, 9);
    assert_eq!(held(&world, LOCAL).len(), 3);
    let session = world.consumers[0].session.take().expect("attached");
    world.input(Input::ConsumerGone { session });
    world.attach(0, 0, 3);
    world.flush();
    assert_eq!(held(&world, LOCAL).len(), 3, "the same reader came back");
    let session = world.consumers[0].session.take().expect("attached");
    world.input(Input::ConsumerGone { session });
    let attachment = attachment(world.session(), world.consumers[0].key);
    let (tenant, local_key) = (world.tenant(0), JobKey::from_bytes(&[9; 16]));
    world.input(Input::Attach(Attachment { tenant, window: 3, local_key, ..attachment }));
    world.flush();
    assert_eq!(held(&world, LOCAL).len(), 0);
    want(&mut world, 0, 9);
    assert_eq!(held(&world, 0).len(), 3);
    world.check_replay();
}
