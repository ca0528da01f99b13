//! Writes values that no column holds as they are (lists of texts, lists of lists, maps, unions, …) as JSON text.
//!
//! The text has every value in full: numbers as Python's `json` writes them, `NaN` and `Infinity` included; times as
//! the whole numbers that the file has; decimals in quotes; bytes as base64. A map is an object where its keys are
//! texts, and a list of pairs where they are not. Invariant: no column becomes more text than `limits` allows, because
//! dictionaries and list views may refer to one value any number of times.

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, downcast_dictionary_array, downcast_run_array};
use arrow_buffer::{ArrowNativeType, NullBufferBuilder};
use arrow_schema::{DataType, IntervalUnit, TimeUnit};
use forebay_core::{Error, Result};
use forebay_data::Kind;
use serde::Serialize;

use crate::columns::binary;
use crate::{fail, limits};

/// Returns the rows of a column as texts; missing rows stay missing.
///
/// # Errors
/// Exhausted when the texts are longer than a column of a group of rows may be.
pub(super) fn column(values: &ArrayRef) -> Result<ArrayRef> {
    let mut text = Text(Vec::new(), limits::group_bytes_max(values.get_array_memory_size() as u64));
    let mut offsets = Vec::with_capacity(values.len() + 1);
    offsets.push(0);
    let mut nulls = NullBufferBuilder::new(values.len());
    for row in 0..values.len() {
        let start = text.0.len();
        text.value(values.as_ref(), row)?;
        let missing = text.0[start..] == *b"null";
        if missing {
            text.0.truncate(start);
        }
        nulls.append(!missing);
        offsets.push(text.0.len() as i64);
    }
    binary(&Kind::Utf8, offsets, text.0, nulls.finish())
}

/// Says whether values of a type are texts, so that they can be keys of an object.
fn is_text(ty: &DataType) -> bool {
    match ty {
        DataType::Dictionary(_, values) => is_text(values),
        ty => matches!(ty, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View),
    }
}

/// JSON text that is being written, and its maximal length.
struct Text(Vec<u8>, u64);

impl Text {
    /// Appends one value of an array.
    fn value(&mut self, array: &dyn Array, row: usize) -> Result<()> {
        limits::group("the json text of a column", self.0.len() as u64, self.1)?;
        if array.is_null(row) {
            return self.put(&());
        }
        match array.data_type() {
            DataType::List(_) => self.list(&array.as_list::<i32>().value(row)),
            DataType::LargeList(_) => self.list(&array.as_list::<i64>().value(row)),
            DataType::ListView(_) => self.list(&array.as_list_view::<i32>().value(row)),
            DataType::LargeListView(_) => self.list(&array.as_list_view::<i64>().value(row)),
            DataType::FixedSizeList(..) => self.list(&array.as_fixed_size_list().value(row)),
            DataType::Struct(fields) => {
                let parts = array.as_struct().columns();
                self.many(b"{}", fields.len(), |text, i| {
                    text.put(fields[i].name())?;
                    text.0.push(b':');
                    text.value(parts[i].as_ref(), row)
                })
            }
            DataType::Map(..) => {
                let entries = array.as_map().value(row);
                let (keys, values) = (entries.column(0), entries.column(1));
                let named = is_text(keys.data_type()) && keys.logical_null_count() == 0;
                self.many(if named { b"{}" } else { b"[]" }, entries.len(), |text, i| {
                    if named {
                        text.value(keys, i)?;
                        text.0.push(b':');
                        return text.value(values, i);
                    }
                    text.many(b"[]", 2, |text, part| text.value(if part == 0 { keys } else { values }, i))
                })
            }
            DataType::Union(..) => self.value(&array.as_union().value(row), 0),
            DataType::Dictionary(..) => downcast_dictionary_array!(
                array => {
                    let key = array.keys().value(row).as_usize();
                    self.value_at(array.values(), key)
                },
                _ => Err(odd(array)),
            ),
            DataType::RunEndEncoded(..) => downcast_run_array!(
                array => self.value_at(array.values(), array.get_physical_index(row)),
                _ => Err(odd(array)),
            ),
            _ => self.leaf(array, row),
        }
    }

    /// Appends the value that another array refers to.
    fn value_at(&mut self, values: &ArrayRef, at: usize) -> Result<()> {
        if at < values.len() { self.value(values, at) } else { Err(odd(values)) }
    }

