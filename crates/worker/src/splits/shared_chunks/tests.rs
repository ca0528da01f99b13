//! Chunks that several jobs request.

use arrow_array::{Array, Int8Array};
use forebay_core::{Epoch, SampleId};
use forebay_data::{Chunk, DType, Field, Kind, RowId, Schema};
use forebay_proto::JobDefinition;

use super::*;

const SPLIT: SplitKey = SplitKey { job: 1, consumer: 0, epoch: 0, ordinal: 3 };

fn chunk(value: i8, bytes: usize) -> ProducedChunk {
    let schema = Schema::new(vec![Field::new("x", Kind::scalar(DType::Int8))]).expect("a schema");
    let ids = vec![RowId { sample: SampleId(0), epoch: Epoch(0) }; bytes].into();
    let values = Arc::new(Int8Array::from(vec![value; bytes]));
    ProducedChunk {
        chunk: Chunk::new(Arc::new(schema), vec![values], ids).expect("a chunk"),
        ops_on_worker: 7,
        shared: false,
        spans: None,
    }
}

fn values(ProducedChunk { chunk, ops_on_worker, .. }: &ProducedChunk) -> Vec<i8> {
    assert_eq!(*ops_on_worker, 7, "the boundary is kept with a chunk of another job");
    chunk.columns()[0].as_any().downcast_ref::<Int8Array>().expect("int8").values().to_vec()
}

fn subscriber(shared_chunks: &Arc<SharedChunks>, job: u64, seed: u64) -> Subscriber {
    shared_chunks.join(SampleStreamKey::of(&JobDefinition {
        job,
        name: format!("job {job}"),
        seed,
        ..JobDefinition::default()
    }))
}

fn mine(subscriber: &Subscriber, index: u64) -> InFlight {
    match subscriber.lookup(SPLIT, index) {
        Lookup::Compute(in_flight) => in_flight,
        Lookup::Ready(_) => panic!("it is here"),
        Lookup::InFlight => panic!("another computes it"),
    }
}

fn found(subscriber: &Subscriber, index: u64) -> Option<Vec<i8>> {
    match subscriber.lookup(SPLIT, index) {
        Lookup::Ready(chunk) => Some(values(&chunk)),
        Lookup::Compute(_) | Lookup::InFlight => None,
    }
}

#[test]
fn of_many_threads_one_computes_each_chunk_and_all_have_it() {
    let shared_chunks = Arc::new(SharedChunks::default());
    let subscribers: Vec<_> = (0..4).map(|job| subscriber(&shared_chunks, job, 7)).collect();
    let computed = AtomicU64::new(0);
    let run = |subscriber: &Subscriber| {
        for index in 0..200 {
            let got = loop {
                match subscriber.lookup(SPLIT, index) {
                    Lookup::Ready(chunk) => break values(&chunk),
                    Lookup::InFlight => assert!(subscriber.wait(SPLIT, index), "no thread is late"),
                    // The first holder of every fifth chunk gives it up.
                    Lookup::Compute(in_flight)
                        if index % 5 == 0 && computed.fetch_add(1, Relaxed).is_multiple_of(2) =>
                    {
                        drop(in_flight)
                    }
                    Lookup::Compute(in_flight) => {
                        computed.fetch_add(1, Relaxed);
                        let mut own = chunk(index as i8, 8);
                        in_flight.complete(&mut own);
                        break values(&own);
                    }
                }
            };
            assert_eq!(got, [index as i8; 8]);
        }
    };
    std::thread::scope(|scope| subscribers.iter().for_each(|subscriber| drop(scope.spawn(|| run(subscriber)))));
    let again = (200..=200 + 4 * 40).contains(&computed.load(Relaxed));
    assert!(again, "{computed:?} of 200 chunks, of which 40 may be given up");
}

#[test]
fn jobs_with_other_samples_share_nothing_and_one_alone_is_not_shared() {
    let shared_chunks = Arc::new(SharedChunks::default());
    let (one, other) = (subscriber(&shared_chunks, 1, 7), subscriber(&shared_chunks, 2, 8));
    assert!(!one.is_shared() && !other.is_shared());
    let twin = subscriber(&shared_chunks, 3, 7);
    assert!(one.is_shared() && twin.is_shared() && !other.is_shared());
    mine(&one, 0).complete(&mut chunk(1, 8));
    assert_eq!(found(&twin, 0), Some(vec![1; 8]));
    drop(mine(&other, 0));
    // The chunks of a job that is alone are dropped.
    drop(twin);
    assert!(!one.is_shared());
    drop(mine(&one, 0));
    assert_eq!(lock(&shared_chunks.state).bytes, 0);
    drop((one, other));
    let state = lock(&shared_chunks.state);
    assert!(
        state.streams.is_empty() && state.chunks.is_empty() && state.unserved.is_empty() && state.served.is_empty()
    );
}

#[test]
fn the_newest_are_remembered_and_one_that_is_too_large_is_not() {
    let shared_chunks = Arc::new(SharedChunks::new(100, 100));
    let (one, twin) = (subscriber(&shared_chunks, 1, 7), subscriber(&shared_chunks, 2, 7));
    for index in 0..4 {
        mine(&one, index).complete(&mut chunk(index as i8, 40));
    }
    mine(&one, 9).complete(&mut chunk(9, 101));
    let there: Vec<_> = (0..10).filter(|index| found(&twin, *index).is_some()).collect();
    assert_eq!(there, [2, 3]);
    assert_eq!(lock(&shared_chunks.state).bytes, 80);
}

#[test]
fn what_all_have_had_is_remembered_no_longer_than_a_little_and_makes_room_first() {
    let shared_chunks = Arc::new(SharedChunks::new(400, 100));
    let subscribers: Vec<_> = (0..3).map(|job| subscriber(&shared_chunks, job, 7)).collect();
    let there = |range: std::ops::Range<u64>| {
        let state = lock(&shared_chunks.state);
        range.filter(|index| state.chunks.contains_key(&subscribers[0].chunk_key(SPLIT, *index))).collect::<Vec<_>>()
    };
    for index in 0..5 {
        mine(&subscribers[0], index).complete(&mut chunk(index as i8, 40));
        for subscriber in [&subscribers[0], &subscribers[1], &subscribers[1]] {
            assert_eq!(found(subscriber, index), Some(vec![index as i8; 40]), "a job may take it again");
        }
    }
    assert_eq!(there(0..5), [0, 1, 2, 3, 4], "one has not had them");
    for index in 0..5 {
        assert_eq!(found(&subscribers[2], index), Some(vec![index as i8; 40]));
    }
    assert_eq!(there(0..5), [3, 4], "all have had them");
    for index in 5..14 {
        mine(&subscribers[1], index).complete(&mut chunk(index as i8, 40));
    }
    assert_eq!(there(0..14), [4, 5, 6, 7, 8, 9, 10, 11, 12, 13], "the others wait for these");
    let state = lock(&shared_chunks.state);
    assert_eq!((state.bytes, state.served_bytes, state.served.len(), state.unserved.len()), (400, 40, 1, 9));
    drop(state);
    drop(subscribers);
    let state = lock(&shared_chunks.state);
    assert_eq!((state.bytes, state.served_bytes, state.served.len(), state.unserved.len()), (0, 0, 0, 0));
}
