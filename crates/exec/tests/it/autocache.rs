//! A pipeline with `autocache()`: the cached rows follow the costs, on a clock that moves only when something is
//! computed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::Empty;
use arrow_array::{Array, ArrayRef, Int64Array};
use forebay_cache::{Cache, Options};
use forebay_core::{Result, Seed, Stopwatch, SystemClock};
use forebay_data::{Chunk, DType, Field, Kind, Memory, Schema};
use forebay_exec::{
    AutoCacheProfiles, CacheContext, Environment, Executable, Functions, LocalOptions, LocalStream, Pickle, Randomness,
    Rent,
};
use forebay_plan::{EpochPlan, Function, Graph, Node, Op, Source, Stages, ops};

/// Functions of a set duration, by their own clock; everything else takes no time.
#[derive(Default)]
struct Costly {
    nanos: AtomicU64,
    /// The cost of a row of `early` and of `late`.
    early: AtomicU64,
    late: AtomicU64,
    /// The number of rows in the calls of each function.
    early_rows: AtomicU64,
    late_rows: AtomicU64,
}

#[derive(Clone)]
struct Watch(Arc<Costly>);

impl Stopwatch for Watch {
    fn nanos(&self) -> u64 {
        self.0.nanos.load(Ordering::Relaxed)
    }
}

impl Functions for Costly {
    fn map(
        &self,
        function: &Function,
        _: &Pickle,
        input: &Chunk,
        _: Option<Randomness>,
        _: &Arc<Schema>,
    ) -> Result<Vec<ArrayRef>> {
        let (cost, rows) = match function.name.as_str() {
            "early" => (&self.early, &self.early_rows),
            _ => (&self.late, &self.late_rows),
        };
        let n = input.num_rows() as u64;
        rows.fetch_add(n, Ordering::Relaxed);
        self.nanos.fetch_add(n * cost.load(Ordering::Relaxed), Ordering::Relaxed);
        let ids = input.column("id")?.as_any().downcast_ref::<Int64Array>().expect("int64");
        let more: Int64Array = ids.values().iter().map(|id| id + 1).collect();
        Ok(vec![Arc::new(more)])
    }
}

fn map(name: &str) -> Op {
    let function = serde_json::json!({"blob": "", "name": name, "batched": false, "with_rng": false, "timeout_s": 1.0});
    Op::Map(ops::Map {
        function: serde_json::from_value(function).expect("a function"),
        output: vec![Field::new(name, Kind::scalar(DType::Int64))],
        keep_others: true,
    })
}

const ROWS: i64 = 20_000;
const EPOCHS: u64 = 50;
const MAY: Op = Op::Autocache(ops::Autocache {});

/// A pipeline in a process.
struct Job {
    functions: Arc<Costly>,
    cache: Option<CacheContext>,
    stages: Arc<Stages>,
}

impl Job {
    fn new(ops: &[Op], memory: Option<u64>) -> Self {
        let functions = Arc::new(Costly::default());
        let source = Source::Range { start: 0, stop: ROWS, step: 1 };
        let graph = Graph::new(source, None).expect("a source");
        let graph = ops.iter().try_fold(graph, |g, op| g.then(Node::new(op.clone()))).expect("legal");
        let cache = memory.map(|memory| CacheContext {
            cache: Cache::open(&Options { memory, disk: None, store: None }).expect("opens"),
            watch: Arc::new(Watch(functions.clone())),
            profiles: Arc::new(AutoCacheProfiles::default()),
            rent: Rent::default(),
        });
        Self { functions, cache, stages: Arc::new(Stages::new(&graph).expect("legal")) }
    }

    fn set(&self, early: u64, late: u64) {
        self.functions.early.store(early, Ordering::Relaxed);
        self.functions.late.store(late, Ordering::Relaxed);
    }

    /// Reads an epoch of a job with many epochs. Returns the sum of its rows, the number of rows in the calls of each
    /// function, and the report about the cache.
    fn epoch(&self, epoch: u64) -> (i64, [u64; 2], serde_json::Value) {
        self.read(epoch, EPOCHS)
    }

    /// The same for a job that ends before epoch `end`.
    fn read(&self, epoch: u64, end: u64) -> (i64, [u64; 2], serde_json::Value) {
        let index = forebay_io::index(
            self.stages.graph.source(),
            &forebay_io::Allowed::everything(),
            true,
            None,
            None,
            1,
            &|_, _| Ok(()),
        )
        .expect("an index");
        let plan = EpochPlan::new(&self.stages, index.extent(), Seed(9), 1, None).expect("a plan");
        let environment = Environment {
            blobs: Arc::new(Empty),
            functions: self.functions.clone(),
            memory: Memory::reused(),
            cache_context: self.cache.clone(),
            watch: Arc::new(SystemClock::default()),
        };
        let executable =
            Executable::new(self.stages.clone(), Arc::new(plan), Some(index), &environment).expect("opens");
        let calls = || [&self.functions.early_rows, &self.functions.late_rows].map(|n| n.load(Ordering::Relaxed));
        let before = calls();
        let from = forebay_exec::Position { epoch, ..Default::default() };
        let options = LocalOptions { threads: 1, end_epoch: Some(end), from, ..LocalOptions::default() };
        let mut stream = LocalStream::start(executable, options).expect("starts");
        let mut sum = 0i64;
        let mut place = 0;
        let mut rows = 0;
        while rows < ROWS as usize {
            let delivery = stream.next(&mut || Ok(())).expect("no error").expect("the epoch goes on");
            rows += delivery.chunk.num_rows();
            for name in ["id", "early", "late"] {
                let column = delivery.chunk.column(name).expect("it is there");
                for value in column.as_any().downcast_ref::<Int64Array>().expect("int64").values() {
                    place += 1;
                    sum = sum.wrapping_mul(31).wrapping_add(value * place);
                }
            }
        }
        let mut said: serde_json::Value = serde_json::from_str(&stream.stats()).expect("json");
        let said = said["cache"].take();
        let after = calls();
        (sum, [after[0] - before[0], after[1] - before[1]], said)
    }
}

