//! The keys of `batch_by_key`.

use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef};
use forebay_core::{Error, Result};
use forebay_data::{Chunk, DType, Kind};
use forebay_plan::ops::BatchByKey;
use serde::{Deserialize, Serialize};

/// The value of one column of a key. A missing value is a value; it comes first in the order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum KeyPart {
    /// No value.
    Missing,
    /// A whole number or a truth value.
    Int(i64),
    /// A whole number above the greatest `i64`.
    Uint(u64),
    /// A text.
    Text(String),
}

/// The values of the columns of a key.
pub type Key = Vec<KeyPart>;

/// Returns the key of each row of a chunk.
///
/// # Errors
/// NotFound, or Internal for a column that [`BatchByKey`] refuses.
pub(crate) fn keys(columns: &[String], chunk: &Chunk) -> Result<Vec<Key>> {
    let mut keys: Vec<Key> = vec![Vec::with_capacity(columns.len()); chunk.num_rows()];
    for name in columns {
        let (kind, column) = (&chunk.schema().field(name)?.kind, chunk.column(name)?);
        let value = values(kind, column)?;
        for (row, key) in keys.iter_mut().enumerate() {
            key.push(if column.is_null(row) { KeyPart::Missing } else { value(row) });
        }
    }
    Ok(keys)
}

/// Returns a function from a row to its value.
fn values<'a>(kind: &Kind, column: &'a ArrayRef) -> Result<Box<dyn Fn(usize) -> KeyPart + 'a>> {
    macro_rules! whole {
        ($t:ty) => {{
            let values = column.as_primitive::<$t>();
            Box::new(move |row: usize| KeyPart::Int(values.value(row).into()))
        }};
    }
    let value: Box<dyn Fn(usize) -> KeyPart + 'a> = match kind {
        Kind::Utf8 => {
            let texts = column.as_string::<i64>();
            Box::new(move |row: usize| KeyPart::Text(texts.value(row).to_owned()))
        }
        Kind::Scalar { dtype: DType::Bool | DType::Int8 } => whole!(Int8Type),
        Kind::Scalar { dtype: DType::Int16 } => whole!(Int16Type),
        Kind::Scalar { dtype: DType::Int32 } => whole!(Int32Type),
        Kind::Scalar { dtype: DType::Int64 } => whole!(Int64Type),
        Kind::Scalar { dtype: DType::Uint8 } => whole!(UInt8Type),
        Kind::Scalar { dtype: DType::Uint16 } => whole!(UInt16Type),
        Kind::Scalar { dtype: DType::Uint32 } => whole!(UInt32Type),
        Kind::Scalar { dtype: DType::Uint64 } => {
            let values = column.as_primitive::<UInt64Type>();
            Box::new(move |row: usize| {
                let value = values.value(row);
                i64::try_from(value).map_or(KeyPart::Uint(value), KeyPart::Int)
            })
        }
        _ => return Err(Error::internal(format!("{kind} is no key"))),
    };
    Ok(value)
}

/// Refuses keys whose texts are too long.
///
/// # Errors
/// Data, naming the sample.
pub(crate) fn check_keys(op: &BatchByKey, chunk: &Chunk) -> Result<()> {
    let mut bytes = vec![0; chunk.num_rows()];
    for name in op.key.iter().filter(|name| chunk.schema().field(name).is_ok_and(|field| field.kind == Kind::Utf8)) {
        let texts = chunk.column(name)?.as_string::<i64>();
        bytes.iter_mut().enumerate().for_each(|(row, bytes)| *bytes += texts.value_length(row) as usize);
    }
    let most = BatchByKey::KEY_BYTES_MAX;
    match bytes.iter().position(|bytes| *bytes > most) {
        Some(row) => Err(Error::data(format!(
            "the key {:?} of a row has {} bytes, and {most} are allowed",
            op.key, bytes[row]
        ))
        .with("sample", chunk.ids()[row].sample)
        .hint("use a shorter key, as .with_column(\"key\", fb.col(\"text\").hash_mod(1000)), or leave such rows out")),
        None => Ok(()),
    }
}
