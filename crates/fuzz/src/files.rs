//! Files of each format, read in both ways: from the start, and row by row through an index.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;

use forebay_core::{Epoch, Result};
use forebay_data::{Chunk, DType, Field, Kind, Schema};
use forebay_io::{CsvDraft, CsvHeader, Draft, Features, NoBlobs, Place, ReadOptions, Reader, SourceIndex, Together};
use forebay_plan::{EpochLanes, LaneLayout, LaneWindow, Source};
use std::sync::Arc;

/// The most rows that are read of an input; more are only counted.
const ROWS_MAX: u64 = 512;
/// Indexes of larger files are only parsed.
const BYTES_MAX: u64 = 1 << 20;
/// Rows read at once.
const STEP: usize = 7;

/// A file in memory, under a path.
struct Kept {
    _file: File,
    path: String,
}

fn keep(data: &[u8]) -> Kept {
    let fd = rustix::fs::memfd_create("input", rustix::fs::MemfdFlags::CLOEXEC).expect("memory");
    let mut file = File::from(fd);
    file.write_all(data).expect("memory");
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    Kept { _file: file, path }
}

fn indexed(source: &Source, counted: bool) -> Result<SourceIndex> {
    let index = forebay_io::index(source, &forebay_io::Allowed::everything(), counted, None, None, 1, &|_, _| Ok(()))?;
    let crossed = SourceIndex::from_bytes(&index.to_bytes()).expect("an index reads back what it wrote");
    assert_eq!(crossed, index);
    Ok(index)
}

/// Reads the blocks from their starts.
fn streamed(reader: &dyn Reader, blocks: u64) -> Result<Vec<Chunk>> {
    let mut chunks = Vec::new();
    for block in 0..blocks {
        for chunk in reader.stream(block, Epoch(0), STEP)? {
            chunks.push(chunk?);
            if chunks.len() * STEP >= ROWS_MAX as usize {
                return Ok(chunks);
            }
        }
    }
    Ok(chunks)
}

/// Reads as a user would: infers, then streams without an index and gathers with one. Both must yield the same rows.
pub(crate) fn read(draft: Draft) {
    let Ok(source) = forebay_io::infer(draft, None) else { return };
    let uncounted = indexed(&source, false).and_then(|index| {
        let blocks = index.blocks();
        streamed(&*forebay_io::open(&source, index, &NoBlobs, ReadOptions::default())?, blocks)
    });
    let Ok(index) = indexed(&source, true) else { return };
    let rows = index.rows().expect("it was counted").min(ROWS_MAX);
    let reader = forebay_io::open(&source, index, &NoBlobs, ReadOptions::default()).expect("its own index");
    let places: Vec<Place> = (0..rows).map(|row| Place { row, epoch: Epoch(0) }).collect();
    let gathered: Result<Vec<Chunk>> = places.chunks(STEP).map(|places| reader.gather(places)).collect();
    let _ = reader.gather(&places.iter().rev().copied().collect::<Vec<_>>());
    if let (Ok(streamed), Ok(gathered)) = (uncounted, gathered)
        && !streamed.is_empty()
        && !gathered.is_empty()
    {
        let (a, b) = (Chunk::concat(&streamed).expect("chunks"), Chunk::concat(&gathered).expect("chunks"));
        let rows = a.num_rows().min(b.num_rows());
        assert!(a.slice(0, rows).same_bits(&b.slice(0, rows)), "streamed and gathered rows differ");
    }
}

/// The bytes of a window of [`windows`]: many pieces of a small file.
const WINDOW_BYTES: u64 = 2 << 10;

/// Reads the rows of every window, in order with one reader, or each with a new reader. Samples are named by their
/// offsets.
fn window_rows(source: &Source, index: &SourceIndex, alone: bool) -> Result<Vec<(u64, Chunk)>> {
    let open = || forebay_io::open(source, index.clone(), &NoBlobs, ReadOptions::default());
    let (sizes, extent) = (index.window_sizes(), index.extent());
    let layout = LaneLayout::new(extent.blocks, extent.bytes, WINDOW_BYTES, !extent.is_compressed);
    let lanes = Arc::new(EpochLanes::new(layout, &sizes, 5));
    let (mut rows, first) = (Vec::new(), open()?);
    for number in 0..layout.windows() {
        let reader = if alone { &open()? } else { &first };
        for chunk in reader.window(&LaneWindow { lanes: lanes.clone(), number, epoch: Epoch(0) }, STEP, 0)? {
            let chunk = chunk?;
            let lost = chunk.losses().iter().map(|loss| (loss.row.sample.0, chunk.slice(0, 0)));
            let kept = chunk.ids().iter().enumerate().map(|(i, id)| (id.sample.0, chunk.slice(i, 1)));
            rows.extend(lost.chain(kept));
        }
    }
    rows.sort_by_key(|(sample, _)| *sample);
    Ok(rows)
}

