//! The legal boundaries of a job, and their costs from op figures.

use forebay_core::Ticks;
use forebay_data::{DType, Field, Kind};
use forebay_plan::{BlobId, Layout, Node, Op, Source, ops};
use forebay_proto::OpSpent;

use super::*;
use crate::records::At;

const ROW: f64 = 64.0 * 64.0 * 3.0;

/// Cropped images are normalised to four times as many bytes, and cast to half of these.
pub(in crate::state) fn graph() -> Graph {
    let fields = vec![Field::new("x", Kind::fixed(DType::Uint8, &[80, 80, 3]))];
    let source = Source::Memory { blob: BlobId("x".to_owned()), rows: 1000, fields };
    let column = || "x".to_owned();
    let crop = Op::CenterCrop(ops::CenterCrop { column: column(), height: 64, width: 64 });
    let normalize =
        Op::Normalize(ops::Normalize { column: column(), mean: vec![0.5; 3], std: vec![0.5; 3], layout: Layout::Chw });
    let half = Op::Cast(ops::Cast { columns: vec![(column(), DType::Float16.into())] });
    let batch = Op::Batch(ops::Batch { size: 8, drop_remainder: false });
    let start = Graph::new(source, None).expect("a source");
    [crop, normalize, half, batch].into_iter().fold(start, |graph, op| graph.then(Node::new(op)).expect("an op"))
}

pub(in crate::state) fn of(graph: String) -> JobRecord {
    JobRecord { graph, ..JobRecord::empty() }
}

fn spent(places: &[u32], rows: u64, us: u64, bytes: [f64; 2]) -> OpSpent {
    let [bytes_in, bytes_out] = bytes.map(|of_row| of_row as u64 * rows);
    let (places, nanos) = (places.to_vec(), rows * us * 1000);
    OpSpent { places, rows_in: rows, rows_out: rows, timed: rows, nanos, bytes_in, bytes_out, ..OpSpent::default() }
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-6 * b.abs().max(1e-12)
}

fn batch_of(costs: &BoundaryCosts, compute: f64) -> Vec<[f64; 3]> {
    costs.of_batch(8.0, compute).iter().map(|cut| [cut.before, cut.after, cut.bytes]).collect()
}

#[test]
fn before_anything_is_known_the_columns_set_the_boundary_and_moved_ops_cost_as_much_as_copying() {
    let mut placement = Placement::of(&of(graph().to_json()));
    assert_eq!((placement.ops_on_worker(), placement.batch), (Some(1), Some(8)));
    assert_eq!(
        placement.describe(&placement.costs(&[])),
        "consumers run normalize, cast: 12 KiB a row travel, not 24 KiB"
    );
    let copied = |rows: f64| rows * ROW * COPY_BYTE_SECONDS * 8.0;
    // A second was measured at the current boundary; normalising takes 5 bytes in or out, and casting 6.
    let want = [
        [1.0, copied(11.0), ROW * 8.0],
        [1.0 + copied(5.0), copied(6.0), ROW * 32.0],
        [1.0 + copied(11.0), 0.0, ROW * 16.0],
    ];
    for (got, want) in batch_of(&placement.costs(&[]), 1.0).iter().zip(want) {
        assert!((0..3).all(|i| close(got[i], want[i])), "{got:?} {want:?}");
    }
    assert!(placement.set(3) && !placement.set(9), "there are three places");
    assert_eq!((placement.ops_on_worker(), placement.ops_before(2)), (Some(3), Some(2)));
    assert_eq!(
        placement.describe(&placement.costs(&[])),
        "consumers run no ops: 24 KiB a row travel; before normalize it would be 12 KiB"
    );
    // The measured time now includes both ops.
    assert!(close(batch_of(&placement.costs(&[]), 1.0)[0][0], 1.0 - copied(11.0)));
    let none = Placement::of(&of("no graph".to_owned()));
    assert_eq!((none.ops_on_worker(), none.ops_before(1), none.describe(&none.costs(&[])).as_str()), (None, None, ""));
}

#[test]
fn what_ops_showed_counts_and_what_earlier_jobs_showed_where_this_one_did_not() {
    let (mut own, mut earlier) = (OpCosts::default(), OpCosts::default());
    // Workers read and cropped, and the consumer did the rest. Rows are larger than the columns say.
    own.take(
        Ticks(0),
        At::Workers,
        &[spent(&[], 100, 50, [0.0, 19_200.0]), spent(&[0], 100, 200, [19_200.0, 13_000.0])],
    );
    own.take(Ticks(0), At::Consumer, &[spent(&[1], 100, 30, [13_000.0, 50_000.0])]);
    earlier.take(Ticks(0), At::Workers, &[spent(&[2], 10, 9, [50_000.0, 25_000.0]), spent(&[1], 10, 999, [1.0, 1.0])]);
    earlier.take(Ticks(0), At::Local, &[spent(&[2], 10, 77, [1.0, 1.0])]);
    let placement = Placement::of(&of(graph().to_json()));
    let costs = placement.costs(&[&own, &earlier]);
    let want =
        [[0.002, 39e-6 * 8.0, 13_000.0 * 8.0], [0.00224, 9e-6 * 8.0, 50_000.0 * 8.0], [0.002312, 0.0, 25_000.0 * 8.0]];
    for (got, want) in batch_of(&costs, 0.002).iter().zip(want) {
        assert!((0..3).all(|i| close(got[i], want[i])), "{got:?} {want:?}");
    }
    assert!(placement.worker_row(&own, &costs).is_some_and(|row| close(row, 250e-6)));
    // Some rows were normalised together with the crop, and some alone: neither belongs to the time before the
    // boundary.
    own.take(
        Ticks(0),
        At::Workers,
        &[
            spent(&[], 100, 50, [0.0, 1.0]),
            spent(&[0, 1], 100, 240, [1.0, 1.0]),
            spent(&[1], 100, 30, [13_000.0, 50_000.0]),
        ],
    );
    let row = |placement: &Placement| placement.worker_row(&own, &placement.costs(&[&own, &earlier]));
    assert!(row(&placement).is_some_and(|row| close(row, (250e-6 + 260e-6) / 2.0)));
    let mut later = placement.clone();
    later.set(2);
    assert!(row(&later).is_some_and(|row| close(row, (250e-6 + 260e-6) / 2.0 + 30e-6)), "with what is up to there");
}
