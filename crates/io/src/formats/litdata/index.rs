//! `index.json`: the chunks of a folder, and their columns.

use std::sync::Arc;

use forebay_core::{Error, ErrorKind, Result};
use forebay_data::Field;
use forebay_plan::{MdsColumn, Wrap};
use serde::Deserialize;

use super::{DOCUMENT, PREFIX, tree, unpacked};
use crate::formats::mds::{self, Shard, inside};
use crate::open_found::open_found as open;
use crate::store::{Found, Object, ReadThrough};
use crate::{fail, limits};

/// The longest index that is read.
const BYTES_MAX: u64 = 256 << 20;
/// The most folders without a chunk that are skipped.
const FOLDERS: usize = 16;
/// The last bytes of a chunk whose samples are in an Arrow table after it.
const ARROW: &[u8] = b"LDARW01\0";

/// The chunks of a folder, all of the same columns.
#[derive(Debug)]
pub(crate) struct Index {
    pub(crate) columns: Vec<MdsColumn>,
    pub(crate) chunks: Vec<Shard>,
    pub(crate) wrap: Wrap,
}

/// The properties of a source that are needed before it runs.
pub(crate) struct Stored {
    pub(crate) columns: Vec<MdsColumn>,
    /// The columns to read.
    pub(crate) fields: Vec<Field>,
    pub(crate) wrap: Wrap,
}

#[derive(Deserialize)]
struct Written {
    chunks: Vec<Entry>,
    config: Config,
}

#[derive(Deserialize)]
struct Entry {
    chunk_bytes: u64,
    chunk_size: u64,
    filename: String,
    /// For documents: the code of their type.
    dim: Option<u64>,
}

#[derive(Deserialize)]
struct Config {
    compression: Option<String>,
    compression_level: Option<String>,
    data_format: Option<Vec<String>>,
    data_spec: Option<String>,
    encryption: Option<serde_json::Value>,
    item_loader: Option<String>,
}

impl Index {
    /// Reads an index.
    ///
    /// # Errors
    /// Data when it is not an index, or names a chunk that is not in the folder; Invalid for chunks that are encrypted,
    /// or whose compression or layout is not supported.
    pub(crate) fn read(object: &Arc<Object>) -> Result<Self> {
        let uri = object.uri();
        if object.size() > BYTES_MAX {
            let what = format!("an index.json of {} bytes, and {BYTES_MAX} are read", object.size());
            return Err(Error::new(ErrorKind::Exhausted, what).with("file", uri));
        }
        let mut text = vec![0; object.size() as usize];
        object.read_at(0, &mut text)?;
        let written: Written = serde_json::from_slice(&text).map_err(|e| {
            Error::data(format!("this is no index of LitData's chunks: {e}"))
                .with("fault", "file")
                .with("file", uri)
                .hint("from_litdata takes a folder that litdata.optimize wrote, with its index.json")
        })?;
        let blame = |e: Error| e.with("file", uri);
        let are_documents = written.chunks.iter().any(|chunk| chunk.dim.is_some());
        let wrap = written.config.wrap().map_err(blame)?;
        let columns = if written.chunks.is_empty() {
            Vec::new()
        } else {
            written.config.columns(are_documents).map_err(blame)?
        };
        let folder = uri.strip_suffix("index.json").unwrap_or(uri);
        let chunk = |(place, entry): (usize, Entry)| {
            let uri = inside(folder, &entry.filename).map_err(|e| blame(e).with("chunk", place))?;
            Ok(Shard { uri, rows: entry.chunk_size, bytes: entry.chunk_bytes })
        };
        Ok(Self { columns, chunks: written.chunks.into_iter().enumerate().map(chunk).collect::<Result<_>>()?, wrap })
    }
}

impl Config {
    /// Returns the unit of compression.
    fn wrap(&self) -> Result<Wrap> {
        let Some(compression) = &self.compression else { return Ok(Wrap::None) };
        let level = self.compression_level.as_deref().unwrap_or("chunk");
        match (compression.split(':').next(), level) {
            (Some("zstd"), "chunk") => Ok(Wrap::Chunk),
            (Some("zstd"), "batch") => Ok(Wrap::Batch),
            (Some("zstd"), "sample") => Ok(Wrap::Sample),
            _ => Err(Error::invalid(format!(
                "chunks are compressed with {compression:?} by {level}, which is not supported"
            ))
            .hint("write them with compression=\"zstd\" or none")),
        }
    }