fn ops() -> [Op; 6] {
    [Op::SHUFFLE, map("early"), MAY, map("late"), MAY, Op::Batch(ops::Batch { size: 32, drop_remainder: false })]
}

#[test]
fn what_costs_most_is_kept_after_a_few_morsels_and_the_stream_is_the_same() {
    let plain = Job::new(
        &[Op::SHUFFLE, map("early"), map("late"), Op::Batch(ops::Batch { size: 32, drop_remainder: false })],
        None,
    );
    for (early, late, kept) in [(1_000_000, 0, "map"), (1_000_000, 500_000, "map -> map")] {
        let job = Job::new(&ops(), Some(1 << 30));
        job.set(early, late);
        let (first, [calls, _], said) = job.epoch(0);
        assert_eq!(first, plain.epoch(0).0);
        assert_eq!(said["kept"], kept, "{said}");
        assert!(calls < ROWS as u64 * 105 / 100, "measuring is cheap: {calls} calls");
        let (second, [again, _], _) = job.epoch(1);
        assert_eq!(second, plain.epoch(1).0);
        assert!(again < ROWS as u64 / 10, "found from the first epoch on: {again} calls");
        assert!(said["rows"]["in_memory"].as_u64().is_some_and(|rows| rows > ROWS as u64 * 8 / 10), "{said}");
    }
}

#[test]
fn what_does_not_fit_or_costs_nothing_is_not_kept() {
    let job = Job::new(&ops(), Some(0));
    job.set(1_000_000, 0);
    job.epoch(0);
    let (_, [calls, _], said) = job.epoch(1);
    assert!(said["kept"].is_null(), "{said}");
    assert!(calls >= ROWS as u64);
    assert_eq!(Job::new(&ops(), None).epoch(0).2, serde_json::Value::Null, "this process keeps nothing");
}

#[test]
fn when_the_figures_move_another_place_is_kept_and_the_stream_goes_on() {
    let plain = Job::new(
        &[Op::SHUFFLE, map("early"), map("late"), Op::Batch(ops::Batch { size: 32, drop_remainder: false })],
        None,
    );
    let job = Job::new(&ops(), Some(1 << 30));
    job.set(1_000_000, 0);
    assert_eq!(job.epoch(0).2["kept"], "map");
    // The cheap function is now expensive.
    job.set(1_000_000, 5_000_000);
    let moved = (1..40).find(|&epoch| {
        let (sum, _, said) = job.epoch(epoch);
        assert_eq!(sum, plain.epoch(epoch).0);
        said["kept"] == "map -> map"
    });
    assert!(moved.is_some(), "it stays where it was");
}

#[test]
fn epochs_that_others_read_are_as_many_passes_as_they_repeat_rows() {
    let repeated = [&[Op::Repeat(ops::Repeat { count: Some(3) })], &ops()[..]].concat();
    let job = Job::new(&repeated, Some(1 << 30));
    job.set(1_000_000, 0);
    // The epoch that it begins with has three passes, nearly all still to come; two epochs before it had six.
    let (_, _, said) = job.read(2, 3);
    assert!(said["figures"]["passes"].as_f64().is_some_and(|passes| passes > 7.5 && passes <= 9.0), "{said}");
}

#[test]
fn a_job_of_one_epoch_keeps_nothing_while_no_further_pass_is_known() {
    let plain = Job::new(
        &[Op::SHUFFLE, map("early"), map("late"), Op::Batch(ops::Batch { size: 32, drop_remainder: false })],
        None,
    );
    let job = Job::new(&ops(), Some(1 << 30));
    job.set(1_000_000, 0);
    let (sum, _, said) = job.read(0, 1);
    assert_eq!(sum, plain.read(0, 1).0);
    assert!(said["kept"].is_null(), "{said}");
    assert!(said["why"].as_str().is_some_and(|why| why.ends_with("; 1 pass to come")), "{said}");
    // A second job reads the pipeline: a third may follow.
    let (sum, _, said) = job.read(1, 2);
    assert_eq!(sum, plain.read(1, 2).0);
    assert_eq!(said["kept"], "map", "{said}");
    assert!(said["figures"]["passes"].as_f64().is_some_and(|passes| (1.0..=2.0).contains(&passes)), "{said}");
    let (_, [calls, _], _) = job.read(2, 3);
    assert!(calls < ROWS as u64 / 4, "{calls} calls");
}
