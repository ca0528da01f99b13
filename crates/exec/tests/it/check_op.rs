//! The suite that each op passes, over one sample of each: its schema is the declared one; its rows are reproducible,
//! on any number of threads and for any cut into morsels; it reads and writes the declared columns; it draws random
//! numbers exactly if it declares so; wrong arguments are errors with a hint.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_array::Array;
use bytes::Bytes;
use forebay_core::{Epoch, ErrorKind, Result, Seed};
use forebay_data::{Chunk, RowId, write_ipc};
use forebay_exec::{Executable, LocalOptions, LocalStream};
use forebay_plan::{BlobId, EpochPlan, Extent, Graph, Node, Op, Reorder, Source, Stages, describe, ops};

use crate::common::random::{environment, is_row_op, rows};
use crate::common::samples::{Sample, SampleBlobs, samples};

pub(crate) const SEED: Seed = Seed(5);
/// Enough rows for several morsels.
const COPIES: usize = 20;

/// The rows of a source of arrays, beside the blobs of samples.
struct Arrays(Bytes);

impl forebay_io::Blobs for Arrays {
    fn get(&self, id: &BlobId) -> Result<Bytes> {
        if id.0 == "x" { Ok(self.0.clone()) } else { SampleBlobs.get(id) }
    }
}

/// A pipeline over the columns of `given`.
fn graph(given: &Chunk, ops: &[&Op]) -> Graph {
    let fields = given.schema().fields().to_vec();
    let source = Source::Memory { blob: BlobId("x".to_owned()), rows: given.num_rows() as u64, fields };
    let graph = Graph::new(source, None).expect("a source").with_reorder(Reorder::Off);
    ops.iter().fold(graph, |graph, op| graph.then(Node::new((*op).clone())).expect("a legal sample"))
}

/// Runs a row op alone over given rows, all columns of which are read.
pub(crate) fn run(op: &Op, batch: Option<&Op>, seed: Seed, given: &Chunk) -> Chunk {
    let all = Op::Cache(ops::Cache { freeze: false });
    let ops: Vec<_> = [Some(&all), batch, Some(op)].into_iter().flatten().collect();
    let graph = graph(given, &ops);
    let stages = Arc::new(Stages::new(&graph).expect("stages"));
    let extent =
        Extent { rows: Some(given.num_rows() as u64), blocks: 1, bytes: 0, is_compressed: false, parts: Vec::new() };
    let plan = Arc::new(EpochPlan::new(&stages, extent, seed, 1, None).expect("a plan"));
    let executable = Executable::for_rows(stages, plan, &environment(Arc::new(SampleBlobs))).expect("opens");
    let done = executable.finish(given.clone(), 0).expect("good rows");
    assert_eq!(**done.schema(), *graph.schema(), "{}: not the schema that it said", describe(op));
    done
}

/// Runs a pipeline over a source on some threads, and returns its deliveries.
fn stream(op: &Op, batch: Option<&Op>, given: &Chunk, threads: usize) -> Vec<Chunk> {
    let mut blob = Vec::new();
    write_ipc(std::slice::from_ref(given), false, &mut blob).expect("arrays");
    let graph = graph(given, &batch.into_iter().chain([op]).collect::<Vec<_>>());
    let stages = Arc::new(Stages::new(&graph).expect("stages"));
    let everything = forebay_io::Allowed::everything();
    let index = forebay_io::index(graph.source(), &everything, stages.counted, None, None, 1, &|_, _| Ok(()));
    let index = index.expect("an index");
    let plan = Arc::new(EpochPlan::new(&stages, index.extent(), SEED, 1, None).expect("a plan"));
    let environment = environment(Arc::new(Arrays(blob.into())));
    let executable = Executable::new(stages, plan, Some(index), &environment).expect("opens");
    let options = LocalOptions { threads, end_epoch: Some(1), ..LocalOptions::default() };
    let mut stream = LocalStream::start(executable, options).expect("starts");
    let mut chunks = Vec::new();
    while let Some(delivery) = stream.next(&mut || Ok(())).expect("good rows") {
        chunks.push(delivery.chunk);
    }
    chunks
}

/// Returns the input rows of a sample's op, and its batches.
pub(crate) fn given(sample: &Sample) -> (Chunk, Option<&Op>) {
    let (batches, makers): (Vec<_>, Vec<_>) =
        sample.before.iter().partition(|op| matches!(op, Op::Batch(_) | Op::PaddedBatch(_)));
    (makers.into_iter().fold(rows(), |rows, op| run(op, None, SEED, &rows)), batches.first().copied())
}

/// Calls `check` with each row op, its batches and its rows.
fn each_row_op(check: impl Fn(&Op, Option<&Op>, &Chunk)) {
    for sample in samples().iter().filter(|sample| is_row_op(&sample.op)) {
        let (rows, batch) = given(sample);
        check(&sample.op, batch, &rows);
    }
}

#[track_caller]
fn assert_same(op: &Op, got: &Chunk, want: &Chunk, how: &str) {
    assert!(got.ids() == want.ids() && got.same_bits(want), "{}: {how}", describe(op));
}

#[test]
fn every_op_has_a_sample() {
    let sampled: BTreeSet<_> = samples().iter().map(|sample| sample.op.variant()).collect();
    assert_eq!(sampled, Op::VARIANTS.iter().copied().collect(), "add it to common/samples/");
}

#[test]
fn an_op_is_written_down_and_read_again() {
    for Sample { op, .. } in samples() {
        let mut json = serde_json::to_value(&op).expect("JSON");
        let tag: String = json["op"].as_str().expect("its tag").split('_').collect();
        assert_eq!(tag, op.variant().to_lowercase());
        assert_eq!(serde_json::from_value::<Op>(json.clone()).expect("an op"), op);
        json["surplus"] = 1.into();
        assert!(serde_json::from_value::<Op>(json).is_err(), "{}", describe(&op));
        assert!(describe(&op).starts_with(&format!("{}(", op.name())));
    }
}

