//! The schema after image ops, and the checks of their arguments.

use forebay_core::{Error, Result};
use forebay_data::{DType, Field, Kind, Schema};

use crate::ops::arguments::Layout;
use crate::ops::op::Op;

/// The longest side that an op may make, in pixels.
const SIDE_MAX: usize = 65_500;

/// The most rows of a blur's kernel.
const KERNEL_MAX: usize = 1001;

/// The most operations of one RandAugment.
const OPS_MAX: usize = 100;

pub(crate) fn apply(op: &Op, input: &Schema) -> Result<Schema> {
    let column = op.image_column().unwrap_or_default();
    let field = input.field(column)?;
    let kind = match op {
        Op::DecodeImage { mode, .. } => match field.kind {
            Kind::Bytes => Kind::Tensor { dtype: DType::Uint8, shape: vec![None, None, Some(mode.channels())] },
            ref other => {
                return Err(Error::invalid(format!("decode_image: column {column:?} is {other}, not bytes"))
                    .hint("name the column that holds the encoded image"));
            }
        },
        Op::Resize { height, width, .. } | Op::CenterCrop { height, width, .. } => {
            sides(op, *height, *width)?;
            resized(op, field, Some(*height), Some(*width))?
        }
        Op::ResizeShorter { size, max_size, .. } => {
            shorter(op, *size, *max_size)?;
            resized(op, field, None, None)?
        }
        Op::RandomResizedCrop { height, width, scale, ratio, .. } => {
            sides(op, *height, *width)?;
            interval(op, "scale", *scale, 1.0)?;
            interval(op, "ratio", *ratio, f64::INFINITY)?;
            resized(op, field, Some(*height), Some(*width))?
        }
        Op::RandomFlip { probability, .. } => {
            coin(op, *probability)?;
            let (dtype, _) = image(op, field)?;
            if dtype != DType::Uint8 {
                return Err(Error::invalid(format!("random_flip: column {column:?} is {}", field.kind))
                    .hint("put it before normalize: a flip of the pixels costs nothing there"));
            }
            field.kind.clone()
        }
        Op::ColorJitter { brightness, contrast, saturation, hue, probability, .. } => {
            for (name, interval) in [("brightness", brightness), ("contrast", contrast), ("saturation", saturation)] {
                between(op, name, interval.unwrap_or((1.0, 1.0)), (0.0, 1e9))?;
            }
            between(op, "hue", hue.unwrap_or((0.0, 0.0)), (-0.5, 0.5))?;
            coin(op, *probability)?;
            changed(op, field)?
        }
        Op::RandomGrayscale { probability, .. } => {
            coin(op, *probability)?;
            changed(op, field)?
        }
        Op::GaussianBlur { kernel_size, sigma, probability, .. } => {
            if kernel_size % 2 == 0 || *kernel_size > KERNEL_MAX {
                return Err(range(op, "kernel_size", kernel_size, &format!("an odd number within 1 to {KERNEL_MAX}")));
            }
            between(op, "sigma", *sigma, (1e-9, 1e9))?;
            coin(op, *probability)?;
            changed(op, field)?
        }
        Op::RandomRotation { degrees, fill, .. } => {
            between(op, "degrees", *degrees, (-1e6, 1e6))?;
            filled(op, field, fill.as_deref())?
        }
        Op::RandAugment { num_ops, magnitude, num_magnitude_bins: bins, fill, .. } => {
            if *num_ops > OPS_MAX {
                return Err(range(op, "num_ops", num_ops, &format!("0 to {OPS_MAX}")));
            }
            if *bins < 2 {
                return Err(range(op, "num_magnitude_bins", bins, "2 or more"));
            }
            if magnitude >= bins {
                return Err(range(op, "magnitude", magnitude, &format!("0..{bins}, less than num_magnitude_bins")));
            }
            filled(op, field, fill.as_deref())?
        }
        Op::RandomErasing { probability, scale, ratio, value, .. } => {
            coin(op, *probability)?;
            between(op, "scale", *scale, (0.0, 1.0))?;
            between(op, "ratio", *ratio, (1e-9, 1e9))?;
            erased(op, field, value.as_deref())?
        }
        Op::Normalize { mean, std, layout, .. } => normalized(op, field, mean, std, *layout)?,
        _ => return Err(Error::internal(format!("{} is no image op", op.name()))),
    };
    Ok(input.with(Field { kind, ..field.clone() }))
}

