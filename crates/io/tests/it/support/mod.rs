//! Shared helpers of this crate's tests: temporary files, opening a source in one step, rows as JSON.

#![allow(dead_code, reason = "each test file uses a part")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::Array;
use arrow_array::cast::AsArray;
use bytes::Bytes;
use forebay_core::{Epoch, Error, ErrorKind, Result};
use forebay_data::{Chunk, DType, Kind, TextLists, tensor_shape_of_row, tensor_values};
use forebay_io::{Blobs, Draft, Place, ReadOptions, Reader, SourceIndex, infer};
use forebay_plan::{BlobId, Source};
use serde_json::{Value, json};

/// Blobs kept in memory.
#[derive(Default)]
pub(crate) struct Kept(pub(crate) Vec<Bytes>);

impl Blobs for Kept {
    fn get(&self, id: &BlobId) -> Result<Bytes> {
        let found = self.0.iter().find(|b| BlobId::of(b) == *id).cloned();
        found.ok_or_else(|| Error::new(ErrorKind::NotFound, "there is no such blob"))
    }
}

pub(crate) fn quiet(_: u64, _: u64) -> Result<()> {
    Ok(())
}

pub(crate) fn index(source: &Source, counted: bool) -> Result<SourceIndex> {
    forebay_io::index(source, &forebay_io::Allowed::everything(), counted, None, None, 2, &quiet)
}

/// Infers, indexes and opens.
pub(crate) fn opened(draft: Draft, counted: bool) -> Result<Arc<dyn Reader>> {
    let source = infer(draft, None)?;
    open(&source, &index(&source, counted)?)
}

/// Opens by an index that was encoded and decoded.
pub(crate) fn open(source: &Source, index: &SourceIndex) -> Result<Arc<dyn Reader>> {
    let crossed = SourceIndex::from_bytes(&index.to_bytes())?;
    assert_eq!(&crossed, index);
    forebay_io::open(source, crossed, &Kept::default(), ReadOptions::default())
}

pub(crate) fn places(rows: impl IntoIterator<Item = u64>) -> Vec<Place> {
    rows.into_iter().map(|row| Place { row, epoch: Epoch(3) }).collect()
}

/// Reads every block from its start, and returns all chunks.
pub(crate) fn stream_all(reader: &dyn Reader, blocks: u64, rows: usize) -> Result<Vec<Chunk>> {
    let mut chunks = Vec::new();
    for block in 0..blocks {
        let mut short = false;
        for chunk in reader.stream(block, Epoch(3), rows)? {
            let chunk = chunk?;
            if let Some(loss) = chunk.losses().first() {
                return Err(loss.error.clone());
            }
            assert!(!short && chunk.num_rows() <= rows && chunk.num_rows() > 0, "only the last chunk may be short");
            short = chunk.num_rows() < rows;
            chunks.push(chunk);
        }
    }
    Ok(chunks)
}

pub(crate) fn write(folder: &Path, name: &str, bytes: &[u8]) -> String {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    std::fs::write(&path, bytes).expect("written");
    path.to_str().expect("utf-8").to_owned()
}

pub(crate) fn golden(name: &str) -> String {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests", "golden", name].iter().collect();
    path.to_str().expect("utf-8").to_owned()
}

/// Returns the rows of chunks as JSON objects: bytes in hexadecimal, tensors as nested lists.
pub(crate) fn rows(chunks: &[Chunk]) -> Vec<Value> {
    let mut rows = Vec::new();
    for chunk in chunks {
        for row in 0..chunk.num_rows() {
            let one = chunk.slice(row, 1);
            let cells = one.schema().fields().iter().zip(one.columns()).map(|(field, column)| {
                let value = if column.is_null(0) {
                    Value::Null
                } else {
                    match &field.kind {
                        Kind::Bytes => json!(
                            column.as_binary::<i64>().value(0).iter().map(|b| format!("{b:02x}")).collect::<String>()
                        ),
                        Kind::Utf8 => json!(column.as_string::<i64>().value(0)),
                        Kind::Texts => json!(TextLists::of(column).expect("lists").get(0).collect::<Vec<_>>()),
                        kind => {
                            let numbers = numbers(kind, &tensor_values(kind, column).expect("numbers"));
                            nest(
                                &numbers,
                                &if matches!(kind, Kind::Scalar { .. }) {
                                    vec![]
                                } else {
                                    tensor_shape_of_row(kind, column, 0).expect("a shape")
                                },
                            )
                        }
                    }
                };
                (field.name.clone(), value)
            });
            rows.push(Value::Object(cells.collect()));
        }
    }
    rows
}

fn numbers(kind: &Kind, bytes: &[u8]) -> Vec<Value> {
    let dtype = kind.dtype().expect("numbers");
    let one = |b: &[u8]| match dtype {
        DType::Bool => json!(b[0] != 0),
        DType::Uint8 => json!(b[0]),
        DType::Int16 => json!(i16::from_le_bytes(b.try_into().expect("2"))),
        DType::Int32 => json!(i32::from_le_bytes(b.try_into().expect("4"))),
        DType::Int64 => json!(i64::from_le_bytes(b.try_into().expect("8"))),
        DType::Float32 => json!(f64::from(f32::from_le_bytes(b.try_into().expect("4")))),
        DType::Float64 => json!(f64::from_le_bytes(b.try_into().expect("8"))),
        other => panic!("no test has {other}"),
    };
    bytes.chunks_exact(dtype.size()).map(one).collect()
}

fn nest(numbers: &[Value], shape: &[usize]) -> Value {
    match shape {
        [] => numbers[0].clone(),
        [_] => json!(numbers),
        [_, inner @ ..] => numbers.chunks(inner.iter().product()).map(|c| nest(c, inner)).collect(),
    }
}

/// Compares rows; an integer equals the real of the same value.
pub(crate) fn assert_rows(got: &[Value], want: &[Value]) {
    assert_eq!(got.len(), want.len());
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        assert!(same(got, want), "row {i}: got {got}, want {want}");
    }
}

fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) if x.is_f64() || y.is_f64() => x.as_f64() == y.as_f64(),
        (Value::Array(x), Value::Array(y)) => x.len() == y.len() && x.iter().zip(y).all(|(x, y)| same(x, y)),
        (Value::Object(x), Value::Object(y)) => {
            x.len() == y.len() && x.iter().all(|(k, x)| y.get(k).is_some_and(|y| same(x, y)))
        }
        _ => a == b,
    }
}

/// Makes a USTAR archive of named members.
pub(crate) fn tar_of(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, data) in members {
        let mut header = [0u8; 512];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[100..108].copy_from_slice(b"0000644\0");
        header[124..136].copy_from_slice(format!("{:011o}\0", data.len()).as_bytes());
        header[148..156].fill(b' ');
        header[156] = b'0';
        header[257..265].copy_from_slice(b"ustar\x0000");
        let sum: u32 = header.iter().map(|&b| u32::from(b)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        out.extend_from_slice(&header);
        out.extend_from_slice(data);
        out.resize(out.len().next_multiple_of(512), 0);
    }
    out.resize(out.len() + 1024, 0);
    out
}

/// Makes a TFRecord file.
pub(crate) fn tfrecord_of(records: &[Vec<u8>]) -> Vec<u8> {
    let masked = |bytes: &[u8]| crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes();
    let mut out = Vec::new();
    for record in records {
        let len = (record.len() as u64).to_le_bytes();
        out.extend_from_slice(&len);
        out.extend_from_slice(&masked(&len));
        out.extend_from_slice(record);
        out.extend_from_slice(&masked(record));
    }
    out
}
