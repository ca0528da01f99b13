//! The contract of source formats: [`check_format`] runs the same checks on small files of each format.
//!
//! A new format adds its variant of `Source` to the list at the end of this file, and its files to `samples`. The list is
//! exhaustive: without the variant, this file does not compile.

mod damage;
mod makers;
mod samples;
mod windows;

use std::sync::Arc;

use crate::support::{Kept, places};
use forebay_core::{Epoch, ErrorKind, Result};
use forebay_data::{Chunk, MemoryBudget};
use forebay_io::{Allowed, ReadOptions, Reader, SourceIndex};
use forebay_plan::{Graph, Node, Op, Permutation, RowsKnown, Source, Stages, ops};

use makers::Sample;

const EPOCH: Epoch = Epoch(3);
/// The chunks of streams: one row, some that divide no block, and more than any block has.
const STEPS: [usize; 3] = [1, 3, 1000];

/// Runs all checks on the samples of a format.
fn check_format(variant: &str, samples: &[Sample]) {
    assert!(!samples.is_empty(), "{variant}: a format needs a sample");
    for sample in samples {
        let source = sample.source();
        assert_eq!(variant_of(&source), variant, "{}: a sample of another format", sample.name);
        facts_agree_with_what_reading_finds(sample, &source);
        if let Source::Combined(_) = source {
            indexing_again_gives_the_same_index(sample, &source);
        }
        if source.facts().rows == RowsKnown::Never || matches!(source, Source::MapDataset { .. } | Source::Combined(_))
        {
            others_read_it(&source);
            continue;
        }
        indexing_again_gives_the_same_index(sample, &source);
        let whole = rows_are_the_same_however_they_are_read(sample, &source);
        columns_are_the_same_without_others(sample, &source, &whole);
        windows::have_the_rows_of_the_files(sample, &source, &whole);
        if source.reads_files() {
            damage::another_file_is_refused(sample, &source);
            damage::damage_stays_in_its_file(sample, &source, &whole);
        }
    }
}

fn index(source: &Source, is_counted: bool) -> Result<SourceIndex> {
    crate::support::index(source, is_counted)
}

fn open(sample: &Sample, source: &Source, index: &SourceIndex, options: ReadOptions) -> Result<Arc<dyn Reader>> {
    let crossed = SourceIndex::from_bytes(&index.to_bytes())?;
    forebay_io::open(source, crossed, &Kept(sample.blobs.clone()), options)
}

/// Streams every block, and joins the rows.
fn streamed(reader: &dyn Reader, blocks: u64, step: usize) -> Chunk {
    let chunks = crate::support::stream_all(reader, blocks, step).expect("streams");
    Chunk::concat(&chunks).expect("chunks of one reader")
}

#[track_caller]
fn assert_same(got: &Chunk, want: &Chunk, how: &str) {
    assert_eq!(got.ids(), want.ids(), "{how}: other rows");
    assert!(got.same_bits(want), "{how}: other bits");
}

/// Returns row numbers in an order that `key` chooses; some numbers occur twice.
fn any_order(rows: u64, key: u64) -> Vec<u64> {
    let mut order: Vec<u64> = (0..rows).chain(0..rows.min(3)).collect();
    Permutation::new(rows, key).map(&mut order);
    order
}

/// Picks rows of a chunk.
fn picked(whole: &Chunk, rows: &[u64]) -> Chunk {
    whole.take(&rows.iter().map(|&row| row as u32).collect::<Vec<_>>()).expect("rows of the chunk")
}