pub(crate) fn range(op: &Op, argument: &str, value: impl std::fmt::Display, want: &str) -> Error {
    Error::invalid(format!("{}: {argument}={value} is out of range", op.name())).hint(format!("use {want}"))
}

fn sides(op: &Op, height: usize, width: usize) -> Result<()> {
    if (1..=SIDE_MAX).contains(&height) && (1..=SIDE_MAX).contains(&width) {
        return Ok(());
    }
    Err(range(op, "size", format!("({height}, {width})"), &format!("1 to {SIDE_MAX} for each side")))
}

fn shorter(op: &Op, size: usize, max_size: Option<usize>) -> Result<()> {
    if !(1..=SIDE_MAX).contains(&size) {
        return Err(range(op, "shorter", size, &format!("1 to {SIDE_MAX}")));
    }
    match max_size {
        Some(most) if most <= size || most > SIDE_MAX => {
            Err(range(op, "max_size", most, &format!("{} to {SIDE_MAX}: more than shorter", size + 1)))
        }
        _ => Ok(()),
    }
}

fn interval(op: &Op, argument: &str, (low, high): (f64, f64), max: f64) -> Result<()> {
    if low > 0.0 && low <= high && high <= max && high.is_finite() {
        return Ok(());
    }
    let most = if max.is_finite() { format!(" <= {max}") } else { String::new() };
    Err(range(op, argument, format!("({low}, {high})"), &format!("0 < low <= high{most}")))
}

/// Checks a probability.
pub(crate) fn coin(op: &Op, p: f64) -> Result<()> {
    if (0.0..=1.0).contains(&p) { Ok(()) } else { Err(range(op, "p", p, "0 <= p <= 1")) }
}

fn between(op: &Op, argument: &str, (low, high): (f64, f64), (least, most): (f64, f64)) -> Result<()> {
    if least <= low && low <= high && high <= most {
        return Ok(());
    }
    Err(range(op, argument, format!("({low}, {high})"), &format!("{least} <= low <= high <= {most}")))
}

/// Returns dtype, height, width and channels of an image column in height, width, channels order.
fn image(op: &Op, field: &Field) -> Result<(DType, Vec<Option<usize>>)> {
    match &field.kind {
        Kind::Tensor { dtype, shape } if shape.len() == 3 => Ok((*dtype, shape.clone())),
        Kind::Bytes => Err(Error::invalid(format!("{}: column {:?} is not decoded yet", op.name(), field.name))
            .hint(format!("put .decode_image({:?}) before it", field.name))),
        other => Err(Error::invalid(format!("{}: column {:?} is {other}, not an image", op.name(), field.name))),
    }
}

fn resized(op: &Op, field: &Field, height: Option<usize>, width: Option<usize>) -> Result<Kind> {
    let (dtype, shape) = image(op, field)?;
    if dtype != DType::Uint8 || !matches!(shape[2], Some(1 | 3)) {
        return Err(Error::invalid(format!("{}: column {:?} is {}", op.name(), field.name, field.kind))
            .hint("resize and crop take uint8[height, width, 1 or 3]; put them before normalize"));
    }
    Ok(Kind::Tensor { dtype, shape: vec![height, width, shape[2]] })
}

/// What an op that changes 8-bit pixels in their places makes of a column.
fn changed(op: &Op, field: &Field) -> Result<Kind> {
    let (dtype, shape) = image(op, field)?;
    if dtype != DType::Uint8 || !matches!(shape[2], Some(1 | 3)) {
        return Err(Error::invalid(format!("{}: column {:?} is {}", op.name(), field.name, field.kind))
            .hint("it takes uint8[height, width, 1 or 3]; put it before normalize"));
    }
    Ok(field.kind.clone())
}

