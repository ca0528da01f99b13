//! Checks of image columns and of arguments that several image ops share.

use forebay_core::{Error, Result};
use forebay_data::{DType, Field, Kind};

use crate::ops::checks::range;

/// The longest side that an op may output, in pixels.
pub(super) const SIDE_MAX: usize = 65_500;

/// Checks the output size of an op.
pub(super) fn sides(op: &str, height: usize, width: usize) -> Result<()> {
    if (1..=SIDE_MAX).contains(&height) && (1..=SIDE_MAX).contains(&width) {
        return Ok(());
    }
    Err(range(op, "size", format!("({height}, {width})"), &format!("1 to {SIDE_MAX} for each side")))
}

/// Returns dtype, height, width and channels of an image column in height, width, channels order.
pub(in crate::ops) fn image(op: &str, field: &Field) -> Result<(DType, Vec<Option<usize>>)> {
    match &field.kind {
        Kind::Tensor { dtype, shape } if shape.len() == 3 => Ok((*dtype, shape.clone())),
        Kind::Bytes => Err(Error::invalid(format!("{op}: column {:?} is not decoded yet", field.name))
            .hint(format!("put .decode_image({:?}) before it", field.name))),
        Kind::Tensor { shape, .. } if shape.len() == 5 => {
            Err(Error::invalid(format!("{op}: column {:?} is {}, several clips in a row", field.name, field.kind))
                .hint(format!("put .explode({:?}) before it: a row for each clip", field.name)))
        }
        Kind::Tensor { dtype: DType::Float32, shape } if shape.len() == 4 => Err(Error::invalid(format!(
            "{op}: column {:?} is {}, whose channels cannot be told",
            field.name, field.kind
        ))
        .hint("put it before normalize")),
        other => Err(Error::invalid(format!("{op}: column {:?} is {other}, not an image", field.name)).hint(
            "name a column of height, width and channels, as decode_image makes it, or of clips, as decode_video does",
        )),
    }
}

/// Returns the kind after an op that moves whole pixels or resizes; `None` is a side of any length.
pub(super) fn resized(op: &str, field: &Field, height: Option<usize>, width: Option<usize>) -> Result<Kind> {
    let (dtype, shape) = image(op, field)?;
    if !matches!((dtype, shape[2]), (DType::Uint8, Some(1..=4)) | (DType::Uint16, Some(1))) {
        return Err(Error::invalid(format!("{op}: column {:?} is {}", field.name, field.kind)).hint(
            "resize, crop and flip take uint8[height, width, 1 to 4] or uint16[height, width, 1]; put them before normalize",
        ));
    }
    Ok(Kind::Tensor { dtype, shape: vec![height, width, shape[2]] })
}

/// Checks the colour of pixels that an op adds.
pub(super) fn fill(op: &str, levels: &[u8], kind: &Kind) -> Result<()> {
    if kind.dtype() == Some(DType::Uint16) && levels.iter().any(|level| *level != 0) {
        return Err(range(op, "fill", format!("{levels:?}"), "0 for an image of 16 bits"));
    }
    per_channel(op, "fill", levels.len(), kind, 2)
}

/// Returns the kind after an op that changes the values of 8-bit pixels.
pub(in crate::ops) fn changed(op: &str, field: &Field) -> Result<Kind> {
    let (dtype, shape) = image(op, field)?;
    if dtype != DType::Uint8 || !matches!(shape[2], Some(1 | 3)) {
        return Err(Error::invalid(format!("{op}: column {:?} is {}", field.name, field.kind))
            .hint("it takes uint8[height, width, 1 or 3]; put it before normalize"));
    }
    Ok(field.kind.clone())
}

/// Checks that there is one value, or one for each channel (dimension `axis`).
pub(in crate::ops) fn per_channel(op: &str, argument: &str, values: usize, kind: &Kind, axis: usize) -> Result<()> {
    let channels = match kind {
        Kind::Tensor { shape, .. } => shape[axis].unwrap_or(0),
        _ => 0,
    };
    if values == 1 || values == channels {
        return Ok(());
    }
    Err(Error::invalid(format!("{op}: {argument} has {values} values for {channels} channels"))
        .hint("give one value, or one for each channel"))
}
