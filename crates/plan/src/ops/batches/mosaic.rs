//! Puts each image of a batch together with parts of three others, whose annotations follow: `mosaic`.

use forebay_core::{Error, Result};
use forebay_data::{DType, Field, Kind, Schema};
use serde::{Deserialize, Serialize};

use crate::ops::checks::{between, coin};
use crate::ops::images::{Annotations, Layout, image_layout};
use crate::ops::spec::{About, Class, OpSpec};

const NAME: &str = "mosaic";

/// Makes each image of a batch of parts of four of its images.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mosaic {
    /// The column of images.
    pub column: String,
    /// Least and greatest share of each side at which the four parts meet.
    pub center_range: (f64, f64),
    /// The probability with which an image is changed.
    pub probability: f64,
    /// The columns that follow the image, which a pipeline adds behind `annotate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with: Option<Annotations>,
}

impl OpSpec for Mosaic {
    fn about(&self) -> About {
        About { name: NAME, class: Class::RowWise, is_random: true }
    }

    fn apply(&self, input: &Schema) -> Result<Schema> {
        let column = &self.column;
        let image = image(input.field(column)?)?;
        let Some(with) = self.with.as_ref().filter(|with| with.columns().next().is_some()) else {
            return Err(Error::invalid(format!("{NAME}: column {column:?} has no boxes or masks"))
                .hint(format!("put .annotate({column:?}, boxes=...) before it")));
        };
        between(NAME, "center_range", self.center_range, (0.0, 1.0))?;
        coin(NAME, self.probability)?;
        with.check_ragged(NAME, input)?;
        if let Some(points) = &with.points {
            check_points(input.field(points)?)?;
        }
        with.follow(NAME, &image, input)
    }

    fn arguments(&self) -> String {
        let Self { column, center_range: (low, high), probability, with } = self;
        let with = with.as_ref().map_or_else(String::new, Annotations::text);
        format!("{column}, center_range=({low}, {high}), p={probability}{with}")
    }

    fn runs_per_batch(&self) -> bool {
        true
    }
}

/// Returns the kind of an image with its channels last.
fn image(field: &Field) -> Result<Kind> {
    let layout = image_layout(&field.kind);
    match (&field.kind, layout, field.kind.known_shape().as_deref()) {
        (Kind::Tensor { dtype: dtype @ (DType::Uint8 | DType::Float32), .. }, Some(layout), Some(&[a, b, c])) => {
            let (width, height) = layout.size([a, b, c]);
            let channels = if layout == Layout::Hwc { c } else { a };
            Ok(Kind::fixed(*dtype, &[height, width, channels]))
        }
        _ => Err(Error::invalid(format!("{NAME}: column {:?} is {}", field.name, field.kind))
            .hint("it takes uint8 or float32 images of one size with 1 or 3 channels: put resize before batch")),
    }
}

/// Refuses points that cannot say that they are outside of their part.
fn check_points(field: &Field) -> Result<()> {
    if matches!(&field.kind, Kind::Tensor { shape, .. } if shape.len() == 3 && shape[2] == Some(3)) {
        return Ok(());
    }
    Err(Error::invalid(format!("{NAME}: points={:?} is {}", field.name, field.kind))
        .hint("it takes points of each box with their visibility, [boxes, points, 3]; drop others before it"))
}
