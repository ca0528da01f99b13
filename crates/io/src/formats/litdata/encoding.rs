//! Encodings of values, by the names of LitData's serializers.

use forebay_core::{Error, Result};
use forebay_data::{DType, Kind};

/// The prefix of LitData's encodings among those of MosaicML's shards.
pub(crate) const PREFIX: &str = "litdata:";
/// The encoding of a document of a chunk for `TokensLoader`: the value alone, without its length.
pub(crate) const DOCUMENT: &str = "litdata:document:";
/// The image modes that are read from raw pixels: their name in Pillow, and the bytes of each pixel.
const MODES: [(&str, usize); 3] = [("L", 1), ("RGB", 3), ("RGBA", 4)];

/// The encoding of a value that has numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Scalar(DType),
    /// A one-dimensional array without a header.
    Flat(DType),
    /// An array with its type and shape in a header.
    Numpy,
    /// A PyTorch tensor with such a header; PyTorch numbers its types differently.
    Tensor,
    /// Pixels with width, height and mode in a header.
    Pil,
}

impl Encoding {
    /// Reads a name such as `no_header_numpy:5`; `None` for one that is not known.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let number = |text: &str| text.parse().ok();
        Some(match name {
            "int" => Self::Scalar(DType::Int64),
            "float" => Self::Scalar(DType::Float64),
            "bool" => Self::Scalar(DType::Bool),
            "numpy" => Self::Numpy,
            "tensor" => Self::Tensor,
            "pil" => Self::Pil,
            _ => match name.split_once(':')? {
                ("no_header_numpy", code) => Self::Flat(of_numpy(number(code)?)?),
                ("no_header_tensor" | "document", code) => Self::Flat(of_torch(number(code)?)?),
                _ => return None,
            },
        })
    }

    /// Says whether values of a name are bytes as they are stored: files of any kind.
    pub(crate) fn is_bytes(name: &str) -> bool {
        let family = name.split(':').next().unwrap_or_default();
        let files = [
            "bytes",
            "jpeg",
            "jpeg_array",
            "image",
            "file",
            "video",
            "audio",
            "tifffile",
            "tiff",
            "tif",
            "nifti",
            "mesh",
            "pdf",
        ];
        files.contains(&family)
    }

    /// Returns the kind of its column, if that is known without a value.
    pub(crate) fn kind(self) -> Option<Kind> {
        match self {
            Self::Scalar(dtype) => Some(Kind::scalar(dtype)),
            Self::Flat(dtype) => Some(Kind::Tensor { dtype, shape: vec![None] }),
            Self::Numpy | Self::Tensor | Self::Pil => None,
        }
    }

    /// Parses a value: its type, its shape and the bytes of its numbers.
    ///
    /// # Errors
    /// Data when the bytes are not such a value.
    pub(crate) fn take(self, value: &[u8]) -> Result<(DType, Vec<usize>, &[u8])> {
        let (dtype, shape, numbers) = match self {
            Self::Scalar(dtype) => (dtype, Vec::new(), value),
            Self::Flat(dtype) => (dtype, vec![value.len() / dtype.size()], value),
            Self::Pil => pixels(value)?,
            Self::Numpy | Self::Tensor => self.described(value)?,
        };
        let bytes = shape.iter().try_fold(dtype.size(), |product, &dim| product.checked_mul(dim));
        if bytes != Some(numbers.len()) {
            return Err(cut(&format!("{} bytes for {dtype} of shape {shape:?}", numbers.len())));
        }
        if dtype == DType::Bool && numbers.iter().any(|&byte| byte > 1) {
            return Err(cut("a truth value that is neither 0 nor 1"));
        }
        Ok((dtype, shape, numbers))
    }

    /// Reads the type code, the number of dimensions, and the dimensions. Later versions write a tensor's header in
    /// big-endian order.
    fn described(self, value: &[u8]) -> Result<(DType, Vec<usize>, &[u8])> {
        let (code, rest) = word(value, u32::from_le_bytes)?;
        let (rank, rest) = word(rest, u32::from_le_bytes)?;
        let is_reversed = self == Self::Tensor && (code > 0xffff || rank > 0xffff);
        let (code, rank) = if is_reversed { (code.swap_bytes(), rank.swap_bytes()) } else { (code, rank) };
        let dtype = if self == Self::Tensor { of_torch(code) } else { of_numpy(code) };
        let dtype = dtype.ok_or_else(|| cut(&format!("type {code} is not supported")))?;
        let read = if is_reversed { u32::from_be_bytes } else { u32::from_le_bytes };
        let (mut shape, mut rest) = (Vec::new(), rest);
        for _ in 0..rank {
            let (dim, after) = word(rest, read)?;
            if i32::try_from(dim).is_err() {
                return Err(cut("a dimension is larger than any can be"));
            }
            shape.push(dim as usize);
            rest = after;
        }
        Ok((dtype, shape, rest))
    }
}

