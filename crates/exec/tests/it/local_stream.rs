//! The iterator of one process: the same stream with any number of threads, exact batches, and resume from any
//! position.

use std::sync::Arc;

use arrow_array::{Array, Int64Array};
use forebay_core::{Seed, SystemClock};
use forebay_data::Memory;
use forebay_exec::{Delivery, Environment, Executable, LocalOptions, LocalStream, NoFunctions, Position};
use forebay_io::NoBlobs;
use forebay_plan::{Binary, EpochPlan, Expr, Graph, Node, Op, Source, Stages, ops};
use proptest::prelude::*;

fn executable(rows: i64, ops: &[Op], consumers: u32) -> Arc<Executable> {
    let source = Source::Range { start: 0, stop: rows, step: 1 };
    let graph = Graph::new(source.clone(), None).expect("a source");
    let graph = ops.iter().try_fold(graph, |g, op| g.then(Node::new(op.clone()))).expect("legal");
    let stages = Arc::new(Stages::new(&graph).expect("legal"));
    let index = forebay_io::index(&source, &forebay_io::Allowed::everything(), true, None, None, 1, &|_, _| Ok(()))
        .expect("a range has an index");
    let plan = EpochPlan::new(&stages, index.extent(), Seed(9), consumers, None).expect("a plan");
    let environment = Environment {
        blobs: Arc::new(NoBlobs),
        functions: Arc::new(NoFunctions),
        memory: Memory::default(),
        cache_context: None,
        watch: Arc::new(SystemClock::default()),
    };
    Executable::new(stages, Arc::new(plan), Some(index), &environment).expect("opens")
}

fn ids(delivery: &Delivery) -> Vec<i64> {
    let column = delivery.chunk.column("id").expect("ids");
    column.as_any().downcast_ref::<Int64Array>().expect("int64").values().to_vec()
}

/// Returns every delivery with the position after it.
fn run(executable: &Arc<Executable>, threads: usize, from: Position, epochs: u64) -> Vec<(Vec<i64>, Position)> {
    let options = LocalOptions { threads, end_epoch: Some(epochs), from, ..LocalOptions::default() };
    let mut stream = LocalStream::start(executable.clone(), options).expect("starts");
    let mut all = Vec::new();
    while let Some(delivery) = stream.next(&mut || Ok(())).expect("no error") {
        let rows = ids(&delivery);
        if delivery.batched {
            all.push((rows, delivery.position_after(delivery.chunk.num_rows())));
        } else {
            all.extend((0..rows.len()).map(|i| (vec![rows[i]], delivery.position_after(i + 1))));
        }
    }
    all
}

fn even() -> Op {
    let modulo = Expr::Binary {
        op: Binary::Mod,
        left: Box::new(Expr::Col { name: "id".into() }),
        right: Box::new(Expr::Int { value: 2 }),
    };
    let predicate = Expr::Binary { op: Binary::Eq, left: Box::new(modulo), right: Box::new(Expr::Int { value: 0 }) };
    Op::FilterExpr(ops::FilterExpr { predicate })
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        (0u64..300).prop_map(|count| Op::Take(ops::Take { count })),
        (0u64..40).prop_map(|count| Op::Skip(ops::Skip { count })),
        (1u64..4).prop_flat_map(|count| (0..count).prop_map(move |index| Op::Shard(ops::Shard { count, index }))),
        Just(even()),
    ]
}

