//! What a footer says of the values in a row group, and which row groups may have a row that a condition is true of.

use forebay_data::{DType, Field, Kind};
use forebay_plan::{ColumnValues, Expr, ValueBound, ValueRange};
use parquet::basic::{ConvertedType, LogicalType};
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::statistics::Statistics;
use parquet::schema::types::ColumnDescriptor;

use super::File;

/// The row groups of a file that a condition may be true in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Matching {
    /// The rows of each row group: none where the condition is true of none.
    pub(crate) rows: Vec<u64>,
    /// What the other row groups take in the file.
    pub(crate) bytes: u64,
}

impl File {
    /// Returns the row groups that may have a row of which `filter` is true. `known` says what is known already of a column, of `fields`.
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

    /// Returns what is known of the values of a column in a row group.
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
        ColumnValues {
            range: range(statistics, &column, &field.kind).unwrap_or(ValueRange::Any),
            may_be_missing: missing != Some(0),
            ..unknown
        }
    }
}

/// Returns from which value to which a column goes, if the footer says so in the order in which values are compared.
fn range(statistics: &Statistics, column: &ColumnDescriptor, kind: &Kind) -> Option<ValueRange> {
    let is_unsigned = matches!(column.logical_type_ref(), Some(LogicalType::Integer(of)) if !of.is_signed)
        || matches!(
            column.converted_type(),
            ConvertedType::UINT_8 | ConvertedType::UINT_16 | ConvertedType::UINT_32 | ConvertedType::UINT_64
        );
    // Old writers gave the least and the greatest value by the order of signed numbers, and of bytes as signed ones.
    if statistics.is_min_max_deprecated() && (is_unsigned || matches!(statistics, Statistics::ByteArray(_))) {
        return None;
    }
    let is_number = matches!(kind, Kind::Scalar { dtype } if *dtype != DType::Bool);
    let is_decimal = matches!(column.logical_type_ref(), Some(LogicalType::Decimal { .. }))
        || column.converted_type() == ConvertedType::DECIMAL;
    let between = |low: ValueBound, high: ValueBound| Some(ValueRange::Between(low, high));
    match statistics {
        _ if is_decimal => None,
        Statistics::Boolean(of) if *kind == Kind::scalar(DType::Bool) => {
            between(ValueBound::Int((*of.min_opt()?).into()), ValueBound::Int((*of.max_opt()?).into()))
        }
        Statistics::Int32(of) if is_number => {
            let bound = |value: i32| ValueBound::Int(if is_unsigned { (value as u32).into() } else { value.into() });
            between(bound(*of.min_opt()?), bound(*of.max_opt()?))
        }
        Statistics::Int64(of) if is_number => {
            let bound = |value: i64| ValueBound::Int(if is_unsigned { (value as u64).into() } else { value.into() });
            between(bound(*of.min_opt()?), bound(*of.max_opt()?))
        }
        Statistics::Float(of) if is_number => floats((*of.min_opt()?).into(), (*of.max_opt()?).into()),
        Statistics::Double(of) if is_number => floats(*of.min_opt()?, *of.max_opt()?),
        Statistics::ByteArray(of) if matches!(kind, Kind::Utf8 | Kind::Bytes) => {
            between(ValueBound::Bytes(of.min_opt()?.data().to_vec()), ValueBound::Bytes(of.max_opt()?.data().to_vec()))
        }
        _ => None,
    }
}

/// NaN is no bound; writers that count it as one say nothing.
fn floats(low: f64, high: f64) -> Option<ValueRange> {
    (!low.is_nan() && !high.is_nan()).then_some(ValueRange::Between(ValueBound::Float(low), ValueBound::Float(high)))
}
