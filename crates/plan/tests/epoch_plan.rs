//! The invariants of the epoch plan, over random pipelines and sources.

use std::collections::HashMap;

use forebay_core::{ConsumerIndex, Epoch, Ordinal, Seed};
use forebay_plan::{BlobId, EpochPlan, Expr, Extent, Graph, Node, Op, Source, Stages, ops};
use proptest::prelude::*;

fn memory(rows: u64) -> Source {
    let fields = vec![forebay_data::Field::new("x", forebay_data::Kind::scalar(forebay_data::DType::Float32))];
    Source::Memory { blob: BlobId("b".into()), rows, fields }
}

fn stages(rows: u64, ops: Vec<Op>) -> Stages {
    let graph = Graph::new(memory(rows), None).expect("a source");
    let graph = ops.into_iter().try_fold(graph, |g, op| g.then(Node::new(op))).expect("legal");
    Stages::new(&graph).expect("legal")
}

fn plan(rows: u64, ops: Vec<Op>, consumers: u32, seed: u64) -> EpochPlan {
    let extent = Extent { rows: Some(rows), blocks: 1, bytes: rows * 4, is_compressed: false, parts: Vec::new() };
    EpochPlan::new(&stages(rows, ops), extent, Seed(seed), consumers, None).expect("a plan")
}

/// Returns the rows of an epoch of a consumer, split by split, morsel by morsel.
fn rows(plan: &EpochPlan, epoch: u64, consumer: u32) -> Vec<u64> {
    let consumer = ConsumerIndex(consumer);
    let mut all = Vec::new();
    for split in 0..plan.num_splits(consumer).expect("finite") {
        for morsel in plan.morsels(consumer, Ordinal(split)) {
            plan.places(Epoch(epoch), consumer, morsel, |row, _| all.push(row));
        }
    }
    all
}

/// An op that makes `count` rows of each row.
fn several(count: u32) -> Op {
    let function = serde_json::json!({"blob": "f", "name": "f", "batched": false, "with_rng": false, "timeout_s": 1.0});
    let function = serde_json::from_value(function).expect("a function");
    let output = vec![forebay_data::Field::new("x", forebay_data::Kind::scalar(forebay_data::DType::Float32))];
    Op::FlatMap(ops::FlatMap { function, output, count: Some(count) })
}

fn batch(size: usize, drop_remainder: bool) -> Op {
    Op::Batch(ops::Batch { size, drop_remainder })
}

proptest! {
    #[test]
    fn every_row_is_in_exactly_one_split_of_one_consumer(
        n in 0u64..3000, consumers in 1u32..5, size in 1usize..90, batched: bool, seed: u64, epoch in 0u64..9,
    ) {
        let mut ops = vec![Op::SHUFFLE];
        if batched {
            ops.push(batch(size, false));
        }
        let plan = plan(n, ops, consumers, seed);
        let mut all: Vec<u64> = (0..consumers).flat_map(|c| rows(&plan, epoch, c)).collect();
        all.sort_unstable();
        prop_assert!(all.into_iter().eq(0..n));
    }

    /// Rows that an op makes, a known number of each row, have places like other rows: order ops choose among them.
    #[test]
    fn order_ops_choose_among_the_rows_that_are_made_of_rows(
        n in 0u64..40, consumers in 1u32..4, chosen in prop::collection::vec((0u64..5, 1u64..20), 0..6),
    ) {
        let mut want: Vec<(u64, u64)> = (0..n).map(|row| (row, 0)).collect();
        let (mut ops, mut made) = (Vec::new(), false);
        for (kind, count) in chosen {
            let (row, part): (Vec<u64>, Vec<u64>) = want.iter().copied().unzip();
            let rows = || row.iter().copied().zip(part.iter().copied());
            let (op, after): (Op, Vec<_>) = match kind {
                0 => (Op::Take(ops::Take { count: count * 3 }), rows().take(count as usize * 3).collect()),
                1 => (Op::Skip(ops::Skip { count }), rows().skip(count as usize).collect()),
                2 => {
                    let count = 1 + count % 3;
                    (Op::Shard(ops::Shard { count, index: count - 1 }), rows().skip(count as usize - 1).step_by(count as usize).collect())
                }
                3 if !made => (Op::Repeat(ops::Repeat { count: Some(2) }), [rows(), rows()].into_iter().flatten().collect()),
                _ => {
                    let count = 1 + count % 4;
                    made = true;
                    let parts = |(row, part): (u64, u64)| (0..count).map(move |own| (row, part * count + own));
                    (several(count as u32), rows().flat_map(parts).collect())
                }
            };
            (want, ops) = (after, [ops, vec![op]].concat());
        }
        let plan = plan(n, ops, consumers, 1);
        prop_assert_eq!(plan.rows(), Some(want.len() as u64));
        let mut got = Vec::new();
        for consumer in (0..consumers).map(ConsumerIndex) {
            for split in 0..plan.num_splits(consumer).expect("finite") {
                for morsel in plan.morsels(consumer, Ordinal(split)) {
                    plan.placed(Epoch(2), consumer, morsel, |placed| got.push((placed.row, placed.part)));
                }
            }
        }
        if consumers > 1 {
            want.sort_unstable();
            got.sort_unstable();
        }
        prop_assert_eq!(got, want);
    }

    /// The rows of all consumers, interleaved, are the stream of one consumer: batches do not depend on the number of
    /// consumers.
    #[test]
    fn the_global_sequence_of_batches_is_the_same_for_any_number_of_consumers(
        n in 0u64..2000, consumers in 2u32..5, size in 1usize..70, seed: u64,
    ) {
        let ops = || vec![Op::SHUFFLE, batch(size, false)];
        let alone = rows(&plan(n, ops(), 1, seed), 3, 0);
        let shared = plan(n, ops(), consumers, seed);
        let each: Vec<Vec<u64>> = (0..consumers).map(|c| rows(&shared, 3, c)).collect();
        let mut taken = HashMap::new();
        for (i, want) in alone.chunks(size).enumerate() {
            let consumer = i % consumers as usize;
            let start: &mut usize = taken.entry(consumer).or_default();
            prop_assert_eq!(&each[consumer][*start..*start + want.len()], want);
            *start += want.len();
        }
    }

    #[test]
    fn a_dropped_remainder_leaves_whole_batches(n in 0u64..500, size in 1usize..60) {
        let got = rows(&plan(n, vec![batch(size, true)], 1, 0), 0, 0);
        prop_assert_eq!(got.len() as u64, n - n % size as u64);
    }
}

