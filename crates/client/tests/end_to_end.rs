//! A service delivers the same batches, in the same order, as this process, even if processes die on the way.

mod cluster;

use std::sync::{Arc, Condvar, Mutex};

use arrow_array::{Array, ArrayRef, Int64Array};
use arrow_flight::Criteria;
use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::error::FlightError;
use arrow_flight::flight_service_client::FlightServiceClient;
use cluster::{BLOB, Cluster, assert_same, batch, drain, graph, patient, range, reference};
use forebay_client::StreamOptions;
use forebay_core::{ConsumerIndex, Error, ErrorKind, Result};
use forebay_data::{Chunk, DType, Field, Kind, Schema};
use forebay_dispatcher::Scaling;
use forebay_exec::{Delivery, Functions, NoFunctions, Pickle, Position, Randomness};
use forebay_plan::{Binary, BlobId, EpochPlan, Expr, Extent, Function, Op, Sharding, Source, ops};
use forebay_policy_lab::baselines;
use futures::TryStreamExt;
use proptest::prelude::*;
use tonic::transport::Endpoint;

fn col(name: &str) -> Expr {
    Expr::Col { name: name.to_owned() }
}

fn binary(op: Binary, left: Expr, value: i64) -> Expr {
    Expr::Binary { op, left: Box::new(left), right: Box::new(Expr::Int { value }) }
}

/// Keeps two rows in three.
fn some_rows() -> Op {
    let rest = binary(Binary::Mod, col("id"), 3);
    Op::FilterExpr(ops::FilterExpr { predicate: binary(Binary::Ne, rest, 1) })
}

fn doubled() -> Op {
    Op::WithColumn(ops::WithColumn { column: "twice".to_owned(), value: binary(Binary::Mul, col("id"), 2) })
}

fn ids(deliveries: &[Delivery]) -> Vec<i64> {
    let of = |d: &Delivery| {
        let column = d.chunk.column("id").expect("a column").clone();
        column.as_any().downcast_ref::<Int64Array>().expect("int64").values().to_vec()
    };
    deliveries.iter().flat_map(of).collect()
}

/// Pipelines with ops of every stage: in the plan, in the split, after the merge.
fn ops() -> impl Strategy<Value = Vec<Op>> {
    let order = prop_oneof![
        Just(vec![]),
        Just(vec![Op::SHUFFLE]),
        (1u64..40).prop_map(|count| vec![Op::Skip(ops::Skip { count })]),
        Just(vec![Op::Repeat(ops::Repeat { count: Some(2) }), Op::SHUFFLE]),
    ];
    let row =
        prop_oneof![Just(vec![]), Just(vec![doubled()]), Just(vec![some_rows()]), Just(vec![some_rows(), doubled()])];
    let tail = prop_oneof![Just(vec![]), (0u64..300).prop_map(|count| vec![Op::Take(ops::Take { count })])];
    let end = prop_oneof![
        Just(vec![]),
        (1usize..70, any::<bool>())
            .prop_map(|(size, drop_remainder)| vec![Op::Batch(ops::Batch { size, drop_remainder })]),
    ];
    (order, row, tail, end).prop_map(|(a, b, c, d)| [a, b, c, d].concat())
}

#[test]
fn a_service_gives_what_this_process_gives() {
    let cluster = Cluster::start(2);
    let number = std::cell::Cell::new(0);
    let cases = (1i64..1500, ops(), 1u32..3);
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig { cases: 32, ..ProptestConfig::default() });
    let property = |(rows, ops, consumers): (i64, Vec<Op>, u32)| {
        number.set(number.get() + 1);
        let (name, graph) = (format!("job {}", number.get()), range(rows, ops));
        // A pipeline that several consumers cannot share gets one consumer.
        let (stages, _) = Sharding::choose(&graph, consumers, None, false).expect("a pipeline");
        let extent = Extent { rows: Some(rows as u64), blocks: 1, bytes: 0, is_compressed: false, parts: Vec::new() };
        let shared = EpochPlan::new(&stages, extent, cluster::SEED, consumers, None).is_ok();
        let consumers = if shared { consumers } else { 1 };
        let job = cluster.open(&name, &graph, 2, consumers).expect("a job");
        for consumer in 0..consumers {
            let options = StreamOptions { consumer: ConsumerIndex(consumer), ..StreamOptions::default() };
            let found = drain(&mut cluster.stream(&job, options)).expect("deliveries");
            assert_same(&found, &reference(&job, Arc::new(NoFunctions), consumer).expect("a reference"));
        }
        Ok(())
    };
    runner.run(&cases, property).expect("every pipeline");
}

