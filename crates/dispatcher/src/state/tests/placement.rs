//! The placement boundary of a job: decided with its workers, named in each lease, moved back from a trainer that lacks
//! cores; and the first boundary of a job with known op costs.

use forebay_policy::placement::{Objective, Prices};
use forebay_policy_lab::baselines;
use forebay_proto::{JobStatus, ScaleDecision, Sent, Spare};

use super::scale::half_second_of;
use super::*;
use crate::options::Scaling;
use crate::state::scaling::placement::tests::{graph, of};

/// `ops_on_worker` of the leases that a worker holds.
fn held(world: &World, worker: usize) -> Vec<Option<u32>> {
    world.workers[worker].held.values().map(|lease| lease.ops).collect()
}

/// Creates a job on images that are cropped, normalised and cast; returns its consumer.
fn create(world: &mut World, name: &str) -> usize {
    let record = of(graph().to_json());
    world.create(JobRecord {
        name: name.to_owned(),
        dataset: "d".to_owned(),
        graph: record.graph,
        ..super::record(TWIN_OF)
    });
    world.consumers.len() - 1
}

fn shown(world: &World, name: &str) -> JobStatus {
    world.state.list_jobs(world.now, None, name).remove(0)
}

/// The report of an op on so many rows, with its microseconds per row.
fn did(places: &[u32], rows: u64, us: u64, bytes: [u64; 2]) -> OpSpent {
    let [bytes_in, bytes_out] = bytes.map(|of_row| of_row * rows);
    let (places, nanos) = (places.to_vec(), rows * us * 1000);
    OpSpent { places, rows_in: rows, rows_out: rows, timed: rows, nanos, bytes_in, bytes_out, ..OpSpent::default() }
}

#[test]
fn leases_name_the_boundary_that_was_decided_and_a_local_worker_runs_all_ops() {
    let mut world = World::new();
    let policy = baselines::policy("static:1+0@3").expect("a policy");
    world.state.set_scaling(Scaling { policy, ..Scaling::default() });
    let consumer = create(&mut world, "cut");
    world.local = Some((LOCAL, world.consumers[consumer].key));
    [0, LOCAL].into_iter().for_each(|worker| world.hello(worker));
    world.attach(consumer, 0, 8);
    for worker in [0, LOCAL] {
        let session = world.workers[worker].session.expect("connected");
        world.input(Input::Want { session, splits: 2 });
    }
    world.flush();
    assert_eq!((held(&world, 0), held(&world, LOCAL)), (vec![Some(1); 2], vec![Some(u32::MAX); 2]));
    (0..12).for_each(|_| half_second_of(&mut world, &[consumer], 1, 20));
    let session = world.workers[0].session.expect("connected");
    world.input(Input::Want { session, splits: 1 });
    world.flush();
    assert_eq!(held(&world, 0), [Some(1), Some(1), Some(3)], "splits that are granted from then on");
    let job = shown(&world, "cut");
    assert!(job.cut.starts_with("consumers run no ops: 24 KiB a row travel"), "{}", job.cut);
    assert_eq!(job.decisions.last().map(|d| &d.cut), Some(&job.cut));
    // After a restart the pipeline's default boundary holds, until something is measured again.
    world.crash();
    assert!(shown(&world, "cut").cut.starts_with("consumers run normalize, cast"));
}

/// Half a second of a trainer on a host with 4 cores and so many to spare: 25 batches of one row, which the consumer
/// normalises in 20 ms each. `asks` sets whether it requests local threads.
fn half_second(world: &mut World, consumer: usize, asks: bool, millicores: u32, pressure: u32) {
    world.half_second();
    let job = world.consumers[consumer].key.0;
    world.spends(0, vec![Spent { job, compute_us: 25 * 1000, rows: 25 }]);
    let spare = Spare { millicores, limit_millicores: 4000, pressure, asks, ..Spare::default() };
    let ops = vec![did(&[1], 25, 20_000, [12_288, 49_152])];
    let said = ConsumerHeartbeat { spare: Some(spare), ops, ..half_second_read(500, 25) };
    let session = world.consumers[consumer].session.expect("connected");
    world.input(Input::ConsumerHeartbeat { session, said });
}

#[test]
fn a_trainer_that_lacks_cores_has_the_work_of_its_consumer_taken_back_in_the_next_window() {
    for asks in [false, true] {
        taken_back(asks);
    }
}

fn taken_back(asks: bool) {
    let mut world = World::new();
    let consumer = create(&mut world, "cut");
    world.hello(0);
    world.attach(consumer, 0, 8);
    // Idle cores do it, and no second worker is paid.
    (0..24).for_each(|_| half_second(&mut world, consumer, asks, 2500, 0));
    let told = |world: &World| {
        let job = shown(world, "cut");
        job.cut[..job.cut.find(':').expect("a place")].to_owned()
    };
    assert_eq!((told(&world).as_str(), shown(&world, "cut").workers), ("consumers run normalize, cast", 1));
    (0..5).for_each(|_| half_second(&mut world, consumer, asks, 200, 300));
    assert_eq!(told(&world), "consumers run no ops");
    let job = shown(&world, "cut");
    let figures = |d: &ScaleDecision| serde_json::from_str::<serde_json::Value>(&d.json).expect("JSON");
    let yielded = job.decisions.iter().map(figures).find(|json| json["rule"] == "yields").expect("it yields");
    // A part of the window was as before.
    let is_between = |of: &serde_json::Value, least, most| of.as_f64().is_some_and(|of| least < of && of < most);
    assert!(is_between(&yielded["spare"], 0.2, 2.5) && is_between(&yielded["pressure"], 0.1, 0.3), "{yielded}");
    assert_eq!(yielded["cut"], 3);
    assert!(asks || job.decisions.iter().all(|d| d.json.contains("\"local\":0")), "no threads are decided on: {job:?}");
    // The spare cores that it got back are no reason to take them again.
    (0..40).for_each(|_| half_second(&mut world, consumer, asks, 250, 0));
    assert_eq!(told(&world), "consumers run no ops");
}

