//! One split through its life, its state after every step.

use arrow_array::Int8Array;
use forebay_core::{Epoch, ErrorKind, SampleId};
use forebay_data::{DType, Field, Kind, Loss, RowId, Schema};

use super::*;

const KEY: Key = Key { job: 1, consumer: 0, epoch: 0, ordinal: 0 };

fn chunk(bytes: usize) -> Made {
    let schema = Schema::new(vec![Field::new("x", Kind::scalar(DType::Int8))]).expect("a schema");
    let ids = vec![RowId { sample: SampleId(0), epoch: Epoch(0) }; bytes].into();
    let values = Arc::new(Int8Array::from(vec![0; bytes]));
    Made { chunk: Chunk::new(Arc::new(schema), vec![values], ids).expect("a chunk"), ops: 0, shared: false }
}

/// What a reader sees from chunk `from` on, until it would wait.
fn read(held: &Held, from: u64) -> String {
    let mut text = String::new();
    for index in from.. {
        text += match held.look(9, index, false) {
            Seen::Chunk(_) => "chunk ",
            Seen::Failed(e) => return text + e.message(),
            Seen::End => return text + "end",
            Seen::NotYet => return text + "not yet",
            Seen::Dropped => return text + "dropped",
            Seen::Gone => return text + "gone",
            Seen::Beyond(_) => return text + "beyond",
        };
    }
    text
}

fn held(meter: &Arc<Meter>) -> Held {
    Held::new(KEY, 9, None, meter.clone())
}

fn totals(meter: &Meter) -> (usize, usize, usize) {
    (meter.bytes.load(Relaxed), meter.sent.load(Relaxed), meter.open.load(Relaxed))
}

#[test]
fn counted_chunks_come_in_any_order_and_are_kept_until_consumed() {
    let meter = Arc::new(Meter::default());
    let held = held(&meter);
    held.set_total(0, 3);
    assert_eq!(held.put(0, 2, &chunk(4), false), Put::Kept);
    assert_eq!(read(&held, 0), "not yet");
    assert_eq!(held.put(0, 0, &chunk(1), false), Put::Kept);
    assert_eq!(read(&held, 0), "chunk not yet");
    assert_eq!(held.put(0, 1, &chunk(2), false), Put::Kept);
    assert_eq!(
        (read(&held, 0), read(&held, 3), read(&held, 4)),
        ("chunk chunk chunk end".into(), "end".into(), "beyond".into())
    );
    assert_eq!(totals(&meter), (7, 0, 0));
    held.set_lease(10, Some(3));
    assert_eq!(held.ops(), Some(3));
    assert_eq!(read(&held, 0), "gone");
    held.remove();
    assert_eq!(totals(&meter), (0, 0, 0));
    assert_eq!(held.put(0, 1, &chunk(2), false), Put::Stale);
}

#[test]
fn the_first_error_in_order_is_what_a_reader_ends_with() {
    let meter = Arc::new(Meter::default());
    let held = held(&meter);
    held.set_total(0, 4);
    held.fail(0, 3, Error::data("third"));
    held.fail(0, 1, Error::data("first"));
    assert_eq!(held.failed_before(2), Some(Error::data("first")));
    held.fail(0, 2, Error::data("first"));
    assert_eq!(meter.open.load(Relaxed), 1);
    held.put(0, 0, &chunk(1), false);
    assert_eq!(read(&held, 0), "chunk first");
    assert_eq!(meter.open.load(Relaxed), 0, "a split that failed takes no place");
}