fn facts_agree_with_what_reading_finds(sample: &Sample, source: &Source) {
    let (facts, name) = (source.facts(), &sample.name);
    assert_eq!(source.rows(), (facts.rows == RowsKnown::AtOnce).then_some(sample.rows), "{name}: rows at once");
    assert_eq!(source.can_index(), facts.rows != RowsKnown::Never, "{name}");
    assert_eq!(source.reads_files(), !source.paths().is_empty(), "{name}: it reads files exactly if it has paths");
    assert!(!source.is_remote(), "{name}");
    if facts.rows == RowsKnown::Never {
        return;
    }
    let (listed, counted) = (index(source, false).expect("lists"), index(source, true).expect("counts"));
    let known_when_listed = (facts.rows != RowsKnown::ByReading).then_some(sample.rows);
    assert_eq!(listed.rows(), known_when_listed, "{name}: rows of an index that is not counted");
    assert_eq!(counted.rows(), Some(sample.rows), "{name}: rows of an index that is counted");
    assert_eq!(counted.files().len() > 0, source.reads_files(), "{name}: files");
    assert_eq!(*counted.block_starts().last().expect("a start"), sample.rows, "{name}: blocks have all rows");
    let folders = source.paths().iter().filter(|path| std::path::Path::new(path).is_dir()).count();
    assert_eq!(folders, if facts.names_folders { source.paths().len() } else { 0 }, "{name}: paths that are folders");
    if facts.is_lines && !counted.extent().is_compressed {
        // The last line of a file may have no end.
        let lines = sample.line_ends() + sample.files().len();
        assert!(lines as u64 >= sample.rows, "{name}: {lines} lines");
    }
}

fn others_read_it(source: &Source) {
    let index = index(source, false).expect("there is nothing to list");
    let refused = forebay_io::open(source, index, &Kept::default(), ReadOptions::default()).err().expect("refused");
    assert_eq!(refused.kind(), ErrorKind::Internal);
    assert!(refused.message().starts_with(source.name()), "{refused}");
}

fn indexing_again_gives_the_same_index(sample: &Sample, source: &Source) {
    let cache = tempfile::tempdir().expect("a folder");
    for is_counted in [false, true] {
        let want = index(source, is_counted).expect("indexes");
        // The second index with a cache uses the tables that the first one kept.
        for (threads, cache) in [(1, None), (5, None), (2, Some(cache.path())), (2, Some(cache.path()))] {
            let everything = Allowed::everything();
            let again = forebay_io::index(source, &everything, is_counted, cache, None, threads, &|_, _| Ok(()));
            assert_eq!(again.expect("indexes"), want, "{}: {threads} threads", sample.name);
        }
        assert_eq!(SourceIndex::from_bytes(&want.to_bytes()).expect("reads itself"), want, "{}", sample.name);
    }
}

/// Returns all rows, read at once.
fn rows_are_the_same_however_they_are_read(sample: &Sample, source: &Source) -> Chunk {
    let (name, counted) = (&sample.name, index(source, true).expect("counts"));
    let listed = index(source, false).expect("lists");
    let opened = |index, options| open(sample, source, index, options).expect("opens");
    let reader = opened(&counted, ReadOptions::default());
    let whole = reader.gather(&places(0..sample.rows)).expect("gathers");
    assert_eq!(**whole.schema(), source.schema().expect("a schema"), "{name}: the schema that the source says");
    let all: Vec<Chunk> = (0..whole.num_rows()).map(|row| whole.slice(row, 1)).collect();
    let is_twice = |row: usize| all[row + 1..].iter().any(|other| other.same_bits(&all[row]));
    assert!(!(0..all.len()).any(is_twice), "{name}: equal rows in a sample would hide an order that is wrong");
    for step in STEPS {
        let how = format!("{name}: streamed by {step}");
        assert_same(&streamed(&*reader, counted.blocks(), step), &whole, &how);
        let by_listing = opened(&listed, ReadOptions::default());
        assert_same(&streamed(&*by_listing, listed.blocks(), step), &whole, &format!("{how}, not counted"));
    }
    let small = ReadOptions { window_rows: 5, budget: MemoryBudget::of(1 << 20), ..ReadOptions::default() };
    for options in [ReadOptions::default(), small] {
        let reader = opened(&counted, options);
        std::thread::scope(|scope| {
            for key in 0..4 {
                let (reader, whole) = (&*reader, &whole);
                scope.spawn(move || gathered_and_streamed(name, reader, counted_blocks(sample, source), whole, key));
            }
        });
    }
    whole
}

fn counted_blocks(sample: &Sample, source: &Source) -> u64 {
    index(source, true).unwrap_or_else(|e| panic!("{}: {e}", sample.name)).blocks()
}

