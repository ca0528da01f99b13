//! The columns that belong to an image and follow its geometry: boxes, their labels, masks and points.
//!
//! `annotate` declares them once. From there, each op that moves pixels carries them ([`crate::ops::Annotated`]), so the
//! plan knows from the op alone which columns it reads and writes.

use std::collections::BTreeSet;

use forebay_core::{Error, Result};
use forebay_data::{DType, Field, Kind, Ragged, Schema};
use serde::{Deserialize, Serialize};

use crate::ops::checks::{coin, range};

/// The numbers of a box.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BoxFormat {
    /// Left, top, right, bottom.
    #[default]
    Xyxy,
    /// Left, top, width, height.
    Xywh,
    /// The centre, width, height.
    Cxcywh,
}

/// The columns that follow an image, and how.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Annotations {
    /// Boxes: floats of shape \[boxes, 4\].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boxes: Option<String>,
    /// The numbers of a box.
    #[serde(default)]
    pub format: BoxFormat,
    /// Whether boxes and points are in shares of the image's sides, not in pixels.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub relative: bool,
    /// Columns with an entry for each box, which are dropped with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// Masks of the image's size, or one for each box.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub masks: Vec<String>,
    /// The value of a mask outside the image.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub mask_fill: f64,
    /// Points: floats of shape \[points, 2 or 3\], or \[boxes, points, 2 or 3\]; a third number is the visibility.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub points: Option<String>,
    /// Points that change places when the image is mirrored, such as the left and the right eye.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flip_pairs: Vec<(usize, usize)>,
    /// The least area of a box in pixels; a smaller one is dropped.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub min_area: f64,
    /// The least share of a box that one op has to leave inside the image; else the box is dropped.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub min_visibility: f64,
}

fn is_zero(v: &f64) -> bool {
    *v == 0.0
}

/// The part of an annotation that a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Boxes.
    Boxes,
    /// An entry for each box.
    Label,
    /// Pixels of the image's size.
    Mask,
    /// Points.
    Points,
}

impl Annotations {
    /// Returns the columns, and the part that each holds.
    pub fn columns(&self) -> impl Iterator<Item = (&String, Role)> {
        let labels = self.labels.iter().map(|name| (name, Role::Label));
        let masks = self.masks.iter().map(|name| (name, Role::Mask));
        let points = self.points.iter().map(|name| (name, Role::Points));
        self.boxes.iter().map(|name| (name, Role::Boxes)).chain(labels).chain(masks).chain(points)
    }

    /// Returns these columns under other names, without columns for which `rename` has no name. Labels need their boxes.
    #[must_use]
    pub(crate) fn renamed(&self, rename: impl Fn(&String) -> Option<String>) -> Self {
        let boxes = self.boxes.as_ref().and_then(&rename);
        let labels = self.labels.iter().filter(|_| boxes.is_some()).filter_map(&rename).collect();
        let masks = self.masks.iter().filter_map(&rename).collect();
        let points = self.points.as_ref().and_then(&rename);
        Self { boxes, labels, masks, points, ..self.clone() }
    }

    /// Returns the columns that are needed so that those in `after` exist: boxes decide which entries are dropped.
    pub(crate) fn needs(&self, after: &BTreeSet<String>) -> Vec<String> {
        let is_used = |name: &&String| after.contains(*name);
        let mut needed: Vec<_> = self.columns().map(|(name, _)| name).filter(is_used).cloned().collect();
        if let Some(boxes) = self.boxes.as_ref().filter(|boxes| !needed.is_empty() && !needed.contains(boxes)) {
            needed.push(boxes.clone());
        }
        needed
    }

    /// Checks the arguments, which `annotate` has.
    pub(crate) fn check(&self, op: &str, image: &str) -> Result<()> {
        let mut seen = vec![image];
        for (name, _) in self.columns() {
            if seen.contains(&name.as_str()) {
                return Err(Error::invalid(format!("{op}: column {name:?} is named twice")).hint("name each once"));
            }
            seen.push(name);
        }
        if seen.len() == 1 {
            return Err(Error::invalid(format!("{op}: no boxes, masks or points are named"))
                .hint("give boxes=, masks= or points=: the columns that follow the image"));
        }
        if let (None, Some(label)) = (&self.boxes, self.labels.first()) {
            return Err(Error::invalid(format!("{op}: labels={label:?} without boxes"))
                .hint("give boxes=: labels are dropped with their boxes"));
        }
        if !(0.0..=1e12).contains(&self.min_area) {
            return Err(range(op, "min_area", self.min_area, "0 or more pixels"));
        }
        coin(op, self.min_visibility).map_err(|_| range(op, "min_visibility", self.min_visibility, "0 to 1"))
    }

    /// Returns the columns after an op on the image, which then has the kind `image`.
    ///
    /// # Errors
    /// Invalid when the type of a column does not fit its declaration, NotFound when there is no such column.
    pub(crate) fn follow(&self, op: &str, image: &Kind, schema: &Schema) -> Result<Schema> {
        let mut after = schema.clone();
        for (name, role) in self.columns() {
            let field = schema.field(name)?;
            let kind = match role {
                Role::Boxes => boxes(op, field)?,
                Role::Label => label(op, field)?,
                Role::Mask => self.mask(op, field, image)?,
                Role::Points => self.points(op, field)?,
            };
            after = after.with(Field { kind, uniform: false, ..field.clone() });
        }
        Ok(after)
    }

