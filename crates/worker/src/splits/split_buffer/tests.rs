//! One split through its life, with its state after every step.

use arrow_array::Int8Array;
use forebay_core::{Epoch, ErrorKind, SampleId};
use forebay_data::{DType, Field, Kind, Loss, RowId, Schema};

use super::*;

const KEY: SplitKey = SplitKey { job: 1, consumer: 0, epoch: 0, ordinal: 0 };

fn chunk(bytes: usize) -> ProducedChunk {
    let schema = Schema::new(vec![Field::new("x", Kind::scalar(DType::Int8))]).expect("a schema");
    let ids = vec![RowId { sample: SampleId(0), epoch: Epoch(0) }; bytes].into();
    let values = Arc::new(Int8Array::from(vec![0; bytes]));
    ProducedChunk {
        chunk: Chunk::new(Arc::new(schema), vec![values], ids).expect("a chunk"),
        ops_on_worker: 0,
        shared: false,
        spans: None,
    }
}

/// Reads from chunk `from` on until the consumer would wait, and lists the outcomes.
fn read(buffer: &SplitBuffer, from: u64) -> String {
    let mut text = String::new();
    for index in from.. {
        text += match buffer.try_read(9, index, false) {
            ReadOutcome::Chunk(_) => "chunk ",
            ReadOutcome::Failed(e) => return text + e.message(),
            ReadOutcome::End => return text + "end",
            ReadOutcome::NotYet => return text + "not yet",
            ReadOutcome::Dropped => return text + "dropped",
            ReadOutcome::NotHeld => return text + "gone",
            ReadOutcome::Beyond(_) => return text + "beyond",
        };
    }
    text
}

fn buffer(stats: &Arc<WorkerStats>) -> SplitBuffer {
    SplitBuffer::new(KEY, 9, None, stats.clone())
}

fn totals(stats: &WorkerStats) -> (usize, usize, usize) {
    (stats.bytes.load(Relaxed), stats.sent.load(Relaxed), stats.open.load(Relaxed))
}

#[test]
fn counted_chunks_come_in_any_order_and_are_kept_until_consumed() {
    let stats = Arc::new(WorkerStats::default());
    let buffer = buffer(&stats);
    buffer.set_total(0, 3);
    assert_eq!(buffer.put(0, 2, &chunk(4), false), PutOutcome::Kept);
    assert_eq!(read(&buffer, 0), "not yet");
    assert_eq!(buffer.put(0, 0, &chunk(1), false), PutOutcome::Kept);
    assert_eq!(read(&buffer, 0), "chunk not yet");
    assert_eq!(buffer.put(0, 1, &chunk(2), false), PutOutcome::Kept);
    assert_eq!(
        (read(&buffer, 0), read(&buffer, 3), read(&buffer, 4)),
        ("chunk chunk chunk end".into(), "end".into(), "beyond".into())
    );
    assert_eq!(totals(&stats), (7, 0, 0));
    buffer.set_lease(10, Some(3));
    assert_eq!(buffer.ops_on_worker(), Some(3));
    assert_eq!(read(&buffer, 0), "gone");
    buffer.remove();
    assert_eq!(totals(&stats), (0, 0, 0));
    assert_eq!(buffer.put(0, 1, &chunk(2), false), PutOutcome::Stale);
}

#[test]
fn the_first_error_in_order_is_what_a_consumer_ends_with() {
    let stats = Arc::new(WorkerStats::default());
    let buffer = buffer(&stats);
    buffer.set_total(0, 4);
    buffer.fail(0, 3, Error::data("third"));
    buffer.fail(0, 1, Error::data("first"));
    assert_eq!(buffer.failed_before(2), Some(Error::data("first")));
    buffer.fail(0, 2, Error::data("first"));
    assert_eq!(stats.open.load(Relaxed), 1);
    buffer.put(0, 0, &chunk(1), false);
    assert_eq!(read(&buffer, 0), "chunk first");
    assert_eq!(stats.open.load(Relaxed), 0, "a split that failed takes no place");
}

