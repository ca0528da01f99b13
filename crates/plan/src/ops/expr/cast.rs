//! The result types of casts.

use std::fmt;

use forebay_core::{Error, Result};
use forebay_data::{DType, Kind, Schema};
use serde::{Deserialize, Serialize};

/// The result of a cast: numbers of a dtype, strings or bytes. Written as NumPy's name, `"string"` or `"bytes"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
pub enum CastType {
    /// Numbers.
    Number(DType),
    /// UTF-8 strings.
    String,
    /// Byte strings.
    Bytes,
}

impl CastType {
    /// Returns NumPy's name, `"string"` or `"bytes"`.
    pub fn name(self) -> &'static str {
        match self {
            CastType::Number(dtype) => dtype.name(),
            CastType::String => "string",
            CastType::Bytes => "bytes",
        }
    }

    /// Returns the kind after a cast of `from`. A tensor keeps its shape.
    ///
    /// # Errors
    /// Invalid for a cast of a tensor to one string.
    pub(super) fn kind(self, from: &Kind) -> Result<Kind> {
        match (self, from) {
            (CastType::Number(dtype), Kind::Tensor { shape, .. }) => Ok(Kind::Tensor { dtype, shape: shape.clone() }),
            (_, Kind::Texts) => Err(Error::invalid(format!("cannot cast {from} to {self}"))
                .hint("join the texts first, as .list.join(\", \"); or take one, .list.get(0)")),
            (CastType::Number(dtype), _) => Ok(Kind::scalar(dtype)),
            (_, Kind::Tensor { .. }) => {
                Err(Error::invalid(format!("cannot cast {from} to {self}: a row has one {self}"))
                    .hint("use map with a function that writes a row's numbers as you want them"))
            }
            (CastType::String, _) => Ok(Kind::Utf8),
            (CastType::Bytes, _) => Ok(Kind::Bytes),
        }
    }

    /// Returns whether a cast of a row of `from` may fail: a text may be no number, bytes may be no UTF-8.
    fn may_fail(self, from: &Kind) -> bool {
        matches!((self, from), (CastType::Number(_), Kind::Utf8 | Kind::Bytes) | (CastType::String, Kind::Bytes))
    }
}

/// Returns whether a cast of these columns of `input` may fail on a row.
pub(crate) fn cast_may_fail(columns: &[(String, CastType)], input: &Schema) -> bool {
    columns.iter().any(|(column, to)| input.field(column).map_or(true, |field| to.may_fail(&field.kind)))
}

impl From<DType> for CastType {
    fn from(dtype: DType) -> Self {
        CastType::Number(dtype)
    }
}

impl From<CastType> for &'static str {
    fn from(to: CastType) -> Self {
        to.name()
    }
}

impl TryFrom<String> for CastType {
    type Error = Error;

    fn try_from(name: String) -> Result<Self> {
        match name.as_str() {
            "string" => Ok(CastType::String),
            "bytes" => Ok(CastType::Bytes),
            dtype => DType::parse(dtype).map(CastType::Number),
        }
    }
}

impl fmt::Display for CastType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
