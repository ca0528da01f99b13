//! Parses records into rows of columns whose types are known.

use std::collections::HashMap;

use arrow_array::ArrayRef;
use forebay_core::{Error, Result};
use forebay_data::{DType, Field, Kind};

use super::dialect::Dialect;
use super::record::Fields;
use crate::columns::Column;

/// Parses records into columns.
#[derive(Debug)]
pub(crate) struct Parser<'s> {
    dialect: &'s Dialect,
    null: &'s [String],
    columns: Vec<Column>,
    /// For each field of a record, the column that it fills, if any.
    places: &'s [Option<usize>],
    /// Whether texts are known to be UTF-8.
    is_utf8: bool,
    scratch: Vec<u8>,
}

impl<'s> Parser<'s> {
    /// `places`: see [`places`]. `is_utf8`: whether all records are known to be.
    pub(crate) fn new(
        dialect: &'s Dialect,
        null: &'s [String],
        places: &'s [Option<usize>],
        fields: &[Field],
        (rows, is_utf8): (usize, bool),
    ) -> Self {
        let columns = fields.iter().map(|field| Column::new(field, rows)).collect();
        Self { dialect, null, columns, places, is_utf8, scratch: Vec::new() }
    }

    /// Appends a record.
    ///
    /// # Errors
    /// Data when it has other than one field for each name, or a field is missing or of another type. The parser must then
    /// be dropped.
    pub(crate) fn push(&mut self, record: &[u8]) -> Result<()> {
        let mut fields = Fields::new(self.dialect, record);
        for (at, place) in self.places.iter().enumerate() {
            let Some(field) = fields.next()? else { return Err(count(at, self.places.len())) };
            let Some(place) = place else { continue };
            let column = &mut self.columns[*place];
            let is_null = || self.null.iter().any(|null| null.as_bytes() == field.text);
            let may_be_null = !field.is_quoted && (column.field.nullable || column.field.kind != Kind::Utf8);
            if may_be_null && is_null() {
                column.push_missing().map_err(|_| missing(&column.field, field.text))?;
                continue;
            }
            self.scratch.clear();
            match &column.field.kind {
                Kind::Utf8 if !self.is_utf8 && std::str::from_utf8(field.text).is_err() => {
                    return Err(not_utf8(&column.field, field.text));
                }
                Kind::Utf8 => column.push(field.text)?,
                Kind::Scalar { dtype } => {
                    number(*dtype, field.text, &mut self.scratch).ok_or_else(|| refused(&column.field, field.text))?;
                    column.push(&self.scratch)?;
                }
                Kind::Bytes | Kind::Texts | Kind::Tensor { .. } => {
                    return Err(Error::internal("a csv column is a text or a number"));
                }
            }
        }
        let mut more = 0;
        while fields.next()?.is_some() {
            more += 1;
        }
        if more == 0 { Ok(()) } else { Err(count(self.places.len() + more, self.places.len())) }
    }

    pub(crate) fn finish(self) -> Result<Vec<ArrayRef>> {
        self.columns.into_iter().map(Column::finish).collect()
    }
}

/// Returns, for each field of a record, the column that it fills, if any.
///
/// # Errors
/// Internal for a column that is not among the names.
pub(crate) fn places(names: &[String], fields: &[Field]) -> Result<Vec<Option<usize>>> {
    let columns: HashMap<&str, usize> = fields.iter().map(|field| field.name.as_str()).zip(0..).collect();
    let places: Vec<_> = names.iter().map(|name| columns.get(name.as_str()).copied()).collect();
    if places.iter().flatten().count() != fields.len() {
        return Err(Error::internal("a column is not in the header"));
    }
    Ok(places)
}

fn not_utf8(field: &Field, text: &[u8]) -> Error {
    Error::data(format!("column {:?} is not utf-8 in this row", field.name))
        .with("value", brief(text))
        .hint("convert the file to utf-8, for example with `iconv -f latin1 -t utf-8`")
}

fn count(found: usize, wanted: usize) -> Error {
    Error::data(format!("a record has {found} fields, and there are {wanted} columns")).hint(
        "check the delimiter and the quotes; write the record again, or leave such records out with on_error=\"skip\"",
    )
}

fn missing(field: &Field, text: &[u8]) -> Error {
    let (name, kind) = (&field.name, field.kind.dtype().map_or("string", DType::name));
    Error::data(format!("column {name:?} has no value in this row"))
        .with("value", brief(text))
        .hint(format!("say that it may be missing: schema={{{name:?}: \"{kind}?\", ...}}"))
}

fn refused(field: &Field, text: &[u8]) -> Error {
    let (name, kind) = (&field.name, &field.kind);
    let better = if number(DType::Float64, text, &mut Vec::new()).is_some() { "float64" } else { "string" };
    Error::data(format!("column {name:?} should be {kind}")).with("value", brief(text)).hint(format!(
        "without schema=, types are those of the first 1,000 rows; say what it is: schema={{{name:?}: \"{better}\", ...}}, or name what means a missing \
         value: null=[...]"
    ))
}

/// Returns the beginning of a field.
fn brief(text: &[u8]) -> String {
    String::from_utf8_lossy(text).chars().take(80).collect()
}

/// Reads a truth value.
pub(super) fn truth(text: &[u8]) -> Option<bool> {
    match text {
        b"true" | b"True" | b"TRUE" => Some(true),
        b"false" | b"False" | b"FALSE" => Some(false),
        _ => None,
    }
}

/// Writes a number as its column stores it. Spaces around it are ignored.
pub(super) fn number(dtype: DType, text: &[u8], to: &mut Vec<u8>) -> Option<()> {
    let text = text.trim_ascii();
    macro_rules! parsed {
        ($type:ty) => {
            to.extend_from_slice(&std::str::from_utf8(text).ok()?.parse::<$type>().ok()?.to_le_bytes())
        };
    }
    match dtype {
        DType::Bool => to.push(u8::from(truth(text)?)),
        DType::Int8 => parsed!(i8),
        DType::Int16 => parsed!(i16),
        DType::Int32 => parsed!(i32),
        DType::Int64 => parsed!(i64),
        DType::Uint8 => parsed!(u8),
        DType::Uint16 => parsed!(u16),
        DType::Uint32 => parsed!(u32),
        DType::Uint64 => parsed!(u64),
        DType::Float16 => return None,
        DType::Float32 => parsed!(f32),
        DType::Float64 => parsed!(f64),
    }
    Some(())
}

/// Checks that a column can be read from these files.
///
/// # Errors
/// Invalid for a kind that is neither text nor number.
pub(crate) fn check(field: &Field) -> Result<()> {
    let ok = match &field.kind {
        Kind::Utf8 => true,
        Kind::Scalar { dtype } => *dtype != DType::Float16,
        Kind::Bytes | Kind::Texts | Kind::Tensor { .. } => false,
    };
    if ok {
        return Ok(());
    }
    Err(Error::invalid(format!("csv column {:?} cannot be {}", field.name, field.kind))
        .hint("a column is a string, a truth value or a number; read it as one of these and cast or map it afterwards"))
}