#[test]
fn epochs_differ_and_repeat_exactly() {
    let plan = plan(1000, vec![Op::SHUFFLE, batch(10, false)], 1, 5);
    assert_ne!(rows(&plan, 0, 0), rows(&plan, 1, 0));
    assert_eq!(rows(&plan, 1, 0), rows(&plan, 1, 0));
}

/// 10^12 rows cost as much as ten: a split in the middle is found at once.
#[test]
fn a_split_of_a_trillion_rows_is_computed_alone() {
    let n = 1_000_000_000_000;
    let plan = plan(n, vec![Op::SHUFFLE, batch(256, false)], 1, 1);
    let split = Ordinal(plan.num_splits(ConsumerIndex(0)).expect("finite") / 2);
    let morsel = plan.morsels(ConsumerIndex(0), split).next().expect("a morsel");
    let mut seen = Vec::new();
    plan.places(Epoch(0), ConsumerIndex(0), morsel, |row, _| seen.push(row));
    assert!(!seen.is_empty() && seen.iter().all(|&r| r < n));
}

/// The order of users' jobs is fixed for ever: these rows were recorded once.
#[test]
fn the_order_of_a_seed_is_what_it_was() {
    let got = rows(&plan(20, vec![Op::SHUFFLE, batch(7, false)], 1, 42), 3, 0);
    assert_eq!(got, GOLDEN);
}

const GOLDEN: [u64; 20] = [13, 16, 9, 15, 3, 5, 6, 17, 14, 18, 7, 10, 0, 19, 2, 11, 8, 4, 12, 1];

#[test]
fn order_ops_move_to_the_plan_only_where_counts_are_known() {
    let filter = || {
        Op::FilterExpr(ops::FilterExpr {
            predicate: Expr::Binary {
                op: forebay_plan::Binary::Gt,
                left: Box::new(Expr::Col { name: "x".into() }),
                right: Box::new(Expr::Int { value: 0 }),
            },
        })
    };
    let before = stages(10, vec![Op::Take(ops::Take { count: 3 }), filter(), batch(2, false)]);
    assert_eq!((before.order.len(), before.tail.len(), before.aligned), (1, 1, None));
    let after = stages(10, vec![filter(), Op::SHUFFLE, Op::Take(ops::Take { count: 3 })]);
    assert_eq!((after.order.len(), after.tail.len()), (1, 1));
    let graph = Graph::new(memory(10), None).expect("a source").then(Node::new(filter())).expect("legal");
    let graph = graph.then(Node::new(Op::Take(ops::Take { count: 3 }))).expect("legal");
    let error = graph.then(Node::new(Op::SHUFFLE)).expect_err("the count is not known");
    assert!(error.message().starts_with("shuffle after take"), "{error}");
}

#[test]
fn where_an_op_was_written_is_not_part_of_its_name() {
    let site = Some(forebay_plan::Site { file: "a.py".into(), line: 3 });
    let plain = Graph::new(memory(10), None).expect("a source").then(Node::new(Op::SHUFFLE)).expect("legal");
    let there = Graph::new(memory(10), site.clone()).expect("a source");
    let there = there.then(Node { site, label: Some("mix".into()), ..Node::new(Op::SHUFFLE) }).expect("legal");
    assert_eq!(plain.dataset_id(), there.dataset_id());
    let read = Graph::from_json(&there.to_json()).expect("reads back");
    assert_eq!(read.to_json(), there.to_json());
    let other = plain.then(Node::new(Op::Take(ops::Take { count: 1 }))).expect("legal");
    assert_ne!(plain.dataset_id(), other.dataset_id());
    assert_eq!(plain.difference(&other).as_deref(), Some("op 2 is take(1), and was nothing"));
}