/// Reads rows in an order and in ranges that `key` chooses. Several threads run this with one reader.
fn gathered_and_streamed(name: &str, reader: &dyn Reader, blocks: u64, whole: &Chunk, key: u64) {
    let rows = whole.num_rows() as u64;
    let order = any_order(rows, key);
    let gather = |rows: &[u64]| reader.gather(&places(rows.iter().copied())).expect("gathers");
    assert_same(&gather(&order), &picked(whole, &order), &format!("{name}: order {key}"));
    assert_eq!(gather(&[]).num_rows(), 0, "{name}: no rows");
    for pair in order.chunks_exact(2) {
        let mut range: Vec<u64> = (pair[0].min(pair[1])..=pair[0].max(pair[1])).collect();
        assert_same(&gather(&range), &picked(whole, &range), &format!("{name}: range {range:?}"));
        if range.len() > 3 {
            range.swap(1, 2);
            assert_same(&gather(&range), &picked(whole, &range), &format!("{name}: rows {range:?}"));
        }
    }
    for block in any_order(blocks, key) {
        let chunks: Result<Vec<_>> = reader.stream(block, EPOCH, 2).expect("streams").collect();
        for chunk in chunks.expect("streams") {
            let wanted = whole.ids().iter().position(|id| *id == chunk.ids()[0]).expect("a row of the source");
            assert_same(&chunk, &whole.slice(wanted, chunk.num_rows()), &format!("{name}: block {block}"));
        }
    }
    let beyond = reader.gather(&places([rows])).expect_err("there is no such row");
    assert_eq!(beyond.kind(), ErrorKind::Internal, "{name}: {beyond}");
}

/// Returns the source as a pipeline reads it that keeps only some columns.
fn keeping(source: &Source, columns: &[String]) -> Source {
    let graph = Graph::new(source.clone(), None).expect("a source");
    let select = Op::Select(ops::Select { columns: columns.to_vec() });
    let graph = graph.then(Node::new(select)).expect("its own columns");
    Stages::new(&graph).expect("stages").source.clone()
}

fn columns_are_the_same_without_others(sample: &Sample, source: &Source, whole: &Chunk) {
    let names: Vec<String> = whole.schema().fields().iter().map(|field| field.name.clone()).collect();
    // Each column alone, all columns but one, and some fixed sets.
    let sets = (0..names.len()).flat_map(|i| [1_u64 << i, !(1 << i)]).chain([0x55, 0x66, 0x1b]);
    for set in sets {
        let kept: Vec<String> =
            names.iter().enumerate().filter(|(i, _)| set >> i & 1 == 1).map(|(_, name)| name.clone()).collect();
        if kept.is_empty() {
            continue;
        }
        let (narrow, how) = (keeping(source, &kept), format!("{}: columns {kept:?}", sample.name));
        let counted = index(&narrow, true).expect("counts");
        let reader = open(sample, &narrow, &counted, ReadOptions::default()).expect("opens");
        let order = any_order(sample.rows, set);
        let project = |chunk: &Chunk| chunk.project(&kept).expect("its columns");
        let gathered = reader.gather(&places(order.iter().copied())).expect("gathers");
        assert_same(&project(&gathered), &project(&picked(whole, &order)), &how);
        assert_same(&project(&streamed(&*reader, counted.blocks(), 3)), &project(whole), &how);
        // A worker may have the index of the source as it was written.
        let written = index(source, true).expect("counts");
        let reader = open(sample, &narrow, &written, ReadOptions::default()).expect("opens");
        assert_same(&project(&streamed(&*reader, written.blocks(), 4)), &project(whole), &how);
    }
}

/// Makes a test of each variant of `Source`, and a `match` that has all of them.
macro_rules! formats {
    ($($variant:ident: $test:ident),* $(,)?) => {
        fn variant_of(source: &Source) -> &'static str {
            match source {
                $(Source::$variant { .. } => stringify!($variant),)*
            }
        }

        $(
            #[test]
            fn $test() {
                check_format(stringify!($variant), &samples::$test());
            }
        )*
    };
}

formats! {
    Files: files,
    ImageFolder: image_folder,
    Tar: tar,
    Tfrecord: tfrecord,
    Parquet: parquet,
    Arrow: arrow,
    Text: text,
    Jsonl: jsonl,
    Json: json,
    Csv: csv,
    Tokens: tokens,
    Megatron: megatron,
    Mds: mds,
    Litdata: litdata,
    Memory: memory,
    MapDataset: map_dataset,
    Generator: generator,
    Range: range,
    Combined: combined,
}
