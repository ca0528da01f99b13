//! Boxes, labels, masks and points that follow their image through a chain of image ops.
//!
//! - `rows`: the annotation columns of a chunk, and the columns that are made of them
//! - `moving`: the annotations of one row, on their way through a chain
//! - `motion`: a change of the image's geometry, as a map of coordinates
//! - `tiles`: the annotations of an image that is put together from parts of several
//! - `boxes`, `points`, `pixel_map`: the boxes, the points and the masks of a row
//!
//! Invariant: after each op, boxes and points are rounded to their dtype, and masks are whole pixels. So ops that are
//! fused give the same bits as ops one by one.

mod boxes;
mod motion;
mod moving;
mod pixel_map;
mod points;
mod rows;
mod tiles;

pub(crate) use moving::Moving;
pub(crate) use rows::{MadeRow, Rows};
pub(crate) use tiles::Tile;
