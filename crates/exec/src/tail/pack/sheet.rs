//! Packed rows while they are written: tokens, the columns along them, positions, segments and ids.

use std::sync::Arc;

use forebay_core::{Epoch, Error, Result, SampleId};
use forebay_data::{Chunk, DType, FixedTensorBuilder, Int32Lists, Ragged, RowId, Schema};
use forebay_plan::Pack;

use super::documents::{Documents, Piece};

pub(super) struct Sheet {
    length: usize,
    eos: i32,
    tokens: FixedTensorBuilder,
    /// Positions and segments, if the pipeline wants them.
    beside: Option<[FixedTensorBuilder; 2]>,
    /// Columns along the tokens, and the sizes of their numbers.
    along: Vec<(FixedTensorBuilder, usize)>,
    /// The ends of each row's documents, if the pipeline wants them.
    bounds: Option<Vec<Vec<i32>>>,
    names: Vec<RowId>,
    /// Tokens and documents of each row so far.
    filled: Vec<(usize, i32)>,
}

impl Sheet {
    /// Makes rows of padding only.
    pub(super) fn new(spec: &Pack, schema: &Schema, rows: usize) -> Result<Self> {
        let column = || FixedTensorBuilder::new(DType::Int32, &[spec.length], rows);
        let mut tokens = column();
        if spec.pad_id != 0 {
            tokens.all_as::<i32>().fill(spec.pad_id);
        }
        let along = spec.along.iter().map(|along| {
            let dtype = schema.field(&along.column)?.kind.dtype();
            let wrong = || Error::internal(format!("a packed column {:?} without a padding", along.column));
            let dtype = dtype.ok_or_else(wrong)?;
            let pad = Ragged::number(dtype, along.pad).ok_or_else(wrong)?;
            let mut column = FixedTensorBuilder::new(dtype, &[spec.length], rows);
            column.all().chunks_exact_mut(pad.len()).for_each(|number| number.copy_from_slice(&pad));
            Ok((column, dtype.size()))
        });
        Ok(Self {
            along: along.collect::<Result<_>>()?,
            bounds: spec.cu_seqlens.then(|| vec![vec![0]; rows]),
            length: spec.length,
            eos: spec.eos_id.unwrap_or_default(),
            tokens,
            beside: spec.segments().then(|| [column(), column()]),
            names: vec![RowId { sample: SampleId(0), epoch: Epoch(0) }; rows],
            filled: vec![(0, 0); rows],
        })
    }

    /// Appends a piece of a document to a row, which must have room for it.
    pub(super) fn put(&mut self, row: usize, documents: &Documents, piece: Piece) {
        let (ids, separator, name) = documents.read(piece);
        let (start, segment) = self.filled[row];
        if segment == 0 {
            self.names[row] = name_of(name, piece.from / self.length);
        }
        let at = row * self.length + start;
        let place = &mut self.tokens.all_as::<i32>()[at..at + piece.len()];
        place[..ids.len()].copy_from_slice(ids);
        if separator {
            place[ids.len()] = self.eos;
        }
        if let Some([positions, segments]) = &mut self.beside {
            let positions = &mut positions.all_as::<i32>()[at..at + piece.len()];
            positions.iter_mut().zip(0..).for_each(|(p, i)| *p = i);
            segments.all_as::<i32>()[at..at + piece.len()].fill(segment + 1);
        }
        for (column, (numbers, size)) in self.along.iter_mut().enumerate() {
            let given = documents.read_along(piece, column, *size);
            numbers.all()[at * *size..at * *size + given.len()].copy_from_slice(given);
        }
        if let Some(bounds) = &mut self.bounds {
            bounds[row].push((start + piece.len()) as i32);
        }
        self.filled[row] = (start + piece.len(), segment + 1);
    }

    pub(super) fn finish(self, schema: &Arc<Schema>) -> Result<Chunk> {
        let along = self.along.into_iter().map(|(column, _)| column);
        let columns = std::iter::once(self.tokens).chain(along).chain(self.beside.into_iter().flatten());
        let mut columns: Vec<_> = columns.map(FixedTensorBuilder::finish).collect::<Result<_>>()?;
        if let Some(bounds) = self.bounds {
            let ends = bounds.iter().scan(0, |end, row| {
                *end += row.len() as i32;
                Some(*end)
            });
            let ends: Vec<i32> = ends.collect();
            columns.push(Int32Lists::column(bounds.concat(), &ends)?);
        }
        Chunk::new(schema.clone(), columns, self.names.into())
    }
}

/// Returns the id of a packed row, which is the id of its first document. Where one document begins several rows,
/// random ops must not draw the same numbers for all, so the index of its part goes into the upper bits of the epoch.
fn name_of(document: RowId, part: usize) -> RowId {
    RowId { epoch: Epoch(document.epoch.0 ^ (part as u64).reverse_bits()), ..document }
}
