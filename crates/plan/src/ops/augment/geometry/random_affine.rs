//! A turn, a shift, a scaling and a shear about the centre, at random: `random_affine`.

use forebay_core::Result;
use forebay_data::{Field, Kind};
use serde::{Deserialize, Serialize};

use crate::ops::augment::filled::{self, Interpolation};
use crate::ops::checks::{between, range};
use crate::ops::images::{AboutImage, ImageSpec};

/// The most degrees of a shear: at 90 an image would be a line.
const SHEAR_MAX: f64 = 89.0;

/// A turn, a shift, a scaling and a shear about the centre, at random (torchvision's rule); the size stays.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomAffine {
    /// The column.
    pub column: String,
    /// Least and greatest angle to the right, in degrees.
    pub degrees: (f64, f64),
    /// The greatest shift of columns and of rows, as shares of width and height.
    #[serde(default)]
    pub translate: (f64, f64),
    /// Least and greatest factor of the size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<(f64, f64)>,
    /// Least and greatest shear along x, then along y, in degrees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shear: Option<[(f64, f64); 2]>,
    /// The interpolation between pixels.
    pub interpolation: Interpolation,
    /// The pixel outside, one level or one for each channel.
    pub fill: Option<Vec<u8>>,
}

impl ImageSpec for RandomAffine {
    fn about(&self) -> AboutImage<'_> {
        AboutImage { name: "random_affine", column: &self.column, is_random: true }
    }

    fn kind(&self, field: &Field) -> Result<Kind> {
        let op = self.name();
        between(op, "degrees", self.degrees, (-1e6, 1e6))?;
        let (across, down) = self.translate;
        if !(0.0..=1.0).contains(&across) || !(0.0..=1.0).contains(&down) {
            return Err(range(op, "translate", format!("({across}, {down})"), "0 to 1 for each"));
        }
        between(op, "scale", self.scale.unwrap_or((1.0, 1.0)), (1e-3, 1e3))?;
        for shear in self.shear.into_iter().flatten() {
            between(op, "shear", shear, (-SHEAR_MAX, SHEAR_MAX))?;
        }
        filled::kind(op, field, self.fill.as_deref())
    }

    fn arguments(&self) -> String {
        let Self { column, degrees, translate, scale, shear, interpolation, fill } = self;
        let shift = if *translate == (0.0, 0.0) { String::new() } else { format!(", translate={translate:?}") };
        let scale = scale.map_or(String::new(), |scale| format!(", scale={scale:?}"));
        let shear = shear.map_or(String::new(), |[x, y]| format!(", shear=({x:?}, {y:?})"));
        format!("{column}, {degrees:?}{shift}{scale}{shear}{}", filled::arguments(*interpolation, fill.as_deref()))
    }

    fn ns(&self, from: f64, _to: f64) -> f64 {
        6.0 * from
    }
}