#[test]
fn what_is_computed_ahead_is_bounded_and_what_was_sent_is_dropped_oldest_first() {
    let meter = Arc::new(Meter::default());
    let held = held(&meter);
    held.set_streamed();
    let large = chunk(AHEAD_BYTES_MAX);
    let mut sent = 0;
    while !matches!(held.look(9, 0, false), Seen::Dropped) {
        assert_eq!(held.put(0, sent, &large, true), Put::Kept);
        assert_eq!(held.put(0, sent + 1, &large, true), Put::Full);
        assert_eq!(read(&held, sent), "chunk not yet");
        sent += 1;
        assert!(meter.bytes.load(Relaxed) <= SENT_BYTES_MAX + AHEAD_BYTES_MAX);
    }
    assert_eq!(sent as usize, SENT_BYTES_MAX / AHEAD_BYTES_MAX + 1);
    // A reader that comes back for what went: the split is computed again, and the old run says nothing more.
    assert_eq!(held.rewind(0), 1);
    assert_eq!(totals(&meter), (0, 0, 1));
    assert_eq!(held.put(0, sent, &large, true), Put::Stale);
    assert_eq!(held.put(1, 0, &chunk(1), true), Put::Kept);
    held.set_total(1, 1);
    assert_eq!(read(&held, 0), "chunk end");
}

#[test]
fn a_reader_that_begins_late_lets_the_thread_go_on() {
    let meter = Arc::new(Meter::default());
    let held = held(&meter);
    held.set_streamed();
    let large = chunk(AHEAD_BYTES_MAX);
    assert_eq!(held.put(0, 0, &large, true), Put::Kept);
    assert_eq!(held.put(0, 1, &large, true), Put::Full);
    assert_eq!(read(&held, 1), "not yet");
    assert_eq!(held.put(0, 1, &large, true), Put::Kept);
    assert_eq!(read(&held, 1), "chunk not yet");
}

#[test]
fn what_was_given_away_takes_no_memory_and_is_computed_again_when_asked_for() {
    let meter = Arc::new(Meter::default());
    let held = held(&meter);
    held.set_total(0, 3);
    (0..3).for_each(|i| assert_eq!(held.put(0, i, &chunk(4), false), Put::Kept));
    assert!(matches!(held.look(9, 0, true), Seen::Chunk(_)));
    assert_eq!(totals(&meter), (8, 0, 0));
    assert_eq!((read(&held, 0), read(&held, 1)), ("dropped".into(), "chunk chunk end".into()));
    // One that was sent before can be given away too.
    assert!(matches!(held.look(9, 2, true), Seen::Chunk(_)));
    assert_eq!(totals(&meter), (4, 0, 0));
    assert_eq!(held.rewind(0), 1);
    assert_eq!((totals(&meter), read(&held, 0)), ((0, 0, 1), "not yet".into()));
}

#[test]
fn who_resumes_behind_the_failure_of_a_split_of_unknown_length_is_told_of_it() {
    let held = held(&Arc::default());
    held.set_streamed();
    assert_eq!(read(&held, 1), "not yet");
    held.fail(0, 0, Error::unavailable("no answer"));
    assert_eq!(read(&held, 1), "no answer");
}

#[test]
fn a_chunk_that_lacks_a_sample_by_accident_is_computed_again_for_a_reader_that_comes_back() {
    let meter = Arc::<Meter>::default();
    let row = RowId { sample: SampleId(7), epoch: Epoch(0) };
    let lossy = |error: Error| {
        let made = chunk(1);
        Made { chunk: made.chunk.with_losses(vec![Loss { row, error, record: None }]), ..made }
    };
    let by_accident = Error::new(ErrorKind::Function, "its process died").with("fault", "process");
    for (error, is_known, again) in [
        (by_accident.clone(), false, "dropped"),
        (by_accident.clone(), true, "chunk end"),
        (Error::data("each time"), false, "chunk end"),
    ] {
        let held = held(&meter);
        let mut known = KnownSkips::default();
        if is_known {
            known.add(Epoch(0), row, error.clone());
        }
        held.set_known(Arc::new(known));
        held.set_total(0, 1);
        held.put(0, 0, &lossy(error), false);
        assert_eq!(read(&held, 0), "chunk end", "the first reader has it");
        assert_eq!(read(&held, 0), again);
    }
}
