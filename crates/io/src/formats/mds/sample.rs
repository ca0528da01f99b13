//! Samples: the values of all columns, one after another.

use arrow_array::ArrayRef;
use forebay_core::{Error, Result};
use forebay_data::{DType, Field, Kind};
use forebay_plan::MdsColumn;

use super::encoding::{Encoding, Open};
use crate::columns::Column;
use crate::formats::litdata;

/// Returns the bytes of each column's value.
fn values<'s>(columns: &[MdsColumn], sample: &'s [u8]) -> Result<Vec<&'s [u8]>> {
    // A document of LitData is one value without a table.
    if matches!(columns, [one] if one.encoding.starts_with(litdata::DOCUMENT)) {
        return Ok(vec![sample]);
    }
    let short = || Error::data("a sample ends before its values").hint("the shard is corrupt: write or fetch it again");
    let mut rest = sample;
    let mut lengths = Vec::with_capacity(columns.len());
    for column in columns {
        lengths.push(match column.size {
            Some(size) => usize::try_from(size).map_err(|_| short())?,
            None => {
                let (length, after) = rest.split_first_chunk::<4>().ok_or_else(short)?;
                rest = after;
                u32::from_le_bytes(*length) as usize
            }
        });
    }
    let mut values = Vec::with_capacity(columns.len());
    for length in lengths {
        let (value, after) = rest.split_at_checked(length).ok_or_else(short)?;
        values.push(value);
        rest = after;
    }
    if !rest.is_empty() {
        let what = format!("a sample has {} bytes behind its values", rest.len());
        return Err(Error::data(what).hint("the shard is corrupt: write or fetch it again"));
    }
    Ok(values)
}

/// Returns the kind of a column of arrays whose encoding leaves something open, by a sample.
pub(super) fn peek(columns: &[MdsColumn], sample: &[u8], place: usize) -> Result<Kind> {
    let value = *values(columns, sample)?.get(place).ok_or_else(|| Error::internal("no such column"))?;
    let encoding = Encoding::parse(&columns[place].encoding).ok_or_else(|| Error::internal("no such encoding"))?;
    let (dtype, shape, _) = encoding.take(value)?;
    let dims = match encoding {
        Encoding::Array { shape: Some(shape), .. } => shape.into_iter().map(Some).collect(),
        _ => vec![None; shape.len()],
    };
    Ok(if shape.is_empty() { Kind::scalar(dtype) } else { Kind::Tensor { dtype, shape: dims } })
}

/// Makes columns of samples.
pub(crate) struct Parser<'c> {
    stored: &'c [MdsColumn],
    /// Which of the stored columns are read, and how.
    wanted: Vec<(usize, Encoding)>,
    columns: Vec<Column>,
}

impl<'c> Parser<'c> {
    /// Prepares to read `fields` from samples with the columns `stored`.
    ///
    /// # Errors
    /// Invalid when a field is not a stored column, or its kind does not fit the column's encoding.
    pub(crate) fn new(stored: &'c [MdsColumn], fields: &[Field], rows: usize) -> Result<Self> {
        let wanted = fields.iter().map(|field| find(stored, field)).collect::<Result<_>>()?;
        Ok(Self { stored, wanted, columns: fields.iter().map(|field| Column::new(field, rows)).collect() })
    }

    /// Reads a sample.
    ///
    /// # Errors
    /// Data when its bytes are not those of such a sample, or an array differs from its column in type or number of
    /// dimensions.
    pub(crate) fn push(&mut self, sample: &[u8]) -> Result<()> {
        let values = values(self.stored, sample)?;
        for ((place, encoding), column) in self.wanted.iter().zip(&mut self.columns) {
            let value = values[*place];
            let named = |e: Error| e.with("column", &self.stored[*place].name);
            match encoding {
                Encoding::Bytes | Encoding::Scalar(_) => column.push(value)?,
                Encoding::Text => {
                    std::str::from_utf8(value).map_err(|_| named(Error::data("a text is not utf-8")))?;
                    column.push(value)?;
                }
                Encoding::Array { .. } | Encoding::Litdata(_) => {
                    let (dtype, shape, numbers) = encoding.take(value).map_err(named)?;
                    check(&column.field.kind, dtype, &shape).map_err(named)?;
                    column.push_shaped(&shape, numbers)?;
                }
            }
        }
        Ok(())
    }

    /// Finishes the columns.
    pub(crate) fn finish(self) -> Result<Vec<ArrayRef>> {
        self.columns.into_iter().map(Column::finish).collect()
    }
}

/// Finds a stored column, and checks that it fits the field: a graph is untrusted input.
fn find(stored: &[MdsColumn], field: &Field) -> Result<(usize, Encoding)> {
    let place = stored.iter().position(|column| column.name == field.name);
    let place = place.ok_or_else(|| Error::invalid(format!("shards have no column {:?}", field.name)))?;
    let column = &stored[place];
    let encoding = Encoding::parse(&column.encoding).ok_or_else(|| unknown(column))?;
    let fits = !field.nullable
        && match encoding.kind() {
            Open::Known(kind) => kind == field.kind && (encoding.size().is_none() || encoding.size() == column.size),
            Open::Array => matches!(field.kind, Kind::Tensor { .. } | Kind::Scalar { .. }),
        };
    match fits {
        true => Ok((place, encoding)),
        false => Err(Error::invalid(format!("column {:?} of {:?} is no {}", field.name, column.encoding, field.kind))),
    }
}

/// Refuses a column with a user-defined encoding.
pub(super) fn unknown(column: &MdsColumn) -> Error {
    let encoding = column.encoding.strip_prefix(litdata::PREFIX).unwrap_or(&column.encoding);
    Error::invalid(format!("column {:?} is stored as {encoding:?}, which is not known", column.name))
        .hint("read the others alone: columns=[...]")
}

/// Compares an array with its column.
fn check(kind: &Kind, dtype: DType, shape: &[usize]) -> Result<()> {
    let (wanted, dims) = match kind {
        Kind::Tensor { dtype, shape } => (dtype, shape.as_slice()),
        Kind::Scalar { dtype } => (dtype, &[][..]),
        Kind::Bytes | Kind::Utf8 | Kind::Texts => return Err(Error::internal("no column of arrays")),
    };
    let fits = dims.len() == shape.len() && dims.iter().zip(shape).all(|(dim, n)| dim.is_none_or(|dim| dim == *n));
    if fits && *wanted == dtype {
        return Ok(());
    }
    let what = format!("an array of {dtype} of shape {shape:?}, in a column of {kind}");
    Err(Error::data(what).hint("the first sample says what a column is; read the others alone: columns=[...]"))
}
