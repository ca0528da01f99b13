//! The indexes of datasets that are read as one.
//!
//! Rows, blocks and files are numbered over all of them: those of the first dataset, then those of the second, and so
//! on. So two datasets over the same file have different sample ids.

use std::ops::Range;

use forebay_core::{Error, Result, SampleId};

use super::codec::{Decoder, Encoder};
use super::{Layout, SourceIndex};
use crate::Allowed;

/// How deep indexes may lie in each other.
pub(super) const DEPTH_MAX: usize = 16;

/// The index of one of the datasets.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct IndexPart {
    pub(crate) name: Box<str>,
    pub(crate) index: SourceIndex,
}

/// The indexes of all datasets, and the first row, block and file of each, with the sums.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Joined {
    parts: Vec<IndexPart>,
    /// Empty if one is not counted.
    rows: Vec<u64>,
    blocks: Vec<u64>,
    files: Vec<u64>,
}

/// Returns the sums of counts from 0 on, or none at all if one of them is unknown.
fn starts(counts: impl Iterator<Item = Option<u64>>) -> Result<Vec<u64>> {
    let (mut starts, mut sum) = (vec![0], 0u64);
    for count in counts {
        let Some(count) = count else { return Ok(Vec::new()) };
        sum = sum.checked_add(count).ok_or_else(|| Error::invalid("the datasets have more than 2^64 rows"))?;
        starts.push(sum);
    }
    Ok(starts)
}

/// Returns the range of a number, and the number from its start on.
fn find(starts: &[u64], number: u64) -> Option<(usize, u64)> {
    let after = starts.partition_point(|start| *start <= number);
    (after > 0 && after < starts.len()).then(|| (after - 1, number - starts[after - 1]))
}

impl Joined {
    pub(super) fn new(parts: Vec<IndexPart>) -> Result<Self> {
        let rows = starts(parts.iter().map(|part| part.index.rows()))?;
        let blocks = starts(parts.iter().map(|part| Some(part.index.blocks())))?;
        let files = starts(parts.iter().map(|part| Some(part.index.num_files() as u64)))?;
        Ok(Self { parts, rows, blocks, files })
    }

    pub(super) fn within(self, allowed: &Allowed) -> Self {
        let within = |part: IndexPart| IndexPart { index: part.index.within(allowed.clone()), ..part };
        Self { parts: self.parts.into_iter().map(within).collect(), ..self }
    }

    pub(super) fn rows(&self) -> Option<u64> {
        self.rows.last().copied()
    }

    pub(super) fn blocks(&self) -> u64 {
        self.blocks.last().copied().unwrap_or(0)
    }

    pub(super) fn files(&self) -> usize {
        self.files.last().map_or(0, |files| *files as usize)
    }

    /// Returns the index that has a file, and the number of the file there.
    pub(super) fn of_file(&self, file: usize) -> Option<(&SourceIndex, usize)> {
        let (part, file) = find(&self.files, file as u64)?;
        Some((&self.parts.get(part)?.index, file as usize))
    }

    pub(super) fn block_rows(&self, block: u64) -> Option<Range<u64>> {
        let (part, block) = find(&self.blocks, block)?;
        let (rows, first) = (self.parts[part].index.block_rows(block)?, *self.rows.get(part)?);
        Some(first + rows.start..first + rows.end)
    }

    pub(super) fn locate(&self, row: u64) -> SampleId {
        let Some((part, row)) = find(&self.rows, row) else { return SampleId(0) };
        self.global(part, self.parts[part].index.locate(row))
    }

    fn global(&self, part: usize, sample: SampleId) -> SampleId {
        SampleId::new(self.blocks[part] + sample.block(), sample.row())
    }

    pub(super) fn origin(&self, row: u64) -> Option<(usize, u64)> {
        let (part, row) = find(&self.rows, row)?;
        let (file, row) = self.parts[part].index.origin(row)?;
        Some((self.files[part] as usize + file, row))
    }

    pub(super) fn describe(&self, sample: SampleId) -> Option<String> {
        let (part, block) = find(&self.blocks, sample.block())?;
        let IndexPart { name, index } = &self.parts[part];
        Some(format!("{} (part {name})", index.describe_sample(SampleId::new(block, sample.row()))))
    }

    /// Returns a hash of the identities of all files.
    pub(super) fn content(&self) -> String {
        let mut hash = blake3::Hasher::new();
        for IndexPart { index, .. } in &self.parts {
            hash.update(&(index.num_files() as u64).to_le_bytes());
            for (number, file) in index.files().enumerate() {
                let identity = index.identity(number).unwrap_or_default();
                [file.uri, &identity].iter().for_each(|text| {
                    hash.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
                });
            }
        }
        hash.finalize().to_hex().to_string()
    }

    pub(super) fn encode(&self, to: &mut Encoder) {
        to.int(self.parts.len() as u64);
        for part in &self.parts {
            to.text(&part.name);
            to.bytes(&part.index.to_bytes());
        }
    }

    pub(super) fn decode(from: &mut Decoder<'_>, depth: usize) -> Result<Self> {
        let depth = depth.checked_sub(1).ok_or_else(|| Error::data("an index holds too many indexes in each other"))?;
        let count = from.count()?;
        let mut parts = Vec::with_capacity(count);
        for _ in 0..count {
            let name = from.text()?.into();
            parts.push(IndexPart { name, index: SourceIndex::decode(from.bytes()?, depth)? });
        }
        Self::new(parts)
    }
}

impl SourceIndex {
    /// Makes the index of datasets that are read as one. `zipped` is the number of rows that have the columns of all;
    /// `None` if rows are from one dataset each, or are not counted.
    pub(crate) fn joined(parts: Vec<IndexPart>, zipped: Option<u64>) -> Result<Self> {
        let layout = zipped.map_or(Layout::Joined, |rows| Layout::Zipped { rows });
        Self::new(super::Inner { layout, joined: Joined::new(parts)?, ..super::Inner::default() })
    }

    /// Returns the indexes of the datasets that are read as one; none for one source.
    pub fn parts(&self) -> impl ExactSizeIterator<Item = &SourceIndex> {
        self.0.joined.parts.iter().map(|part| &part.index)
    }

    /// Returns the dataset of a row, and the row's number there. `None` for a row that no single dataset has.
    pub fn part_of(&self, row: u64) -> Option<(usize, u64)> {
        if self.0.layout == Layout::Joined { find(&self.0.joined.rows, row) } else { None }
    }

    /// Returns a hash of the files of rows that have the columns of several datasets; empty for other rows.
    pub fn content(&self) -> &str {
        &self.0.content
    }

    /// Returns the id of a dataset's sample among the samples of all.
    pub fn sample_of_part(&self, part: usize, sample: SampleId) -> SampleId {
        self.0.joined.global(part, sample)
    }
}