/// As [`changed`], for an op that fills what it leaves free.
fn filled(op: &Op, field: &Field, fill: Option<&[u8]>) -> Result<Kind> {
    let kind = changed(op, field)?;
    per_channel(op, "fill", fill.map_or(1, <[u8]>::len), &kind, 2)?;
    Ok(kind)
}

/// Says in which order the dimensions of an image are: channels are the dimension of 1 or 3 at either end. `None` when
/// that is neither or both.
pub fn image_layout(kind: &Kind) -> Option<Layout> {
    let Kind::Tensor { shape, .. } = kind else { return None };
    let [first, _, last] = shape.as_slice() else { return None };
    match (matches!(first, Some(1 | 3)), matches!(last, Some(1 | 3))) {
        (true, false) => Some(Layout::Chw),
        (false, true) => Some(Layout::Hwc),
        _ => None,
    }
}

fn erased(op: &Op, field: &Field, value: Option<&[f64]>) -> Result<Kind> {
    let (dtype, _) = image(op, field)?;
    let axis = match (dtype, image_layout(&field.kind)) {
        (DType::Uint8, _) => changed(op, field).map(|_| 2)?,
        (DType::Float32, Some(Layout::Hwc)) => 2,
        (DType::Float32, Some(Layout::Chw)) => 0,
        _ => {
            return Err(Error::invalid(format!("random_erasing: column {:?} is {}", field.name, field.kind))
                .hint("it takes uint8 pixels, or float32 as normalize makes it, of 1 or 3 channels"));
        }
    };
    if let (None, DType::Uint8) = (value, dtype) {
        return Err(Error::invalid("random_erasing: value=\"random\" makes float32 pixels")
            .hint("put it after normalize, or give levels"));
    }
    let most = if dtype == DType::Uint8 { 255.0 } else { 1e30 };
    let whole = |v: f64| dtype != DType::Uint8 || v == v.trunc();
    let least = if dtype == DType::Uint8 { 0.0 } else { -most };
    if let Some(bad) = value.unwrap_or_default().iter().find(|v| !((least..=most).contains(*v) && whole(**v))) {
        let want = if dtype == DType::Uint8 { "whole levels within 0..=255" } else { "finite numbers" };
        return Err(range(op, "value", bad, want));
    }
    per_channel(op, "value", value.map_or(1, <[f64]>::len), &field.kind, axis)?;
    Ok(field.kind.clone())
}

/// Checks that there is one value, or one for each channel, which are dimension `axis`.
fn per_channel(op: &Op, argument: &str, values: usize, kind: &Kind, axis: usize) -> Result<()> {
    let channels = match kind {
        Kind::Tensor { shape, .. } => shape[axis].unwrap_or(0),
        _ => 0,
    };
    if values == 1 || values == channels {
        return Ok(());
    }
    Err(Error::invalid(format!("{}: {argument} has {values} values for {channels} channels", op.name()))
        .hint("give one value, or one for each channel"))
}

fn normalized(op: &Op, field: &Field, mean: &[f64], std: &[f64], layout: Layout) -> Result<Kind> {
    let (dtype, shape) = image(op, field)?;
    let channels = shape[2].unwrap_or(0);
    if dtype != DType::Uint8 || channels == 0 {
        return Err(Error::invalid(format!("normalize: column {:?} is {}", field.name, field.kind))
            .hint("normalize takes a uint8 image of known channels, once"));
    }
    for (name, values) in [("mean", mean), ("std", std)] {
        if values.len() != channels {
            return Err(Error::invalid(format!(
                "normalize: {name} has {} values for {channels} channels",
                values.len()
            )));
        }
    }
    if let Some(bad) = std.iter().find(|s| !(s.is_finite() && **s > 0.0)) {
        return Err(range(op, "std", bad, "positive numbers"));
    }
    let shape = match layout {
        Layout::Hwc => shape,
        Layout::Chw => vec![shape[2], shape[0], shape[1]],
    };
    Ok(Kind::Tensor { dtype: DType::Float32, shape })
}
