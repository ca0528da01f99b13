//! Chunks that several jobs ask for.

use arrow_array::{Array, Int8Array};
use forebay_core::{Epoch, SampleId};
use forebay_data::{Chunk, DType, Field, Kind, RowId, Schema};
use forebay_proto::JobDefinition;

use super::*;

const SPLIT: Key = Key { job: 1, consumer: 0, epoch: 0, ordinal: 3 };

fn chunk(value: i8, bytes: usize) -> Made {
    let schema = Schema::new(vec![Field::new("x", Kind::scalar(DType::Int8))]).expect("a schema");
    let ids = vec![RowId { sample: SampleId(0), epoch: Epoch(0) }; bytes].into();
    let values = Arc::new(Int8Array::from(vec![value; bytes]));
    Made { chunk: Chunk::new(Arc::new(schema), vec![values], ids).expect("a chunk"), ops: 7, shared: false }
}

fn values(Made { chunk, ops, .. }: &Made) -> Vec<i8> {
    assert_eq!(*ops, 7, "where it is cut is known of what another job computed");
    chunk.columns()[0].as_any().downcast_ref::<Int8Array>().expect("int8").values().to_vec()
}

fn member(window: &Arc<Window>, job: u64, seed: u64) -> Member {
    window.join(Stream::of(&JobDefinition { job, name: format!("job {job}"), seed, ..JobDefinition::default() }))
}

fn mine(member: &Member, index: u64) -> Flight {
    match member.take(SPLIT, index) {
        Taken::Mine(flight) => flight,
        Taken::Chunk(_) => panic!("it is here"),
        Taken::Flying => panic!("another computes it"),
    }
}

fn found(member: &Member, index: u64) -> Option<Vec<i8>> {
    match member.take(SPLIT, index) {
        Taken::Chunk(chunk) => Some(values(&chunk)),
        Taken::Mine(_) | Taken::Flying => None,
    }
}

#[test]
fn of_many_threads_one_computes_each_chunk_and_all_have_it() {
    let window = Arc::new(Window::default());
    let members: Vec<_> = (0..4).map(|job| member(&window, job, 7)).collect();
    let computed = AtomicU64::new(0);
    let run = |member: &Member| {
        for index in 0..200 {
            let got = loop {
                match member.take(SPLIT, index) {
                    Taken::Chunk(chunk) => break values(&chunk),
                    Taken::Flying => assert!(member.wait(SPLIT, index), "nobody is late"),
                    // Every fifth is given up by whoever has it first.
                    Taken::Mine(flight) if index % 5 == 0 && computed.fetch_add(1, Relaxed).is_multiple_of(2) => {
                        drop(flight)
                    }
                    Taken::Mine(flight) => {
                        computed.fetch_add(1, Relaxed);
                        let mut own = chunk(index as i8, 8);
                        flight.give(&mut own);
                        break values(&own);
                    }
                }
            };
            assert_eq!(got, [index as i8; 8]);
        }
    };
    std::thread::scope(|scope| members.iter().for_each(|member| drop(scope.spawn(|| run(member)))));
    let again = (200..=200 + 4 * 40).contains(&computed.load(Relaxed));
    assert!(again, "{computed:?} of 200 chunks, of which 40 may be given up");
}

#[test]
fn jobs_with_other_samples_share_nothing_and_one_alone_is_not_shared() {
    let window = Arc::new(Window::default());
    let (one, other) = (member(&window, 1, 7), member(&window, 2, 8));
    assert!(!one.is_shared() && !other.is_shared());
    let twin = member(&window, 3, 7);
    assert!(one.is_shared() && twin.is_shared() && !other.is_shared());
    mine(&one, 0).give(&mut chunk(1, 8));
    assert_eq!(found(&twin, 0), Some(vec![1; 8]));
    drop(mine(&other, 0));
    // What one job alone is left with is forgotten.
    drop(twin);
    assert!(!one.is_shared());
    drop(mine(&one, 0));
    assert_eq!(lock(&window.state).bytes, 0);
    drop((one, other));
    let state = lock(&window.state);
    assert!(state.streams.is_empty() && state.chunks.is_empty() && state.order.is_empty() && state.had.is_empty());
}

#[test]
fn the_newest_are_remembered_and_one_that_is_too_large_is_not() {
    let window = Arc::new(Window::new(100, 100));
    let (one, twin) = (member(&window, 1, 7), member(&window, 2, 7));
    for index in 0..4 {
        mine(&one, index).give(&mut chunk(index as i8, 40));
    }
    mine(&one, 9).give(&mut chunk(9, 101));
    let there: Vec<_> = (0..10).filter(|index| found(&twin, *index).is_some()).collect();
    assert_eq!(there, [2, 3]);
    assert_eq!(lock(&window.state).bytes, 80);
}

#[test]
fn what_all_have_had_is_remembered_no_longer_than_a_little_and_makes_room_first() {
    let window = Arc::new(Window::new(400, 100));
    let members: Vec<_> = (0..3).map(|job| member(&window, job, 7)).collect();
    let there = |range: std::ops::Range<u64>| {
        let state = lock(&window.state);
        range.filter(|index| state.chunks.contains_key(&members[0].piece(SPLIT, *index))).collect::<Vec<_>>()
    };
    for index in 0..5 {
        mine(&members[0], index).give(&mut chunk(index as i8, 40));
        for member in [&members[0], &members[1], &members[1]] {
            assert_eq!(found(member, index), Some(vec![index as i8; 40]), "who has had it may have it again");
        }
    }
    assert_eq!(there(0..5), [0, 1, 2, 3, 4], "one has not had them");
    for index in 0..5 {
        assert_eq!(found(&members[2], index), Some(vec![index as i8; 40]));
    }
    assert_eq!(there(0..5), [3, 4], "all have had them");
    for index in 5..14 {
        mine(&members[1], index).give(&mut chunk(index as i8, 40));
    }
    assert_eq!(there(0..14), [4, 5, 6, 7, 8, 9, 10, 11, 12, 13], "the others wait for these");
    let state = lock(&window.state);
    assert_eq!((state.bytes, state.had_bytes, state.had.len(), state.order.len()), (400, 40, 1, 9));
    drop(state);
    drop(members);
    let state = lock(&window.state);
    assert_eq!((state.bytes, state.had_bytes, state.had.len(), state.order.len()), (0, 0, 0, 0));
}