/// The windows of a shuffle have the rows of streaming, for any first window of a reader, or one of them refuses the
/// file.
pub(crate) fn windows(data: &[u8]) {
    let Some((format, data)) = data.split_first().filter(|(_, data)| data.len() as u64 <= BYTES_MAX) else { return };
    let kept = keep(data);
    let paths = vec![kept.path.clone()];
    let draft = match format % 4 {
        0 => Draft::Tar { paths, extensions: Some(vec!["txt?".to_owned()]) },
        1 => Draft::Tfrecord { paths, features: Features::Raw, verify: true },
        2 => Draft::Tfrecord { paths, features: Features::Raw, verify: false },
        _ => Draft::Text { paths },
    };
    let Ok(source) = forebay_io::infer(draft, None) else { return };
    let Ok(index) = indexed(&source, false) else { return };
    let Ok(in_order) = window_rows(&source, &index, false) else {
        assert!(window_rows(&source, &index, true).is_err(), "a window refuses the file, depending on who reads it");
        return;
    };
    let alone = window_rows(&source, &index, true).expect("no window refuses the file");
    assert_eq!(in_order.len(), alone.len(), "rows depend on who reads them");
    for ((a, left), (b, right)) in in_order.iter().zip(&alone) {
        assert!(a == b && left.same_bits(right), "rows depend on who reads them");
    }
    let streamed =
        streamed(&*forebay_io::open(&source, index, &NoBlobs, ReadOptions::default()).expect("it opened"), 1);
    if let Ok(streamed) = streamed {
        let rows: usize = streamed.iter().map(|chunk| chunk.num_rows() + chunk.losses().len()).sum();
        assert!(rows >= ROWS_MAX as usize || rows == in_order.len(), "windows have other rows than the file");
    }
}

/// A block of the cache: its header, and every row against its sum.
pub(crate) fn block(data: &[u8]) {
    let _ = forebay_cache::check_block(data);
}

pub(crate) fn tar(data: &[u8]) {
    let kept = keep(data);
    read(Draft::Tar { paths: vec![kept.path.clone()], extensions: None });
    let given = ["txt", "cls?"].map(str::to_owned);
    read(Draft::Tar { paths: vec![kept.path.clone()], extensions: Some(given.into()) });
}

pub(crate) fn tfrecord(data: &[u8]) {
    let kept = keep(data);
    for verify in [true, false] {
        read(Draft::Tfrecord { paths: vec![kept.path.clone()], features: Features::Raw, verify });
        read(Draft::Tfrecord { paths: vec![kept.path.clone()], features: Features::Infer, verify });
    }
}

/// One `tf.train.Example` in a valid frame.
pub(crate) fn example(data: &[u8]) {
    let masked = |bytes: &[u8]| crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes();
    let len = (data.len() as u64).to_le_bytes();
    let file = [&len, &masked(&len)[..], data, &masked(data)].concat();
    let kept = keep(&file);
    read(Draft::Tfrecord { paths: vec![kept.path.clone()], features: Features::Infer, verify: true });
    let given = [Field::new("a", Kind::Bytes), Field { nullable: true, ..Field::new("b", Kind::Utf8) }];
    read(Draft::Tfrecord { paths: vec![kept.path.clone()], features: Features::Given(given.into()), verify: true });
}

pub(crate) fn parquet(data: &[u8]) {
    let kept = keep(data);
    read(Draft::Parquet {
        paths: vec![kept.path.clone()],
        columns: None,
        nullable: None,
        together: Together::default(),
    });
}

