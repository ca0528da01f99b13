//! Runs the pipeline whose rows cost least: a global shuffle of numbers, eight expressions, batches of 256. It shows
//! the overhead of the engine (morsels, metering, merging) best.
//!
//! `cargo run --release -p forebay-exec --example tiny_ops [EPOCHS [THREADS]]`

#![expect(clippy::disallowed_methods, reason = "it measures")]

use std::sync::Arc;
use std::time::Instant;

use forebay_core::{Result, Seed, SystemClock};
use forebay_data::Memory;
use forebay_exec::{Environment, Executable, LocalOptions, LocalStream, NoFunctions};
use forebay_io::NoBlobs;
use forebay_plan::{Binary, EpochPlan, Expr, Graph, Node, Op, Source, Stages, ops};

const ROWS: i64 = 1_000_000;
const OPS: i64 = 8;

fn main() -> Result<()> {
    let mut numbers = std::env::args().skip(1).filter_map(|argument| argument.parse().ok());
    let (epochs, threads) = (numbers.next().unwrap_or(20), numbers.next().unwrap_or(1));
    let source = Source::Range { start: 0, stop: ROWS, step: 1 };
    let plus = |n: i64| {
        let id = Box::new(Expr::Col { name: "id".to_owned() });
        let expr = Expr::Binary { op: Binary::Add, left: id, right: Box::new(Expr::Int { value: n }) };
        Op::WithColumn(ops::WithColumn { column: format!("x{}", n % 2), value: expr })
    };
    let ops = [Op::SHUFFLE].into_iter().chain((0..OPS).map(plus));
    let ops = ops.chain([Op::Batch(ops::Batch { size: 256, drop_remainder: false })]);
    let graph = ops.map(Node::new).try_fold(Graph::new(source.clone(), None)?, |graph, node| graph.then(node))?;
    let stages = Arc::new(Stages::new(&graph)?);
    let index = forebay_io::index(&source, &forebay_io::Allowed::everything(), true, None, None, 1, &|_, _| Ok(()))?;
    let plan = Arc::new(EpochPlan::new(&stages, index.extent(), Seed(9), 1, None)?);
    let environment = Environment {
        blobs: Arc::new(NoBlobs),
        functions: Arc::new(NoFunctions),
        memory: Memory::reused(),
        cache_context: None,
        watch: Arc::new(SystemClock::default()),
    };
    let executable = Executable::new(stages, plan, Some(index), &environment)?;
    let options = LocalOptions { threads, end_epoch: Some(epochs as u64), ..LocalOptions::default() };
    let mut stream = LocalStream::start(executable, options)?;
    let (began, mut rows) = (Instant::now(), 0);
    while let Some(delivery) = stream.next(&mut || Ok(()))? {
        rows += delivery.chunk.num_rows();
    }
    println!("{:.2} M rows/s", rows as f64 / began.elapsed().as_secs_f64() / 1e6);
    Ok(())
}
