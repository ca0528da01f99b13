//! Rows of datasets that are read as one are those of each dataset alone, in the order of the combination.

use proptest::prelude::*;

use super::*;
use crate::epoch::epoch_plan::EpochPlan;
use crate::graph::Node;
use crate::ops::{self, Op};
use crate::source::SourcePart;

fn range(rows: u64, ops: &[Op]) -> Graph {
    let graph = Graph::new(Source::Range { start: 0, stop: rows as i64, step: 1 }, None).expect("a range");
    ops.iter().fold(graph, |graph, op| graph.then(Node::new(op.clone())).expect("an op"))
}

fn combined(how: Combining, parts: &[Graph]) -> Result<Graph> {
    let part = |(number, graph): (usize, &Graph)| SourcePart { name: number.to_string(), graph: graph.clone().into() };
    let parts = parts.iter().enumerate().map(part).collect();
    Graph::new(Source::Combined(Combined { how, parts, column: None }), None)
}

fn extent(source: &Source) -> Extent {
    let parts: Vec<Extent> = match source {
        Source::Combined(combined) => combined.parts.iter().map(|part| extent(part.graph.source())).collect(),
        _ => Vec::new(),
    };
    let sum = || parts.iter().filter_map(|part| part.rows).sum();
    let rows = Some(source.rows().unwrap_or_else(sum));
    Extent { rows, blocks: 1, bytes: 0, is_compressed: false, parts: parts.clone() }
}

/// Returns the source rows of an epoch, with their epochs.
fn rows(graph: &Graph, seed: u64, epoch: u64, most: u64) -> Vec<(u64, u64)> {
    let stages = Stages::new(graph).expect("stages");
    let plan = EpochPlan::new(&stages, extent(graph.source()), Seed(seed), 1, None).expect("a plan");
    let (consumer, mut rows) = (forebay_core::ConsumerIndex(0), Vec::new());
    for split in 0..plan.num_splits(consumer).unwrap_or(u64::MAX) {
        for morsel in plan.morsels(consumer, forebay_core::Ordinal(split)) {
            plan.places(Epoch(epoch), consumer, morsel, |row, epoch| rows.push((row, epoch.0)));
        }
        if rows.len() as u64 >= most {
            break;
        }
    }
    rows
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        Just(Op::SHUFFLE),
        (1u64..4).prop_map(|n| Op::Repeat(ops::Repeat { count: Some(n) })),
        (20u64..400).prop_map(|count| Op::Take(ops::Take { count })),
        (0u64..10).prop_map(|count| Op::Skip(ops::Skip { count })),
        (1u64..4).prop_flat_map(|count| (0..count).prop_map(move |index| Op::Shard(ops::Shard { count, index }))),
    ]
}

fn parts() -> impl Strategy<Value = Vec<(u64, Vec<Op>)>> {
    prop::collection::vec((50u64..500, prop::collection::vec(op(), 0..3)), 2..5)
}

/// Returns the rows of one part, by a plan of that part alone.
fn alone(part: &Graph, number: usize, seed: u64, epoch: u64) -> Vec<(u64, u64)> {
    rows(part, Combination::part_seed(Seed(seed), number).0, epoch, u64::MAX)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn rows_of_each_part_come_as_from_that_part_alone(parts in parts(), seed: u64, epoch in 0u64..9, count in 1u64..4000) {
        let graphs: Vec<Graph> = parts.iter().map(|(rows, ops)| range(*rows, ops)).collect();
        let firsts: Vec<u64> = parts.iter().scan(0, |sum, (rows, _)| { *sum += rows; Some(*sum - rows) }).collect();
        let of = |row: u64| firsts.partition_point(|first| *first <= row) - 1;
        let all = combined(Combining::Concatenate, &graphs).expect("a graph");
        let want: Vec<_> = graphs.iter().enumerate().flat_map(|(number, graph)| {
            alone(graph, number, seed, epoch).into_iter().map(|(row, epoch)| (firsts[number] + row, epoch)).collect::<Vec<_>>()
        }).collect();
        prop_assert_eq!(rows(&all, seed, epoch, u64::MAX), want);

        let weights: Vec<f64> = (1..=graphs.len()).map(|weight| weight as f64).collect();
        let is_empty = |(number, graph): (usize, &Graph)| alone(graph, number, seed, 0).is_empty();
        prop_assume!(!graphs.iter().enumerate().any(is_empty));
        for stop in [Stop::First, Stop::All, Stop::Once, Stop::Rows(count), Stop::Never] {
            let mix = Combining::Mix { weights: weights.clone(), stop, changes: None, per_batch: None };
            let mixed = combined(mix, &graphs).expect("a graph");
            let got = rows(&mixed, seed, epoch, if stop == Stop::Never { 2000 } else { u64::MAX });
            for (number, graph) in graphs.iter().enumerate() {
                let of_part = |&&(row, _): &&(u64, u64)| of(row) == number;
                let own: Vec<_> = got.iter().filter(of_part).map(|(row, at)| (row - firsts[number], *at)).collect();
                let len = alone(graph, number, seed, 0).len();
                prop_assert!(own.len() <= len || !matches!(stop, Stop::First | Stop::Once));
                // Each time that it is read is an epoch of its own.
                let times = if stop == Stop::Never { FOREVER } else { own.len().div_ceil(len).max(1) as u64 };
                for (time, own) in own.chunks(len).enumerate().take(3) {
                    let once = alone(graph, number, seed, epoch * times + time as u64);
                    prop_assert_eq!(own, &once[..own.len()]);
                }
            }
        }
    }
}

