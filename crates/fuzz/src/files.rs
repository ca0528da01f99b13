//! Files of each format, read the two ways that there are: from the start, and row by row through an index.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;

use forebay_core::{Epoch, Result};
use forebay_data::{Chunk, DType, Field, Kind, Schema};
use forebay_io::{Draft, Features, NoBlobs, Place, Reader, SourceIndex};
use forebay_plan::Source;
use std::sync::Arc;

/// Rows that are read of an input, at most; more are only counted.
const ROWS_MAX: u64 = 512;
/// Indexes of larger files are read, and nothing with them.
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

/// Reads as a user would: infers, then streams without an index and gathers with one. Both give the same rows.
fn read(draft: Draft) {
    let Ok(source) = forebay_io::infer(draft, None) else { return };
    let uncounted = indexed(&source, false).and_then(|index| {
        let blocks = index.blocks();
        streamed(&*forebay_io::open(&source, index, &NoBlobs, None, 0)?, blocks)
    });
    let Ok(index) = indexed(&source, true) else { return };
    let rows = index.rows().expect("it was counted").min(ROWS_MAX);
    let reader = forebay_io::open(&source, index, &NoBlobs, None, 0).expect("its own index");
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

/// A block of the cache: what it says of itself, and every row against its sum.
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

/// One `tf.train.Example`, framed as it must be.
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
    read(Draft::Parquet { paths: vec![kept.path.clone()], columns: None, nullable: None });
}

pub(crate) fn arrow(data: &[u8]) {
    let kept = keep(data);
    read(Draft::Arrow { paths: vec![kept.path.clone()], columns: None, nullable: None });
}

pub(crate) fn jsonl(data: &[u8]) {
    let kept = keep(data);
    read(Draft::Jsonl { paths: vec![kept.path.clone()], fields: None });
    let a = Field { nullable: true, ..Field::new("a", Kind::scalar(DType::Uint8)) };
    let b = Field { nullable: true, ..Field::new("b", Kind::Tensor { dtype: DType::Float32, shape: vec![None] }) };
    let given = [a, b, Field { nullable: true, ..Field::new("c", Kind::Utf8) }];
    read(Draft::Jsonl { paths: vec![kept.path.clone()], fields: Some(given.into()) });
}

pub(crate) fn text(data: &[u8]) {
    let kept = keep(data);
    read(Draft::Text { paths: vec![kept.path.clone()] });
}

/// An index as it comes over the wire, with the right checksum: the sources that it might be of are opened with it.
pub(crate) fn index(data: &[u8]) {
    let _ = SourceIndex::from_bytes(data);
    let sealed = [b"FBIX\x01", data].concat();
    let sealed = [&sealed[..], blake3::hash(&sealed).as_bytes()].concat();
    let Ok(index) = SourceIndex::from_bytes(&sealed) else { return };
    assert_eq!(SourceIndex::from_bytes(&index.to_bytes()).expect("it wrote itself"), index);
    let rows = index.rows();
    // Room for rows is made by what the index says of its files, whose sizes are compared when they are opened.
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
        Source::Parquet { paths: paths(), fields: vec![Field::new("a", Kind::Bytes)] },
        Source::Range { start: 0, stop: rows.unwrap_or(0).min(1 << 40) as i64, step: 1 },
    ];
    for source in sources {
        let Ok(reader) = forebay_io::open(&source, index.clone(), &NoBlobs, None, 0) else { continue };
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
