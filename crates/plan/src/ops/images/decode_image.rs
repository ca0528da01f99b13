//! Decodes encoded bytes to an image: `decode_image`.

use forebay_core::{Error, Result};
use forebay_data::{DType, Field, Kind};
use serde::{Deserialize, Serialize};

use super::spec::{AboutImage, ImageSpec};

/// The colours of a decoded image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ImageMode {
    /// One channel: ITU-R 601 luma, as Pillow's `convert("L")`.
    #[serde(rename = "L")]
    Grey,
    /// Three channels.
    #[serde(rename = "RGB")]
    Rgb,
    /// Four channels, the last of which is the opacity: 255 of an image without one.
    #[serde(rename = "RGBA")]
    Rgba,
    /// Two channels: luma, and the opacity.
    #[serde(rename = "LA")]
    GreyAlpha,
    /// One channel: the palette indexes of a PNG, unchanged.
    #[serde(rename = "P")]
    Palette,
    /// One channel of uint16: the levels of a grey PNG of 16 bits, unchanged.
    #[serde(rename = "I;16")]
    Grey16,
}

impl ImageMode {
    /// Returns the number of channels.
    pub fn channels(self) -> usize {
        match self {
            ImageMode::Grey | ImageMode::Palette | ImageMode::Grey16 => 1,
            ImageMode::GreyAlpha => 2,
            ImageMode::Rgb => 3,
            ImageMode::Rgba => 4,
        }
    }

    /// Returns its name, as a user writes it.
    pub fn name(self) -> &'static str {
        match self {
            ImageMode::Grey => "L",
            ImageMode::GreyAlpha => "LA",
            ImageMode::Rgb => "RGB",
            ImageMode::Rgba => "RGBA",
            ImageMode::Palette => "P",
            ImageMode::Grey16 => "I;16",
        }
    }

    /// Returns the dtype of its levels.
    pub fn dtype(self) -> DType {
        if self == ImageMode::Grey16 { DType::Uint16 } else { DType::Uint8 }
    }
}

/// Decodes encoded bytes to an image of height, width, channels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DecodeImage {
    /// The column, decoded in place.
    pub column: String,
    /// The colours.
    pub mode: ImageMode,
    /// Whether the image is turned and mirrored as its EXIF data say.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exif: bool,
}

impl ImageSpec for DecodeImage {
    fn about(&self) -> AboutImage<'_> {
        AboutImage { name: "decode_image", column: &self.column, is_random: false }
    }

    fn kind(&self, field: &Field) -> Result<Kind> {
        let column = &self.column;
        match field.kind {
            Kind::Bytes => {
                Ok(Kind::Tensor { dtype: self.mode.dtype(), shape: vec![None, None, Some(self.mode.channels())] })
            }
            ref other => Err(Error::invalid(format!("decode_image: column {column:?} is {other}, not bytes"))
                .hint("name the column that holds the encoded image")),
        }
    }

    fn arguments(&self) -> String {
        let exif = if self.exif { ", orientation=exif" } else { "" };
        format!("{}, mode={}{exif}", self.column, self.mode.name())
    }

    fn moves_pixels(&self) -> bool {
        false
    }

    fn ns(&self, from: f64, _to: f64) -> f64 {
        6.0 * from
    }
}