#[test]
fn a_part_that_begins_again_is_shuffled_anew_and_unlike_any_other() {
    let same = range(500, &[Op::SHUFFLE]);
    let mix = Combining::Mix { weights: vec![1.0, 1.0], stop: Stop::Rows(2000), changes: None, per_batch: None };
    let mixed = combined(mix, &[same.clone(), same]).expect("a graph");
    let got = rows(&mixed, 3, 0, u64::MAX);
    let of =
        |part: u64| -> Vec<u64> { got.iter().filter(|(row, _)| row / 500 == part).map(|(row, _)| row % 500).collect() };
    let (first, second) = (of(0), of(1));
    let orders = [&first[..500], &first[500..], &second[..500], &second[500..]];
    for (at, order) in orders.iter().enumerate() {
        assert!(!orders[..at].contains(order), "{at}");
    }
    assert_ne!(rows(&mixed, 3, 1, u64::MAX), got, "another epoch");
}

#[test]
fn combinations_lie_in_each_other() {
    let inner = combined(Combining::Concatenate, &[range(3, &[]), range(4, &[])]).expect("a graph");
    let shard = |index| Node::new(Op::Shard(ops::Shard { count: 2, index }));
    let half = inner.then(shard(1)).expect("an op");
    let zip = combined(Combining::Zip { strict: false }, &[range(2, &[]), half.clone()]);
    assert!(zip.is_err(), "both have a column id");
    let all = combined(Combining::Concatenate, &[range(2, &[]), half, range(1, &[])]).expect("a graph");
    let got: Vec<u64> = rows(&all, 1, 2, u64::MAX).into_iter().map(|(row, _)| row).collect();
    assert_eq!(got, [0, 1, 2 + 1, 2 + 3, 2 + 5, 2 + 7]);
    let again = Graph::from_json(&all.to_json()).expect("its own json");
    assert_eq!((&again, again.dataset_id()), (&all, all.dataset_id()));
}

#[test]
fn windows_are_counted_and_few_are_computed_at_once() {
    let window = |size, stride, drop_remainder| Combining::Window { size, stride, drop_remainder };
    let cases = [(10, 3, 1, true, 8), (10, 3, 1, false, 10), (10, 4, 3, false, 4), (2, 3, 1, true, 0)];
    for (from, size, stride, is_full, windows) in cases {
        let graph = combined(window(size, stride, is_full), &[range(from, &[])]).expect("windows");
        assert_eq!(rows(&graph, 1, 0, u64::MAX), (0..windows).map(|row| (row, 0)).collect::<Vec<_>>());
    }
    let large = combined(window(60_000, 1, false), &[range(1_000_000, &[])]).expect("windows");
    let both = combined(Combining::Concatenate, &[large.clone(), large.clone()]).expect("a graph");
    for graph in [large, both] {
        let stages = Stages::new(&graph).expect("stages");
        let plan = EpochPlan::new(&stages, extent(graph.source()), Seed(1), 1, None).expect("a plan");
        assert!(plan.sizing().morsel_units * plan.sizing().unit_rows <= 64, "{:?}", plan.sizing());
    }
    for wrong in [window(0, 1, true), window(3, 0, true), window(1 << 20, 1, true)] {
        assert!(combined(wrong, &[range(3, &[])]).is_err());
    }
    assert!(combined(window(2, 1, true), &[range(3, &[]), range(3, &[])]).is_err(), "two datasets");
    assert!(combined(window(2, 1, true), &[range(3, &[Op::SHUFFLE])]).is_err(), "the order is not fixed");
}

#[test]
fn graphs_that_cannot_be_parts_are_refused() {
    let mix = |weights: &[f64]| Combining::Mix {
        weights: weights.to_vec(),
        stop: Stop::First,
        changes: None,
        per_batch: None,
    };
    let two = [range(3, &[]), range(4, &[])];
    for weights in [&[1.0][..], &[0.0, 1.0], &[-1.0, 1.0], &[f64::NAN, 1.0], &[f64::INFINITY, 1.0], &[1e-20, 1.0]] {
        assert!(combined(mix(weights), &two).is_err(), "{weights:?}");
    }
    let batch = Op::Batch(ops::Batch { size: 2, drop_remainder: false });
    let endless = Op::Repeat(ops::Repeat { count: None });
    for op in [batch, endless, Op::Cache(ops::Cache { freeze: false })] {
        let error =
            combined(mix(&[1.0, 1.0]), &[range(3, std::slice::from_ref(&op)), range(3, &[])]).expect_err("refused");
        assert!(error.get("hint").is_some() && error.get("part") == Some("0"), "{error}");
    }
    assert!(combined(mix(&[1.0]), &two[..1]).is_err(), "one dataset");
    let endless =
        combined(Combining::Mix { weights: vec![1.0; 2], stop: Stop::Never, changes: None, per_batch: None }, &two)
            .expect("a graph");
    assert!(combined(Combining::Concatenate, &[endless, range(3, &[])]).is_err());
    let deep = (0..9).try_fold(range(3, &[]), |graph, _| combined(Combining::Concatenate, &[graph, range(1, &[])]));
    assert!(deep.is_err());
}
