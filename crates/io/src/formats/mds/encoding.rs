//! Encodings of a column's values, by the names of mosaicml-streaming.

use forebay_core::{Error, Result};
use forebay_data::{DType, Kind};

use crate::formats::litdata;

/// The encoding of a value's bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// Bytes as they are: byte strings, encoded images, pickles, lists of images.
    Bytes,
    /// UTF-8: texts, JSON, numbers of any length.
    Text,
    Scalar(DType),
    /// An array. Each value contains the properties that are not fixed here.
    Array {
        dtype: Option<DType>,
        shape: Option<Vec<usize>>,
    },
    /// An encoding of LitData's chunks.
    Litdata(litdata::Encoding),
}

/// The kind of an array's column, as far as it is known without a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Open {
    Known(Kind),
    /// The first sample determines it.
    Array,
}

impl Encoding {
    /// Reads a name such as `ndarray:float32:3,4`; `None` for one that is not known.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        if let Some(name) = name.strip_prefix(litdata::PREFIX) {
            return match name {
                "str" | "text" => Some(Self::Text),
                name if litdata::Encoding::is_bytes(name) => Some(Self::Bytes),
                name => litdata::Encoding::parse(name).map(Self::Litdata),
            };
        }
        Some(match name {
            "bytes" | "jpeg" | "png" | "pil" | "pkl" | "jpeg_array" | "jpegarray" => Self::Bytes,
            "list[pil]" | "list[jpeg]" | "list[png]" => Self::Bytes,
            "str" | "json" | "str_int" | "str_float" | "str_decimal" => Self::Text,
            "int" => Self::Scalar(DType::Int64),
            "ndarray" => Self::Array { dtype: None, shape: None },
            _ => match name.strip_prefix("ndarray:") {
                Some(rest) => Self::array(rest)?,
                None => Self::Scalar(DType::parse(name).ok().filter(|dtype| *dtype != DType::Bool)?),
            },
        })
    }

    fn array(rest: &str) -> Option<Self> {
        let (dtype, shape) = rest.split_once(':').map_or((rest, None), |(dtype, shape)| (dtype, Some(shape)));
        let dtype = match dtype {
            "" => None,
            name => Some(DType::parse(name).ok().filter(|dtype| *dtype != DType::Bool)?),
        };
        let size = |text: &str| text.trim().parse::<usize>().ok().filter(|&n| n > 0);
        let shape: Option<Vec<usize>> = match shape {
            None => None,
            Some(shape) => Some(shape.split(',').map(size).collect::<Option<_>>()?),
        };
        // A size that a column cannot count is treated as unknown.
        let numbers = shape.iter().flatten().try_fold(1usize, |product, &n| product.checked_mul(n));
        numbers.filter(|&n| i32::try_from(n).is_ok())?;
        Some(Self::Array { dtype, shape })
    }

    /// Returns the bytes of a value, where all values have the same size.
    pub(crate) fn size(&self) -> Option<u64> {
        match self {
            Self::Scalar(dtype) => Some(dtype.size() as u64),
            Self::Array { dtype: Some(dtype), shape: Some(shape) } => {
                Some((shape.iter().product::<usize>() * dtype.size()) as u64)
            }
            _ => None,
        }
    }

    /// Returns the kind of its column.
    pub(crate) fn kind(&self) -> Open {
        match self {
            Self::Bytes => Open::Known(Kind::Bytes),
            Self::Text => Open::Known(Kind::Utf8),
            Self::Scalar(dtype) => Open::Known(Kind::scalar(*dtype)),
            Self::Array { dtype: Some(dtype), shape: Some(shape) } => Open::Known(Kind::fixed(*dtype, shape)),
            Self::Array { .. } => Open::Array,
            Self::Litdata(encoding) => encoding.kind().map_or(Open::Array, Open::Known),
        }
    }

    /// Parses the array of a value: its type, its shape and the bytes of its numbers.
    ///
    /// # Errors
    /// Data when the bytes are not an array of this encoding.
    pub(crate) fn take<'v>(&self, value: &'v [u8]) -> Result<(DType, Vec<usize>, &'v [u8])> {
        let (dtype, shape) = match self {
            Self::Array { dtype, shape } => (dtype, shape),
            Self::Litdata(encoding) => return encoding.take(value),
            _ => return Err(Error::internal("no column of arrays")),
        };
        let (dtype, rest) = match dtype {
            Some(dtype) => (*dtype, value),
            None => {
                let (code, rest) = value.split_first().ok_or_else(|| cut("it has no type"))?;
                (of_code(*code)?, rest)
            }
        };
        let (shape, numbers) = match shape {
            Some(shape) => (shape.clone(), rest),
            None => dimensions(rest)?,
        };
        let count = shape.iter().try_fold(dtype.size(), |product, &n| product.checked_mul(n));
        if shape.is_empty() || count != Some(numbers.len()) {
            return Err(cut(&format!("{} bytes for {dtype} of shape {shape:?}", numbers.len())));
        }
        Ok((dtype, shape, numbers))
    }
}