/// Applies the ops to a list.
fn model(rows: i64, ops: &[Op]) -> Vec<i64> {
    ops.iter().fold((0..rows).collect(), |list: Vec<i64>, op| match op {
        Op::Take(ops::Take { count }) => list.into_iter().take(*count as usize).collect(),
        Op::Skip(ops::Skip { count }) => list.into_iter().skip(*count as usize).collect(),
        Op::Shard(ops::Shard { count, index }) => {
            list.into_iter().skip(*index as usize).step_by(*count as usize).collect()
        }
        Op::FilterExpr(_) => list.into_iter().filter(|x| x % 2 == 0).collect(),
        _ => list,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn ops_mean_what_they_mean_on_lists(rows in 0i64..900, ops in prop::collection::vec(op(), 0..4), size in 1usize..70, drop_remainder: bool) {
        let want: Vec<Vec<i64>> = model(rows, &ops)
            .chunks(size)
            .filter(|b| !drop_remainder || b.len() == size)
            .map(<[i64]>::to_vec)
            .collect();
        let ops = [&ops[..], &[Op::Batch(ops::Batch { size, drop_remainder })]].concat();
        let executable = executable(rows, &ops, 1);
        let got: Vec<_> = run(&executable, 2, Position::default(), 1).into_iter().map(|(b, _)| b).collect();
        prop_assert_eq!(got, want);
    }

    #[test]
    fn threads_change_nothing_and_any_position_resumes(
        rows in 1i64..700, shuffled: bool, ops in prop::collection::vec(op(), 0..3), size in 0usize..50, at: prop::sample::Index,
    ) {
        let mut all: Vec<Op> = if shuffled { vec![Op::SHUFFLE] } else { vec![] };
        all.extend(ops);
        if size > 0 {
            all.push(Op::Batch(ops::Batch { size, drop_remainder: false }));
        }
        let executable = executable(rows, &all, 1);
        let alone = run(&executable, 1, Position::default(), 2);
        prop_assert_eq!(&alone, &run(&executable, 3, Position::default(), 2));
        if !alone.is_empty() {
            let at = at.index(alone.len());
            let text = serde_json::to_string(&alone[at].1).expect("serialises");
            let position = serde_json::from_str(&text).expect("parses");
            let rest: Vec<_> = run(&executable, 2, position, 2).into_iter().map(|(b, _)| b).collect();
            let want: Vec<_> = alone[at + 1..].iter().map(|(b, _)| b.clone()).collect();
            prop_assert_eq!(rest, want);
        }
    }
}

#[test]
fn an_endless_stream_ends_when_it_is_dropped() {
    let executable = executable(
        10,
        &[
            Op::SHUFFLE,
            Op::Repeat(ops::Repeat { count: None }),
            Op::Batch(ops::Batch { size: 4, drop_remainder: false }),
        ],
        1,
    );
    let mut stream = LocalStream::start(executable, LocalOptions::default()).expect("starts");
    for _ in 0..1000 {
        assert_eq!(stream.next(&mut || Ok(())).expect("no error").expect("endless").chunk.num_rows(), 4);
    }
}

#[test]
fn nothing_is_an_epoch_too() {
    assert!(run(&executable(0, &[], 1), 2, Position::default(), 3).is_empty());
    assert!(run(&executable(5, &[even(), Op::Take(ops::Take { count: 0 })], 1), 2, Position::default(), 3).is_empty());
}

#[test]
fn a_stream_that_would_never_have_a_row_ends_with_an_error() {
    let none = ops::FilterExpr {
        predicate: Expr::Binary {
            op: Binary::Lt,
            left: Box::new(Expr::Col { name: "id".into() }),
            right: Box::new(Expr::Int { value: 0 }),
        },
    };
    let last = ops::FilterExpr {
        predicate: Expr::Binary {
            op: Binary::Eq,
            left: Box::new(Expr::Col { name: "id".into() }),
            right: Box::new(Expr::Int { value: 999 }),
        },
    };
    let (none, last) = (Op::FilterExpr(none), Op::FilterExpr(last));
    let forever = Op::Repeat(ops::Repeat { count: None });
    let first = |ops: &[Op], end_epoch| {
        let options = LocalOptions { threads: 2, end_epoch, ..LocalOptions::default() };
        let mut stream = LocalStream::start(executable(1000, ops, 1), options).expect("starts");
        stream.next(&mut || Ok(())).map(|delivery| delivery.map(|delivery| ids(&delivery)))
    };
    let take = Op::Take(ops::Take { count: 1 });
    // Of a row in each repetition: three repetitions are skipped, or four of five go to other shards.
    let skip = Op::Skip(ops::Skip { count: 3 });
    let shard = Op::Shard(ops::Shard { count: 5, index: 4 });
    for (ops, end_epoch) in [
        (vec![none.clone(), forever.clone(), skip.clone()], Some(1)),
        (vec![last.clone(), forever.clone(), shard.clone(), none.clone()], Some(1)),
        (vec![none.clone(), forever.clone(), take.clone()], Some(1)),
        (vec![Op::SHUFFLE, none.clone(), forever.clone()], Some(1)),
        (vec![none.clone()], None),
    ] {
        let error = first(&ops, end_epoch).expect_err("no row ever comes").to_string();
        assert!(error.contains("none of the 1000 rows") && error.contains("filter"), "{error}");
    }
    for ops in [
        vec![last.clone(), forever.clone(), take],
        vec![last.clone(), forever.clone(), skip],
        vec![last.clone(), forever.clone(), shard],
        vec![Op::SHUFFLE, last.clone(), forever],
        vec![last],
    ] {
        let rows = first(&ops, None).expect("a row comes").unwrap_or_default();
        assert!(!rows.is_empty() && rows.iter().all(|id| *id == 999), "{rows:?}");
    }
    assert_eq!(first(&[none], Some(3)).expect("three empty epochs"), None);
}