    /// Appends a value without nested values.
    fn leaf(&mut self, array: &dyn Array, row: usize) -> Result<()> {
        macro_rules! number {
            ($type:ty) => {
                self.put(&array.as_primitive::<$type>().value(row))
            };
        }
        macro_rules! decimal {
            ($type:ty) => {
                self.put(&array.as_primitive::<$type>().value_as_string(row))
            };
        }
        use DataType as D;
        match array.data_type() {
            D::Null => self.put(&()),
            D::Boolean => self.put(&array.as_boolean().value(row)),
            D::Int8 => number!(Int8Type),
            D::Int16 => number!(Int16Type),
            D::Int32 => number!(Int32Type),
            D::Int64 => number!(Int64Type),
            D::UInt8 => number!(UInt8Type),
            D::UInt16 => number!(UInt16Type),
            D::UInt32 => number!(UInt32Type),
            D::UInt64 => number!(UInt64Type),
            D::Float16 => self.real(array.as_primitive::<Float16Type>().value(row).to_f64()),
            D::Float32 => self.real(array.as_primitive::<Float32Type>().value(row).into()),
            D::Float64 => self.real(array.as_primitive::<Float64Type>().value(row)),
            D::Utf8 => self.put(array.as_string::<i32>().value(row)),
            D::LargeUtf8 => self.put(array.as_string::<i64>().value(row)),
            D::Utf8View => self.put(array.as_string_view().value(row)),
            D::Binary => self.bytes(array.as_binary::<i32>().value(row)),
            D::LargeBinary => self.bytes(array.as_binary::<i64>().value(row)),
            D::BinaryView => self.bytes(array.as_binary_view().value(row)),
            D::FixedSizeBinary(_) => self.bytes(array.as_fixed_size_binary().value(row)),
            D::Date32 => number!(Date32Type),
            D::Date64 => number!(Date64Type),
            D::Time32(TimeUnit::Second) => number!(Time32SecondType),
            D::Time32(_) => number!(Time32MillisecondType),
            D::Time64(TimeUnit::Microsecond) => number!(Time64MicrosecondType),
            D::Time64(_) => number!(Time64NanosecondType),
            D::Timestamp(TimeUnit::Second, _) => number!(TimestampSecondType),
            D::Timestamp(TimeUnit::Millisecond, _) => number!(TimestampMillisecondType),
            D::Timestamp(TimeUnit::Microsecond, _) => number!(TimestampMicrosecondType),
            D::Timestamp(TimeUnit::Nanosecond, _) => number!(TimestampNanosecondType),
            D::Duration(TimeUnit::Second) => number!(DurationSecondType),
            D::Duration(TimeUnit::Millisecond) => number!(DurationMillisecondType),
            D::Duration(TimeUnit::Microsecond) => number!(DurationMicrosecondType),
            D::Duration(TimeUnit::Nanosecond) => number!(DurationNanosecondType),
            D::Decimal32(..) => decimal!(Decimal32Type),
            D::Decimal64(..) => decimal!(Decimal64Type),
            D::Decimal128(..) => decimal!(Decimal128Type),
            D::Decimal256(..) => decimal!(Decimal256Type),
            D::Interval(unit) => self.interval(array, row, *unit),
            _ => Err(odd(array)),
        }
    }

    fn interval(&mut self, array: &dyn Array, row: usize, unit: IntervalUnit) -> Result<()> {
        let parts = match unit {
            IntervalUnit::YearMonth => {
                vec![("months", i64::from(array.as_primitive::<IntervalYearMonthType>().value(row)))]
            }
            IntervalUnit::DayTime => {
                let interval = array.as_primitive::<IntervalDayTimeType>().value(row);
                vec![("days", interval.days.into()), ("milliseconds", interval.milliseconds.into())]
            }
            IntervalUnit::MonthDayNano => {
                let interval = array.as_primitive::<IntervalMonthDayNanoType>().value(row);
                let (months, days) = (interval.months.into(), interval.days.into());
                vec![("months", months), ("days", days), ("nanoseconds", interval.nanoseconds)]
            }
        };
        self.many(b"{}", parts.len(), |text, i| {
            text.put(parts[i].0)?;
            text.0.push(b':');
            text.put(&parts[i].1)
        })
    }

    fn list(&mut self, items: &ArrayRef) -> Result<()> {
        self.many(b"[]", items.len(), |text, i| text.value(items, i))
    }

    /// Appends `count` parts between brackets.
    fn many(
        &mut self,
        brackets: &[u8; 2],
        count: usize,
        mut part: impl FnMut(&mut Self, usize) -> Result<()>,
    ) -> Result<()> {
        self.0.push(brackets[0]);
        for i in 0..count {
            if i > 0 {
                self.0.push(b',');
            }
            part(self, i)?;
        }
        self.0.push(brackets[1]);
        Ok(())
    }

    fn put<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        serde_json::to_writer(&mut self.0, value).map_err(|e| Error::internal(format!("json: {e}")))
    }

    fn real(&mut self, value: f64) -> Result<()> {
        match value {
            value if value.is_finite() => return self.put(&value),
            value if value.is_nan() => self.0.extend_from_slice(b"NaN"),
            value => self.0.extend_from_slice(if value > 0.0 { b"Infinity" } else { b"-Infinity" }),
        }
        Ok(())
    }

    /// Appends bytes as base64, because JSON has no bytes.
    fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        self.0.push(b'"');
        for three in bytes.chunks(3) {
            let bits = (0..3).fold(0, |bits, i| bits << 8 | u32::from(three.get(i).copied().unwrap_or(0)));
            let letter = |i: usize| LETTERS[(bits >> (18 - 6 * i)) as usize & 63];
            self.0.extend((0..4).map(|i| if i <= three.len() { letter(i) } else { b'=' }));
        }
        self.0.push(b'"');
        Ok(())
    }
}

/// The error of an array that breaks Arrow's rules.
fn odd(array: &dyn Array) -> Error {
    fail::arrow(arrow_schema::ArrowError::InvalidArgumentError(format!("a value of {}", array.data_type())))
}
