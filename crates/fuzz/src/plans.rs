//! Pipelines, jobs, saved states and ledger records: the JSON that describes a computation.

use std::sync::Arc;

use forebay_core::{ConsumerIndex, Epoch, Error, Ordinal, Result, Seed, SystemClock};
use forebay_data::Memory;
use forebay_exec::{Environment, Executable, LocalOptions, LocalStream, NoFunctions, Position};
use forebay_io::NoBlobs;
use forebay_plan::{EpochPlan, Extent, Graph, Op, Sizing, Source, Stages, explain, ops};

/// Pipelines over more rows, or with larger batches, are planned but not run.
const ROWS_MAX: u64 = 256;

fn environment() -> Environment {
    Environment {
        blobs: Arc::new(NoBlobs),
        functions: Arc::new(NoFunctions),
        memory: Memory::default(),
        cache_context: None,
        watch: Arc::new(SystemClock::default()),
    }
}

/// A graph: parsed, written, planned, and run if it is small.
pub(crate) fn graph(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(graph) = Graph::from_json(text) else { return };
    let again = Graph::from_json(&graph.to_json()).expect("it wrote itself");
    assert_eq!(again.dataset_id(), graph.dataset_id());
    assert_eq!(again.difference(&graph), None);
    let _ = graph.blobs();
    let Ok(stages) = Stages::new(&graph) else { return };
    let _ = explain(&stages, None);
    let source = graph.source();
    if let Source::Range { .. } = source
        && source.rows().is_some_and(|rows| rows <= ROWS_MAX)
        && graph.nodes().iter().all(|node| is_small(&node.op))
    {
        let _ = run(&Arc::new(stages), Position::default());
    }
}

fn is_small(op: &Op) -> bool {
    match op {
        Op::Batch(ops::Batch { size, .. }) | Op::PaddedBatch(ops::PaddedBatch { size, .. }) => *size as u64 <= ROWS_MAX,
        Op::Annotated(op) => is_small(&op.of),
        Op::Repeat(ops::Repeat { count }) => count.is_some_and(|n| n <= 4),
        Op::Resize(ops::Resize { height, width, .. }) => height.saturating_mul(*width) <= 1 << 12,
        _ => true,
    }
}

/// Runs the first few deliveries of a pipeline over a range.
fn run(stages: &Arc<Stages>, from: Position) -> Result<()> {
    let source = stages.graph.source();
    let index = forebay_io::index(source, &forebay_io::Allowed::everything(), true, None, None, 1, &|_, _| Ok(()))?;
    let plan = EpochPlan::new(stages, index.extent(), Seed(1), 1, None)?;
    let executable = Executable::new(stages.clone(), Arc::new(plan), Some(index), &environment())?;
    let end_epoch = Some(from.epoch.saturating_add(1));
    let options = LocalOptions { threads: 1, end_epoch, from, ..LocalOptions::default() };
    let mut stream = LocalStream::start(executable, options)?;
    let mut polls = 0;
    let mut poll = || {
        polls += 1;
        if polls < 100 { Ok(()) } else { Err(Error::internal("it takes too long")) }
    };
    for _ in 0..8 {
        if stream.next(&mut poll)?.is_none() {
            break;
        }
    }
    Ok(())
}

/// A job as the dispatcher sends it: graph, extent, sizing and index, each on a line.
pub(crate) fn job(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut lines = text.split('\n');
    let mut line = || lines.next().unwrap_or_default();
    let (Ok(graph), Ok(extent)) = (Graph::from_json(line()), serde_json::from_str::<Extent>(line())) else { return };
    let sizing = serde_json::from_str::<Option<Sizing>>(line()).unwrap_or_default();
    let consumers = line().parse().unwrap_or(1);
    let Ok(stages) = Stages::new(&graph) else { return };
    let Ok(plan) = EpochPlan::new(&stages, extent, Seed(1), consumers, sizing) else { return };
    for consumer in [0, consumers.saturating_sub(1), u32::MAX].map(ConsumerIndex) {
        let splits = plan.num_splits(consumer);
        for split in [0, splits.unwrap_or(u64::MAX).saturating_sub(1), u64::MAX] {
            for morsel in plan.morsels(consumer, Ordinal(split)).take(2) {
                if plan.sizing().unit_rows.saturating_mul(plan.sizing().morsel_units) <= 1 << 12 {
                    plan.places(Epoch(split), consumer, morsel, |_, _| {});
                }
            }
        }
    }
}

/// The position of a saved state, in pipelines of each kind.
pub(crate) fn state(data: &[u8]) {
    let Ok(position) = serde_json::from_slice::<Position>(data) else { return };
    let source = r#"{"version":1,"source":{"source":"range","start":0,"stop":200,"step":1},"nodes":["#;
    let even = r#"{"op":{"op":"filter_expr","predicate":[{"expr":"col","name":"id"},{"expr":"int","value":150},{"expr":"binary","op":"lt"}]}}"#;
    for ops in [
        r#"{"op":{"op":"shuffle"}},{"op":{"op":"batch","size":7,"drop_remainder":false}}]}"#.to_owned(),
        format!(r#"{even},{{"op":{{"op":"skip","count":3}}}},{{"op":{{"op":"take","count":90}}}}]}}"#),
    ] {
        let graph = Graph::from_json(&format!("{source}{ops}")).expect("a pipeline");
        let stages = Arc::new(Stages::new(&graph).expect("a pipeline"));
        let _ = run(&stages, position.clone());
    }
}

/// A job's record in the dispatcher's ledger, read as at the start.
pub(crate) fn ledger(data: &[u8]) {
    let _ = forebay_dispatcher::check_job_record(data);
}
