//! Intermediate values of an expression: literals without a fixed dtype, numbers, texts.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, FixedSizeListArray, LargeStringArray, ListArray, StructArray, make_array};
use arrow_buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_data::ArrayDataBuilder;
use arrow_schema::{ArrowError, DataType};
use forebay_core::{Error, Result};
use forebay_data::{DType, Kind, tensor_values};
use forebay_plan::{Expr, ExprKind, meet};

use super::numbers::convert::convert;
use super::numbers::shape::{Layout, Numbers};

/// The value of an expression.
#[derive(Debug)]
pub(super) enum Value {
    /// A Python integer.
    Int(i64),
    /// A Python float.
    Float(f64),
    /// Numbers of a dtype.
    Numbers(Numbers),
    /// A string for all rows.
    Word(String),
    /// A column of strings or bytes.
    Text(ArrayRef),
    /// A column of lists of strings.
    Texts(ArrayRef),
}

pub(super) fn arrow(e: ArrowError) -> Error {
    Error::internal(format!("arrow: {e}"))
}

impl Value {
    /// Makes a bool for every row.
    pub(super) fn truth(value: bool) -> Self {
        Value::Numbers(Numbers::once(DType::Bool, i8::from(value)))
    }

    /// Makes a literal from the result of two literals: one number, int64 or float64.
    pub(super) fn literal(result: &Numbers) -> Self {
        if result.dtype.is_float() { Value::Float(result.at(0)) } else { Value::Int(result.at(0)) }
    }

    /// Loads a column, sharing its memory.
    pub(super) fn load(kind: &Kind, column: &ArrayRef) -> Result<Self> {
        let (dtype, shape) = match kind {
            Kind::Bytes | Kind::Utf8 => return Ok(Value::Text(column.clone())),
            Kind::Texts => return Ok(Value::Texts(column.clone())),
            Kind::Scalar { dtype } => (*dtype, None),
            Kind::Tensor { dtype, shape } => (*dtype, Some(shape)),
        };
        let wrong = || Error::internal(format!("a column of {kind} is stored as {}", column.data_type()));
        let mut nulls = column.nulls().cloned();
        let (layout, numbers) = match (shape, kind.known_shape()) {
            (None, _) => (Layout::Rows, None),
            (Some(_), Some(known)) => {
                let list = column.as_any().downcast_ref::<FixedSizeListArray>().ok_or_else(wrong)?;
                (Layout::Fixed(known), Some(list.values()))
            }
            (Some(shape), None) => {
                let parts = column.as_any().downcast_ref::<StructArray>().ok_or_else(wrong)?;
                let list = parts.column(0).as_any().downcast_ref::<ListArray>().ok_or_else(wrong)?;
                nulls = NullBuffer::union(nulls.as_ref(), list.nulls());
                let first = list.value_offsets()[0];
                let offsets: Vec<i32> = list.value_offsets().iter().map(|o| o - first).collect();
                let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
                let shapes = parts.column(1).clone();
                (Layout::Variable { shape: shape.clone(), offsets, shapes }, Some(list.values()))
            }
        };
        if numbers.is_some_and(|n| n.null_count() > 0) {
            return Err(Error::data(format!("a tensor of {kind} has missing numbers inside"))
                .hint("a whole row may be missing, a single number may not: store nan instead"));
        }
        Ok(Value::Numbers(Numbers { dtype, values: tensor_values(kind, column)?, nulls, layout }))
    }

    /// Says whether it is a string, or bytes.
    pub(super) fn is_text(&self) -> bool {
        matches!(self, Value::Word(_) | Value::Text(_))
    }

    /// Returns its properties for the typing rules: literal, or dtype.
    pub(super) fn kind(&self) -> ExprKind {
        match self {
            Value::Int(_) => ExprKind::Int,
            Value::Float(_) => ExprKind::Float,
            Value::Numbers(numbers) => ExprKind::Column(Kind::scalar(numbers.dtype)),
            Value::Word(_) | Value::Text(_) => ExprKind::Column(Kind::Utf8),
            Value::Texts(_) => ExprKind::Column(Kind::Texts),
        }
    }

    /// Returns the numbers; a literal without a column becomes int64 or float64.
    ///
    /// # Errors
    /// Invalid for texts.
    pub(super) fn numbers(self) -> Result<Numbers> {
        match self {
            Value::Int(value) => Ok(Numbers::once(DType::Int64, value)),
            Value::Float(value) => Ok(Numbers::once(DType::Float64, value)),
            Value::Numbers(numbers) => Ok(numbers),
            Value::Word(_) | Value::Text(_) | Value::Texts(_) => Err(Error::invalid("a text has no arithmetic")),
        }
    }

    /// Returns the numbers as `dtype`.
    ///
    /// # Errors
    /// Invalid for texts, and for a literal that `dtype` cannot hold.
    pub(super) fn bend(self, dtype: DType) -> Result<Numbers> {
        if let Value::Int(value) = self {
            Expr::literal_fits(value, dtype)?;
        }
        Ok(convert(self.numbers()?, dtype))
    }

    /// Returns the column.
    ///
    /// # Errors
    /// Internal when it is not of `kind`.
    pub(super) fn into_array(self, kind: &Kind, rows: usize) -> Result<ArrayRef> {
        let wrong = |what: &dyn std::fmt::Debug| Error::internal(format!("{what:?} where {kind} is expected"));
        match self {
            Value::Text(array) | Value::Texts(array) => Ok(array),
            Value::Word(word) => Ok(Arc::new(LargeStringArray::from_iter_values(std::iter::repeat_n(word, rows)))),
            literal_or_numbers => {
                let numbers = literal_or_numbers.numbers()?.expand(&Layout::Rows, rows);
                if kind.dtype() != Some(numbers.dtype) {
                    return Err(wrong(&numbers.dtype));
                }
                column(numbers, kind, rows)
            }
        }
    }
}

fn column(numbers: Numbers, kind: &Kind, rows: usize) -> Result<ArrayRef> {
    let Numbers { dtype, values, nulls, layout } = numbers;
    let primitive = |nulls: Option<NullBuffer>| {
        let len = values.len() / dtype.size();
        let data = ArrayDataBuilder::new(dtype.arrow()).len(len).add_buffer(values.clone()).nulls(nulls).build();
        Ok(make_array(data.map_err(arrow)?))
    };
    match (layout, kind.arrow()) {
        (Layout::Rows, stored) if stored == dtype.arrow() => primitive(nulls),
        (Layout::Fixed(_), DataType::FixedSizeList(item, n)) => {
            let list = FixedSizeListArray::try_new_with_length(item, n, primitive(None)?, nulls, rows);
            Ok(Arc::new(list.map_err(arrow)?))
        }
        (Layout::Variable { offsets, shapes, .. }, DataType::Struct(fields)) => {
            let DataType::List(item) = fields[0].data_type() else {
                return Err(Error::internal("a variable tensor holds a list"));
            };
            let list = ListArray::try_new(item.clone(), offsets, primitive(None)?, None).map_err(arrow)?;
            let fields = [&fields[0], &fields[1]].into_iter().cloned().collect();
            Ok(Arc::new(StructArray::try_new(fields, vec![Arc::new(list), shapes], nulls).map_err(arrow)?))
        }
        (layout, _) => Err(Error::internal(format!("{layout:?} where {kind} is expected"))),
    }
}

/// Converts two values to numbers of their common dtype.
pub(super) fn together(a: Value, b: Value) -> Result<(Numbers, Numbers)> {
    let dtype = meet(&a.kind(), &b.kind())?;
    Ok((a.bend(dtype)?, b.bend(dtype)?))
}
