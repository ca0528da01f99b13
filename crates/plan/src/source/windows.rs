//! Windows of neighbouring rows as rows: the columns that they have, and how many there are.

use forebay_core::{Error, Result};
use forebay_data::{Field, Kind};

/// The most rows of a window: a thread has all rows of its windows in memory.
const SIZE_MAX: u64 = 1 << 16;

/// Checks the arguments.
///
/// # Errors
/// Invalid, with the argument.
pub(super) fn check(datasets: usize, size: u64, stride: u64) -> Result<()> {
    if datasets != 1 {
        return Err(Error::invalid(format!("window: {datasets} datasets")).hint("zip or concatenate them first"));
    }
    if !(1..=SIZE_MAX).contains(&size) {
        return Err(Error::invalid(format!("window: size={size} is out of range")).hint(format!("use 1 to {SIZE_MAX}")));
    }
    if stride == 0 {
        return Err(Error::invalid("window: stride=0").hint("use 1 for windows that begin at each row"));
    }
    Ok(())
}

/// Returns the column of the windows of a column. `is_full` says that all windows have `size` rows.
///
/// # Errors
/// Invalid for a column whose rows no array holds side by side.
pub(super) fn field(field: &Field, size: u64, is_full: bool) -> Result<Field> {
    let refuse = |why: &str, hint: &str| {
        let message = format!("window: column {:?} is {}, and {why}", field.name, field.kind);
        Err(Error::invalid(message).hint(hint))
    };
    let first = is_full.then_some(size as usize);
    let kind = match &field.kind {
        Kind::Utf8 => Kind::Texts,
        Kind::Scalar { .. } if field.nullable => {
            return refuse(
                "a number may be missing",
                "fill_null before it; or save the rows that have it once, and read what was saved",
            );
        }
        Kind::Scalar { dtype } => Kind::Tensor { dtype: *dtype, shape: vec![first] },
        Kind::Tensor { dtype, .. } if field.kind.known_shape().is_some_and(|shape| !shape.contains(&0)) => {
            let Kind::Tensor { shape, .. } = &field.kind else { return Ok(field.clone()) };
            Kind::Tensor { dtype: *dtype, shape: [first].into_iter().chain(shape.iter().copied()).collect() }
        }
        Kind::Tensor { .. } => {
            return refuse("its rows have several shapes", "pad or cut its rows to one length before");
        }
        Kind::Bytes | Kind::Texts => return refuse("no list holds these", "decode it before, or drop it"),
    };
    Ok(Field::new(&field.name, kind))
}

/// Returns the number of windows of so many rows.
pub(crate) fn count(rows: u64, size: u64, stride: u64, is_full: bool) -> u64 {
    match is_full {
        true if rows < size => 0,
        true => (rows - size) / stride + 1,
        false => rows.div_ceil(stride),
    }
}
