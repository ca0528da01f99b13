//! The costs of ops: the figures match the work, and no sample depends on them.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::common::{Empty, ids, triple, tripled};
use arrow_array::ArrayRef;
use forebay_cache::{Cache, Options};
use forebay_core::{Result, Seed, Stopwatch, SystemClock};
use forebay_data::{Chunk, Memory, Schema, write_ipc};
use forebay_exec::{CacheContext, Environment, Executable, Functions, LocalOptions, LocalStream, Pickle, Randomness};
use forebay_plan::{
    Binary, EpochPlan, Expr, Function, Graph, ImageMode, Node, Op, OpReport, Site, Source, Stages, ops,
};
use serde_json::Value;

/// The cost of a row of the function; everything else takes no time.
const ROW_NANOS: u64 = 1000;

thread_local! {
    /// The time of each thread, which its calls of the function advance.
    static SPENT: Cell<u64> = const { Cell::new(0) };
}

/// A function that triples ids.
#[derive(Default)]
struct Costly;

struct Watch;

impl Stopwatch for Watch {
    fn nanos(&self) -> u64 {
        SPENT.get()
    }
}

/// A clock with arbitrary readings.
struct Mad(AtomicU64);

impl Stopwatch for Mad {
    fn nanos(&self) -> u64 {
        self.0.fetch_add(0x9E37_79B9_7F4A_7C15, Relaxed) >> 20
    }
}

impl Functions for Costly {
    fn map(
        &self,
        _: &Function,
        _: &Pickle,
        input: &Chunk,
        _: Option<Randomness>,
        _: &Arc<Schema>,
    ) -> Result<Vec<ArrayRef>> {
        SPENT.set(SPENT.get() + input.num_rows() as u64 * ROW_NANOS);
        Ok(tripled(&ids(input)?))
    }
}

fn even() -> Op {
    let id = Box::new(Expr::Col { name: "id".into() });
    let rest = Expr::Binary { op: Binary::Mod, left: id, right: Box::new(Expr::Int { value: 2 }) };
    let zero = Box::new(Expr::Int { value: 0 });
    Op::FilterExpr(ops::FilterExpr { predicate: Expr::Binary { op: Binary::Eq, left: Box::new(rest), right: zero } })
}

fn executable(source: &Source, ops: &[Op], cache: Option<&Arc<Cache>>, watch: Arc<dyn Stopwatch>) -> Arc<Executable> {
    build(source, ops, cache, watch, Arc::default())
}

fn build(
    source: &Source,
    ops: &[Op],
    cache: Option<&Arc<Cache>>,
    watch: Arc<dyn Stopwatch>,
    functions: Arc<Costly>,
) -> Arc<Executable> {
    let site = |line| Some(Site { file: "train.py".to_owned(), line });
    let graph = Graph::new(source.clone(), site(1)).expect("a source");
    let node = |(line, op): (u32, &Op)| Node { site: site(line), ..Node::new(op.clone()) };
    let graph = (2..).zip(ops).map(node).try_fold(graph, |g, node| g.then(node)).expect("legal");
    let stages = Arc::new(Stages::new(&graph).expect("legal"));
    let index =
        forebay_io::index(source, &forebay_io::Allowed::everything(), stages.counted, None, None, 1, &|_, _| Ok(()))
            .expect("an index");
    let plan = EpochPlan::new(&stages, index.extent(), Seed(9), 1, None).expect("a plan");
    let environment = Environment {
        blobs: Arc::new(Empty),
        functions,
        memory: Memory::reused(),
        cache_context: cache.cloned().map(CacheContext::new),
        watch,
    };
    Executable::new(stages, Arc::new(plan), Some(index), &environment).expect("opens")
}

/// Runs everything, and returns the bytes of the deliveries.
fn run(executable: &Arc<Executable>, threads: usize, epochs: u64) -> Vec<u8> {
    let options = LocalOptions { threads, end_epoch: Some(epochs), ..LocalOptions::default() };
    let mut stream = LocalStream::start(executable.clone(), options).expect("starts");
    let mut all = Vec::new();
    while let Some(delivery) = stream.next(&mut || Ok(())).expect("no error") {
        write_ipc(&[delivery.chunk], true, &mut all).expect("memory");
    }
    all
}

