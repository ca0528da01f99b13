//! The schema after mixup and cutmix, and the checks of their arguments.

use forebay_core::{Error, Result};
use forebay_data::{DType, Field, Kind, Schema};

use crate::ops::arguments::Mixing;
use crate::ops::image::{coin, image_layout, range};
use crate::ops::op::Op;

/// The most classes: labels of a batch are this many floats for each sample.
const CLASSES_MAX: usize = 1 << 20;

pub(crate) fn apply(op: &Op, input: &Schema) -> Result<Schema> {
    let Op::Mix { how, column, label, classes, alpha, probability } = op else {
        return Err(Error::internal(format!("{} mixes nothing", op.name())));
    };
    if !(1..=CLASSES_MAX).contains(classes) {
        return Err(range(op, "classes", classes, &format!("1 to {CLASSES_MAX}")));
    }
    if !(1e-3..=1e3).contains(alpha) {
        return Err(range(op, "alpha", alpha, "0.001 <= alpha <= 1000"));
    }
    coin(op, *probability)?;
    check_image(op, *how, input.field(column)?)?;
    let field = input.field(label)?;
    check_label(op, field, *classes)?;
    let kind = Kind::Tensor { dtype: DType::Float32, shape: vec![Some(*classes)] };
    Ok(input.with(Field { kind, ..field.clone() }))
}

fn check_image(op: &Op, how: Mixing, field: &Field) -> Result<()> {
    let hint = match (how, &field.kind) {
        (Mixing::Mixup, Kind::Tensor { dtype: DType::Float32, .. }) => return Ok(()),
        (Mixing::Cutmix, kind @ Kind::Tensor { dtype: DType::Uint8 | DType::Float32, .. })
            if image_layout(kind).is_some() =>
        {
            return Ok(());
        }
        (Mixing::Mixup, _) => "it blends float32 tensors: put normalize or cast before batch",
        (Mixing::Cutmix, _) => "it takes uint8 or float32 images of 1 or 3 channels",
    };
    Err(Error::invalid(format!("{}: column {:?} is {}", op.name(), field.name, field.kind)).hint(hint))
}

fn check_label(op: &Op, field: &Field, classes: usize) -> Result<()> {
    let good = match &field.kind {
        Kind::Scalar { dtype } => !dtype.is_float() && !field.nullable,
        Kind::Tensor { dtype: DType::Float32, shape } => *shape == [Some(classes)],
        _ => false,
    };
    if good {
        return Ok(());
    }
    Err(Error::invalid(format!("{}: label {:?} is {}", op.name(), field.name, field.kind))
        .hint(format!("it takes whole numbers below {classes}, or float32[{classes}]")))
}
