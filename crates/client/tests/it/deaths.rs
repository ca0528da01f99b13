//! Processes that die, are absent, or move the placement boundary while a consumer reads.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use forebay_client::StreamOptions;
use forebay_core::{Error, ErrorKind};
use forebay_data::DType;
use forebay_dispatcher::Scaling;
use forebay_exec::{Functions, NoFunctions};
use forebay_plan::{Op, ops};
use forebay_policy_lab::baselines;

use crate::cluster::{Cluster, assert_same, batch, doubled, drain, ids, patient, range, reference};
use crate::functions::{Calls, mapped};

/// Reads a job of many splits; calls `disturb` after each delivery.
fn read_while(workers: usize, disturb: impl Fn(usize, &mut Cluster)) {
    let mut cluster = Cluster::start(workers);
    let pipeline = range(8000, vec![Op::SHUFFLE, doubled(), batch(16)]);
    let job = cluster.open("job", &pipeline, 2, 1).expect("a job");
    let wanted = reference(&job, Arc::new(NoFunctions), 0).expect("a reference");
    let mut stream = cluster.stream(&job, StreamOptions::default());
    let (mut found, mut poll) = (Vec::new(), patient());
    while let Some(delivery) = stream.next(&mut poll).expect("a delivery") {
        found.push(delivery);
        disturb(found.len(), &mut cluster);
    }
    assert_same(&found, &wanted);
}

/// An event in a cluster, after the reader has read a number of batches.
type Death = fn(usize, &mut Cluster);

#[test]
fn processes_that_die_do_not_change_the_data() {
    let cases: [(&str, usize, Death); 4] = [
        ("one of two workers", 2, |n, cluster| {
            if n == 200 {
                cluster.kill_worker(0);
            }
        }),
        ("all workers, and another one starts", 2, |n, cluster| {
            if n == 300 {
                cluster.kill_worker(0);
                cluster.kill_worker(1);
                cluster.add_worker();
            }
        }),
        ("the dispatcher, twice", 2, |n, cluster| {
            if n == 150 || n == 700 {
                cluster.kill_dispatcher();
                cluster.start_dispatcher();
            }
        }),
        ("everything but the consumer", 1, |n, cluster| {
            if n == 400 {
                cluster.kill_dispatcher();
                cluster.kill_worker(0);
                cluster.start_dispatcher();
                cluster.add_worker();
            }
        }),
    ];
    for (dies, workers, disturb) in cases {
        // Shown if an assertion in `read_while` fails.
        println!("{dies} dies");
        read_while(workers, disturb);
    }
}

#[test]
fn a_placement_boundary_that_moves_within_an_epoch_does_not_change_the_data() {
    // The first possible placement boundary, regardless of the measurements.
    let policy = baselines::policy("static:2+0@1").expect("a policy");
    let scaling = Scaling { policy, ..Scaling::default() };
    let mut cluster = Cluster::with_scaling(2, Arc::new(NoFunctions), scaling);
    let cast = |dtype| Op::Cast(ops::Cast { columns: vec![("twice".to_owned(), dtype)] });
    let ops = vec![Op::SHUFFLE, doubled(), cast(DType::Float32.into()), cast(DType::Float64.into()), batch(16)];
    let job = cluster.open("job", &range(16_000, ops), 1, 1).expect("a job");
    let wanted = reference(&job, Arc::new(NoFunctions), 0).expect("a reference");
    let mut stream = cluster.stream(&job, StreamOptions::default());
    let (mut found, mut poll) = (Vec::new(), patient());
    let mut restarted = false;
    while let Some(delivery) = stream.next(&mut poll).expect("a delivery") {
        found.push(delivery);
        // By default all ops run on the workers, as the rows are small. Once the policy has seen a window, two ops run
        // at the consumer; after a restart none, until the policy has seen a window again.
        while found.len() == 20 && consumer_ops(&cluster) != "cast, cast" {
            poll().expect("in time");
        }
        if found.len() == 500 && !std::mem::replace(&mut restarted, true) {
            cluster.kill_dispatcher();
            cluster.start_dispatcher();
        }
    }
    assert_same(&found, &wanted);
    let stats: serde_json::Value = serde_json::from_str(&stream.stats()).expect("JSON");
    let rows = stats["ops"].as_array().expect("ops").iter().find(|op| op["op"] == "cast").expect("cast").clone();
    let rows = rows["rows_in"].as_u64().expect("a number");
    assert!(0 < rows && rows < 16_000, "some rows came before the boundary moved, and some after: {rows}");
}

