//! Rows of the steps of columns' first dimensions: `explode`.

use arrow_array::{Array, ArrayRef, LargeStringArray};
use forebay_core::{Error, ErrorKind, Result};
use forebay_data::{
    Chunk, Kind, Schema, TextLists, VariableTensorBuilder, column_of, tensor_lengths, tensor_shape_of_row,
    tensor_values,
};
use std::sync::Arc;

/// The most rows that one call makes.
const ROWS_MAX: usize = 1 << 24;
/// The most bytes of the repeated columns of one call.
const BYTES_MAX: usize = 1 << 30;

/// Makes a row of each step of these columns, and repeats the others.
///
/// # Errors
/// Data when the columns of a row have different numbers of steps, with the row; Exhausted when a bound is exceeded.
pub(super) fn explode(columns: &[String], input: &Chunk, output: &Arc<Schema>) -> Result<Chunk> {
    let counts = counts(columns, input)?;
    let total = counts.iter().map(|&count| count as usize).sum::<usize>();
    if total > ROWS_MAX {
        return Err(Error::new(ErrorKind::Exhausted, format!("explode: {} rows make {total} rows", input.num_rows()))
            .hint(format!("at most {ROWS_MAX} rows are made together: cut the columns into shorter ones before")));
    }
    let others = input.schema().fields().iter().filter(|field| !columns.contains(&field.name));
    let others: Vec<String> = others.map(|field| field.name.clone()).collect();
    let repeated = repeated(&input.project(&others)?, &counts, total)?;
    let made = output.fields().iter().map(|field| {
        if !columns.contains(&field.name) {
            return repeated.column(&field.name).cloned();
        }
        steps(&input.schema().field(&field.name)?.kind, &field.kind, input.column(&field.name)?, total)
    });
    input.expanded(output.clone(), made.collect::<Result<_>>()?, &counts)
}

/// Returns the number of steps of each row.
fn counts(columns: &[String], input: &Chunk) -> Result<Vec<u32>> {
    let of = |name: &String| {
        let (kind, column) = (&input.schema().field(name)?.kind, input.column(name)?);
        match kind {
            Kind::Texts => {
                let lists = TextLists::of(column)?;
                Ok((0..lists.rows()).map(|row| lists.len_of(row) as u32).collect())
            }
            kind => tensor_lengths(kind, column),
        }
    };
    let [first, rest @ ..] = columns else { return Err(Error::internal("no columns to explode")) };
    let counts = of(first)?;
    for column in rest {
        let own = of(column)?;
        if let Some(row) = (0..counts.len()).find(|&row| own[row] != counts[row]) {
            let (a, b) = (counts[row], own[row]);
            return Err(Error::data(format!("columns {first:?} and {column:?} have {a} and {b} steps in one row"))
                .with("sample", input.ids()[row].sample)
                .hint("columns that are exploded together have equal first dimensions in each row"));
        }
    }
    Ok(counts)
}

/// Returns the rows of `input`, each as often as its count says.
fn repeated(input: &Chunk, counts: &[u32], total: usize) -> Result<Chunk> {
    let mut bytes = 0usize;
    for (field, column) in input.schema().fields().iter().zip(input.columns()) {
        bytes = bytes.saturating_add(match field.kind.row_bytes() {
            Some(row) => row.saturating_mul(total),
            None => {
                let row = |row: usize| column.slice(row, 1).to_data().get_slice_memory_size().unwrap_or(0);
                let sizes = counts.iter().enumerate().filter(|(_, count)| **count > 1);
                sizes.map(|(at, &count)| row(at).saturating_mul(count as usize)).sum()
            }
        });
    }
    if bytes > BYTES_MAX {
        let (rows, most) = (input.num_rows(), BYTES_MAX >> 20);
        return Err(Error::new(
            ErrorKind::Exhausted,
            format!("explode: {rows} rows make {total} rows of {bytes} bytes"),
        )
        .hint(format!("at most {most} MiB are repeated together: drop large columns before, or explode them, too")));
    }
    let mut places = Vec::with_capacity(total);
    for (row, &count) in (0u32..).zip(counts) {
        places.extend(std::iter::repeat_n(row, count as usize));
    }
    input.take(&places)
}

/// Returns the steps of all rows of a column of `kind`, as a column of `of`.
fn steps(kind: &Kind, of: &Kind, column: &ArrayRef, total: usize) -> Result<ArrayRef> {
    if *kind == Kind::Texts {
        let lists = TextLists::of(column)?;
        let texts = (0..lists.rows()).flat_map(|row| lists.get(row));
        return Ok(Arc::new(texts.collect::<LargeStringArray>()));
    }
    if of.known_shape().is_some() {
        return column_of(of, tensor_values(kind, column)?, total);
    }
    let (Kind::Tensor { dtype, shape }, values) = (of, tensor_values(kind, column)?) else {
        return Err(Error::internal(format!("a step of {kind} is no {of}")));
    };
    let (mut builder, mut first) = (VariableTensorBuilder::new(*dtype, shape.len()), 0);
    for row in 0..column.len() {
        let shape = tensor_shape_of_row(kind, column, row)?;
        let bytes = shape[1..].iter().product::<usize>() * dtype.size();
        for _ in 0..shape[0] {
            builder.push(&shape[1..], &values[first..first + bytes])?;
            first += bytes;
        }
    }
    builder.finish()
}