fn ops(executable: &Executable) -> Vec<Value> {
    let stats: Value = serde_json::from_str(&executable.stats()).expect("JSON");
    stats["ops"].as_array().expect("a list").clone()
}

/// Returns rows and bytes of an op: in and out.
fn flow(op: &Value) -> [u64; 4] {
    ["rows_in", "rows_out", "bytes_in", "bytes_out"].map(|key| op[key].as_u64().expect("a number"))
}

fn range(stop: i64) -> Source {
    Source::Range { start: 0, stop, step: 1 }
}

#[test]
fn sums_are_those_of_what_ran_in_run_order() {
    let (rows, batch) = (100_000, Op::Batch(ops::Batch { size: 64, drop_remainder: false }));
    let executable = build(&range(rows), &[even(), triple(true), batch], None, Arc::new(Watch), Arc::default());
    assert_eq!(ops(&executable), Vec::<Value>::new(), "nothing ran");
    run(&executable, 1, 1);
    let ops = ops(&executable);
    let names: Vec<_> = ops.iter().map(|op| (op["op"].as_str(), op["line"].as_str())).collect();
    let named = |op, line| (Some(op), Some(line));
    assert_eq!(
        names,
        [
            named("read", "train.py:1"),
            named("filter", "train.py:2"),
            named("map", "train.py:3"),
            named("batch", "train.py:4")
        ]
    );
    // Every row has the same length, so scaled figures are exact, too.
    assert_eq!(flow(&ops[0]), [100_000, 100_000, 0, 800_000]);
    assert_eq!(flow(&ops[1]), [100_000, 50_000, 800_000, 400_000]);
    assert_eq!(flow(&ops[2]), [50_000, 50_000, 400_000, 800_000]);
    assert_eq!(flow(&ops[3]), [50_000, 50_000, 800_000, 800_000]);
    let seconds: Vec<_> = ops.iter().map(|op| op["seconds"].as_f64().expect("a number")).collect();
    // The determinism check calls a function again for one row in 128. Some of the few timed morsels have more such
    // rows than others.
    let all = 50_000.0 * ROW_NANOS as f64 / 1e9;
    assert!((all..all * 1.1).contains(&seconds[2]), "{seconds:?}");
    assert_eq!((seconds[0], seconds[1], seconds[3]), (0.0, 0.0, 0.0));
}

#[test]
fn fused_ops_are_one_and_their_bytes_are_those_of_files_and_of_pixels() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/image");
    let is_png = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "png");
    let files: Vec<_> =
        std::fs::read_dir(&folder).expect("a folder").map(|file| file.expect("a file").path()).collect();
    let sizes: Vec<u64> =
        files.iter().filter(|path| is_png(path)).map(|path| path.metadata().expect("one").len()).collect();
    let source = Source::Files { paths: vec![folder.join("*.png").display().to_string()] };
    let column = || "bytes".to_owned();
    let decode = Op::DecodeImage(ops::DecodeImage { column: column(), mode: ImageMode::Rgb, exif: false });
    let resize = Op::Resize(ops::Resize {
        column: column(),
        height: 8,
        width: 6,
        antialias: true,
        interpolation: Default::default(),
    });
    let executable = executable(&source, &[decode, resize], None, Arc::new(SystemClock::default()));
    run(&executable, 3, 1);
    let ops = ops(&executable);
    assert_eq!((ops.len(), ops[1]["op"].as_str()), (2, Some("decode_image + resize")));
    let (rows, [read, fused]) = (sizes.len() as u64, [flow(&ops[0]), flow(&ops[1])]);
    assert_eq!((read[1], fused[0], fused[1]), (rows, rows, rows));
    assert_eq!(read[3], fused[2], "what was read goes in");
    // Paths, and the offsets of values, are bytes too.
    let others = fused[2] - sizes.iter().sum::<u64>();
    assert!((rows..rows * 300).contains(&others), "{others}");
    let pixels = rows * 8 * 6 * 3;
    assert!((pixels..pixels + others).contains(&fused[3]), "{fused:?}");
    assert!(ops[1]["seconds"].as_f64() > Some(0.0));
}