#[test]
fn a_source_of_unknown_length_is_read_block_by_block() {
    let dir = tempfile::tempdir().expect("a folder");
    for file in 0..3 {
        let lines: String = (0..20_000).map(|i| format!("line {i} of file {file}\n")).collect();
        std::fs::write(dir.path().join(format!("{file}.txt")), lines).expect("a file");
    }
    let source = Source::Text { paths: vec![format!("{}/*.txt", dir.path().display())] };
    let cluster = Cluster::start(2);
    let job = cluster.open("text", &graph(source, vec![batch(1000)]), 2, 1).expect("a job");
    let found = drain(&mut cluster.stream(&job, StreamOptions::default())).expect("deliveries");
    assert_eq!(found.len(), 120);
    assert_same(&found, &reference(&job, Arc::new(NoFunctions), 0).expect("a reference"));
}

#[test]
fn a_batch_may_need_more_splits_than_the_window_has() {
    let cluster = Cluster::start(1);
    let rare = Op::FilterExpr(ops::FilterExpr { predicate: binary(Binary::Eq, binary(Binary::Mod, col("id"), 97), 0) });
    let job = cluster.open("rare", &range(20_000, vec![rare, batch(64)]), 1, 1).expect("a job");
    let options = StreamOptions { window: Some(2), ..StreamOptions::default() };
    let found = drain(&mut cluster.stream(&job, options)).expect("deliveries");
    assert_same(&found, &reference(&job, Arc::new(NoFunctions), 0).expect("a reference"));
}

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
fn a_worker_that_dies_does_not_change_the_data() {
    read_while(2, |n, cluster| {
        if n == 200 {
            cluster.kill_worker(0);
        }
    });
}

#[test]
fn all_workers_die_and_another_one_starts() {
    read_while(2, |n, cluster| {
        if n == 300 {
            cluster.kill_worker(0);
            cluster.kill_worker(1);
            cluster.add_worker();
        }
    });
}

#[test]
fn a_dispatcher_that_restarts_does_not_change_the_data() {
    read_while(2, |n, cluster| {
        if n == 150 || n == 700 {
            cluster.kill_dispatcher();
            cluster.start_dispatcher();
        }
    });
}

#[test]
fn everything_dies_but_the_consumer() {
    read_while(1, |n, cluster| {
        if n == 400 {
            cluster.kill_dispatcher();
            cluster.kill_worker(0);
            cluster.start_dispatcher();
            cluster.add_worker();
        }
    });
}

#[test]
fn consumers_share_a_job_without_gap_or_overlap() {
    let cluster = Cluster::start(2);
    let job = cluster.open("shared", &range(5000, vec![Op::SHUFFLE, batch(32)]), 1, 3).expect("a job");
    let read = |consumer| {
        let options = StreamOptions { consumer: ConsumerIndex(consumer), ..StreamOptions::default() };
        ids(&drain(&mut cluster.stream(&job, options)).expect("deliveries"))
    };
    let mut all: Vec<i64> = std::thread::scope(|scope| {
        let consumers: Vec<_> = (0..3).map(|consumer| scope.spawn(move || read(consumer))).collect();
        consumers.into_iter().flat_map(|c| c.join().expect("a consumer")).collect()
    });
    all.sort_unstable();
    assert!(all.into_iter().eq(0..5000));
}

#[test]
fn a_stream_goes_on_from_any_position() {
    let cluster = Cluster::start(2);
    for stop in [0, 1, 7, 39, 40, 41, 80] {
        let pipeline = range(3000, vec![Op::SHUFFLE, some_rows(), batch(50)]);
        let job = cluster.open(&format!("stopped after {stop}"), &pipeline, 2, 1).expect("a job");
        let wanted = reference(&job, Arc::new(NoFunctions), 0).expect("a reference");
        let mut stream = cluster.stream(&job, StreamOptions::default());
        let mut poll = patient();
        let mut from = Position::default();
        for delivery in &wanted[..stop] {
            let found = stream.next(&mut poll).expect("a delivery").expect("not the end");
            assert!(found.chunk.same_bits(&delivery.chunk));
            from = found.position_after(found.chunk.num_rows());
        }
        drop(stream);
        let options = StreamOptions { from: Some(from), ..StreamOptions::default() };
        let rest = drain(&mut cluster.stream(&job, options)).expect("the rest");
        assert_same(&rest, &wanted[stop..]);
    }
}

