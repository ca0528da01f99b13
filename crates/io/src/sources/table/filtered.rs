//! Parquet files without the row groups in which a condition is true for no row.
//!
//! Invariant: the left out row groups depend on the files and the condition alone, so that each machine counts the same
//! rows.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Int64Array, LargeStringArray};
use arrow_schema::Schema;
use forebay_core::{Error, Result};
use forebay_data::Field;
use forebay_plan::{ColumnValues, Expr, Merged, Source, ValueBound, ValueRange};

use crate::formats::grouped::Grouped;
use crate::formats::{arrow, parquet};
use crate::index::table::{Counted, Table};
use crate::partitions;
use crate::store::{Found, Object};

/// A condition over the columns of files, and the values of their paths.
pub(crate) struct Filtered<'s> {
    filter: &'s Expr,
    fields: &'s [Field],
    /// The condition and the types of the columns, as text.
    written: String,
    /// The columns that are in the paths: a value for each file.
    of_paths: Vec<(&'s str, ArrayRef)>,
    /// The columns that are in the files.
    stored: Vec<Field>,
    merged: Option<&'s Merged>,
    uris: Vec<String>,
    /// The schema of the first file, which defines the unit of times.
    first: Option<Arc<Schema>>,
}

impl<'s> Filtered<'s> {
    /// Returns the condition of a source that has one.
    ///
    /// # Errors
    /// As [`partitions::column`], and of opening the first file.
    pub(crate) fn of(
        source: &'s Source,
        found: &[Found],
        begins: &[u64],
        open: &dyn Fn(&Found) -> Result<Arc<Object>>,
    ) -> Result<Option<Self>> {
        let (Some(filter), Source::Parquet { fields, .. }) = (source.filter(), source) else { return Ok(None) };
        let uris: Vec<&str> = found.iter().map(|found| found.uri.as_str()).collect();
        let of_path = |field: &'s Field| Ok((field.name.as_str(), partitions::column(field, &uris, begins)?));
        let of_paths = source.partitions().map(of_path).collect::<Result<_>>()?;
        let stored: Vec<Field> =
            fields.iter().filter(|field| source.partitions().all(|path| path.name != field.name)).cloned().collect();
        let merged = source.merged();
        let first = match found {
            [first, _, ..] if merged.is_none() && stored.iter().any(arrow::may_be_time) => {
                Some(Arc::new(parquet::File::open(open(first)?)?.schema().clone()))
            }
            _ => None,
        };
        let times = first.as_deref().map(|first| stored.iter().map(|field| arrow::stored_type(first, &field.name)));
        let times: Vec<_> = times.into_iter().flatten().map(|ty| format!("{ty:?}")).collect();
        let written = serde_json::to_string(&(filter, fields, times)).map_err(|e| Error::internal(e.to_string()))?;
        let uris = found.iter().map(|found| found.uri.clone()).collect();
        Ok(Some(Self { filter, fields, written, of_paths, stored, merged, uris, first }))
    }

    /// Says whether the path of a file shows that the condition is true for none of its rows.
    pub(crate) fn leaves_out(&self, file: usize) -> bool {
        !self.filter.may_be_true(&|name| self.of_path(file, name).unwrap_or_default())
    }

    /// Returns the table of a file that is left out.
    pub(crate) fn nothing() -> Counted {
        let matching = parquet::Matching { rows: Vec::new(), bytes: 0 };
        Counted { table: Table::Matching(matching).into(), points: None }
    }

    /// Returns the inputs of a file's table besides its content.
    pub(crate) fn key(&self, file: usize) -> String {
        let said: Vec<_> = self.of_paths.iter().map(|(name, _)| (name, self.of_path(file, name))).collect();
        format!("{}:{said:?}", self.written)
    }

    /// Finds the row groups of a file that may have rows for which the condition is true.
    pub(crate) fn scan(&self, file: usize, object: Arc<Object>) -> Result<Counted> {
        let known = |name: &str| self.of_path(file, name);
        let opened = parquet::File::open(object)?;
        self.check(&opened, self.uris.get(file).map_or("", String::as_str))?;
        let matching = opened.matching(self.filter, self.fields, &known);
        Ok(Counted { table: Table::Matching(matching).into(), points: None })
    }

    /// Refuses a file that a reader would refuse: a file that is left out as a whole is opened by no reader.
    fn check(&self, file: &parquet::File, uri: &str) -> Result<()> {
        arrow::check(file.schema(), &self.stored, self.merged.is_some(), uri)?;
        match (self.merged, &self.first) {
            (Some(merged), _) => arrow::check_times(merged, file.schema(), &self.stored, uri),
            (None, Some(first)) => arrow::check_time(first, file.schema(), &self.stored, uri),
            (None, None) => Ok(()),
        }
    }

    /// Returns the value of a column from the path of a file.
    fn of_path(&self, file: usize, name: &str) -> Option<ColumnValues> {
        let (_, column) = self.of_paths.iter().find(|(column, _)| *column == name)?;
        let whole = || Some(ValueBound::Int(column.as_any().downcast_ref::<Int64Array>()?.value(file).into()));
        let text = || {
            let texts = column.as_any().downcast_ref::<LargeStringArray>()?;
            Some(ValueBound::Bytes(texts.value(file).as_bytes().to_vec()))
        };
        let is_missing = column.is_null(file);
        let range = match whole().or_else(text) {
            _ if is_missing => ValueRange::Empty,
            Some(value) => ValueRange::Between(value.clone(), value),
            None => ValueRange::Any,
        };
        Some(ColumnValues { range, may_be_missing: is_missing, may_be_nan: false })
    }
}
