//! An image op that moves pixels, with the columns that follow the image. A pipeline makes it of each such op behind
//! `annotate`, so that the op itself says which columns it reads and writes.

use forebay_core::{Error, Result};
use forebay_data::{Field, Kind};
use serde::{Deserialize, Serialize};

use super::images::{AboutImage, Annotations, Effect, ImageSpec};
use super::op::Op;

/// An image op, and the columns that follow the image.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Annotated {
    /// The image op.
    pub of: Box<Op>,
    /// The columns.
    pub with: Annotations,
}

impl Annotated {
    fn image(&self) -> Option<&dyn ImageSpec> {
        self.of.image().filter(|image| image.moves_pixels() && image.annotations().is_none())
    }
}

impl ImageSpec for Annotated {
    fn about(&self) -> AboutImage<'_> {
        match self.image() {
            Some(image) => image.about(),
            None => AboutImage { name: self.of.name(), column: "", is_random: self.of.is_random() },
        }
    }

    fn kind(&self, field: &Field) -> Result<Kind> {
        match self.image() {
            Some(image) if !image.has_places() => {
                let (op, column) = (image.name(), image.column());
                Err(Error::invalid(format!("{op}: boxes, masks and points of {column:?} cannot follow it")).hint(
                    "it blends copies that were moved differently: use trivial_augment, or put it before annotate",
                ))
            }
            Some(image) => image.kind(field),
            None => Err(Error::invalid(format!("{}: no columns can follow it", self.of.name()))
                .hint("only ops that move the pixels of an image have annotations")),
        }
    }

    fn arguments(&self) -> String {
        format!("{}{}", self.of.spec().arguments(), self.with.text())
    }

    fn ns(&self, from: f64, to: f64) -> f64 {
        self.image().map_or(0.0, |image| image.ns(from, to))
    }

    fn sides(&self, before: (f64, f64)) -> (f64, f64) {
        self.image().map_or(before, |image| image.sides(before))
    }

    fn effect(&self) -> Effect {
        self.image().map_or(Effect::Other, |image| image.effect())
    }

    fn annotations(&self) -> Option<&Annotations> {
        Some(&self.with)
    }

    fn annotations_mut(&mut self) -> Option<&mut Annotations> {
        Some(&mut self.with)
    }
}
