//! The work on single rows before they are grouped: `batch` cuts or refuses rows that are too long, and adds a column of
//! lengths; `bucket_by_length` refuses rows that no batch can hold.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int32Array};
use forebay_core::{Error, Result};
use forebay_data::{Chunk, Field, Kind, Ragged, Schema, VariableTensorBuilder};
use forebay_plan::ops::{Bucket, PaddedBatch, Padding};

use crate::ops::pad_op::too_long;

/// Returns the columns of `output`, which is [`PaddedBatch::fitted`] of the chunk's schema.
///
/// # Errors
/// Data when a row is longer than its column is padded to, naming the sample.
pub(super) fn fit(op: &PaddedBatch, input: &Chunk, output: &Schema) -> Result<Vec<ArrayRef>> {
    let Some(padding) = &op.padding else { return Ok(input.columns().to_vec()) };
    let columns = output.fields().iter().map(|field| {
        if let Some((of, _)) = padding.lengths.iter().find(|(_, output)| *output == field.name) {
            return lengths(padding, of, input);
        }
        let column = input.column(&field.name)?;
        match padding.to_of(&field.name) {
            Some(most) => cut(padding, field, input, column, most),
            None => Ok(column.clone()),
        }
    });
    columns.collect()
}

fn lengths(padding: &Padding, of: &str, input: &Chunk) -> Result<ArrayRef> {
    let rows = Ragged::of(&input.schema().field(of)?.kind, input.column(of)?)?;
    let most = padding.to_of(of).unwrap_or(usize::MAX);
    Ok(Arc::new((0..rows.rows()).map(|row| rows.len_of(row).min(most) as i32).collect::<Int32Array>()))
}

/// Refuses rows that are longer than they are padded, or than a batch can hold.
///
/// # Errors
/// Data, naming the sample.
pub(super) fn check_lengths(op: &Bucket, input: &Chunk) -> Result<()> {
    let of_sample = |error: Error, row: usize| error.with("sample", input.ids()[row].sample);
    let lists = |field: &Field| Ragged::of(&field.kind, input.column(&field.name)?);
    let lengths = lists(input.schema().field(&op.column)?)?;
    for row in 0..lengths.rows() {
        op.check_length(lengths.len_of(row)).map_err(|e| of_sample(e, row))?;
    }
    for field in input.schema().fields().iter().filter(|field| Ragged::inner(&field.kind).is_some()) {
        let rows = lists(field)?;
        for row in 0..rows.rows() {
            let most = op.padded_length(op.bucket_of(lengths.len_of(row))).unwrap_or(usize::MAX);
            if rows.len_of(row) > most {
                let hint = "pad to more, cut the rows, or leave them out with filter";
                return Err(of_sample(too_long(field, rows.len_of(row), most), row).hint(hint));
            }
        }
    }
    Ok(())
}

/// Returns a column whose rows have at most `most` items.
fn cut(padding: &Padding, field: &Field, input: &Chunk, column: &ArrayRef, most: usize) -> Result<ArrayRef> {
    let rows = Ragged::of(&field.kind, column)?;
    let Some(first) = (0..rows.rows()).find(|&row| rows.len_of(row) > most) else { return Ok(column.clone()) };
    if !padding.truncate.contains(&field.name) {
        return Err(too_long(field, rows.len_of(first), most)
            .with("sample", input.ids()[first].sample)
            .hint("cut such rows with truncate=True, pad to more, or leave them out with filter"));
    }
    let (Some(inner), Kind::Tensor { dtype, shape }) = (Ragged::inner(&field.kind), &field.kind) else {
        return Err(Error::internal("only lists are cut"));
    };
    let item = shape[1..].iter().copied().collect::<Option<Vec<usize>>>().unwrap_or_default();
    let mut builder = VariableTensorBuilder::new(*dtype, shape.len());
    for row in 0..rows.rows() {
        let length = rows.len_of(row).min(most);
        let shape: Vec<usize> = std::iter::once(length).chain(item.iter().copied()).collect();
        builder.push(&shape, &rows.get(row)[..length * inner * dtype.size()])?;
    }
    builder.finish()
}