#[test]
fn what_is_computed_ahead_is_bounded_and_what_was_sent_is_dropped_oldest_first() {
    let stats = Arc::new(WorkerStats::default());
    let buffer = buffer(&stats);
    buffer.set_streamed();
    let large = chunk(AHEAD_BYTES_MAX);
    let mut sent = 0;
    while !matches!(buffer.try_read(9, 0, false), ReadOutcome::Dropped) {
        assert_eq!(buffer.put(0, sent, &large, true), PutOutcome::Kept);
        assert_eq!(buffer.put(0, sent + 1, &large, true), PutOutcome::Full);
        assert_eq!(read(&buffer, sent), "chunk not yet");
        sent += 1;
        assert!(stats.bytes.load(Relaxed) <= SENT_BYTES_MAX + AHEAD_BYTES_MAX);
    }
    assert_eq!(sent as usize, SENT_BYTES_MAX / AHEAD_BYTES_MAX + 1);
    // A consumer requests a chunk that was dropped: the split is computed again, and the old run puts nothing more.
    assert_eq!(buffer.rewind(0), 1);
    assert_eq!(totals(&stats), (0, 0, 1));
    assert_eq!(buffer.put(0, sent, &large, true), PutOutcome::Stale);
    assert_eq!(buffer.put(1, 0, &chunk(1), true), PutOutcome::Kept);
    buffer.set_total(1, 1);
    assert_eq!(read(&buffer, 0), "chunk end");
}

#[test]
fn a_consumer_that_begins_late_lets_the_thread_go_on() {
    let stats = Arc::new(WorkerStats::default());
    let buffer = buffer(&stats);
    buffer.set_streamed();
    let large = chunk(AHEAD_BYTES_MAX);
    assert_eq!(buffer.put(0, 0, &large, true), PutOutcome::Kept);
    assert_eq!(buffer.put(0, 1, &large, true), PutOutcome::Full);
    assert_eq!(read(&buffer, 1), "not yet");
    assert_eq!(buffer.put(0, 1, &large, true), PutOutcome::Kept);
    assert_eq!(read(&buffer, 1), "chunk not yet");
}

#[test]
fn what_was_given_away_takes_no_memory_and_is_computed_again_when_asked_for() {
    let stats = Arc::new(WorkerStats::default());
    let buffer = buffer(&stats);
    buffer.set_total(0, 3);
    (0..3).for_each(|i| assert_eq!(buffer.put(0, i, &chunk(4), false), PutOutcome::Kept));
    assert!(matches!(buffer.try_read(9, 0, true), ReadOutcome::Chunk(_)));
    assert_eq!(totals(&stats), (8, 0, 0));
    assert_eq!((read(&buffer, 0), read(&buffer, 1)), ("dropped".into(), "chunk chunk end".into()));
    // The memory of a chunk that was sent before can be handed over, too.
    assert!(matches!(buffer.try_read(9, 2, true), ReadOutcome::Chunk(_)));
    assert_eq!(totals(&stats), (4, 0, 0));
    assert_eq!(buffer.rewind(0), 1);
    assert_eq!((totals(&stats), read(&buffer, 0)), ((0, 0, 1), "not yet".into()));
}

#[test]
fn who_resumes_behind_the_failure_of_a_split_of_unknown_length_is_told_of_it() {
    let buffer = buffer(&Arc::default());
    buffer.set_streamed();
    assert_eq!(read(&buffer, 1), "not yet");
    buffer.fail(0, 0, Error::unavailable("no answer"));
    assert_eq!(read(&buffer, 1), "no answer");
}

#[test]
fn a_chunk_that_lacks_a_sample_by_accident_is_computed_again_for_a_consumer_that_comes_back() {
    let stats = Arc::<WorkerStats>::default();
    let row = RowId { sample: SampleId(7), epoch: Epoch(0) };
    let lossy = |error: Error| {
        let produced = chunk(1);
        ProducedChunk { chunk: produced.chunk.with_losses(vec![Loss { row, error, record: None }]), ..produced }
    };
    let by_accident = Error::new(ErrorKind::Function, "its process died").with("fault", "process");
    for (error, is_known, again) in [
        (by_accident.clone(), false, "dropped"),
        (by_accident.clone(), true, "chunk end"),
        (Error::data("each time"), false, "chunk end"),
    ] {
        let buffer = buffer(&stats);
        let mut known = KnownSkips::default();
        if is_known {
            known.add(Epoch(0), row, error.clone());
        }
        buffer.set_known(Arc::new(known));
        buffer.set_total(0, 1);
        buffer.put(0, 0, &lossy(error), false);
        assert_eq!(read(&buffer, 0), "chunk end", "the first consumer has it");
        assert_eq!(read(&buffer, 0), again);
    }
}
