//! Finds the columns of a folder: by its index, and by the first sample where the index leaves arrays open.

use std::sync::Arc;

use forebay_core::{Error, Result};
use forebay_data::{Field, Kind, Schema};
use forebay_plan::MdsColumn;

use super::encoding::{Encoding, Open};
use super::index::{Index, Shard};
use super::sample::{peek, unknown};
use super::{copy, is_packed, starts, unpacked};
use crate::open_found::open_found as open;
use crate::store::{Found, Object, ReadThrough};

/// The most folders without a shard that are skipped.
const FOLDERS: usize = 16;

/// The properties of a source that are needed before it runs.
pub(crate) struct Stored {
    pub(crate) columns: Vec<MdsColumn>,
    /// The columns to read.
    pub(crate) fields: Vec<Field>,
    pub(crate) packed: bool,
}

/// Reads the indexes of folders until one has a shard, and picks the columns that the user named, or all.
///
/// # Errors
/// As [`Index::read`]; Data when there is no sample; NotFound for a name without a column; Invalid for a column whose
/// encoding is not known.
pub(crate) fn look(files: &[Found], named: Option<&[String]>, near: Option<&dyn ReadThrough>) -> Result<Stored> {
    for file in files.iter().take(FOLDERS) {
        let Index { columns, shards } = Index::read(&open(file, near)?)?;
        let Some(first) = shards.iter().find(|shard| shard.rows > 0) else { continue };
        let sample = || first_sample(first, near);
        let fields = fields(&columns, named, &first.uri, &sample).map_err(|e| e.with("file", &file.uri))?;
        return Ok(Stored { fields, packed: shards.iter().any(|shard| is_packed(&shard.uri)), columns });
    }
    Err(Error::data("there is no sample in the first folders")
        .with("file", files.first().map_or("", |file| &file.uri))
        .hint("check that these are the right folders, and that their writer was closed"))
}

/// Picks columns of shards; where an encoding leaves the kind of a column open, the sample that `first_sample` reads
/// determines it.
///
/// # Errors
/// NotFound for a name without a column; Invalid for a column whose encoding is not known; Data for a broken sample.
pub(crate) fn fields(
    columns: &[MdsColumn],
    named: Option<&[String]>,
    shard: &str,
    first_sample: &dyn Fn() -> Result<Vec<u8>>,
) -> Result<Vec<Field>> {
    let known = Schema::new(columns.iter().map(|column| Field::new(&column.name, Kind::Bytes)).collect())?;
    let all: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
    let mut sample = None;
    let mut fields = Vec::new();
    for name in named.unwrap_or(&all) {
        known.field(name)?;
        let place = known.position(name).unwrap_or(0);
        let encoding = Encoding::parse(&columns[place].encoding).ok_or_else(|| unknown(&columns[place]))?;
        let kind = match encoding.kind() {
            Open::Known(kind) => kind,
            Open::Array => {
                let sample = match &sample {
                    Some(sample) => sample,
                    None => sample.insert(first_sample()?),
                };
                peek(columns, sample, place).map_err(|e| e.with("shard", shard).with("column", name))?
            }
        };
        fields.push(Field::new(name, kind));
    }
    Schema::new(fields.clone())?;
    Ok(fields)
}

/// Reads the first sample of a shard.
fn first_sample(shard: &Shard, near: Option<&dyn ReadThrough>) -> Result<Vec<u8>> {
    let object: Arc<Object> = open(&Found { uri: shard.uri.clone(), stat: None }, near)?;
    if is_packed(&shard.uri) {
        let raw = unpacked(&object, shard.bytes)?;
        return first_of(&shard.uri, shard.rows, raw.len() as u64, |at, to| copy(&raw, at, to));
    }
    first_of(&shard.uri, shard.rows, object.size(), |at, to| object.read_at(at, to))
}

/// Reads the first sample of a shard: `read` fills a place from an offset of the shard, which has `size` bytes.
///
/// # Errors
/// As [`starts`].
pub(crate) fn first_of(
    uri: &str,
    rows: u64,
    size: u64,
    read: impl Fn(u64, &mut [u8]) -> Result<()>,
) -> Result<Vec<u8>> {
    let starts = starts(uri, rows, size, |to| read(0, to))?;
    let (from, to) = starts.first_chunk::<2>().map_or((0, 0), |[from, to]| (*from, *to));
    let mut sample = vec![0; (to - from) as usize];
    read(from.into(), &mut sample)?;
    Ok(sample)
}