/// A pipeline with each op, and its dataset id: saved states and caches of a job are identified by it.
#[test]
fn an_op_keeps_the_json_and_the_dataset_ids_that_it_has() {
    let line = |sample: &Sample| {
        let graph = graph(&rows(), &sample.before.iter().chain([&sample.op]).collect::<Vec<_>>());
        assert_eq!(Graph::from_json(&graph.to_json()).expect("its own JSON").dataset_id(), graph.dataset_id());
        format!("{} {}\n", graph.dataset_id(), graph.to_json())
    };
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/ops.txt");
    let golden = std::fs::read_to_string(path).unwrap_or_default();
    let missing: String = samples().iter().map(line).filter(|line| !golden.contains(line)).collect();
    assert!(missing.is_empty(), "a new op has its line in {path}, and no line changes:\n{missing}");
    assert_eq!(golden.lines().count(), samples().len(), "{path} has lines of no sample");
}

#[test]
fn wrong_arguments_are_errors_with_a_hint() {
    for sample in samples() {
        let (rows, _) = given(&sample);
        sample.op.apply(rows.schema()).expect("the sample itself is good");
        for op in &sample.refused {
            let Err(error) = op.apply(rows.schema()) else { panic!("{} is accepted", describe(op)) };
            let helps = match error.kind() {
                ErrorKind::NotFound => "columns",
                kind => {
                    assert_eq!(kind, ErrorKind::Invalid, "{error}");
                    "hint"
                }
            };
            assert!(error.get(helps).is_some(), "{}: {error}", describe(op));
        }
    }
}

#[test]
fn rows_are_the_same_again_and_for_any_cut() {
    each_row_op(|op, batch, given| {
        let whole = run(op, batch, SEED, given);
        assert_same(op, &run(op, batch, SEED, given), &whole, "other rows the second time");
        let step = match batch {
            Some(Op::Batch(ops::Batch { size, .. }) | Op::PaddedBatch(ops::PaddedBatch { size, .. })) => *size,
            _ => 1,
        };
        for at in (step..given.num_rows()).step_by(step) {
            let parts = [given.slice(0, at), given.slice(at, given.num_rows() - at)];
            let parts = parts.map(|part| run(op, batch, SEED, &part));
            assert_same(op, &Chunk::concat(&parts).expect("one schema"), &whole, &format!("cut after {at} rows"));
        }
    });
}

#[test]
fn threads_change_nothing() {
    for sample in samples() {
        let (rows, batch) = given(&sample);
        let rows = Chunk::concat(&vec![rows; COPIES]).expect("one schema");
        let alone = stream(&sample.op, batch, &rows, 1);
        for threads in [2, 5] {
            let together = stream(&sample.op, batch, &rows, threads);
            assert_eq!(together.len(), alone.len(), "{}", describe(&sample.op));
            for (got, want) in together.iter().zip(&alone) {
                assert_same(&sample.op, got, want, &format!("other rows on {threads} threads"));
            }
        }
        if is_row_op(&sample.op) && !sample.op.is_random() {
            let streamed = Chunk::concat(&alone).expect("one schema");
            assert!(streamed.same_bits(&run(&sample.op, batch, SEED, &rows)), "{}", describe(&sample.op));
        }
    }
}

#[test]
fn an_op_draws_random_numbers_if_it_says_so() {
    each_row_op(|op, batch, given| {
        let once = run(op, batch, SEED, given);
        let other_seed = run(op, batch, Seed(6), given);
        assert_eq!(!op.is_random(), once.same_bits(&other_seed), "{}", describe(op));
        let later = given.ids().iter().map(|id| RowId { epoch: Epoch(1), ..*id }).collect();
        let later = given.with_ids(later).expect("as many ids");
        assert!(op.is_random() || run(op, batch, SEED, &later).same_bits(&once), "{}", describe(op));
    });
}

#[test]
fn an_op_reads_and_writes_the_columns_that_it_declares() {
    each_row_op(|op, batch, given| {
        let Some(access) = op.access(given.schema()) else { return };
        let touches = |name: &String| access.reads.contains(name) || access.writes.contains(name);
        let whole = run(op, batch, SEED, given);
        let place = |id: &RowId| given.ids().iter().position(|own| own == id).expect("one of the rows") as u32;
        let kept = given.take(&whole.ids().iter().map(place).collect::<Vec<_>>()).expect("its rows");
        let names = || whole.schema().fields().iter().map(|field| &field.name);
        let data = |chunk: &Chunk, name: &str| chunk.column(name).expect("a column").to_data();
        for name in names().filter(|name| !access.writes.contains(name)) {
            assert!(data(&whole, name) == data(&kept, name), "{} writes {name}", describe(op));
        }
        let places: Vec<u32> = (0..given.num_rows() as u32).rev().collect();
        let reversed = given.take(&places).expect("its rows");
        for field in given.schema().fields().iter().filter(|field| !touches(&field.name)) {
            let column = reversed.column(&field.name).expect("a column").clone();
            let changed = given.with_column(field.clone(), column).expect("its kind");
            let got = run(op, batch, SEED, &changed);
            assert_eq!(got.ids(), whole.ids(), "{} reads {}", describe(op), field.name);
            for name in names().filter(|name| **name != field.name) {
                assert!(data(&got, name) == data(&whole, name), "{} reads {}", describe(op), field.name);
            }
        }
    });
    let declared = samples().iter().filter(|sample| sample.op.access(given(sample).0.schema()).is_some()).count();
    assert!(declared > 20, "{declared} samples declare their columns");
}