#[test]
fn a_stream_of_single_rows_goes_on_from_any_row() {
    let cluster = Cluster::start(2);
    let job = cluster.open("rows", &range(3000, vec![Op::SHUFFLE, some_rows()]), 1, 1).expect("a job");
    let wanted = ids(&reference(&job, Arc::new(NoFunctions), 0).expect("a reference"));
    let (mut from, mut found, mut poll) = (None, Vec::<i64>::new(), patient());
    // Each stream uses some rows of its third delivery, and the next one goes on from there.
    loop {
        let mut stream = cluster.stream(&job, StreamOptions { from: from.take(), ..StreamOptions::default() });
        for used_in_three in [3, 3, 1] {
            let Some(delivery) = stream.next(&mut poll).expect("a delivery") else {
                assert_eq!(found, wanted);
                return;
            };
            let rows = (delivery.chunk.num_rows() * used_in_three).div_ceil(3);
            found.extend(&ids(std::slice::from_ref(&delivery))[..rows]);
            from = Some(delivery.position_after(rows));
        }
    }
}

#[test]
fn the_smallest_epochs_end_without_a_message() {
    let cluster = Cluster::start(1);
    for rows in [0, 1] {
        let job = cluster.open(&format!("of {rows}"), &range(rows, vec![batch(8)]), 3, 1).expect("a job");
        let mut stream = cluster.stream(&job, StreamOptions::default());
        assert_eq!(drain(&mut stream).expect("deliveries").len() as i64, 3 * rows);
        assert!(stream.next(&mut patient()).expect("an end").is_none(), "the end stays the end");
    }
}

#[test]
fn a_job_that_was_read_is_finished() {
    let cluster = Cluster::start(1);
    let job = cluster.open("once", &range(100, vec![batch(8)]), 1, 1).expect("a job");
    drain(&mut cluster.stream(&job, StreamOptions::default())).expect("deliveries");
    let jobs = cluster.service().jobs(None, &mut patient()).expect("jobs");
    assert_eq!(jobs.iter().map(|j| (j.name.as_str(), j.state.as_str())).collect::<Vec<_>>(), [("once", "finished")]);
    let error = drain(&mut cluster.stream(&job, StreamOptions::default())).expect_err("finished");
    assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
}

#[test]
fn a_cancelled_job_ends_its_consumers_and_a_taken_consumer_is_refused() {
    let cluster = Cluster::start(1);
    let job = cluster.open("long", &range(100_000, vec![batch(8)]), 10, 1).expect("a job");
    let mut stream = cluster.stream(&job, StreamOptions::default());
    let mut poll = patient();
    assert!(stream.next(&mut poll).expect("a delivery").is_some());
    let error = drain(&mut cluster.stream(&job, StreamOptions::default())).expect_err("taken");
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    cluster.service().cancel("long", None, &mut poll).expect("cancelled");
    let error = drain(&mut stream).expect_err("cancelled");
    assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
}

#[test]
fn a_dispatcher_that_does_not_return_is_named_after_the_deadline() {
    let mut cluster = Cluster::start(1);
    let job = cluster.open("lost", &range(100_000, vec![batch(8)]), 10, 1).expect("a job");
    let deadline = std::time::Duration::from_millis(200);
    let mut stream = cluster.stream(&job, StreamOptions { deadline, ..StreamOptions::default() });
    assert!(stream.next(&mut patient()).expect("a delivery").is_some());
    cluster.kill_dispatcher();
    let error = drain(&mut stream).expect_err("nobody answers");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.message().contains(&cluster.address.to_string()), "{error}");
}

