//! Arguments of ops that move pixels: the interpolation, and the pixel that fills uncovered parts.

use forebay_core::Result;
use forebay_data::{Field, Kind};
use serde::{Deserialize, Serialize};

use crate::ops::images::checks::{changed, per_channel};

/// The interpolation between pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Interpolation {
    /// The nearest pixel.
    Nearest,
    /// Four pixels, weighted by distance.
    Bilinear,
}

/// Returns the kind after an op that moves 8-bit pixels and fills uncovered parts.
pub(super) fn kind(op: &str, field: &Field, fill: Option<&[u8]>) -> Result<Kind> {
    let kind = changed(op, field)?;
    per_channel(op, "fill", fill.map_or(1, <[u8]>::len), &kind, 2)?;
    Ok(kind)
}

/// Returns the arguments as the user would write them.
pub(super) fn arguments(interpolation: Interpolation, fill: Option<&[u8]>) -> String {
    let fill = fill.map_or(String::new(), |fill| format!(", fill={fill:?}"));
    format!(", {}{fill}", format!("{interpolation:?}").to_lowercase())
}
