//! Whole streams, of any pipeline, from any position, for one consumer or several.

use std::sync::Arc;

use arrow_array::{Array, Int64Array};
use arrow_flight::Criteria;
use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::error::FlightError;
use arrow_flight::flight_service_client::FlightServiceClient;
use forebay_client::StreamOptions;
use forebay_core::{ConsumerIndex, ErrorKind};
use forebay_exec::{NoFunctions, Position};
use forebay_plan::{Binary, EpochPlan, Extent, Op, Sharding, Source, ops};
use futures::TryStreamExt;
use proptest::prelude::*;
use tonic::transport::Endpoint;

use crate::cluster::{
    Cluster, SEED, assert_same, batch, binary, col, doubled, drain, graph, ids, patient, range, reference, some_rows,
};

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
        let shared = EpochPlan::new(&stages, extent, SEED, consumers, None).is_ok();
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