/// Half a second of a trainer that lacks cores: 2,500 rows over a network, of which each byte costs both ends so many
/// nanoseconds. The consumer normalises each row in 30 us.
fn half_second_over_a_network(world: &mut World, consumer: usize, byte_ns: Option<u64>) {
    world.half_second();
    let (job, rows) = (world.consumers[consumer].key.0, 2500);
    let bytes = rows * 12_288;
    let nanos = bytes * byte_ns.unwrap_or(0);
    let session = world.workers[0].session.expect("connected");
    let spent = vec![Spent { job, compute_us: rows * 40, rows }];
    let sent = byte_ns.map(|_| Sent { job, bytes, nanos }).into_iter().collect();
    world
        .input(Input::WorkerHeartbeat { session, said: WorkerHeartbeat { spent, sent, ..WorkerHeartbeat::default() } });
    let spare = Spare { millicores: 200, limit_millicores: 4000, pressure: 300, ..Spare::default() };
    let said = ConsumerHeartbeat {
        spare: Some(spare),
        ops: vec![did(&[1], rows, 30, [12_288, 49_152])],
        rows,
        received_bytes: bytes,
        receive_ns: nanos,
        ..half_second_read(500, 25)
    };
    let session = world.consumers[consumer].session.expect("connected");
    world.input(Input::ConsumerHeartbeat { session, said });
}

#[test]
fn where_bytes_are_dear_to_receive_even_a_trainer_that_lacks_cores_runs_what_makes_them_more() {
    let cut = |byte_ns: Option<u64>| {
        let mut world = World::new();
        let consumer = create(&mut world, "cut");
        world.hello(0);
        world.attach(consumer, 0, 8);
        (0..12).for_each(|_| half_second_over_a_network(&mut world, consumer, byte_ns));
        let job = shown(&world, "cut");
        let json: serde_json::Value = serde_json::from_str(&job.decisions.last().expect("one").json).expect("JSON");
        let figures = ["send", "receive"].map(|side| json["figures"][side].as_f64().expect("a number"));
        (job.cut[..job.cut.find(':').expect("a place")].to_owned(), figures)
    };
    // 12 KiB and 48 us of work, or 24 KiB.
    assert_eq!(cut(Some(0)), ("consumers run no ops".to_owned(), [0.0; 2]));
    assert_eq!(cut(Some(8)), ("consumers run normalize, cast".to_owned(), [8e-9; 2]));
}

#[test]
fn a_job_whose_ops_are_known_begins_with_what_follows_from_them() {
    let mut world = World::new();
    world.hello(0);
    let consumer = create(&mut world, "one");
    world.attach(consumer, 0, 3);
    let mut rows = vec![did(&[], 100, 10_000, [0, 19_200]), did(&[0], 100, 70_000, [19_200, 12_288])];
    // For a while it had another boundary.
    rows.push(did(&[1], 100, 1000, [12_288, 49_152]));
    world.say_ops(0, world.consumers[consumer].key.0, rows);
    (0..5).for_each(|_| half_second_of(&mut world, &[consumer], 1, 31));
    assert_eq!(shown(&world, "one").workers, 1, "it has come to nothing yet");
    create(&mut world, "two");
    let two = shown(&world, "two");
    assert_eq!((two.workers, two.decisions.len()), (3, 1), "a row takes a trainer 31 ms and a worker 80: {two:?}");
    let reason = "3 workers to begin with: with these samples a trainer took 4.03 batches/s when it never waited, and one worker \
                  made 1.56";
    assert_eq!(two.decisions[0].reason, reason, "a batch has 8 rows");
    assert!(two.decisions[0].cut.starts_with("consumers run normalize, cast: 12 KiB"), "{two:?}");
    // The next dispatcher has it, too, once a worker is there.
    world.pass(crate::state::load::dataset_profile::WRITE_EVERY, None);
    world.flush();
    world.crash();
    let third = create(&mut world, "three");
    assert_eq!(shown(&world, "three").workers, 0);
    world.hello(0);
    world.attach(third, 0, 3);
    assert_eq!(shown(&world, "three").workers, 3);
}

#[test]
fn a_job_begins_with_what_workers_say_that_they_cost() {
    let begins = |said: f64| {
        let mut world = World::new();
        let prices = Prices { trainer: 1.0, worker: 1.0 };
        world.state.set_scaling(Scaling { objective: Objective::Cost(prices), ..Scaling::default() });
        world.hello(0);
        world.state.fleet.set_worker_type(WorkerId(1), WorkerType::new("a", said, false).expect("a kind"));
        let consumer = create(&mut world, "one");
        world.attach(consumer, 0, 3);
        let rows = vec![did(&[], 100, 10_000, [0, 19_200]), did(&[0], 100, 70_000, [19_200, 12_288])];
        world.say_ops(0, world.consumers[consumer].key.0, rows);
        (0..5).for_each(|_| half_second_of(&mut world, &[consumer], 1, 31));
        create(&mut world, "two");
        shown(&world, "two").workers
    };
    assert_eq!([begins(0.0), begins(0.01)], [2, 3], "a third one is not worth as much as the trainer's machine");
}
