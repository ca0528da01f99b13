//! JSON objects, one on each line, with a member for each column in the order of the columns.
//!
//! A missing value is null. Numbers are as short as they can be without being another number when they are read.

use std::io::Write;

use forebay_core::{Error, Result};
use forebay_data::{Chunk, DType, Field, Kind, Schema};

use super::super::sink::{Sink, of_sink};
use super::cells::{Cells, text};
use super::{Encoder, Format, no_columns, refused};

/// A file of lines.
pub(super) struct Jsonl {
    name: String,
    sink: Sink,
    /// The name of each column as JSON, with the colon behind it.
    keys: Vec<Vec<u8>>,
    line: Vec<u8>,
    /// The number of the next row in the stream.
    next: u64,
}

/// Refuses columns that JSON, or the reader of its lines, cannot represent.
pub(super) fn check(schema: &Schema) -> Result<()> {
    no_columns(schema, Format::Jsonl)?;
    for field in schema.fields() {
        let no = |why: &str, hint: &str| Err(refused(field, Format::Jsonl, why, hint));
        match &field.kind {
            Kind::Bytes => {
                return no(
                    "JSON has no bytes",
                    "drop the column; decode it, or cast it to \"string\" if it is UTF-8; or save as parquet or tfrecord",
                );
            }
            Kind::Tensor { .. } if field.kind.row_bytes() == Some(0) => {
                return no("its arrays have no numbers", "drop the column, or save as arrow");
            }
            Kind::Tensor { shape, .. } if shape.len() > 1 && field.kind.known_shape().is_none() => {
                return no("lists in lists have one shape there", "save as arrow or parquet");
            }
            Kind::Scalar { .. } | Kind::Utf8 | Kind::Texts | Kind::Tensor { .. } => {}
        }
    }
    Ok(())
}

impl Jsonl {
    pub(super) fn new(schema: &Schema, first: u64, sink: Sink) -> Self {
        let key = |field: &Field| {
            let mut key = Vec::new();
            string(&field.name, &mut key);
            key.push(b':');
            key
        };
        let keys = schema.fields().iter().map(key).collect();
        Self { name: sink.name(), sink, keys, line: Vec::new(), next: first }
    }
}

impl Encoder for Jsonl {
    fn add(&mut self, rows: &Chunk) -> Result<()> {
        let schema = rows.schema().clone();
        let cells = schema.fields().iter().zip(rows.columns()).map(|(field, column)| Cells::of(field, column));
        let cells = cells.collect::<Result<Vec<_>>>()?;
        for row in 0..rows.num_rows() {
            self.line.clear();
            let mut before = b'{';
            for ((field, cells), key) in schema.fields().iter().zip(&cells).zip(&self.keys) {
                self.line.push(std::mem::replace(&mut before, b','));
                self.line.extend_from_slice(key);
                value(field, cells, row, &mut self.line).ok_or_else(|| {
                    let what = format!("column {:?} has NaN or an infinity, and JSON has no such number", field.name);
                    Error::data(what).with("file", &self.name).with("row", self.next).with("column", &field.name).hint(
                        "replace it, as fb.where(fb.col(\"x\").is_nan(), 0.0, fb.col(\"x\")) does; or save as parquet",
                    )
                })?;
            }
            self.line.extend_from_slice(b"}\n");
            self.sink.write_all(&self.line).map_err(|e| of_sink(&self.name, e))?;
            self.next += 1;
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Sink> {
        Ok(self.sink)
    }
}

/// Writes a value; `None` where it has a number that JSON lacks.
fn value(field: &Field, cells: &Cells, row: usize, to: &mut Vec<u8>) -> Option<()> {
    if cells.is_missing(row) {
        to.extend_from_slice(b"null");
        return Some(());
    }
    match &field.kind {
        Kind::Bytes | Kind::Utf8 => string(&String::from_utf8_lossy(cells.bytes(row)), to),
        Kind::Texts => {
            let texts = cells.texts(row).map(|text| {
                let mut item = Vec::new();
                match text {
                    Some(text) => string(text, &mut item),
                    None => item.extend_from_slice(b"null"),
                }
                item
            });
            let items = texts.collect::<Vec<_>>().join(&b","[..]);
            to.push(b'[');
            to.extend_from_slice(&items);
            to.push(b']');
        }
        Kind::Scalar { dtype } => number(*dtype, cells.bytes(row), to)?,
        Kind::Tensor { dtype, .. } => {
            let bytes = cells.bytes(row);
            let dims = field.kind.known_shape().unwrap_or_else(|| vec![bytes.len() / dtype.size()]);
            array(*dtype, &dims, bytes, to)?;
        }
    }
    Some(())
}

/// Writes an array as lists in lists.
fn array(dtype: DType, dims: &[usize], bytes: &[u8], to: &mut Vec<u8>) -> Option<()> {
    let Some((len, inner)) = dims.split_first() else { return number(dtype, bytes, to) };
    to.push(b'[');
    for (i, part) in bytes.chunks_exact((bytes.len() / (*len).max(1)).max(1)).enumerate() {
        if i > 0 {
            to.push(b',');
        }
        array(dtype, inner, part, to)?;
    }
    to.push(b']');
    Some(())
}

fn number(dtype: DType, bytes: &[u8], to: &mut Vec<u8>) -> Option<()> {
    if dtype == DType::Bool {
        to.extend_from_slice(if bytes == [0] { b"false" } else { b"true" });
        return Some(());
    }
    let mut text = text(dtype, bytes);
    if dtype.is_float() {
        let real = text.parse::<f64>().ok().filter(|real| real.is_finite())?;
        // A reader rounds twice, to float64 and to float32: rarely, a short text is then another number.
        if dtype == DType::Float32 && (real as f32).to_le_bytes() != bytes {
            text = format!("{:?}", f64::from(f32::from_le_bytes(bytes.try_into().ok()?)));
        }
    }
    to.extend_from_slice(text.as_bytes());
    Some(())
}

fn string(text: &str, to: &mut Vec<u8>) {
    to.extend_from_slice(serde_json::Value::from(text).to_string().as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn a_short_float_is_read_as_itself_through_float64(bits: u32) {
            let single = f32::from_bits(bits);
            let mut text = Vec::new();
            let written = number(DType::Float32, &single.to_le_bytes(), &mut text);
            proptest::prop_assert_eq!(written.is_some(), single.is_finite());
            if single.is_finite() {
                let read: f64 = std::str::from_utf8(&text).expect("ascii").parse().expect("a number");
                proptest::prop_assert_eq!((read as f32).to_bits(), bits);
            }
        }
    }
}
