//! Constants among the arguments of calls: the values of `isin` and `bucketize`, and the default of `get`.

use forebay_core::{Error, Result};
use forebay_data::{DType, Kind};
use serde::{Deserialize, Serialize};

use super::operand::numbers;

/// The most values of `isin`, bounds of `bucketize` and classes of `one_hot`.
pub(super) const VALUES_MAX: usize = 1 << 20;

/// The result of `get` for a list that has no such item.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemDefault {
    /// It is missing.
    Missing,
    /// A truth value.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
    /// A text.
    Text(String),
}

/// Values of one type, ascending.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Values {
    /// Whole numbers.
    Ints(Vec<i64>),
    /// Numbers.
    Floats(Vec<f64>),
    /// Texts.
    Texts(Vec<String>),
}

impl Values {
    pub(super) fn len(&self) -> usize {
        match self {
            Values::Ints(values) => values.len(),
            Values::Floats(values) => values.len(),
            Values::Texts(values) => values.len(),
        }
    }

    pub(super) fn check(&self, name: &str) -> Result<()> {
        let (count, rising) = match self {
            Values::Ints(values) => (values.len(), values.is_sorted_by(|a, b| a < b)),
            Values::Floats(values) => {
                (values.len(), values.is_sorted_by(|a, b| a < b) && !values.iter().any(|v| v.is_nan()))
            }
            Values::Texts(values) => (values.len(), values.is_sorted_by(|a, b| a < b)),
        };
        match rising && count <= VALUES_MAX {
            true => Ok(()),
            false => Err(Error::invalid(format!("{name}: {count} values, which are too many or do not rise"))
                .hint("give at most 1048576 values; a filter by a function takes any set")),
        }
    }

    pub(super) fn kind(&self, name: &str, kind: &Kind) -> Result<Kind> {
        match (self, kind) {
            (Values::Texts(_), Kind::Utf8) => Ok(Kind::scalar(DType::Bool)),
            (Values::Texts(_), _) | (_, Kind::Utf8 | Kind::Bytes) => {
                let what = if matches!(self, Values::Texts(_)) { "texts" } else { "numbers" };
                Err(Error::invalid(format!("{name}: a column of {kind} cannot be compared with {what}"))
                    .hint("give values of the column's type, or cast the column, as .cast(str)"))
            }
            _ => numbers(name, kind, DType::Bool),
        }
    }
}

impl std::fmt::Display for ItemDefault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ItemDefault::Missing => f.write_str("None"),
            ItemDefault::Bool(value) => write!(f, "{value}"),
            ItemDefault::Int(value) => write!(f, "{value}"),
            ItemDefault::Float(value) => write!(f, "{value:?}"),
            ItemDefault::Text(value) => write!(f, "{value:?}"),
        }
    }
}

impl ItemDefault {
    /// Checks that items of this kind can have it in their place.
    pub(super) fn check(&self, item: &Kind) -> Result<()> {
        let fits = match (self, item.dtype()) {
            (ItemDefault::Missing, _) => item.can_be_missing(),
            (ItemDefault::Text(_), dtype) => dtype.is_none(),
            (ItemDefault::Bool(_), dtype) => dtype == Some(DType::Bool),
            (ItemDefault::Int(value), Some(dtype)) => holds(dtype, *value),
            (ItemDefault::Float(_), Some(dtype)) => dtype.is_float(),
            (ItemDefault::Int(_) | ItemDefault::Float(_), None) => false,
        };
        match fits {
            true => Ok(()),
            false => Err(Error::invalid(format!("get: an item is {item}, and default={self} is none"))
                .hint("give a value of the items' type; default=None makes a single value missing")),
        }
    }
}

/// Says whether a number of a dtype may be this whole number.
fn holds(dtype: DType, value: i64) -> bool {
    match dtype {
        DType::Bool => false,
        DType::Int8 => i8::try_from(value).is_ok(),
        DType::Int16 => i16::try_from(value).is_ok(),
        DType::Int32 => i32::try_from(value).is_ok(),
        DType::Uint8 => u8::try_from(value).is_ok(),
        DType::Uint16 => u16::try_from(value).is_ok(),
        DType::Uint32 => u32::try_from(value).is_ok(),
        DType::Uint64 => value >= 0,
        DType::Int64 | DType::Float16 | DType::Float32 | DType::Float64 => true,
    }
}
