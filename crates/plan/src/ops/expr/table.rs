//! A table of values by key, which an expression looks up.

use forebay_core::{Error, Result};
use forebay_data::{DType, Kind};
use serde::{Deserialize, Serialize};

use super::keys::Keys;

/// The value of a table for each key.
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
        self.check()?;
        if !matches!(kind, Kind::Utf8 | Kind::Scalar { .. }) {
            let hint = match kind {
                Kind::Bytes => "if it is text in UTF-8, cast it first: .cast(str)",
                _ => "write .list.lookup(table, default=0), which looks up each item",
            };
            return Err(Error::invalid(format!("lookup: {kind} is no key")).hint(hint));
        }
        self.keys.kind("lookup", kind)?;
        Ok(match self.values {
            Found::Ints(_) => Kind::scalar(DType::Int64),
            Found::Floats(_) => Kind::scalar(DType::Float64),
            Found::Texts(_) => Kind::Utf8,
        })
    }

    /// Returns the lists that it gives for lists of keys.
    ///
    /// # Errors
    /// As [`Table::kind`]; Invalid for numbers of which some may lack, because no item of a list of numbers is missing.
    pub(super) fn kind_of_items(&self, kind: &Kind) -> Result<Kind> {
        self.check()?;
        let shape = match kind {
            Kind::Texts => vec![None],
            Kind::Tensor { shape, .. } => shape.clone(),
            _ => {
                return Err(Error::invalid(format!("lookup: {kind} is no list"))
                    .hint("write lookup(table) of a column with one value in each row"));
            }
        };
        self.keys.kind("lookup", if *kind == Kind::Texts { &Kind::Utf8 } else { kind })?;
        let dtype = match self.values {
            Found::Texts(_) if shape.len() == 1 => return Ok(Kind::Texts),
            Found::Texts(_) => {
                return Err(Error::invalid(format!("lookup: no column holds a text for each item of {kind}"))
                    .hint("lists of one dimension may have texts: leave out what is not needed with slice or get"));
            }
            Found::Ints(_) => DType::Int64,
            Found::Floats(_) => DType::Float64,
        };
        match self.has_gaps() {
            true => Err(Error::invalid("lookup: an item may have no entry, and no number in a list is missing")
                .hint("say what other items have: .list.lookup(table, default=0)")),
            false => Ok(Kind::Tensor { dtype, shape }),
        }
    }

    fn check(&self) -> Result<()> {
        self.keys.check("lookup")?;
        let (keys, values) = (self.keys.len(), self.values.len());
        if values != keys && values != keys + 1 {
            return Err(Error::invalid(format!("lookup: {keys} keys and {values} values"))
                .hint("give a value for each key, and one more for other keys or none"));
        }
        Ok(())
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