pub(crate) fn arrow(data: &[u8]) {
    let kept = keep(data);
    read(Draft::Arrow { paths: vec![kept.path.clone()], columns: None, nullable: None, together: Together::default() });
}

pub(crate) fn jsonl(data: &[u8]) {
    let kept = keep(data);
    read(Draft::Jsonl { paths: vec![kept.path.clone()], fields: None });
    let a = Field { nullable: true, ..Field::new("a", Kind::scalar(DType::Uint8)) };
    let b = Field { nullable: true, ..Field::new("b", Kind::Tensor { dtype: DType::Float32, shape: vec![None] }) };
    let given = [a, b, Field { nullable: true, ..Field::new("c", Kind::Utf8) }];
    read(Draft::Jsonl { paths: vec![kept.path.clone()], fields: Some(given.into()) });
    for field in [None, Some("a".to_owned())] {
        read(Draft::Json { paths: vec![kept.path.clone()], field, fields: None });
    }
}

/// The first byte chooses the dialect of the file.
pub(crate) fn csv(data: &[u8]) {
    let (how, data) = data.split_first().map_or((0, data), |(how, data)| (*how, data));
    let kept = keep(data);
    let draft = |fields, multiline| CsvDraft {
        paths: vec![kept.path.clone()],
        header: if how & 1 == 0 { CsvHeader::InFiles } else { CsvHeader::Numbered },
        delimiter: (how & 2 == 0).then_some(';'),
        quote: (how & 4 == 0).then_some('"'),
        null: vec![String::new(), "NA".to_owned()],
        multiline,
        fields,
        columns: None,
    };
    for multiline in [None, Some(true), Some(false)] {
        read(Draft::Csv(draft(None, multiline)));
    }
    let name = if how & 1 == 0 { "a" } else { "column_1" };
    let given = vec![Field { nullable: true, ..Field::new(name, Kind::scalar(DType::Float32)) }];
    read(Draft::Csv(draft(Some(given), Some(how & 8 == 0))));
}

pub(crate) fn text(data: &[u8]) {
    let kept = keep(data);
    read(Draft::Text { paths: vec![kept.path.clone()] });
}

/// An index from the wire, with the right checksum: the sources that it may belong to are opened with it.
pub(crate) fn index(data: &[u8]) {
    let _ = SourceIndex::from_bytes(data);
    let sealed = [b"FBIX\x01", data].concat();
    let sealed = [&sealed[..], blake3::hash(&sealed).as_bytes()].concat();
    let Ok(index) = SourceIndex::from_bytes(&sealed) else { return };
    assert_eq!(SourceIndex::from_bytes(&index.to_bytes()).expect("it wrote itself"), index);
    let rows = index.rows();
    // The index states the sizes of its files, and memory is allocated by them; the sizes are compared when the files
    // are opened.
    if index.bytes() > BYTES_MAX {
        return;
    }
    let places: Vec<Place> =
        (0..rows.unwrap_or(0).min(STEP as u64)).map(|row| Place { row, epoch: Epoch(0) }).collect();
    let paths = || vec!["/none".to_owned()];
    let sources = [
        Source::Files { paths: paths() },
        Source::ImageFolder { root: "/none".to_owned() },
        Source::Tar {
            paths: paths(),
            extensions: vec!["a".to_owned(), "b".to_owned()],
            optional: vec!["b".to_owned()],
        },
        Source::Tfrecord { paths: paths(), features: None, verify: false },
        Source::Text { paths: paths() },
        Source::Parquet {
            paths: paths(),
            fields: vec![Field::new("a", Kind::Bytes)],
            partitions: Vec::new(),
            merged: None,
            empty_lists: Vec::new(),
            filter: None,
        },
        Source::Range { start: 0, stop: rows.unwrap_or(0).min(1 << 40) as i64, step: 1 },
    ];
    for source in sources {
        let Ok(reader) = forebay_io::open(&source, index.clone(), &NoBlobs, ReadOptions::default()) else { continue };
        let _: &Arc<Schema> = reader.schema();
        let _ = reader.gather(&places);
        for block in [0, 1, u64::MAX] {
            let _ = reader.stream(block, Epoch(0), STEP).map(|mut chunks| chunks.next());
            let _ = index.block_rows(block);
        }
    }
    for place in &places {
        index.describe_sample(index.locate(place.row));
    }
}