#[test]
fn rows_that_are_found_are_not_computed() {
    let cache = Cache::open(&Options { memory: 1 << 30, disk: None, store: None }).expect("opens");
    let ops_of = |epochs| {
        let executable = executable(
            &range(3000),
            &[triple(true), Op::Cache(ops::Cache { freeze: false }), even()],
            Some(&cache),
            Arc::new(SystemClock::default()),
        );
        run(&executable, 2, epochs);
        ops(&executable)
    };
    let first = ops_of(2);
    let rows: Vec<_> = first.iter().map(|op| (op["op"].as_str().unwrap_or(""), flow(op)[0], flow(op)[1])).collect();
    assert_eq!(rows, [("read", 3000, 3000), ("map", 3000, 3000), ("cache", 6000, 6000), ("filter", 6000, 3000)]);
    assert_eq!(first[2]["rows_found"], 3000);
    let second = ops_of(1);
    let rows: Vec<_> = second.iter().map(|op| (op["op"].as_str().unwrap_or(""), flow(op)[0])).collect();
    assert_eq!(rows, [("cache", 3000), ("filter", 3000)]);
    assert_eq!(second[0]["rows_found"], 3000);
}

#[test]
fn a_source_that_is_not_counted_is_read_in_pieces_that_are() {
    let path = std::env::temp_dir().join(format!("forebay-metered-{}.txt", std::process::id()));
    let lines: String = (0..5000).map(|n| format!("{n:05}\n")).collect();
    std::fs::write(&path, lines).expect("room");
    let source = Source::Text { paths: vec![path.display().to_string()] };
    let executable = executable(
        &source,
        &[Op::Batch(ops::Batch { size: 10, drop_remainder: false })],
        None,
        Arc::new(SystemClock::default()),
    );
    run(&executable, 2, 1);
    std::fs::remove_file(&path).expect("ours");
    let ops = ops(&executable);
    let rows: Vec<_> = ops.iter().map(|op| (op["op"].as_str().unwrap_or(""), flow(op)[0], flow(op)[1])).collect();
    assert_eq!(rows, [("read", 5000, 5000), ("batch", 5000, 5000)]);
}

#[test]
fn what_is_told_while_it_runs_adds_up() {
    let executable = executable(&range(20_000), &[even(), triple(true)], None, Arc::new(SystemClock::default()));
    let options = LocalOptions { threads: 2, ..LocalOptions::default() };
    let mut stream = LocalStream::start(executable.clone(), options).expect("starts");
    let mut told: Vec<OpReport> = Vec::new();
    let mut hear = |said: Vec<OpReport>| {
        for said in said {
            match told.iter_mut().find(|op| op.places == said.places) {
                Some(op) => op.sums.add(&said.sums),
                None => told.push(said),
            }
        }
    };
    while stream.next(&mut || Ok(())).expect("no error").is_some() {
        hear(executable.meter().take(2));
    }
    (0..3).for_each(|_| hear(executable.meter().take(2)));
    let rows: Vec<_> = told.iter().map(|op| (op.places.clone(), op.sums.rows_in, op.sums.rows_out)).collect();
    assert_eq!(rows, [(vec![], 20_000, 20_000), (vec![0], 20_000, 10_000), (vec![1], 10_000, 10_000)]);
}

#[test]
fn no_clock_is_seen_in_a_sample() {
    let ops = [Op::SHUFFLE, even(), triple(true), Op::Batch(ops::Batch { size: 7, drop_remainder: false })];
    let want = run(&executable(&range(9000), &ops, None, Arc::new(SystemClock::default())), 1, 2);
    for threads in 1..4 {
        let got = run(&executable(&range(9000), &ops, None, Arc::new(Mad(AtomicU64::new(0)))), threads, 2);
        assert!(got == want, "with {threads} threads");
    }
}
