//! Arguments of ops that move pixels: how one between pixels is made, and which fills the part that is left free.

use forebay_core::Result;
use forebay_data::{Field, Kind};
use serde::{Deserialize, Serialize};

use crate::ops::images::checks::{changed, per_channel};

/// How a pixel between pixels is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Interpolation {
    /// The nearest.
    Nearest,
    /// Four, by their nearness.
    Bilinear,
}

/// Returns the kind after an op that moves 8-bit pixels and fills what it leaves free.
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