    /// Returns the columns of a sample.
    fn columns(&self, are_documents: bool) -> Result<Vec<MdsColumn>> {
        if self.encryption.is_some() {
            return Err(
                Error::invalid("chunks are encrypted, which is not supported").hint("write them without encryption")
            );
        }
        let loader = self.item_loader.as_deref().unwrap_or("PyTreeLoader");
        if !matches!(loader, "PyTreeLoader" | "TokensLoader") {
            let hint = if loader == "ParquetLoader" {
                "read its files with from_parquet"
            } else {
                "write them for PyTreeLoader"
            };
            return Err(Error::invalid(format!("chunks are for {loader}, which is not supported")).hint(hint));
        }
        let missing = |what: &str| Error::data(format!("the index has no {what}")).with("fault", "file");
        let formats = self.data_format.as_ref().ok_or_else(|| missing("data_format"))?;
        let names = tree::names(self.data_spec.as_ref().ok_or_else(|| missing("data_spec"))?)?;
        limits::columns("columns of a chunk", formats.len())?;
        if names.len() != formats.len() {
            let what = format!("the index has {} columns, and what {} are stored as", names.len(), formats.len());
            return Err(Error::data(what).with("fault", "file"));
        }
        let column =
            |(name, format): (String, &String)| MdsColumn { name, encoding: format!("{PREFIX}{format}"), size: None };
        let mut columns: Vec<MdsColumn> = names.into_iter().zip(formats).map(column).collect();
        if are_documents || loader == "TokensLoader" {
            let [one] = columns.as_mut_slice() else {
                return Err(Error::data("documents of several columns").with("fault", "file"));
            };
            let code = formats[0].strip_prefix("no_header_tensor:");
            let code = code
                .ok_or_else(|| Error::invalid(format!("documents are stored as {:?}, not as tensors", formats[0])))?;
            one.encoding = format!("{DOCUMENT}{code}");
        }
        Ok(columns)
    }
}

/// Reads the indexes of folders until one has a chunk, and picks the columns that the user named, or all.
///
/// # Errors
/// As [`Index::read`]; Data when there is no sample; NotFound for a name without a column; Invalid for a column whose
/// encoding is not supported.
pub(crate) fn look(files: &[Found], named: Option<&[String]>, near: Option<&dyn ReadThrough>) -> Result<Stored> {
    for file in files.iter().take(FOLDERS) {
        let Index { columns, chunks, wrap } = Index::read(&open(file, near)?)?;
        let Some(first) = chunks.iter().find(|chunk| chunk.rows > 0) else { continue };
        let sample = || first_sample(first, wrap, near);
        let fields = mds::fields(&columns, named, &first.uri, &sample).map_err(|e| e.with("file", &file.uri))?;
        return Ok(Stored { columns, fields, wrap });
    }
    Err(Error::data("there is no sample in the first folders")
        .with("file", files.first().map_or("", |file| &file.uri))
        .hint("check that these are the right folders, and that litdata.optimize has ended"))
}

/// Reads the first sample of a chunk.
fn first_sample(first: &Shard, wrap: Wrap, near: Option<&dyn ReadThrough>) -> Result<Vec<u8>> {
    let object = open(&Found { uri: first.uri.clone(), stat: None }, near)?;
    if wrap != Wrap::None {
        let raw = unpacked(&object, first.rows, first.bytes, wrap)?;
        return mds::first_of(&first.uri, first.rows, raw.len() as u64, |at, to| mds::copy(&raw, at, to));
    }
    check_rows(&object)?;
    mds::first_of(&first.uri, first.rows, object.size(), |at, to| object.read_at(at, to))
}

/// Refuses a chunk whose samples are in an Arrow table.
fn check_rows(object: &Object) -> Result<()> {
    let mut end = [0; ARROW.len()];
    if let Some(at) = object.size().checked_sub(end.len() as u64) {
        object.read_at(at, &mut end)?;
    }
    if end != ARROW {
        return Ok(());
    }
    Err(Error::invalid("samples are stored as an Arrow table within their chunk, which is not supported")
        .with("file", object.uri())
        .hint("read what they were made of, for example with from_parquet; or write samples with an array in them"))
}

/// Compares the size of a chunk's file with the size in its index. Older versions do not count the bytes before the
/// samples.
///
/// # Errors
/// Data when they differ.
pub(crate) fn check_size(uri: &str, size: u64, rows: u64, bytes: u64, wrap: Wrap) -> Result<()> {
    let head = rows.saturating_add(2).saturating_mul(4);
    let may_be = if wrap == Wrap::Chunk { limits::group_bytes_max(size) } else { size };
    if head > may_be {
        let what = format!("the chunk is too short for the {rows} samples that its index counts");
        return Err(fail::truncated(uri, &what).with("fault", "file"));
    }
    if wrap == Wrap::Chunk || size == bytes || Some(size) == bytes.checked_add(head) {
        return Ok(());
    }
    Err(mds::wrong(uri, size.min(bytes), format!("the chunk has {size} bytes, and its index says {bytes}")))
}
