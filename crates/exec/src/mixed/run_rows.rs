//! The rows of a run of places, each from one of the datasets of a mix, put together as one chunk.
//!
//! Rows keep their ids, numbered over the samples of all datasets.

use std::sync::Arc;

use arrow_array::{ArrayRef, LargeStringArray, new_empty_array};
use forebay_core::{Result, SampleId};
use forebay_data::{Chunk, Memory, RowId, Schema};
use forebay_io::interleave;
use forebay_plan::Extent;

/// The columns of the rows of a mix.
pub(super) struct MixColumns {
    pub(super) schema: Arc<Schema>,
    /// The names of the datasets, if the last column has them.
    pub(super) names: Option<Vec<String>>,
    pub(super) samples: Samples,
    pub(super) memory: Memory,
}

/// The ids of samples among all datasets: blocks are numbered over all datasets, as in an index of several datasets.
pub(super) struct Samples {
    /// The first block of each dataset.
    first: Vec<u64>,
}

impl Samples {
    /// Numbers the samples of datasets of these sizes.
    pub(super) fn new(extents: &[Extent]) -> Self {
        let first = extents.iter().scan(0u64, |next, extent| {
            let first = *next;
            *next = next.saturating_add(extent.blocks);
            Some(first)
        });
        Self { first: first.collect() }
    }

    /// Returns the id of a dataset's sample among the samples of all datasets.
    pub(super) fn global(&self, part: usize, sample: SampleId) -> SampleId {
        SampleId::new(self.first[part].saturating_add(sample.block()), sample.row())
    }

    /// Returns the id of a sample in one of the datasets, if the sample is of that dataset.
    pub(super) fn own(&self, part: usize, sample: SampleId) -> Option<SampleId> {
        let block = sample.block().checked_sub(self.first[part])?;
        let end = self.first.get(part + 1);
        end.is_none_or(|end| sample.block() < *end).then(|| SampleId::new(block, sample.row()))
    }
}

/// Rows of chunks of datasets, in the order of a mix.
#[derive(Default)]
pub(super) struct RunRows {
    /// Chunks, with their datasets.
    pieces: Vec<(usize, Chunk)>,
    /// The piece of each row, and the row's place in the piece.
    rows: Vec<(usize, usize)>,
    /// The piece from which each dataset gave its last row.
    last: Vec<Option<usize>>,
}

impl RunRows {
    /// Returns whether it has no row.
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Adds a row of a dataset.
    pub(super) fn push(&mut self, part: usize, chunk: &Chunk, row: usize) {
        if self.last.len() <= part {
            self.last.resize(part + 1, None);
        }
        // A dataset gives the rows of one chunk one after another.
        let known = self.last[part].filter(|piece| row > 0 && self.is_of(*piece, chunk));
        let piece = known.unwrap_or(self.pieces.len());
        if known.is_none() {
            self.pieces.push((part, chunk.clone()));
            self.last[part] = Some(piece);
        }
        self.rows.push((piece, row));
    }

    fn is_of(&self, piece: usize, chunk: &Chunk) -> bool {
        std::ptr::eq(self.pieces[piece].1.ids().as_ptr(), chunk.ids().as_ptr())
    }

    /// Puts the rows together.
    ///
    /// # Errors
    /// Internal when Arrow refuses.
    pub(super) fn chunk(self, columns: &MixColumns) -> Result<Chunk> {
        let fields = columns.schema.fields();
        let mut made: Vec<ArrayRef> = Vec::with_capacity(fields.len());
        for field in fields.iter().take(fields.len() - usize::from(columns.names.is_some())) {
            let each = self.pieces.iter().map(|(_, chunk)| chunk.column(&field.name)).collect::<Result<Vec<_>>>()?;
            made.push(match each.as_slice() {
                [] => new_empty_array(&field.kind.arrow()),
                each => interleave(&field.kind, each, &self.rows, &columns.memory)?,
            });
        }
        if let Some(names) = &columns.names {
            let name = |(piece, _): &(usize, usize)| Some(names[self.pieces[*piece].0].as_str());
            made.push(Arc::new(self.rows.iter().map(name).collect::<LargeStringArray>()));
        }
        let id = |&(piece, row): &(usize, usize)| {
            let (part, chunk) = &self.pieces[piece];
            let id = chunk.ids()[row];
            RowId { sample: columns.samples.global(*part, id.sample), ..id }
        };
        let chunk = Chunk::new(columns.schema.clone(), made, self.rows.iter().map(id).collect())?;
        if !self.pieces.iter().any(|(_, chunk)| chunk.has_parts()) {
            return Ok(chunk);
        }
        chunk.with_parts(self.rows.iter().map(|&(piece, row)| self.pieces[piece].1.part(row)).collect())
    }
}
