//! Mixes the samples of each batch in pairs: `mixup` and `cutmix`.

use forebay_core::{Error, Result};
use forebay_data::{DType, Field, Kind, Schema};
use serde::{Deserialize, Serialize};

use crate::ops::checks::{coin, range};
use crate::ops::images::{Clip, image_layout};
use crate::ops::spec::{About, Class, Names, OpSpec};

/// The most classes: labels of a batch are this many floats for each sample.
const CLASSES_MAX: usize = 1 << 20;

/// How two samples are mixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mixing {
    /// Blended.
    Mixup,
    /// A box of one pasted into the other.
    Cutmix,
}

/// Mixes the samples of each batch in pairs; labels become shares of classes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mix {
    /// How two samples are mixed.
    pub how: Mixing,
    /// The column of images.
    pub column: String,
    /// The column of labels: numbers of classes, or shares of them.
    pub label: String,
    /// The number of classes.
    pub classes: usize,
    /// The parameter of the beta distribution from which the share of a sample is drawn.
    pub alpha: f64,
    /// The probability with which a batch is mixed at all.
    pub probability: f64,
}

impl OpSpec for Mix {
    fn about(&self) -> About {
        let name = match self.how {
            Mixing::Mixup => "mixup",
            Mixing::Cutmix => "cutmix",
        };
        About { name, class: Class::RowWise, is_random: true }
    }

    fn apply(&self, input: &Schema) -> Result<Schema> {
        let (op, classes) = (self.about().name, self.classes);
        if !(1..=CLASSES_MAX).contains(&classes) {
            return Err(range(op, "classes", classes, &format!("1 to {CLASSES_MAX}")));
        }
        if !(1e-3..=1e3).contains(&self.alpha) {
            return Err(range(op, "alpha", self.alpha, "0.001 <= alpha <= 1000"));
        }
        coin(op, self.probability)?;
        self.check_image(input.field(&self.column)?)?;
        let field = input.field(&self.label)?;
        self.check_label(field)?;
        let kind = Kind::Tensor { dtype: DType::Float32, shape: vec![Some(classes)] };
        Ok(input.with(Field { kind, ..field.clone() }))
    }

    fn arguments(&self) -> String {
        let Self { column, label, classes, alpha, probability, .. } = self;
        format!("{column}, {label}, classes={classes}, alpha={alpha}, p={probability}")
    }

    /// Each column depends only on itself.
    fn changed_after(&self, _input: &Schema, changed: Names) -> Names {
        changed
    }

    fn runs_per_batch(&self) -> bool {
        true
    }
}

impl Mix {
    fn check_image(&self, field: &Field) -> Result<()> {
        let hint = match (self.how, &field.kind) {
            (Mixing::Mixup, Kind::Tensor { dtype: DType::Float32, .. }) => return Ok(()),
            (Mixing::Cutmix, kind @ Kind::Tensor { dtype: DType::Uint8 | DType::Float32, .. })
                if image_layout(&Clip::frame_of(kind)).is_some() =>
            {
                return Ok(());
            }
            (Mixing::Mixup, _) => "it blends float32 tensors: put normalize or cast before batch",
            (Mixing::Cutmix, _) => "it takes uint8 or float32 images or clips of 1 or 3 channels",
        };
        Err(Error::invalid(format!("{}: column {:?} is {}", self.about().name, field.name, field.kind)).hint(hint))
    }

    fn check_label(&self, field: &Field) -> Result<()> {
        let classes = self.classes;
        let good = match &field.kind {
            Kind::Scalar { dtype } => !dtype.is_float() && !field.nullable,
            Kind::Tensor { dtype: DType::Float32, shape } => *shape == [Some(classes)],
            _ => false,
        };
        if good {
            return Ok(());
        }
        Err(Error::invalid(format!("{}: label {:?} is {}", self.about().name, field.name, field.kind))
            .hint(format!("it takes whole numbers below {classes}, or float32[{classes}]")))
    }
}
