//! Converts stored token ids (little-endian) to the integers that a model's embedding accepts.

use forebay_core::{Error, Result};
use forebay_data::DType;

/// Calls a macro's body with every id of `bytes`.
macro_rules! by_dtype {
    ($dtype:expr, $bytes:expr, |$id:ident| $one:expr, $to:expr) => {{
        macro_rules! all {
            ($t:ty) => {{
                let (ids, _) = $bytes.as_chunks::<{ size_of::<$t>() }>();
                for (to, stored) in $to.iter_mut().zip(ids) {
                    let $id = <$t>::from_le_bytes(*stored);
                    *to = $one;
                }
                Ok(())
            }};
        }
        match $dtype {
            DType::Int8 => all!(i8),
            DType::Int16 => all!(i16),
            DType::Int32 => all!(i32),
            DType::Int64 => all!(i64),
            DType::Uint8 => all!(u8),
            DType::Uint16 => all!(u16),
            DType::Uint32 => all!(u32),
            DType::Uint64 => all!(u64),
            other => Err(Error::internal(format!("{other} is no type of token ids"))),
        }
    }};
}

/// Writes ids to `to`, which has the same length.
///
/// # Errors
/// Data when an id is larger than the maximum of int64.
pub(crate) fn widen(dtype: DType, bytes: &[u8], to: &mut [i64]) -> Result<()> {
    let mut fits = true;
    let done: Result<()> = by_dtype!(
        dtype,
        bytes,
        |id| {
            let wide = id as i64;
            fits &= i128::from(wide) == i128::from(id);
            wide
        },
        to
    );
    done.and_then(|()| if fits { Ok(()) } else { Err(too_large("int64")) })
}

/// Writes ids to `to`, which has the same length.
///
/// # Errors
/// Data when an id is larger than the maximum of int32.
pub(crate) fn narrow(dtype: DType, bytes: &[u8], to: &mut [i32]) -> Result<()> {
    let mut fits = true;
    let done: Result<()> = by_dtype!(
        dtype,
        bytes,
        |id| {
            let short = id as i32;
            fits &= i128::from(short) == i128::from(id);
            short
        },
        to
    );
    done.and_then(|()| if fits { Ok(()) } else { Err(too_large("int32")) })
}

fn too_large(what: &str) -> Error {
    Error::data(format!("an id is larger than {what} can be"))
        .hint("the file may be corrupt, or was written as another dtype")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_keep_their_values_or_are_refused() {
        let mut wide = [0; 2];
        widen(DType::Uint16, &[1, 0, 255, 255], &mut wide).expect("fits");
        assert_eq!(wide, [1, 65_535]);
        widen(DType::Int16, &[1, 0, 255, 255], &mut wide).expect("fits");
        assert_eq!(wide, [1, -1]);
        let large = (1u64 << 63).to_le_bytes();
        assert!(widen(DType::Uint64, &large, &mut wide[..1]).is_err());
        assert!(widen(DType::Float32, &large, &mut wide).is_err());
        let mut short = [0];
        assert!(narrow(DType::Int64, &(1i64 << 31).to_le_bytes(), &mut short).is_err());
        narrow(DType::Int64, &(-(1i64 << 31)).to_le_bytes(), &mut short).expect("fits");
        assert_eq!(short, [i32::MIN]);
    }
}
