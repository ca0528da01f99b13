//! Packs token lists of any length into rows of one length, over the ordered stream of one consumer.
//!
//! Packing runs after the merge, because a packed row may hold documents of several splits. The rows depend on the
//! order of the stream alone, not on the bounds of chunks.
//!
//! Invariant: the held tokens are the last ones of the input. One [`Unpacked`] place names the first of them, and
//! packing from there on yields exactly the rest; no state contains tokens.
//!
//! - `documents`: the documents that wait to be packed
//! - `fit`: decides which documents of a window share a row
//! - `sheet`: packed rows while they are written

mod documents;
mod fit;
mod sheet;

use std::sync::Arc;

use forebay_core::{Error, Result};
use forebay_data::{Chunk, Int32Lists, Ragged, Schema};
use forebay_plan::{Op, Pack, Packing, Step};

use documents::{Documents, Piece};
use sheet::Sheet;

use crate::tail::position::{Position, Unpacked};

/// Packs the rows of one epoch after another.
pub(crate) struct Packer {
    step: Step,
    spec: Pack,
    documents: Documents,
    /// The first token of the first chunk to pack, for a resumed stream.
    resume: Unpacked,
}

impl Packer {
    pub(crate) fn new(step: &Step, resume: Option<Unpacked>) -> Result<Self> {
        let Op::Pack(spec) = &step.node.op else { return Err(Error::internal("no pack")) };
        let documents = Documents::new(usize::from(spec.eos_id.is_some()));
        Ok(Self { step: step.clone(), spec: spec.clone(), documents, resume: resume.unwrap_or_default() })
    }

    /// Returns the columns of a packed row.
    pub(crate) fn schema(&self) -> &Arc<Schema> {
        &self.step.schema
    }

    /// Accepts the chunk that begins at `at`.
    pub(crate) fn hold(&mut self, chunk: &Chunk, at: Position) -> Result<()> {
        let lists = Int32Lists::of(chunk.column(&self.spec.column)?).map_err(|e| self.step.node.blame(e))?;
        let along = self.along(chunk, &lists).map_err(|e| self.step.node.blame(e))?;
        self.documents.push(lists, along, chunk.random_ids(), at, std::mem::take(&mut self.resume));
        Ok(())
    }

    /// Returns the columns that lie along the ids.
    fn along(&self, chunk: &Chunk, lists: &Int32Lists) -> Result<Vec<Ragged>> {
        let column = |name: &String| {
            let numbers = Ragged::of(&chunk.schema().field(name)?.kind, chunk.column(name)?)?;
            let differs = (0..lists.rows()).find(|&row| numbers.len_of(row) != lists.get(row).len());
            let Some(row) = differs else { return Ok(numbers) };
            let (ids, own) = (lists.get(row).len(), numbers.len_of(row));
            Err(Error::data(format!(
                "pack: a row has {ids} ids in {:?} and {own} numbers in {name:?}",
                self.spec.column
            ))
            .with("sample", chunk.ids()[row].sample)
            .hint("columns that are packed together have lists of one length in each row"))
        };
        self.spec.along.iter().map(|along| column(&along.column)).collect()
    }

    /// Returns the first token not yet packed: the position of its chunk, and its place there.
    pub(crate) fn start(&self) -> Option<(&Position, Unpacked)> {
        self.documents.start()
    }

    /// Returns the rows that are full so far; with `last`, also rows that never will be full, and drops the rest.
    pub(crate) fn pack(&mut self, last: bool) -> Result<Option<Chunk>> {
        let rows = match self.spec.packing {
            Packing::Concat { drop_remainder, .. } => self.end_to_end(last, drop_remainder),
            Packing::FirstFit { window } => self.windows(window, last, fit::first),
            Packing::BestFit { window } => self.windows(window, last, fit::best),
        };
        let rows = rows.map_err(|e| self.step.node.blame(e));
        if last {
            self.clear();
        }
        rows
    }

    /// Drops all held tokens.
    pub(crate) fn clear(&mut self) {
        self.documents.clear();
        self.resume = Unpacked::default();
    }

    fn end_to_end(&mut self, last: bool, drop_remainder: bool) -> Result<Option<Chunk>> {
        let (length, tokens) = (self.spec.length, self.documents.num_tokens());
        let rows = if last && !drop_remainder { tokens.div_ceil(length) } else { tokens / length };
        if tokens == 0 {
            self.documents.clear();
        }
        if rows == 0 {
            return Ok(None);
        }
        let mut sheet = Sheet::new(&self.spec, self.schema(), rows)?;
        for row in 0..rows {
            let mut room = length;
            while room > 0
                && let Some(piece) = self.documents.next(room)
            {
                room -= piece.len();
                sheet.put(row, &self.documents, piece);
            }
        }
        self.documents.forget();
        sheet.finish(self.schema()).map(Some)
    }

    /// Packs whole windows. A window ends with its last document, or earlier when its documents fill as many rows as a
    /// window has documents, which bounds the held tokens.
    fn windows(
        &mut self,
        window: usize,
        last: bool,
        fit: fn(&[Piece], usize) -> Vec<Vec<Piece>>,
    ) -> Result<Option<Chunk>> {
        let length = self.spec.length;
        let mut rows = Vec::new();
        while let Some(documents) = self.documents.window(window, window.saturating_mul(length), last) {
            let pieces: Vec<Piece> = documents.iter().flat_map(|document| document.cut(length)).collect();
            rows.extend(fit(&pieces, length));
        }
        if rows.is_empty() {
            self.documents.forget();
            return Ok(None);
        }
        let mut sheet = Sheet::new(&self.spec, self.schema(), rows.len())?;
        for (row, pieces) in rows.into_iter().enumerate() {
            for piece in pieces {
                sheet.put(row, &self.documents, piece);
            }
        }
        self.documents.forget();
        sheet.finish(self.schema()).map(Some)
    }
}