fn word(value: &[u8], read: fn([u8; 4]) -> u32) -> Result<(u32, &[u8])> {
    let (word, rest) = value.split_first_chunk::<4>().ok_or_else(|| cut("it ends within its shape"))?;
    Ok((read(*word), rest))
}

/// Reads width, height, the length of the mode, the mode and the pixels.
fn pixels(value: &[u8]) -> Result<(DType, Vec<usize>, &[u8])> {
    let (width, rest) = word(value, u32::from_le_bytes)?;
    let (height, rest) = word(rest, u32::from_le_bytes)?;
    let (len, rest) = word(rest, u32::from_le_bytes)?;
    let (mode, pixels) = rest.split_at_checked(len as usize).ok_or_else(|| cut("it ends within its mode"))?;
    let known = MODES.iter().find(|(name, _)| name.as_bytes() == mode);
    let (_, channels) = known.ok_or_else(|| {
        let mode = mode.iter().take(8).copied().collect::<Vec<_>>().escape_ascii().to_string();
        Error::data(format!("an image of mode \"{mode}\" is not supported"))
            .hint("images of mode L, RGB and RGBA are read: convert the others when they are written")
    })?;
    Ok((DType::Uint8, vec![height as usize, width as usize, *channels], pixels))
}

/// Returns NumPy's type of a code. Higher codes differ from version to version.
fn of_numpy(code: u32) -> Option<DType> {
    use DType::{Float16, Float32, Float64, Int8, Int16, Int32, Int64, Uint8, Uint16, Uint32, Uint64};
    [Int8, Int16, Int32, Int64, Uint8, Uint16, Uint32, Uint64, Float16, Float32, Float64].get(code as usize).copied()
}

/// Returns PyTorch's type of a code.
fn of_torch(code: u32) -> Option<DType> {
    Some(match code {
        0 | 1 => DType::Float32,
        2 | 3 => DType::Float64,
        8 | 9 => DType::Float16,
        11 => DType::Uint8,
        12 => DType::Int8,
        13 | 14 => DType::Int16,
        15 | 16 => DType::Int32,
        17 | 18 => DType::Int64,
        19 => DType::Bool,
        20 => DType::Uint16,
        _ => return None,
    })
}

fn cut(what: &str) -> Error {
    Error::data(format!("this is no value as LitData's chunks have it: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_whose_bytes_are_not_its_shape_s_is_refused() {
        let value = [[1u32, 2, 1, 2].map(u32::to_le_bytes).concat(), vec![7, 0, 8, 0]].concat();
        assert_eq!(Encoding::Numpy.take(&value), Ok((DType::Int16, vec![1, 2], &value[16..])));
        (0..value.len()).for_each(|end| assert!(Encoding::Numpy.take(&value[..end]).is_err(), "{end} bytes"));
        let huge = [8u32, 5].into_iter().chain([u32::MAX >> 1; 5]).flat_map(u32::to_le_bytes).collect::<Vec<_>>();
        assert!(Encoding::Numpy.take(&huge).is_err());
        assert!(Encoding::Scalar(DType::Int64).take(&[0; 7]).is_err());
        assert!(Encoding::Flat(DType::Int64).take(&[0; 12]).is_err());
        assert!(Encoding::Scalar(DType::Bool).take(&[2]).is_err());
        assert!(Encoding::Pil.take(&[255; 40]).is_err());
    }

    #[test]
    fn tensors_of_both_byte_orders_are_read() {
        let tensor = |write: fn(u32) -> [u8; 4]| [[18, 1, 1].map(write).concat(), 5i64.to_le_bytes().to_vec()].concat();
        for value in [tensor(u32::to_le_bytes), tensor(u32::to_be_bytes)] {
            assert_eq!(Encoding::Tensor.take(&value), Ok((DType::Int64, vec![1], &value[12..])));
        }
        let scalar = [[0u32, 0].map(u32::to_be_bytes).concat(), 1f32.to_le_bytes().to_vec()].concat();
        assert_eq!(Encoding::Tensor.take(&scalar), Ok((DType::Float32, vec![], &scalar[8..])));
    }
}
