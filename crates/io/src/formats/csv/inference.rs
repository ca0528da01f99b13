//! Infers the types of columns from the first records.

use forebay_core::Result;
use forebay_data::{DType, Field, Kind};

use super::parser::{number, truth};
use super::{Dialect, Fields};

/// The types that all values of a column can be read as, the narrowest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Type {
    Unknown,
    Bool,
    Int,
    Real,
    Text,
}

impl Type {
    fn of(text: &[u8]) -> Self {
        if truth(text).is_some() {
            return Self::Bool;
        }
        let mut scratch = Vec::new();
        let digits = text.strip_prefix(b"-").unwrap_or(text);
        match () {
            () if number(DType::Int64, text, &mut scratch).is_some() => Self::Int,
            // A float does not represent it exactly.
            () if !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) => Self::Text,
            () if number(DType::Float64, text, &mut scratch).is_some() => Self::Real,
            () => Self::Text,
        }
    }

    /// Returns the narrowest type that holds both.
    fn meet(self, other: Self) -> Self {
        match (self, other) {
            (Self::Bool, Self::Int | Self::Real) | (Self::Int | Self::Real, Self::Bool) => Self::Text,
            _ => self.max(other),
        }
    }
}

/// The types seen so far.
#[derive(Debug)]
pub(crate) struct TypeInference {
    /// For each column: the type, and whether a value was missing.
    columns: Vec<(Type, bool)>,
}

impl TypeInference {
    pub(crate) fn new(columns: usize) -> Self {
        Self { columns: vec![(Type::Unknown, false); columns] }
    }

    /// Reads one record. Fields beyond the columns are left to the parser, which refuses them.
    ///
    /// # Errors
    /// As [`Fields::next`].
    pub(crate) fn push(&mut self, dialect: &Dialect, null: &[String], record: &[u8]) -> Result<()> {
        let mut fields = Fields::new(dialect, record);
        for (ty, is_missing) in &mut self.columns {
            let Some(field) = fields.next()? else { break };
            if !field.is_quoted && null.iter().any(|null| null.as_bytes() == field.text) {
                *is_missing = true;
            } else {
                *ty = ty.meet(Type::of(field.text));
            }
        }
        Ok(())
    }

    /// Returns the columns. A column that was missing throughout, or has only texts, is text, and never missing.
    pub(crate) fn fields(&self, names: &[String]) -> Vec<Field> {
        let field = |(name, &(ty, is_missing)): (&String, &(Type, bool))| {
            let kind = match ty {
                Type::Bool => Kind::scalar(DType::Bool),
                Type::Int => Kind::scalar(DType::Int64),
                Type::Real => Kind::scalar(DType::Float64),
                Type::Unknown | Type::Text => Kind::Utf8,
            };
            Field { nullable: is_missing && kind != Kind::Utf8, ..Field::new(name, kind) }
        };
        names.iter().zip(&self.columns).map(field).collect()
    }
}
