//! Images of a column encoded to the bytes of files, row by row: `encode_image`.

use std::sync::Arc;

use arrow_array::builder::LargeBinaryBuilder;
use arrow_array::{Array, ArrayRef};
use forebay_core::{Error, Result};
use forebay_data::{Chunk, tensor_shape_of_row, tensor_values};
use forebay_plan::ops::EncodeImage;

use crate::image;

/// Returns the column of encoded images.
///
/// # Errors
/// Data, with the sample whose image the format cannot hold.
pub(super) fn encode(op: &EncodeImage, input: &Chunk) -> Result<ArrayRef> {
    let (kind, column) = (&input.schema().field(&op.column)?.kind, input.column(&op.column)?);
    let values = tensor_values(kind, column)?;
    let mut files = LargeBinaryBuilder::new();
    let mut start = 0;
    for row in 0..column.len() {
        let shape = tensor_shape_of_row(kind, column, row)?;
        let shape: [usize; 3] = shape.try_into().map_err(|_| Error::internal("an image has 3 dimensions"))?;
        let len = shape.iter().product::<usize>();
        let pixels = &values.as_slice()[start..][..len];
        files.append_value(image::encode(op, pixels, shape).map_err(|e| e.with("sample", input.ids()[row].sample))?);
        start += len;
    }
    Ok(Arc::new(files.finish()))
}