/// Reads a shape: the number of dimensions and the size of their numbers in a byte, then the dimensions.
fn dimensions(value: &[u8]) -> Result<(Vec<usize>, &[u8])> {
    let (head, rest) = value.split_first().ok_or_else(|| cut("it has no shape"))?;
    let (count, width) = (usize::from(head >> 2), 1usize << (head & 3));
    let (dims, numbers) = rest.split_at_checked(count * width).ok_or_else(|| cut("it ends within its shape"))?;
    let dim = |bytes: &[u8]| bytes.iter().rev().fold(0u64, |n, &b| n << 8 | u64::from(b));
    let fits = |bytes: &[u8]| i32::try_from(dim(bytes)).ok().and_then(|n| usize::try_from(n).ok());
    let shape: Option<Vec<usize>> = dims.chunks_exact(width).map(fits).collect();
    Ok((shape.ok_or_else(|| cut("a dimension is larger than any can be"))?, numbers))
}

/// Returns the type of a code.
fn of_code(code: u8) -> Result<DType> {
    Ok(match code {
        8 => DType::Uint8,
        9 => DType::Int8,
        16 => DType::Uint16,
        17 => DType::Int16,
        18 => DType::Float16,
        32 => DType::Uint32,
        33 => DType::Int32,
        34 => DType::Float32,
        64 => DType::Uint64,
        65 => DType::Int64,
        66 => DType::Float64,
        other => return Err(cut(&format!("type {other} is none"))),
    })
}

fn cut(what: &str) -> Error {
    Error::data(format!("this is no array as MosaicML's shards have it: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_are_those_of_the_library() {
        assert_eq!(Encoding::parse("uint16"), Some(Encoding::Scalar(DType::Uint16)));
        let fixed = Encoding::parse("ndarray:float32:3,4").expect("known");
        assert_eq!((fixed.size(), fixed.kind()), (Some(48), Open::Known(Kind::fixed(DType::Float32, &[3, 4]))));
        for name in ["bool", "ndarray:bool", "ndarray:int32:0", "ndarray:int32:", "ndarray:int8:99999,99999", "x", ""] {
            assert_eq!(Encoding::parse(name), None, "{name}");
        }
    }

    #[test]
    fn an_array_whose_bytes_are_not_its_shape_s_is_refused() {
        let free = Encoding::parse("ndarray").expect("known");
        let value = [17, 2 << 2, 1, 2, 9, 0, 8, 0];
        assert_eq!(free.take(&value), Ok((DType::Int16, vec![1, 2], &value[4..])));
        assert_eq!(free.take(&[17, 1 << 2 | 1, 1, 0, 9, 0]).map(|(_, shape, _)| shape), Ok(vec![1]));
        for end in 0..value.len() {
            assert!(free.take(&value[..end]).is_err(), "{end} bytes");
        }
        let huge = [[8, 4 << 2 | 3].as_slice(), &[255; 32]].concat();
        assert!(free.take(&huge).is_err());
        assert!(free.take(&[7, 1 << 2, 1, 0]).is_err());
    }
}
