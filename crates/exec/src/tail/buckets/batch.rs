//! A consumer's batch of the rows of a bucket.

use arrow_array::{Array, ArrayRef};
use forebay_core::{Error, Result};
use forebay_data::{Chunk, Ragged, RowId, tensor_shape_of_row};

use crate::ops::pad_op::{Longest, OneShape, Padded};
use crate::tail::buckets::Bucketer;
use crate::tail::buckets::pieces::Row;

impl Bucketer {
    /// Makes this consumer's batch of rows of a bucket.
    pub(super) fn batch(&self, bucket: usize, rows: &[Row]) -> Result<Chunk> {
        let size = rows.len() / self.parts;
        let ours = &rows[self.part * size..(self.part + 1) * size];
        let schema = &self.step.schema;
        let mut columns = Vec::with_capacity(schema.fields().len());
        for (i, field) in schema.fields().iter().enumerate() {
            let is_list = Ragged::inner(&field.kind).is_some();
            let pad = if field.uniform && is_list { self.rule.pad_of(field)? } else { None };
            columns.push(match pad {
                Some(pad) => self.padded(bucket, i, rows, ours, &pad)?,
                None => {
                    if field.uniform {
                        self.check_shapes(i, rows)?;
                    }
                    self.gathered(i, ours)?
                }
            });
        }
        let id = |row: &Row| self.pieces.find(*row).map(|(piece, place)| piece.chunk.ids()[place]);
        let ids: Vec<RowId> = ours.iter().map(id).collect::<Result<_>>()?;
        let batch = Chunk::new(schema.clone(), columns, ids.into())?;
        if !self.pieces.iter().any(|piece| piece.chunk.has_parts()) {
            return Ok(batch);
        }
        let part = |row: &Row| self.pieces.find(*row).map(|(piece, place)| piece.chunk.part(place));
        batch.with_parts(ours.iter().map(part).collect::<Result<_>>()?)
    }

    /// Returns a column of this consumer's rows, padded to the longest row of all consumers, or to the requested
    /// length.
    fn padded(&self, bucket: usize, column: usize, rows: &[Row], ours: &[Row], pad: &[u8]) -> Result<ArrayRef> {
        let field = &self.step.schema.fields()[column];
        let lengths = rows.iter().map(|row| {
            let (piece, place) = self.pieces.find(*row)?;
            Ok((piece.ragged(column)?.len_of(place), piece.chunk.ids()[place].sample))
        });
        let longest = Longest::of(lengths.collect::<Result<Vec<_>>>()?.into_iter());
        let length = self.rule.padded_length(bucket).unwrap_or(longest.length);
        let bytes = |row: &Row| {
            let (piece, place) = self.pieces.find(*row)?;
            piece.ragged(column).map(|ragged| ragged.get(place))
        };
        let bytes = ours.iter().map(bytes).collect::<Result<Vec<_>>>()?;
        Padded { field, rows: &bytes, longest, length, fixed: false }.column(pad, &self.memory)
    }

    /// Refuses rows of different shapes in the batches of all consumers.
    fn check_shapes(&self, column: usize, rows: &[Row]) -> Result<()> {
        let field = &self.step.schema.fields()[column];
        let mut one =
            OneShape::new(field, "the rows of a key need one shape: pad lists with pad=0, resize images by the key");
        rows.iter().try_for_each(|row| {
            let (piece, place) = self.pieces.find(*row)?;
            let kind = &piece.chunk.schema().fields()[column].kind;
            one.check(
                tensor_shape_of_row(kind, &piece.chunk.columns()[column], place)?,
                piece.chunk.ids()[place].sample,
            )
        })
    }

    fn gathered(&self, column: usize, ours: &[Row]) -> Result<ArrayRef> {
        // Rows of a bucket are in order, so rows of one piece are adjacent.
        let (mut arrays, mut places, mut last) = (Vec::<&dyn Array>::new(), Vec::with_capacity(ours.len()), None);
        for row in ours {
            let (piece, place) = self.pieces.find(*row)?;
            if last.replace(row.0) != Some(row.0) {
                arrays.push(piece.chunk.columns()[column].as_ref());
            }
            places.push((arrays.len() - 1, place));
        }
        arrow_select::interleave::interleave(&arrays, &places).map_err(|e| Error::internal(format!("arrow: {e}")))
    }
}