#[test]
fn a_consumer_without_workers_is_warned_once_and_goes_on_when_one_starts() {
    static WARNINGS: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let warnings = || WARNINGS.lock().expect("not poisoned").len();
    let mut cluster = Cluster::start(0);
    let job = cluster.open("alone", &range(1000, vec![batch(8)]), 1, 1).expect("a job");
    let patience = std::time::Duration::from_millis(200);
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

/// A function of the test, which gets the ids of a chunk's rows.
struct Calls<F>(F);

impl<F: Fn(&[i64]) -> Result<()> + Send + Sync> Functions for Calls<F> {
    fn map(
        &self,
        _: &Function,
        pickle: &Pickle,
        input: &Chunk,
        _: Option<Randomness>,
        _: &Arc<Schema>,
    ) -> Result<Vec<ArrayRef>> {
        assert_eq!(pickle.bytes, BLOB);
        let ids = input.columns()[0].as_any().downcast_ref::<Int64Array>().expect("int64");
        (self.0)(ids.values())?;
        Ok(vec![input.columns()[0].clone()])
    }
}

fn mapped() -> Op {
    let function = Function {
        blob: BlobId::of(BLOB),
        code: String::new(),
        name: "f".to_owned(),
        batched: false,
        with_rng: false,
        reads: None,
        timeout_s: 10.0,
        is_op: false,
    };
    Op::Map(ops::Map { function, output: vec![Field::new("id", Kind::scalar(DType::Int64))], keep_others: false })
}

/// Raises at one row, and panics at another.
fn raises(raise: i64, panic: i64) -> Arc<dyn Functions> {
    Arc::new(Calls(move |ids: &[i64]| {
        assert!(!ids.contains(&panic), "a bug of ours");
        match ids.contains(&raise) {
            true => Err(Error::new(ErrorKind::Function, "ValueError: bad row").with("traceback", "line 1\nline 2")),
            false => Ok(()),
        }
    }))
}

#[test]
fn a_failed_split_is_raised_in_its_turn_with_its_kind_and_traceback() {
    for (functions, kind) in [(raises(3000, -1), ErrorKind::Function), (raises(-1, 3000), ErrorKind::Internal)] {
        let cluster = Cluster::with(2, functions);
        let job = cluster.open("raises", &range(5000, vec![mapped(), batch(10)]), 1, 1).expect("a job");
        let mut stream = cluster.stream(&job, StreamOptions::default());
        let (mut found, mut poll) = (Vec::new(), patient());
        let error = loop {
            match stream.next(&mut poll) {
                Ok(Some(delivery)) => found.push(delivery),
                Ok(None) => panic!("the error was lost"),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), kind, "{error}");
        assert_eq!(error.get("traceback").is_some(), kind == ErrorKind::Function, "{error}");
        let before = ids(&found);
        assert!(before.len() > 2000 && before.iter().copied().eq(0..before.len() as i64), "{} rows", before.len());
        assert_eq!(stream.next(&mut poll).expect_err("it stays"), error);
    }
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

#[test]
fn any_arrow_flight_client_can_list_and_read_splits() {
    let cluster = Cluster::start(1);
    let job = cluster.open("open", &range(8000, vec![doubled(), batch(16)]), 1, 1).expect("a job");
    let mut stream = cluster.stream(&job, StreamOptions::default());
    stream.next(&mut patient()).expect("a delivery").expect("not the end");
    let worker = cluster.worker_addresses[0].clone();
    let (path, batches) = cluster.block_on(async move {
        let endpoint = Endpoint::from_shared(format!("http://{worker}")).expect("an address");
        let mut client = FlightServiceClient::new(endpoint.connect().await.expect("a connection"));
        let mut infos = client.list_flights(Criteria::default()).await.expect("a list").into_inner();
        let info = infos.message().await.expect("a message").expect("a split");
        let [endpoint] = info.endpoint.as_slice() else { panic!("{} endpoints", info.endpoint.len()) };
        assert_eq!(endpoint.location[0].uri, format!("grpc://{worker}"));
        let path = info.flight_descriptor.clone().expect("a descriptor").path;
        let schema = info.clone().try_decode_schema().expect("a schema");
        let messages = client.do_get(endpoint.ticket.clone().expect("a ticket")).await.expect("a stream").into_inner();
        let messages = messages.map_err(|status| FlightError::Tonic(Box::new(status)));
        let batches: Vec<_> =
            FlightRecordBatchStream::new_from_flight_data(messages).try_collect().await.expect("batches");
        assert!(batches.iter().all(|b: &arrow_array::RecordBatch| *b.schema() == schema));
        (path, batches)
    });
    assert_eq!(&path[..3], ["open", "0", "0"]);
    let first = path[3].parse::<i64>().expect("an ordinal") * (job.plan().sizing().split_units * 16) as i64;
    let rows: Vec<i64> = batches
        .iter()
        .flat_map(|b| b.column(0).as_any().downcast_ref::<Int64Array>().expect("int64").values().to_vec())
        .collect();
    assert!(!rows.is_empty() && rows.iter().copied().eq(first..first + rows.len() as i64));
}
