//! Image ops over a column: `image_op` runs a chain on each image or clip, `image_steps` makes the steps of a chain of the
//! plan's ops, `rows` reads the images or clips of a column.

pub(crate) mod image_op;
mod image_steps;
pub(crate) mod rows;
