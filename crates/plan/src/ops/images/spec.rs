//! What an op on one image column says of itself. Such an op changes the column in place, and is fused with the ops
//! beside it.
//!
//! As for `OpSpec`, a method has a default only where the default is safe: an op that declares nothing more may fail,
//! passes no other op of its column, and runs on the worker.

use forebay_core::Result;
use forebay_data::{Field, Kind, Schema};

use super::random_flip::Direction;
use crate::ops::access::Access;
use crate::ops::spec::{About, Class, OpSpec};

/// What an op does to pixels, as far as that decides which other ops of the column it may pass.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Effect {
    /// Changes colours, at no place in particular; a mirrored image gives the mirrored result.
    Recolours {
        /// Whether a pixel's result depends on this pixel alone, and black stays black.
        by_pixel: bool,
        /// Whether a mean of pixels becomes, about, the mean of their results.
        keeps_means: bool,
    },
    /// Mirrors.
    Mirrors(Direction),
    /// Keeps the middle, padded with black.
    CropsMiddle {
        /// Pixels.
        height: usize,
        /// Pixels.
        width: usize,
    },
    /// Resizes the image, or a random part of it.
    Scales {
        /// Whether both sides shrink alike.
        keeps_shape: bool,
    },
    /// Turns by any angle.
    Turns,
    /// Computes each pixel from its neighbours.
    Blurs,
    /// Anything else: it passes no other op.
    Other,
}

impl Effect {
    /// Says whether fewer pixels may come out.
    pub(crate) fn is_smaller(self) -> bool {
        matches!(self, Self::Scales { .. } | Self::CropsMiddle { .. })
    }

    /// Says whether its kernel reads pixels around each one, so that a mirrored image has to be written out before.
    pub(crate) fn reads_around(self) -> bool {
        matches!(self, Self::Scales { .. } | Self::Turns | Self::Blurs)
    }
}

/// What is known of an image op without a schema.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AboutImage<'a> {
    /// The name of the Python method that makes it.
    pub(crate) name: &'static str,
    /// The column that it changes.
    pub(crate) column: &'a str,
    /// Whether it draws random numbers. A random op has a random stream of its own.
    pub(crate) is_random: bool,
}

/// See the module's documentation.
pub(crate) trait ImageSpec {
    /// Returns what is known of it without a schema.
    fn about(&self) -> AboutImage<'_>;

    /// Returns the name of the Python method that makes it.
    fn name(&self) -> &'static str {
        self.about().name
    }

    /// Returns the column that it changes.
    fn column(&self) -> &str {
        self.about().column
    }

    /// Checks the arguments, and returns the kind that the column then has.
    fn kind(&self, field: &Field) -> Result<Kind>;

    /// Returns its arguments as the user would write them.
    fn arguments(&self) -> String;

    /// Returns its approximate cost: nanoseconds of one core for an image that has so many pixels before and after it.
    fn ns(&self, from: f64, to: f64) -> f64;

    /// Returns rows and columns of an image after it, about, from those before it. Default: the same, which only
    /// concerns costs.
    fn sides(&self, before: (f64, f64)) -> (f64, f64) {
        before
    }

    /// Says what it does to pixels.
    fn effect(&self) -> Effect {
        Effect::Other
    }

    /// Says whether an image that has the right kind can make it fail, as where a size passes a limit.
    fn may_fail(&self) -> bool {
        true
    }

    /// As [`OpSpec::may_run_on_consumer`].
    fn may_run_on_consumer(&self) -> bool {
        false
    }
}

impl<T: ImageSpec> OpSpec for T {
    fn about(&self) -> About {
        let AboutImage { name, is_random, .. } = ImageSpec::about(self);
        About { name, class: Class::RowWise, is_random }
    }

    fn apply(&self, input: &Schema) -> Result<Schema> {
        let field = input.field(self.column())?;
        Ok(input.with(Field { kind: self.kind(field)?, ..field.clone() }))
    }

    fn arguments(&self) -> String {
        ImageSpec::arguments(self)
    }

    fn access(&self, _input: &Schema) -> Option<Access> {
        Some(Access { may_fail: self.may_fail(), ..Access::in_place([&self.column().to_owned()]) })
    }

    fn may_run_on_consumer(&self, _input: &Schema) -> bool {
        ImageSpec::may_run_on_consumer(self)
    }

    fn image(&self) -> Option<&dyn ImageSpec> {
        Some(self)
    }
}
