//! A pipeline with `cache()`: the stream does not depend on the cached rows, and one caller computes each row.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crate::common::{Empty, ids, triple, tripled};
use arrow_array::{ArrayRef, Int64Array};
use forebay_cache::{Cache, Options};
use forebay_core::{Error, ErrorKind, Result, Seed, SystemClock};
use forebay_data::{Chunk, Memory, RowId, Schema};
use forebay_exec::{
    Budget, CacheContext, Environment, Executable, Functions, LocalOptions, LocalStream, Pickle, Position, Randomness,
};
use forebay_plan::{Binary, EpochPlan, Expr, Function, Graph, Node, OnError, Op, Source, Stages, ops};
use proptest::prelude::*;

/// A function that triples ids and counts its rows; ids of one remainder fail.
#[derive(Default)]
struct Counted {
    rows: Mutex<HashMap<i64, u64>>,
    bad: Option<i64>,
}

impl Functions for Counted {
    fn map(
        &self,
        _: &Function,
        _: &Pickle,
        input: &Chunk,
        _: Option<Randomness>,
        _: &Arc<Schema>,
    ) -> Result<Vec<ArrayRef>> {
        let ids = ids(input)?;
        for (i, &id) in ids.values().iter().enumerate() {
            *self.rows.lock().expect("whole").entry(id).or_default() += 1;
            if self.bad.is_some_and(|bad| id % 7 == bad) {
                let error = Error::new(ErrorKind::Function, format!("{id} is bad"));
                return Err(error.with("sample", input.ids()[i].sample));
            }
        }
        Ok(tripled(&ids))
    }
}

fn not_multiple(of: i64) -> Op {
    let id = || Box::new(Expr::Col { name: "id".into() });
    let rest = Expr::Binary { op: Binary::Mod, left: id(), right: Box::new(Expr::Int { value: of }) };
    let predicate = Expr::Binary { op: Binary::Ne, left: Box::new(rest), right: Box::new(Expr::Int { value: 0 }) };
    Op::FilterExpr(ops::FilterExpr { predicate })
}

const CACHE: Op = Op::Cache(ops::Cache { freeze: false });

struct Case {
    rows: i64,
    ops: Vec<Op>,
    on_error: OnError,
    threads: usize,
    epochs: u64,
}

impl Case {
    fn executable(&self, functions: &Arc<Counted>, cache: Option<&Arc<Cache>>) -> Arc<Executable> {
        let source = Source::Range { start: 0, stop: self.rows, step: 1 };
        let graph = Graph::new(source.clone(), None).expect("a source").with_on_error(self.on_error);
        let graph = self.ops.iter().try_fold(graph, |g, op| g.then(Node::new(op.clone()))).expect("legal");
        let stages = Arc::new(Stages::new(&graph).expect("legal"));
        let index = forebay_io::index(&source, &forebay_io::Allowed::everything(), true, None, None, 1, &|_, _| Ok(()))
            .expect("a range has an index");
        let plan = EpochPlan::new(&stages, index.extent(), Seed(9), 1, None).expect("a plan");
        let environment = Environment {
            blobs: Arc::new(Empty),
            functions: functions.clone(),
            memory: Memory::reused(),
            cache_context: cache.cloned().map(CacheContext::new),
            watch: Arc::new(SystemClock::default()),
        };
        Executable::new(stages, Arc::new(plan), Some(index), &environment).expect("opens")
    }