/// Returns the ops that run at the consumer, as the dispatcher describes them.
fn consumer_ops(cluster: &Cluster) -> String {
    let jobs = cluster.service().jobs(None, &mut patient()).expect("jobs");
    let cut = &jobs[0].cut;
    let end = cut.find(':').unwrap_or(cut.len());
    cut[..end].trim_start_matches("consumers run ").to_owned()
}

#[test]
fn a_dispatcher_that_does_not_return_is_named_after_the_deadline() {
    let mut cluster = Cluster::start(1);
    let job = cluster.open("lost", &range(100_000, vec![batch(8)]), 10, 1).expect("a job");
    let deadline = Duration::from_millis(200);
    let mut stream = cluster.stream(&job, StreamOptions { deadline, ..StreamOptions::default() });
    assert!(stream.next(&mut patient()).expect("a delivery").is_some());
    cluster.kill_dispatcher();
    let error = drain(&mut stream).expect_err("the dispatcher is dead");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.message().contains(&cluster.address.to_string()), "{error}");
}

#[test]
fn a_consumer_without_workers_is_warned_once_and_goes_on_when_one_starts() {
    static WARNINGS: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let warnings = || WARNINGS.lock().expect("not poisoned").len();
    let mut cluster = Cluster::start(0);
    let job = cluster.open("alone", &range(1000, vec![batch(8)]), 1, 1).expect("a job");
    let patience = Duration::from_millis(200);
    let warn = |error: &Error| WARNINGS.lock().expect("not poisoned").push(error.to_string());
    let mut stream = cluster.stream(&job, StreamOptions { patience, warn, ..StreamOptions::default() });
    let (mut patient, mut looks) = (patient(), 0);
    let mut poll = || {
        looks += usize::from(warnings() > 0);
        if looks == 10 {
            cluster.add_worker();
        }
        patient()
    };
    assert!(stream.next(&mut poll).expect("a delivery").is_some());
    let rest = drain(&mut stream).expect("deliveries");
    assert_eq!((rest.len(), warnings()), (124, 1));
    let warning = WARNINGS.lock().expect("not poisoned").remove(0);
    assert!(warning.contains("no worker has computed for job \"alone\" for 0 s"), "{warning}");
}

/// Blocks every call that has a row from `row` on, until the gate opens.
#[derive(Default)]
struct Gate {
    row: Mutex<Option<i64>>,
    opened: Condvar,
}

impl Gate {
    fn pass(&self, ids: &[i64]) {
        let closed = |row: &mut Option<i64>| row.is_some_and(|row| ids.iter().any(|&id| id >= row));
        drop(self.opened.wait_while(self.row.lock().expect("no panic"), closed).expect("no panic"));
    }

    fn set(&self, row: Option<i64>) {
        *self.row.lock().expect("no panic") = row;
        self.opened.notify_all();
    }
}

#[test]
fn after_a_worker_dies_within_a_split_another_continues_at_the_next_chunk() {
    let gate = Arc::new(Gate::default());
    let pass = gate.clone();
    let functions: Arc<dyn Functions> = Arc::new(Calls(move |ids: &[i64]| {
        pass.pass(ids);
        Ok(())
    }));
    let mut cluster = Cluster::with(1, functions);
    let job = cluster.open("gated", &range(5000, vec![mapped(), batch(10)]), 1, 1).expect("a job");
    let sizing = job.plan().sizing();
    assert!(sizing.split_units > sizing.morsel_units, "splits of several chunks");
    // The first worker never completes the second chunk of the sixth split.
    let row = (5 * sizing.split_units + sizing.morsel_units) * sizing.unit_rows;
    gate.set(Some(row as i64));
    let mut stream = cluster.stream(&job, StreamOptions::default());
    let mut poll = patient();
    let first: Vec<_> =
        (0..row / 10).map(|_| stream.next(&mut poll).expect("a delivery").expect("not the end")).collect();
    cluster.kill_worker(0);
    cluster.add_worker();
    gate.set(None);
    let rest = drain(&mut stream).expect("the rest");
    assert!(ids(&first).into_iter().chain(ids(&rest)).eq(0..5000));
}
