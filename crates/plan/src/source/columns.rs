//! The columns of a source, and the columns that a pipeline reads from it.

use std::collections::BTreeSet;

use forebay_core::{Error, Result};
use forebay_data::{DType, Field, Kind, Schema};

use super::{Merged, Source};
use crate::ops::expr::Expr;

/// The most ids of a row of [`Source::Tokens`]: such a row has a gigabyte.
const TOKENS_MAX: u64 = 1 << 27;

impl Source {
    /// Returns its columns.
    ///
    /// # Errors
    /// Invalid when two have the same name, or rows of token ids have an impossible type or length.
    pub fn schema(&self) -> Result<Schema> {
        let bytes = |name: &str| Field::new(name, Kind::Bytes);
        let text = |name: &str| Field::new(name, Kind::Utf8);
        Schema::new(match self {
            Source::Files { .. } => vec![text("path"), bytes("bytes")],
            Source::ImageFolder { .. } => {
                vec![bytes("image"), Field::new("label", Kind::scalar(DType::Int64)), text("path")]
            }
            Source::Tar { extensions, optional, .. } => {
                let member = |e: &String| Field { nullable: optional.contains(e), ..bytes(e) };
                std::iter::once(text("__key__")).chain(extensions.iter().map(member)).collect()
            }
            Source::Tfrecord { features: None, .. } => vec![bytes("record")],
            Source::Text { .. } => vec![text("text")],
            // Writers declare nearly every column as nullable. A missing tensor is an error of its row.
            Source::Tfrecord { features: Some(fields), .. }
            | Source::Parquet { fields, .. }
            | Source::Arrow { fields, .. }
            | Source::Csv { fields, .. }
            | Source::Json { fields, .. }
            | Source::Jsonl { fields, .. } => {
                let field = |f: &Field| Field { nullable: f.nullable && f.kind.can_be_missing(), ..f.clone() };
                fields.iter().map(field).collect()
            }
            Source::Tokens { dtype, length, stride, column, .. } => vec![tokens(*dtype, *length, *stride, column)?],
            Source::Megatron { column, .. } => {
                vec![Field::new(column, Kind::Tensor { dtype: DType::Int32, shape: vec![None] })]
            }
            Source::Memory { fields, .. }
            | Source::MapDataset { fields, .. }
            | Source::Generator { fields, .. }
            | Source::Mds { fields, .. }
            | Source::Litdata { fields, .. } => {
                fields.iter().try_for_each(Field::check)?;
                fields.clone()
            }
            Source::Range { .. } => vec![Field::new("id", Kind::scalar(DType::Int64))],
            Source::Combined(combined) => combined.fields()?,
        })
    }

    /// Returns the source with only those of its columns that are in `needed`, if it can read some without others.
    pub(crate) fn reading(&self, needed: &BTreeSet<String>) -> Self {
        let mut source = self.clone();
        match &mut source {
            Source::Tfrecord { features: Some(fields), .. }
            | Source::Parquet { fields, .. }
            | Source::Arrow { fields, .. }
            | Source::Jsonl { fields, .. }
            | Source::Json { fields, .. }
            | Source::Csv { fields, .. }
            | Source::Mds { fields, .. }
            | Source::Litdata { fields, .. }
            | Source::Memory { fields, .. } => fields.retain(|field| needed.contains(&field.name)),
            Source::Combined(combined) => combined.read_only(needed),
            Source::Files { .. }
            | Source::ImageFolder { .. }
            | Source::Tar { .. }
            | Source::Tfrecord { features: None, .. }
            | Source::Text { .. }
            | Source::Tokens { .. }
            | Source::Megatron { .. }
            | Source::MapDataset { .. }
            | Source::Generator { .. }
            | Source::Range { .. } => {}
        }
        source
    }

    /// Returns its columns that come from the files' paths, and from no file.
    pub fn partitions(&self) -> impl Iterator<Item = &Field> {
        let (fields, names) = match self {
            Source::Parquet { fields, partitions, .. } | Source::Arrow { fields, partitions, .. } => {
                (fields.as_slice(), partitions.as_slice())
            }
            _ => (&[][..], &[][..]),
        };
        fields.iter().filter(|field| names.contains(&field.name))
    }

    /// Returns the common properties of its files, if their columns may differ.
    pub fn merged(&self) -> Option<&Merged> {
        match self {
            Source::Parquet { merged, .. } | Source::Arrow { merged, .. } => merged.as_ref(),
            _ => None,
        }
    }

    /// Returns its columns of lists in which a missing list is read as an empty one.
    pub fn empty_lists(&self) -> &[String] {
        match self {
            Source::Parquet { empty_lists, .. } | Source::Arrow { empty_lists, .. } => empty_lists,
            _ => &[],
        }
    }

    /// Skips the row groups in which, by their footers, `condition` is true for no row.
    ///
    /// # Errors
    /// Invalid for a source without such footers.
    pub fn filtered(self, condition: Expr) -> Result<Self> {
        match self {
            Source::Parquet { paths, fields, partitions, merged, empty_lists, .. } => {
                let filter = Some(condition.into());
                Ok(Source::Parquet { paths, fields, partitions, merged, empty_lists, filter })
            }
            other => Err(Error::invalid(format!("{} leaves no row groups out", other.name())).hint("use filter")),
        }
    }

    /// Returns the condition by which row groups are skipped.
    pub fn filter(&self) -> Option<&Expr> {
        match self {
            Source::Parquet { filter, .. } => filter.as_deref(),
            _ => None,
        }
    }
}

/// Returns the column of rows of token ids.
fn tokens(dtype: DType, length: u64, stride: u64, column: &str) -> Result<Field> {
    if dtype.is_float() || dtype == DType::Bool {
        return Err(Error::invalid(format!("dtype={dtype}: token ids are whole numbers"))
            .hint("use what the files were written as, for example \"uint16\" or \"int32\""));
    }
    for (name, value) in [("length", length), ("stride", stride)] {
        if !(1..=TOKENS_MAX).contains(&value) {
            let message = format!("{name}={value} is out of range");
            return Err(Error::invalid(message).hint(format!("use 1 to {TOKENS_MAX}")));
        }
    }
    Ok(Field::new(column, Kind::fixed(DType::Int64, &[length as usize])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_lengths_are_pythons() {
        let rows = |start, stop, step| Source::Range { start, stop, step }.rows();
        assert_eq!(rows(0, 10, 3), Some(4));
        assert_eq!(rows(10, 0, -3), Some(4));
        assert_eq!(rows(0, -5, 1), Some(0));
        assert_eq!(rows(i64::MIN, i64::MAX, 1), Some(u64::MAX));
    }
}