    /// Checks that the columns with an entry for each box have their own number of entries in each row of a batch.
    ///
    /// # Errors
    /// Invalid when rows of such a column were padded or stacked, NotFound when there is no such column.
    pub(crate) fn check_ragged(&self, op: &str, schema: &Schema) -> Result<()> {
        for (name, role) in self.columns() {
            let field = schema.field(name)?;
            let shape = if let Kind::Tensor { shape, .. } = &field.kind { &shape[..] } else { &[] };
            let is_per_box = match role {
                Role::Boxes | Role::Label => true,
                Role::Mask => shape.len() == 3 && shape[2] != Some(1),
                Role::Points => shape.len() == 3,
            };
            if is_per_box && (field.uniform || Ragged::inner(&field.kind).is_none()) {
                return Err(Error::invalid(format!("{op}: rows of {name:?} are padded or stacked, as {}", field.kind))
                    .hint(format!(
                        "boxes are dropped here: give batch ragged=[{name:?}, ...]; ops of single images may stand \
                         before batch, too"
                    )));
            }
        }
        Ok(())
    }

    fn mask(&self, op: &str, field: &Field, image: &Kind) -> Result<Kind> {
        let Kind::Tensor { shape: sides, .. } = image else {
            return Err(Error::internal(format!("{op}: an image is a tensor")));
        };
        let (height, width) = (sides.first().copied().flatten(), sides.get(1).copied().flatten());
        let wrong = || wrong(op, field, "masks", "[height, width], [height, width, 1], or [boxes, height, width]");
        let Kind::Tensor { dtype, shape } = &field.kind else {
            return Err(match field.kind {
                Kind::Bytes => Error::invalid(format!("{op}: masks={:?} is not decoded yet", field.name))
                    .hint(format!("put .decode_image({:?}, mode=\"P\") or mode=\"L\" before annotate", field.name)),
                _ => wrong(),
            });
        };
        if Ragged::number(*dtype, self.mask_fill).is_none() {
            let want = format!("a number that {dtype} holds: the mask {:?} has that dtype", field.name);
            return Err(range(op, "mask_fill", self.mask_fill, &want));
        }
        let shape = match shape.as_slice() {
            [_, _] => vec![height, width],
            [_, _, Some(1)] => vec![height, width, Some(1)],
            [_, _, _] if self.boxes.is_some() => vec![None, height, width],
            [_, _, _] => {
                return Err(Error::invalid(format!(
                    "{op}: masks={:?} is {}, one for each box",
                    field.name, field.kind
                ))
                .hint("give boxes=, too: a mask is dropped with its box"));
            }
            _ => return Err(wrong()),
        };
        Ok(Kind::Tensor { dtype: *dtype, shape })
    }

    fn points(&self, op: &str, field: &Field) -> Result<Kind> {
        let want = "float32 or float64 of [points, 2 or 3], or [boxes, points, 2 or 3]";
        let Kind::Tensor { dtype: dtype @ (DType::Float32 | DType::Float64), shape } = &field.kind else {
            return Err(wrong(op, field, "points", want));
        };
        let shape = match shape.as_slice() {
            [points, Some(2 | 3)] => vec![*points, shape[1]],
            [_, points, Some(2 | 3)] if self.boxes.is_some() => vec![None, *points, shape[2]],
            [_, _, Some(2 | 3)] => {
                return Err(Error::invalid(format!(
                    "{op}: points={:?} is {}, some for each box",
                    field.name, field.kind
                ))
                .hint("give boxes=, too: points are dropped with their box"));
            }
            _ => return Err(wrong(op, field, "points", want)),
        };
        let most = self.flip_pairs.iter().map(|(a, b)| *a.max(b)).max();
        if let (Some(points), Some(most)) = (shape[shape.len() - 2], most)
            && most >= points
        {
            return Err(range(op, "flip_pairs", most, &format!("0 to {}: there are {points} points", points - 1)));
        }
        Ok(Kind::Tensor { dtype: *dtype, shape })
    }

    /// Returns the names of the columns as they come behind an op's own arguments.
    pub(crate) fn text(&self) -> String {
        let names: Vec<_> = self.columns().map(|(name, _)| name.as_str()).collect();
        if names.is_empty() { String::new() } else { format!("; with {}", names.join(", ")) }
    }
}

fn boxes(op: &str, field: &Field) -> Result<Kind> {
    match &field.kind {
        Kind::Tensor { dtype: dtype @ (DType::Float32 | DType::Float64), shape } => match shape.as_slice() {
            [_, Some(4) | None] => Ok(Kind::Tensor { dtype: *dtype, shape: vec![None, Some(4)] }),
            _ => Err(wrong(op, field, "boxes", "float32[?, 4] or float64[?, 4]")),
        },
        Kind::Tensor { shape, .. } if shape.len() == 2 => {
            Err(Error::invalid(format!("{op}: boxes={:?} is {}, and boxes are floats", field.name, field.kind))
                .hint(format!("put .cast({}=\"float32\") before annotate", field.name)))
        }
        _ => Err(wrong(op, field, "boxes", "float32[?, 4] or float64[?, 4]")),
    }
}

fn label(op: &str, field: &Field) -> Result<Kind> {
    match &field.kind {
        Kind::Tensor { dtype, shape } if !shape.is_empty() => {
            let shape = std::iter::once(None).chain(shape[1..].iter().copied()).collect();
            Ok(Kind::Tensor { dtype: *dtype, shape })
        }
        _ => Err(wrong(op, field, "labels", "a list of numbers, one for each box")),
    }
}

fn wrong(op: &str, field: &Field, argument: &str, want: &str) -> Error {
    Error::invalid(format!("{op}: {argument}={:?} is {}", field.name, field.kind)).hint(format!("it takes {want}"))
}
