//! Packed rows while they are written: tokens, positions, segments and ids.

use std::sync::Arc;

use forebay_core::{Epoch, Result, SampleId};
use forebay_data::{Chunk, DType, FixedTensorBuilder, RowId, Schema};
use forebay_plan::Pack;

use super::documents::{Documents, Piece};

pub(super) struct Sheet {
    length: usize,
    eos: i32,
    tokens: FixedTensorBuilder,
    /// Positions and segments, if the pipeline wants them.
    beside: Option<[FixedTensorBuilder; 2]>,
    names: Vec<RowId>,
    /// Tokens and documents of each row so far.
    filled: Vec<(usize, i32)>,
}

impl Sheet {
    /// Makes rows of padding only.
    pub(super) fn new(spec: &Pack, rows: usize) -> Self {
        let column = || FixedTensorBuilder::new(DType::Int32, &[spec.length], rows);
        let mut tokens = column();
        if spec.pad_id != 0 {
            tokens.all_as::<i32>().fill(spec.pad_id);
        }
        Self {
            length: spec.length,
            eos: spec.eos_id.unwrap_or_default(),
            tokens,
            beside: spec.segments().then(|| [column(), column()]),
            names: vec![RowId { sample: SampleId(0), epoch: Epoch(0) }; rows],
            filled: vec![(0, 0); rows],
        }
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
        self.filled[row] = (start + piece.len(), segment + 1);
    }

    pub(super) fn finish(self, schema: &Arc<Schema>) -> Result<Chunk> {
        let columns = std::iter::once(self.tokens).chain(self.beside.into_iter().flatten());
        Chunk::new(schema.clone(), columns.map(FixedTensorBuilder::finish).collect::<Result<_>>()?, self.names.into())
    }
}

/// Returns the id of a packed row, which is the id of its first document. Where one document begins several rows,
/// random ops must not draw the same numbers for all, so the index of its part goes into the upper bits of the epoch.
fn name_of(document: RowId, part: usize) -> RowId {
    RowId { epoch: Epoch(document.epoch.0 ^ (part as u64).reverse_bits()), ..document }
}
