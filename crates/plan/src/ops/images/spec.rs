//! The properties that an op on one image column declares. Such an op changes the column in place, and is fused with
//! the ops beside it.
//!
//! As for `OpSpec`, a method has a default only if the default is safe: an op that declares nothing more may fail,
//! moves past no other op of its column, and runs on the worker.

use forebay_core::{Error, Result};
use forebay_data::{Field, Kind, Schema};

use super::annotations::Annotations;
use super::clip::Clip;
use super::geometry::Direction;
use crate::ops::access::Access;
use crate::ops::spec::{About, Class, Names, OpSpec};

/// The effect of an op on pixels, as far as it decides which other ops of the column it may move past.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Effect {
    /// Changes colours, independent of position; a mirrored image has the mirrored result.
    Recolours {
        /// Whether a pixel's result depends on this pixel alone, and black stays black.
        by_pixel: bool,
        /// Whether the mean of some pixels becomes approximately the mean of their results.
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
    /// Rotates by any angle.
    Turns,
    /// Computes each pixel from its neighbours.
    Blurs,
    /// Any other effect: the op moves past no other op.
    Other,
}

impl Effect {
    /// Returns whether the output may have fewer pixels.
    pub(crate) fn is_smaller(self) -> bool {
        matches!(self, Self::Scales { .. } | Self::CropsMiddle { .. })
    }

    /// Returns whether its kernel reads pixels around each one, so that a mirrored image has to be written out before.
    pub(crate) fn reads_around(self) -> bool {
        matches!(self, Self::Scales { .. } | Self::Turns | Self::Blurs)
    }
}

/// The properties of an image op that need no schema.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AboutImage<'a> {
    /// The name of its Python method.
    pub(crate) name: &'static str,
    /// The column that it changes.
    pub(crate) column: &'a str,
    /// Whether it draws random numbers. A random op has a random stream of its own.
    pub(crate) is_random: bool,
}

/// See the module's documentation.
pub(crate) trait ImageSpec {
    /// Returns its properties that need no schema.
    fn about(&self) -> AboutImage<'_>;

    /// Returns the name of its Python method.
    fn name(&self) -> &'static str {
        self.about().name
    }

    /// Returns the column that it changes.
    fn column(&self) -> &str {
        self.about().column
    }

    /// Checks the arguments, and returns the kind that a column of images then has. For a column of clips, `field` is that
    /// of a frame.
    fn kind(&self, field: &Field) -> Result<Kind>;

    /// Returns whether it has a meaning for clips, where it does the same to each frame.
    fn takes_clips(&self) -> bool {
        self.annotations().is_none()
    }

    /// Returns whether a clip after it has the channels before the frames, which an image cannot have.
    fn puts_channels_before_frames(&self) -> bool {
        false
    }

    /// Returns its arguments as the user would write them.
    fn arguments(&self) -> String;

    /// Returns its approximate cost: nanoseconds of one core for an image with so many pixels before and after it.
    fn ns(&self, from: f64, to: f64) -> f64;

    /// Returns the approximate rows and columns of an image after it. Default: unchanged; only costs depend on it.
    fn sides(&self, before: (f64, f64)) -> (f64, f64) {
        before
    }

    /// Returns its effect on pixels.
    fn effect(&self) -> Effect {
        Effect::Other
    }

    /// Returns whether it may move pixels, so that boxes, masks and points have to follow.
    fn moves_pixels(&self) -> bool {
        !matches!(self.effect(), Effect::Recolours { .. } | Effect::Blurs)
    }

    /// Returns whether each place of the image has one place after it, so that boxes, masks and points can follow.
    fn has_places(&self) -> bool {
        true
    }

    /// Returns the columns that follow the image through it. They can make it fail.
    fn annotations(&self) -> Option<&Annotations> {
        None
    }

    /// Returns whether the image depends on its boxes.
    fn reads_boxes(&self) -> bool {
        false
    }

    /// Returns whether images of one size may get different sizes, by what it draws.
    fn draws_size(&self) -> bool {
        false
    }

    /// As [`ImageSpec::annotations`].
    fn annotations_mut(&mut self) -> Option<&mut Annotations> {
        None
    }

    /// Returns whether an image of the right kind can make it fail, for example because a size exceeds a limit.
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
        let kind = kind_after(self, field)?;
        let uniform = field.uniform && !self.draws_size();
        let after = input.with(Field { kind: kind.clone(), uniform, ..field.clone() });
        match self.annotations() {
            Some(annotations) => annotations.follow(self.name(), &kind, &after),
            None => Ok(after),
        }
    }

    fn arguments(&self) -> String {
        ImageSpec::arguments(self)
    }

    fn access(&self, _input: &Schema) -> Option<Access> {
        let (column, annotations) = (self.column().to_owned(), self.annotations());
        let others = annotations.into_iter().flat_map(Annotations::columns).map(|(name, _)| name);
        let access = Access::in_place(std::iter::once(&column).chain(others));
        Some(Access { may_fail: self.may_fail() || annotations.is_some(), ..access })
    }

    fn needs(&self, input: &Schema, after: Names) -> Names {
        let others = self.annotations().map_or_else(Vec::new, |annotations| annotations.needs(&after));
        let boxes = self.annotations().filter(|_| self.reads_boxes()).and_then(|with| with.boxes.clone());
        let exists = |name: &String| input.position(name).is_some();
        after.into_iter().filter(exists).chain(others).chain(boxes).chain([self.column().to_owned()]).collect()
    }

    fn restrict(&mut self, input: &Schema) -> bool {
        if let Some(annotations) = self.annotations_mut() {
            *annotations = annotations.renamed(|name| input.position(name).map(|_| name.clone()));
        }
        true
    }

    fn may_run_on_consumer(&self, _input: &Schema) -> bool {
        ImageSpec::may_run_on_consumer(self)
    }

    fn image(&self) -> Option<&dyn ImageSpec> {
        Some(self)
    }
}

/// Returns the kind of a column of images or of clips after an op.
///
/// # Errors
/// As [`ImageSpec::kind`]; Invalid when the op has no meaning for the frames of a clip.
fn kind_after(op: &dyn ImageSpec, field: &Field) -> Result<Kind> {
    let Some(clip) = Clip::of(&field.kind) else {
        if op.puts_channels_before_frames() {
            let what = format!("{}: column {:?} is {}, which has no frames", op.name(), field.name, field.kind);
            return Err(Error::invalid(what).hint("layout=\"CTHW\" is for clips; use \"CHW\" or \"HWC\" for images"));
        }
        return op.kind(field);
    };
    if !op.takes_clips() {
        let what = format!("{}: column {:?} is {}, a clip", op.name(), field.name, field.kind);
        return Err(Error::invalid(what).hint("it takes images; boxes, masks and points cannot follow a clip"));
    }
    let frame = Field { kind: clip.frame.clone(), ..field.clone() };
    let kind = op.kind(&frame).map_err(|e| e.with("clip", &field.kind))?;
    Ok(clip.of_frames(kind, if op.puts_channels_before_frames() { 1 } else { clip.axis }))
}
