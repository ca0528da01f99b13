//! Mirrors an image, at random: `random_flip`.

use forebay_core::{Error, Result};
use forebay_data::{DType, Field, Kind};
use serde::{Deserialize, Serialize};

use super::direction::Direction;
use crate::ops::checks::coin;
use crate::ops::images::checks::image;
use crate::ops::images::spec::{AboutImage, Effect, ImageSpec};

/// Mirrors an image, at random.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomFlip {
    /// The column.
    pub column: String,
    /// The probability, 0 to 1.
    pub probability: f64,
    /// The direction; left to right is not serialized, so that such a pipeline keeps its dataset id.
    #[serde(default, skip_serializing_if = "Direction::is_horizontal")]
    pub direction: Direction,
}

impl ImageSpec for RandomFlip {
    fn about(&self) -> AboutImage<'_> {
        AboutImage { name: "random_flip", column: &self.column, is_random: true }
    }

    fn kind(&self, field: &Field) -> Result<Kind> {
        coin(self.name(), self.probability)?;
        let (dtype, shape) = image(self.name(), field)?;
        if !matches!((dtype, shape[2]), (DType::Uint8, _) | (DType::Uint16, Some(1))) {
            return Err(Error::invalid(format!("random_flip: column {:?} is {}", self.column, field.kind))
                .hint("put it before normalize: a flip of the pixels costs nothing there"));
        }
        Ok(field.kind.clone())
    }

    fn arguments(&self) -> String {
        let vertical = if self.direction == Direction::Vertical { ", direction=vertical" } else { "" };
        format!("{}, p={}{vertical}", self.column, self.probability)
    }

    /// A flip is mostly only recorded, and the next op that writes the pixels does it.
    fn ns(&self, from: f64, _to: f64) -> f64 {
        0.02 * self.probability * from
    }

    fn effect(&self) -> Effect {
        Effect::Mirrors(self.direction)
    }

    fn may_fail(&self) -> bool {
        false
    }
}
