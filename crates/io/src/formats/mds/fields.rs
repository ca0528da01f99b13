//! What columns a user gets of a folder: by its index, and where that leaves arrays open, by the first sample.

use std::sync::Arc;

use forebay_core::{Error, Result};
use forebay_data::{Field, Kind, Schema};
use forebay_plan::MdsColumn;

use super::encoding::{Encoding, Open};
use super::index::{Index, Shard};
use super::sample::{peek, unknown};
use super::{is_packed, starts, unpacked};
use crate::infer::open;
use crate::store::{Found, Object, ReadThrough};

/// The most folders without a shard that are passed over.
const FOLDERS: usize = 16;

/// What is to be known of a source before it runs.
pub(crate) struct Stored {
    pub(crate) columns: Vec<MdsColumn>,
    /// The columns to read.
    pub(crate) fields: Vec<Field>,
    pub(crate) packed: bool,
}

/// Looks into the indexes of folders until one has a shard, and picks the columns that the user named, or all.
///
/// # Errors
/// As [`Index::read`]; Data when there is no sample; NotFound for a name that is no column's; Invalid for a column whose encoding is not
/// known.
pub(crate) fn look(files: &[Found], named: Option<&[String]>, near: Option<&dyn ReadThrough>) -> Result<Stored> {
    for file in files.iter().take(FOLDERS) {
        let Index { columns, shards } = Index::read(&open(file, near)?)?;
        let Some(first) = shards.iter().find(|shard| shard.rows > 0) else { continue };
        let fields = fields(&columns, named, first, near).map_err(|e| e.with("file", &file.uri))?;
        return Ok(Stored { fields, packed: shards.iter().any(|shard| is_packed(&shard.uri)), columns });
    }
    Err(Error::data("there is no sample in the first folders")
        .with("file", files.first().map_or("", |file| &file.uri))
        .hint("check that these are the right folders, and that their writer was closed"))
}

fn fields(
    columns: &[MdsColumn],
    named: Option<&[String]>,
    first: &Shard,
    near: Option<&dyn ReadThrough>,
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
                    None => sample.insert(first_sample(first, near)?),
                };
                peek(columns, sample, place).map_err(|e| e.with("shard", &first.uri).with("column", name))?
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
    let within = |starts: &[u32]| starts.first_chunk::<2>().map_or(0..0, |[from, to]| *from as usize..*to as usize);
    if is_packed(&shard.uri) {
        let raw = unpacked(&object, shard.bytes)?;
        let starts = starts(&shard.uri, shard.rows, raw.len() as u64, |to| {
            to.copy_from_slice(&raw[..to.len()]);
            Ok(())
        })?;
        return Ok(raw[within(&starts)].to_vec());
    }
    let place = within(&starts(&shard.uri, shard.rows, object.size(), |to| object.read_at(0, to))?);
    let mut sample = vec![0; place.len()];
    object.read_at(place.start as u64, &mut sample)?;
    Ok(sample)
}
