//! Reads the statistics of a footer, and finds the row groups that may have a row for which a condition is true.

use arrow_schema::{DataType, TimeUnit};
use forebay_data::{DType, Field, Kind};
use forebay_plan::{ColumnValues, Expr, ValueBound, ValueRange};
use parquet::basic::{LogicalType, TimeUnit as Stored};
use parquet::data_type::ByteArray;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::statistics::Statistics;
use parquet::schema::types::ColumnDescriptor;

use super::File;
use crate::formats::arrow;
use crate::index::matching::Matching;

impl File {
    /// Returns the row groups that may have a row for which `filter` is true. `known` has facts about columns of
    /// `fields` from elsewhere.
    pub(crate) fn matching(
        &self,
        filter: &Expr,
        fields: &[Field],
        known: &dyn Fn(&str) -> Option<ColumnValues>,
    ) -> Matching {
        let mut matching = Matching { rows: self.group_rows(), bytes: 0 };
        for (rows, group) in matching.rows.iter_mut().zip(self.footer.metadata().row_groups()) {
            let values = |name: &str| known(name).unwrap_or_else(|| self.values(group, fields, name));
            if filter.may_be_true(&values) {
                matching.bytes += u64::try_from(group.compressed_size()).unwrap_or(0);
            } else {
                *rows = 0;
            }
        }
        matching
    }

    /// Returns the statistics of a column in a row group.
    fn values(&self, group: &RowGroupMetaData, fields: &[Field], name: &str) -> ColumnValues {
        let Some(field) = fields.iter().find(|field| field.name == name) else { return ColumnValues::default() };
        let is_float = matches!(field.kind, Kind::Scalar { dtype } if dtype.is_float());
        let unknown = ColumnValues { may_be_nan: is_float, ..ColumnValues::default() };
        let &[leaf] = self.leaves(std::slice::from_ref(field)).as_slice() else { return unknown };
        let column = self.footer.parquet_schema().column(leaf);
        let is_it = column.max_rep_level() == 0 && column.path().parts().join(".") == field.name;
        let Some(statistics) = group.columns().get(leaf).and_then(|chunk| chunk.statistics()).filter(|_| is_it) else {
            return unknown;
        };
        let missing = statistics.null_count_opt();
        if missing.is_some_and(|missing| i64::try_from(missing) == Ok(group.num_rows())) {
            return ColumnValues { range: ValueRange::Empty, may_be_missing: true, may_be_nan: false };
        }
        let range = || {
            let stored = arrow::stored_type(self.footer.schema(), name)?;
            range(statistics, &column, stored).filter(|_| is_compared(stored, &field.kind))
        };
        ColumnValues { range: range().unwrap_or(ValueRange::Any), may_be_missing: missing != Some(0), ..unknown }
    }
}

/// Returns the minimum and maximum of a column, if the footer has them in the type and order in which rows are
/// compared.
fn range(statistics: &Statistics, column: &ColumnDescriptor, stored: &DataType) -> Option<ValueRange> {
    use DataType as T;
    let is_unsigned = matches!(stored, T::UInt8 | T::UInt16 | T::UInt32 | T::UInt64);
    // Old writers computed minimum and maximum in the order of signed numbers, and of bytes as signed ones.
    if statistics.is_min_max_deprecated() && (is_unsigned || matches!(statistics, Statistics::ByteArray(_))) {
        return None;
    }
    let between = |low: ValueBound, high: ValueBound| Some(ValueRange::Between(low, high));
    match (statistics, stored) {
        (of, T::Dictionary(_, values)) => range(of, column, values),
        (Statistics::Boolean(of), T::Boolean) => {
            between(ValueBound::Int((*of.min_opt()?).into()), ValueBound::Int((*of.max_opt()?).into()))
        }
        (Statistics::Int32(of), T::UInt8 | T::UInt16 | T::UInt32) => {
            let bound = |value: i32| ValueBound::Int((value as u32).into());
            between(bound(*of.min_opt()?), bound(*of.max_opt()?))
        }
        (Statistics::Int32(of), ty)
            if matches!(ty, T::Int8 | T::Int16 | T::Int32 | T::Date32) || is_time(column, ty) =>
        {
            between(ValueBound::Int((*of.min_opt()?).into()), ValueBound::Int((*of.max_opt()?).into()))
        }
        (Statistics::Int64(of), T::UInt64) => {
            let bound = |value: i64| ValueBound::Int((value as u64).into());
            between(bound(*of.min_opt()?), bound(*of.max_opt()?))
        }
        (Statistics::Int64(of), ty) if *ty == T::Int64 || is_time(column, ty) => {
            between(ValueBound::Int((*of.min_opt()?).into()), ValueBound::Int((*of.max_opt()?).into()))
        }
        (Statistics::Float(of), T::Float32) => floats((*of.min_opt()?).into(), (*of.max_opt()?).into()),
        (Statistics::Double(of), T::Float64) => floats(*of.min_opt()?, *of.max_opt()?),
        (
            Statistics::ByteArray(of),
            T::Utf8 | T::LargeUtf8 | T::Utf8View | T::Binary | T::LargeBinary | T::BinaryView,
        ) => {
            let bound = |bytes: &ByteArray| ValueBound::Bytes(bytes.data().to_vec());
            between(bound(of.min_opt()?), bound(of.max_opt()?))
        }
        _ => None,
    }
}

/// Says whether a column counts time in the unit that its file stores.
fn is_time(column: &ColumnDescriptor, ty: &DataType) -> bool {
    let unit = match column.logical_type_ref() {
        Some(LogicalType::Timestamp(time)) => &time.unit,
        Some(LogicalType::Time(time)) => &time.unit,
        _ => return false,
    };
    let unit = match unit {
        Stored::MILLIS => TimeUnit::Millisecond,
        Stored::MICROS => TimeUnit::Microsecond,
        Stored::NANOS => TimeUnit::Nanosecond,
    };
    matches!(ty, DataType::Timestamp(of, _) | DataType::Time32(of) | DataType::Time64(of) if *of == unit)
}

/// Says whether rows are compared as the stored type: numbers as numbers, texts and bytes as bytes.
fn is_compared(stored: &DataType, kind: &Kind) -> bool {
    let is_bytes = match stored {
        DataType::Dictionary(_, values) => !values.is_numeric(),
        DataType::Boolean => return *kind == Kind::scalar(DType::Bool),
        ty => !ty.is_numeric() && !ty.is_temporal(),
    };
    match kind {
        Kind::Scalar { dtype } => !is_bytes && *dtype != DType::Bool,
        Kind::Utf8 | Kind::Bytes => is_bytes,
        Kind::Tensor { .. } | Kind::Texts => false,
    }
}

/// Returns a range of floats. NaN is no bound; the statistics of a writer that counts NaN as a bound are ignored.
fn floats(low: f64, high: f64) -> Option<ValueRange> {
    (!low.is_nan() && !high.is_nan()).then_some(ValueRange::Between(ValueBound::Float(low), ValueBound::Float(high)))
}
