//! A table of values by key, which an expression looks up.

use forebay_core::{Error, Result};
use forebay_data::{DType, Kind};
use serde::{Deserialize, Serialize};

use super::keys::Keys;

/// What a table has for each key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// The keys, ascending.
    pub keys: Keys,
    /// Of each key, in this order; and one more for all other keys, if they have a value.
    pub values: Found,
}

/// Values of one type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Found {
    /// Whole numbers.
    Ints(Vec<i64>),
    /// The bits of float64 numbers, which may be nan.
    Floats(Vec<u64>),
    /// Texts.
    Texts(Vec<String>),
}

impl Table {
    /// Returns whether a key that it does not have gives nothing.
    pub fn has_gaps(&self) -> bool {
        self.values.len() == self.keys.len()
    }

    /// Returns the place of the value of all other keys, if they have one.
    pub fn other(&self) -> Option<usize> {
        (!self.has_gaps()).then(|| self.keys.len())
    }

    /// Returns what it gives for keys of `kind`.
    ///
    /// # Errors
    /// Invalid for keys of another type, and for a table that is none.
    pub(super) fn kind(&self, kind: &Kind) -> Result<Kind> {
        self.keys.check("lookup")?;
        let (keys, values) = (self.keys.len(), self.values.len());
        if values != keys && values != keys + 1 {
            return Err(Error::invalid(format!("lookup: {keys} keys and {values} values"))
                .hint("give a value for each key, and one more for other keys or none"));
        }
        if !matches!(kind, Kind::Utf8 | Kind::Scalar { .. }) {
            return Err(Error::invalid(format!("lookup: {kind} is no key"))
                .hint("keys are numbers or strings, one in each row"));
        }
        self.keys.kind("lookup", kind)?;
        Ok(match self.values {
            Found::Ints(_) => Kind::scalar(DType::Int64),
            Found::Floats(_) => Kind::scalar(DType::Float64),
            Found::Texts(_) => Kind::Utf8,
        })
    }
}

impl Found {
    fn len(&self) -> usize {
        match self {
            Found::Ints(values) => values.len(),
            Found::Floats(values) => values.len(),
            Found::Texts(values) => values.len(),
        }
    }
}
