//! Shards of Mosaic's streaming (MDS, version 2): consecutive samples after a table of their offsets.
//!
//! A shard begins with data that is known only at its end, so the whole shard is held in memory. Bound: `file_bytes`
//! and one run of rows, at most `SHARD_BYTES_MAX`.

use std::io::Write;

use bytes::Bytes;
use forebay_core::{Error, ErrorKind, Result};
use forebay_data::{Chunk, DType, Field, Kind, Schema};
use serde_json::json;

use super::super::sink::{Sink, of_sink};
use super::cells::Cells;
use super::{Encoder, Format, refused};

/// The most `file_bytes`: offsets in a shard have 32 bits, and a shard is held in memory.
const FILE_BYTES_MAX: u64 = 1 << 30;
/// The most bytes of a shard.
const SHARD_BYTES_MAX: u64 = u32::MAX as u64;
/// The version in shards and index.
const VERSION: u32 = 2;

/// A shard.
pub(super) struct Mds {
    name: String,
    sink: Sink,
    columns: Vec<Column>,
    samples: Vec<u8>,
    /// Where each sample ends in these bytes.
    ends: Vec<u64>,
}

/// A column of a shard.
struct Column {
    name: String,
    encoding: String,
    /// The bytes of each value, where that is known.
    size: Option<usize>,
}

/// Refuses columns and sizes that shards cannot represent.
pub(super) fn check(schema: &Schema, file_bytes: u64) -> Result<()> {
    if file_bytes > FILE_BYTES_MAX {
        return Err(Error::invalid(format!(
            "file_bytes={file_bytes} is too much for MDS, whose files are made in memory"
        ))
        .hint(format!("at most {FILE_BYTES_MAX}; 64 MiB is usual")));
    }
    if schema.fields().is_empty() {
        return Err(Error::invalid("an MDS file needs a column").hint("save as arrow, or keep a column"));
    }
    for field in schema.fields() {
        let no = |why: &str, hint: &str| Err(refused(field, Format::Mds, why, hint));
        match &field.kind {
            _ if field.nullable => {
                return no("no value of it is ever missing there", "fill_null, or save as arrow or parquet");
            }
            Kind::Texts => {
                return no("it has no lists of texts", "join them to one text, as .list.join(), or save as parquet");
            }
            Kind::Tensor { dtype: DType::Bool, .. } => {
                return no("it has no arrays of truth values", "cast() it to \"uint8\"");
            }
            Kind::Tensor { shape, .. } if shape.contains(&Some(0)) || shape.is_empty() => {
                return no("its arrays have no numbers, or no dimension", "drop the column, or save as arrow");
            }
            _ => {}
        }
    }
    Ok(())
}

/// Returns the columns of shards, sorted by name as the original writer sorts them.
fn columns(schema: &Schema) -> Vec<Column> {
    let mut columns: Vec<_> = schema.fields().iter().map(column).collect();
    columns.sort_by(|a, b| a.name.cmp(&b.name));
    columns
}

fn column(field: &Field) -> Column {
    let encoding = match &field.kind {
        Kind::Bytes | Kind::Texts => "bytes".to_owned(),
        Kind::Utf8 => "str".to_owned(),
        Kind::Scalar { dtype: DType::Bool } => "uint8".to_owned(),
        Kind::Scalar { dtype } => dtype.name().to_owned(),
        Kind::Tensor { dtype, .. } => match field.kind.known_shape() {
            None => format!("ndarray:{dtype}"),
            Some(shape) => {
                let dims: Vec<_> = shape.iter().map(ToString::to_string).collect();
                format!("ndarray:{dtype}:{}", dims.join(","))
            }
        },
    };
    Column { name: field.name.clone(), encoding, size: field.kind.row_bytes() }
}

/// Returns the description of the columns for a shard's header and for each entry of the index.
fn described(columns: &[Column]) -> serde_json::Value {
    let names: Vec<_> = columns.iter().map(|column| &column.name).collect();
    let encodings: Vec<_> = columns.iter().map(|column| &column.encoding).collect();
    let sizes: Vec<_> = columns.iter().map(|column| column.size).collect();
    json!({
        "column_encodings": encodings, "column_names": names, "column_sizes": sizes, "compression": null, "format": "mds",
        "hashes": [], "size_limit": null, "version": VERSION,
    })
}

