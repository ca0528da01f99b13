//! Encodes an image to the bytes of a file: `encode_image`.

use forebay_core::{Error, Result};
use forebay_data::{DType, Field, Kind, Schema};
use serde::{Deserialize, Serialize};

use super::checks::image;
use super::clip::Clip;
use crate::ops::access::Access;
use crate::ops::checks::range;
use crate::ops::spec::{About, BYTE_NS, Class, OpSpec};

/// The format of an encoded image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ImageFormat {
    /// JPEG with 4:2:0 chroma.
    Jpeg,
    /// PNG.
    Png,
}

/// Encodes an image of uint8 to the bytes of a file, in place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EncodeImage {
    /// The column.
    pub column: String,
    /// The format.
    pub format: ImageFormat,
    /// The quality of a JPEG, 1 to 100. A PNG has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quality: Option<u8>,
}

impl OpSpec for EncodeImage {
    fn about(&self) -> About {
        About { name: "encode_image", class: Class::RowWise, is_random: false }
    }

    fn apply(&self, input: &Schema) -> Result<Schema> {
        let (op, field) = (self.about().name, input.field(&self.column)?);
        match (self.format, self.quality) {
            (ImageFormat::Png, Some(_)) => {
                return Err(Error::invalid(format!("{op}: quality with format=\"png\""))
                    .hint("leave quality out: a PNG has the same pixels as the image"));
            }
            (ImageFormat::Jpeg, quality) if !quality.is_some_and(|quality| (1..=100).contains(&quality)) => {
                let given = quality.map_or("None".to_owned(), |quality| quality.to_string());
                return Err(range(op, "quality", given, "1 to 100"));
            }
            _ => {}
        }
        if field.kind == Kind::Bytes {
            return Err(Error::invalid(format!("{op}: column {:?} is encoded already", self.column))
                .hint("leave it out, or put decode_image before it"));
        }
        if Clip::of(&field.kind).is_some() {
            return Err(Error::invalid(format!("{op}: column {:?} is {}, a clip", self.column, field.kind))
                .hint("a file of an image has no frames: save the clip as it is"));
        }
        let (dtype, shape) = image(op, field)?;
        if dtype != DType::Uint8 || !matches!(shape[2], Some(1 | 3)) {
            return Err(Error::invalid(format!("{op}: column {:?} is {}", self.column, field.kind))
                .hint("it takes uint8[height, width, 1 or 3]; put it before normalize"));
        }
        Ok(input.with(Field { kind: Kind::Bytes, uniform: false, ..field.clone() }))
    }

    fn arguments(&self) -> String {
        let format = format!("{:?}", self.format).to_lowercase();
        let quality = self.quality.map_or(String::new(), |quality| format!(", quality={quality}"));
        format!("{}, {format}{quality}", self.column)
    }

    fn access(&self, _input: &Schema) -> Option<Access> {
        Some(Access { may_fail: true, ..Access::in_place([&self.column]) })
    }

    fn ns(&self, read: f64, made: f64) -> f64 {
        5.0 * read + made * BYTE_NS
    }
}