    /// Returns the delivered ids, and the errors of the rows that failed.
    fn run(&self, functions: &Arc<Counted>, cache: Option<&Arc<Cache>>) -> (Vec<i64>, Vec<(u64, RowId, String)>) {
        let options = LocalOptions {
            threads: self.threads,
            end_epoch: Some(self.epochs),
            from: Position::default(),
            budget: Budget::Share(1.0),
            ..LocalOptions::default()
        };
        let mut stream = LocalStream::start(self.executable(functions, cache), options).expect("starts");
        let (mut all, mut lost) = (Vec::new(), Vec::new());
        while let Some(delivery) = stream.next(&mut || Ok(())).expect("no error") {
            let column = delivery.chunk.column("tripled").expect("tripled");
            all.extend_from_slice(column.as_any().downcast_ref::<Int64Array>().expect("int64").values());
        }
        for of in stream.take_skipped() {
            lost.push((of.epoch.0, of.loss.row, of.loss.error.message().to_owned()));
        }
        lost.sort_by_key(|(epoch, row, _)| (*epoch, row.sample, row.epoch));
        (all, lost)
    }
}

fn cache(memory: u64) -> Arc<Cache> {
    Cache::open(&Options { memory, disk: None, store: None }).expect("opens")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_stream_does_not_depend_on_what_is_kept(
        rows in 0i64..400,
        threads in 1usize..4,
        memory in prop_oneof![Just(0u64), 2_000u64..40_000, Just(1 << 30)],
        filter in prop::option::of(2i64..5),
        repeat in 1u64..3,
        shuffle: bool,
        bad in prop::option::of(0i64..7),
    ) {
        let on_error = if bad.is_some() { OnError::Skip } else { OnError::Raise };
        let mut ops = vec![triple(false)];
        ops.extend(filter.map(not_multiple));
        ops.splice(0..0, shuffle.then_some(Op::SHUFFLE));
        ops.push(Op::Repeat(ops::Repeat { count: Some(repeat) }));
        let case = |ops| Case { rows, ops, on_error, threads, epochs: 2 };
        let (plain, kept) = (case(ops.clone()), case([ops, vec![CACHE]].concat()));
        let (functions, cache) = (Arc::new(Counted { bad, ..Counted::default() }), cache(memory));
        let want = plain.run(&functions, None);
        for what in ["without a cache", "cold", "warm"] {
            let cache = (what != "without a cache").then_some(&cache);
            prop_assert_eq!(&kept.run(&functions, cache), &want, "{}", what);
        }
    }
}

#[test]
fn jobs_at_once_compute_each_row_once_and_later_ones_none() {
    let functions = Arc::new(Counted::default());
    let cache = cache(1 << 30);
    let case = Case { rows: 5_000, ops: vec![triple(false), CACHE], on_error: OnError::Raise, threads: 2, epochs: 1 };
    let alone = Arc::new(Counted::default());
    let want = case.run(&alone, None);
    std::thread::scope(|scope| {
        let jobs: Vec<_> = (0..3).map(|_| scope.spawn(|| case.run(&functions, Some(&cache)))).collect();
        for job in jobs {
            assert_eq!(job.join().expect("no panic"), want);
        }
    });
    // Some rows are computed twice, for the determinism check.
    let calls = |counted: &Counted| counted.rows.lock().expect("whole").clone();
    assert_eq!(calls(&functions), calls(&alone));
    let shuffled = Case { ops: vec![Op::SHUFFLE, triple(false), CACHE], ..case };
    assert_eq!(shuffled.run(&functions, Some(&cache)).0.len(), 5_000);
    assert_eq!(calls(&functions), calls(&alone));
}

#[test]
fn a_row_that_fails_leaves_the_others_to_the_next_consumer() {
    let cache = cache(1 << 30);
    let ops = vec![triple(false), CACHE];
    let case = Case { rows: 100, ops, on_error: OnError::Raise, threads: 1, epochs: 1 };
    let bad = Arc::new(Counted { bad: Some(3), ..Counted::default() });
    let options = LocalOptions { threads: 1, ..LocalOptions::default() };
    let mut stream = LocalStream::start(case.executable(&bad, Some(&cache)), options).expect("starts");
    let error = stream.next(&mut || Ok(())).expect_err("3 is bad");
    assert_eq!(error.message(), "3 is bad");
    let good = Arc::new(Counted::default());
    assert_eq!(case.run(&good, Some(&cache)), case.run(&good, None));
}