/// Makes the index of shards from the name, size and first four bytes (the number of samples) of each.
///
/// # Errors
/// Data when a shard does not begin like one.
pub(in super::super) fn index(schema: &Schema, shards: &[(String, u64, Bytes)]) -> Result<Vec<u8>> {
    let described = described(&columns(schema));
    let shard = |(name, bytes, first): &(String, u64, Bytes)| {
        let count = <[u8; 4]>::try_from(&first[..]).map_err(|_| {
            Error::data("this MDS file does not begin as one").with("file", name).hint("save again with overwrite=True")
        })?;
        let mut shard = described.clone();
        shard["samples"] = json!(u32::from_le_bytes(count));
        shard["raw_data"] = json!({"basename": name, "bytes": bytes, "hashes": {}});
        shard["zip_data"] = serde_json::Value::Null;
        Ok(shard)
    };
    let shards = shards.iter().map(shard).collect::<Result<Vec<_>>>()?;
    serde_json::to_vec(&json!({"shards": shards, "version": VERSION}))
        .map_err(|e| Error::internal(format!("an index: {e}")))
}

impl Mds {
    pub(super) fn new(schema: &Schema, sink: Sink) -> Self {
        Self { name: sink.name(), sink, columns: columns(schema), samples: Vec::new(), ends: Vec::new() }
    }

    /// Returns the bytes of a shard that are not samples.
    fn overhead(&self, config: &[u8]) -> u64 {
        4 + 4 * (self.ends.len() as u64 + 1) + config.len() as u64
    }
}

impl Encoder for Mds {
    fn add(&mut self, rows: &Chunk) -> Result<()> {
        let mut cells = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            let field = rows.schema().field(&column.name)?;
            cells.push((
                column.size,
                matches!(field.kind, Kind::Tensor { .. }),
                Cells::of(field, rows.column(&column.name)?)?,
            ));
        }
        for row in 0..rows.num_rows() {
            let mut values = Vec::with_capacity(cells.len());
            for (size, is_tensor, cells) in &cells {
                let shape = if size.is_none() && *is_tensor { shape(&cells.shape(row)) } else { Vec::new() };
                if size.is_none() {
                    let len = u32::try_from(shape.len() + cells.bytes(row).len()).map_err(|_| self.too_large())?;
                    self.samples.extend_from_slice(&len.to_le_bytes());
                }
                values.push((shape, cells.bytes(row)));
            }
            for (shape, bytes) in values {
                self.samples.extend_from_slice(&shape);
                self.samples.extend_from_slice(bytes);
            }
            self.ends.push(self.samples.len() as u64);
            if self.samples.len() as u64 + self.overhead(&[]) > SHARD_BYTES_MAX {
                return Err(self.too_large());
            }
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<Sink> {
        let config = described(&self.columns).to_string().into_bytes();
        let first = self.overhead(&config);
        if first + self.samples.len() as u64 > SHARD_BYTES_MAX {
            return Err(self.too_large());
        }
        let mut head = (self.ends.len() as u32).to_le_bytes().to_vec();
        for place in [0].iter().chain(&self.ends) {
            head.extend_from_slice(&((first + place) as u32).to_le_bytes());
        }
        head.extend_from_slice(&config);
        let mut write = || {
            self.sink.write_all(&head)?;
            self.sink.write_all(&self.samples)
        };
        write().map_err(|e| of_sink(&self.name, e))?;
        Ok(self.sink)
    }
}

impl Mds {
    fn too_large(&self) -> Error {
        Error::new(ErrorKind::Exhausted, "an MDS file would have more than 4 GiB, and its places have 32 bits")
            .with("file", &self.name)
            .hint("save smaller files (file_bytes=), or as arrow or parquet")
    }
}

/// Encodes the shape of an array: the number of dimensions, their width in bytes, and the dimensions.
fn shape(dims: &[u64]) -> Vec<u8> {
    let largest = dims.iter().copied().max().unwrap_or(0);
    let power: u8 = [8, 16, 32].iter().position(|bits| largest >> bits == 0).unwrap_or(3) as u8;
    let mut shape = vec![(dims.len() as u8) << 2 | power];
    dims.iter().for_each(|dim| shape.extend_from_slice(&dim.to_le_bytes()[..1 << power]));
    shape
}
