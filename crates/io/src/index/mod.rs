//! The index that a job pins of a source: its files, the identity of their content, and the place of every row.
//!
//! Invariants: an index is plain data, the same on every machine that receives it; a row's place in it does not change
//! while the files stay the same, because files keep the order of the user's patterns.

pub(crate) mod cache;
pub(crate) mod codec;
mod joined;
pub(crate) mod matching;
mod names;
mod room;
pub(crate) mod table;

use std::sync::Arc;

use forebay_core::{Error, Result, SampleId};
use forebay_plan::Extent;

use crate::Allowed;
use crate::formats::compressed;
use crate::store::Stat;
use crate::store::decoded::Points;
use codec::{Decoder, Encoder};
pub(crate) use joined::IndexPart;
use joined::Joined;
use matching::Matching;
use table::Table;

/// Files of one block of `Files` and `ImageFolder`.
pub(crate) const FILES_IN_BLOCK: u64 = 1024;
/// Rows of one block of `Memory`, `Range` and `MapDataset`.
pub const ROWS_IN_BLOCK: u64 = 65_536;

const MAGIC: [u8; 4] = *b"FBIX";
/// Of an index without a density, which the minor version before reads, too; of one with a density.
const VERSION: u8 = 2;
const DENSITY_VERSION: u8 = 3;
/// A density is a number of these parts of a byte.
pub(crate) const DENSITY_UNIT: u64 = 16;
/// The largest density: a file of which all bytes are equal says nothing of others.
pub(crate) const DENSITY_MAX: u64 = 64 * DENSITY_UNIT;

/// A file that the index pins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileRef<'a> {
    /// Its path or url.
    pub uri: &'a str,
    /// Its size in bytes.
    pub size: u64,
}

/// The pinned files of a source and, when counted, the place of every row. Cheap to clone.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceIndex(Arc<Inner>);

#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Inner {
    pub(crate) layout: Layout,
    pub(crate) uris: Vec<Box<str>>,
    pub(crate) stats: Vec<Stat>,
    /// For `ImageFolder`: each file's class. For files whose paths have columns: the offset in the uri where the
    /// folders begin that may have them.
    pub(crate) labels: Vec<u64>,
    /// For counted files that hold many rows: the places of the rows.
    pub(crate) tables: Vec<Arc<Table>>,
    /// For each of these files, the points where decoding can begin, if the file is compressed as a whole.
    pub(crate) points: Vec<Option<Arc<Points>>>,
    /// For files that are not counted: the assumed content bytes for each stored byte of those whose names show that they
    /// are compressed, in [`DENSITY_UNIT`]s; 0 if there are none.
    pub(crate) density: u64,
    /// The first row of each block, and the number of rows; empty when it is computed or not counted.
    starts: Vec<u64>,
    /// The first row of each file, where files have several blocks.
    firsts: Vec<u64>,
    /// The first block of each of these files, and the number of blocks.
    first_blocks: Vec<u64>,
    /// The indexes of datasets that are read as one.
    joined: Joined,
    /// A hash of the files of rows that have the columns of several datasets.
    content: String,
    /// The files that may be opened; not serialized.
    pub(crate) allowed: Allowed,
}

/// The layout of rows in blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Layout {
    /// Unknown: one block that is read from its start (a generator).
    #[default]
    Unknown,
    /// Computed rows, in blocks of [`ROWS_IN_BLOCK`]: nothing is stored.
    Computed { rows: u64, row_bytes: u64 },
    /// One row per file, in blocks of [`FILES_IN_BLOCK`].
    Files,
    /// One block per file.
    PerFile { counted: bool },
    /// One block per row group of each file.
    Groups,
    /// The blocks of each of several datasets, one dataset after the other.
    Joined,
    /// Rows that have the columns of several datasets, in blocks of [`ROWS_IN_BLOCK`].
    Zipped { rows: u64 },
}

impl Inner {
    /// Makes an index without files.
    pub(crate) fn of(layout: Layout, labels: Vec<u64>, tables: Vec<Arc<Table>>) -> Self {
        Self { layout, labels, tables, ..Self::default() }
    }

    /// Returns the points of a file that is compressed as a whole, and counted.
    pub(crate) fn points_of(&self, file: usize) -> Option<&Arc<Points>> {
        self.points.get(file)?.as_ref()
    }

    /// Returns the bytes in which a file's rows lie: for a compressed and counted file the decompressed size; where row
    /// groups are left out, the size of the others.
    pub(crate) fn size_of(&self, file: usize) -> u64 {
        let stored = self.stats.get(file).map_or(0, |stat| stat.size);
        let matching = || self.matching(file).map(|matching| matching.bytes);
        self.points_of(file).map(|points| points.size).or_else(matching).unwrap_or(stored)
    }

    /// Returns the estimated bytes of content of a file that is not counted, if its name shows that it is compressed.
    pub(crate) fn estimate_of(&self, file: usize) -> Option<u64> {
        let is_estimated = self.density > 0 && compressed::is_named_so(self.uris.get(file)?);
        let estimate = |stat: &Stat| stat.size.saturating_mul(self.density).div_ceil(DENSITY_UNIT);
        is_estimated.then(|| self.stats.get(file).map_or(0, estimate))
    }

    fn matching(&self, file: usize) -> Option<&Matching> {
        self.tables.get(file).and_then(|table| match &**table {
            Table::Matching(matching) => Some(matching),
            _ => None,
        })
    }
}

impl SourceIndex {
    pub(crate) fn new(mut inner: Inner) -> Result<Self> {
        inner.points.resize(inner.tables.len(), None);
        inner.starts = match inner.layout {
            Layout::PerFile { counted: true } => sums(inner.tables.iter().map(|t| t.rows()))?,
            Layout::Groups => sums(inner.tables.iter().flat_map(|t| t.group_rows().iter().copied()))?,
            _ => Vec::new(),
        };
        if inner.layout == Layout::Groups {
            inner.first_blocks = sums(inner.tables.iter().map(|t| t.group_rows().len() as u64))?;
            inner.firsts = sums(inner.tables.iter().map(|t| t.rows()))?;
        }
        if matches!(inner.layout, Layout::Zipped { .. }) {
            inner.content = inner.joined.content();
        }
        let index = Self(Arc::new(inner));
        let blocks = index.blocks();
        if blocks > SampleId::BLOCKS_MAX {
            return Err(Error::invalid(format!(
                "the source has {blocks} blocks, and at most {} can be named",
                SampleId::BLOCKS_MAX
            ))
            .hint("read fewer files or rows in one pipeline, or put more rows into each file"));
        }
        Ok(index)
    }

    /// Returns the same index, restricted to the files that `allowed` permits.
    pub fn within(self, allowed: Allowed) -> Self {
        let mut inner = Arc::try_unwrap(self.0).unwrap_or_else(|shared| (*shared).clone());
        inner.joined = inner.joined.within(&allowed);
        inner.allowed = allowed;
        Self(Arc::new(inner))
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.0
    }

    /// Returns the number of rows, if they are counted.
    pub fn rows(&self) -> Option<u64> {
        match self.0.layout {
            Layout::Unknown | Layout::PerFile { counted: false } => None,
            Layout::Computed { rows, .. } => Some(rows),
            Layout::Files => Some(self.0.uris.len() as u64),
            Layout::PerFile { counted: true } | Layout::Groups => self.0.starts.last().copied(),
            Layout::Joined => self.0.joined.rows(),
            Layout::Zipped { rows } => Some(rows),
        }
    }

    /// Returns the number of source blocks.
    pub fn blocks(&self) -> u64 {
        let files = self.0.uris.len() as u64;
        match self.0.layout {
            Layout::Unknown => 1,
            Layout::Computed { rows, .. } | Layout::Zipped { rows } => rows.div_ceil(ROWS_IN_BLOCK),
            Layout::Joined => self.0.joined.blocks(),
            Layout::Files => files.div_ceil(FILES_IN_BLOCK),
            Layout::PerFile { .. } => files,
            Layout::Groups => self.0.starts.len().saturating_sub(1) as u64,
        }
    }

    /// Returns the bytes of the source: of its files, or of its arrays in memory.
    pub fn bytes(&self) -> u64 {
        match self.0.layout {
            Layout::Computed { rows, row_bytes } => rows.saturating_mul(row_bytes),
            Layout::Joined | Layout::Zipped { .. } => {
                self.parts().fold(0, |sum: u64, part| sum.saturating_add(part.bytes()))
            }
            _ => self.0.stats.iter().fold(0, |sum, s| sum.saturating_add(s.size)),
        }
    }

    /// Returns the figures that a plan needs of the source. The bytes of counted files are their decompressed bytes; those
    /// of other files whose names show that they are compressed, an estimate of these.
    pub fn extent(&self) -> Extent {
        if self.parts().len() > 0 {
            let parts: Vec<Extent> = self.parts().map(Self::extent).collect();
            let bytes = parts.iter().fold(0, |sum: u64, part| sum.saturating_add(part.bytes));
            let is_compressed = parts.iter().any(|part| part.is_compressed);
            return Extent { rows: self.rows(), blocks: self.blocks(), bytes, is_compressed, parts };
        }
        let is_other = |&file: &usize| self.0.points_of(file).is_some() || self.0.matching(file).is_some();
        let counted = (0..self.0.tables.len()).filter(is_other).fold(self.bytes(), |sum, file| {
            sum.saturating_sub(self.0.stats[file].size).saturating_add(self.0.size_of(file))
        });
        let bytes = match self.0.density {
            0 => counted,
            _ => self.window_sizes().into_iter().fold(0, u64::saturating_add),
        };
        let is_compressed = self.0.uris.iter().any(|uri| compressed::is_named_so(uri));
        Extent { rows: self.rows(), blocks: self.blocks(), bytes, is_compressed, parts: Vec::new() }
    }

    /// Returns the bytes of each file, over which windows are laid out: as stored, or the estimated content of a file
    /// whose name shows that it is compressed.
    pub fn window_sizes(&self) -> Vec<u64> {
        let size = |(file, of): (usize, FileRef<'_>)| self.0.estimate_of(file).unwrap_or(of.size);
        self.files().enumerate().map(size).collect()
    }

    /// Returns the pinned files in order.
    pub fn files(&self) -> impl ExactSizeIterator<Item = FileRef<'_>> {
        let file = |number| self.file(number).unwrap_or(FileRef { uri: "", size: 0 });
        (0..self.num_files()).map(file)
    }

    /// Returns a file by its place in [`SourceIndex::files`].
    pub fn file(&self, number: usize) -> Option<FileRef<'_>> {
        if let Some((part, number)) = self.0.joined.of_file(number) {
            return part.file(number);
        }
        Some(FileRef { uri: self.0.uris.get(number)?, size: self.0.stats.get(number)?.size })
    }

    fn num_files(&self) -> usize {
        if self.parts().len() > 0 { self.0.joined.files() } else { self.0.uris.len() }
    }

    /// Returns the rows of a block, as the global numbers of its first and of the first after it.
    ///
    /// `None` when rows are not counted or there is no such block.
    pub fn block_rows(&self, block: u64) -> Option<std::ops::Range<u64>> {
        let rows = self.rows()?;
        let even = |n: u64| (block < rows.div_ceil(n)).then(|| block * n..rows.min((block + 1) * n));
        match self.0.layout {
            Layout::Computed { .. } | Layout::Zipped { .. } => even(ROWS_IN_BLOCK),
            Layout::Files => even(FILES_IN_BLOCK),
            Layout::Joined => self.0.joined.block_rows(block),
            _ => {
                let at = usize::try_from(block).ok()?;
                Some(*self.0.starts.get(at)?..*self.0.starts.get(at + 1)?)
            }
        }
    }

    /// Returns the number of each block's first row, and of all rows; an empty list when rows are not counted.
    pub fn block_starts(&self) -> Vec<u64> {
        let ends = (0..self.blocks()).filter_map(|block| self.block_rows(block)).map(|rows| rows.end);
        [0].into_iter().chain(ends).collect()
    }

    /// Encodes the index: versioned, checksummed, offsets as differences.
    pub fn to_bytes(&self) -> Vec<u8> {
        let inner = &self.0;
        let mut to = Encoder::new(MAGIC, if inner.density > 0 { DENSITY_VERSION } else { VERSION });
        let (tag, rows, row_bytes) = match inner.layout {
            Layout::Unknown => (0, 0, 0),
            Layout::Computed { rows, row_bytes } => (1, rows, row_bytes),
            Layout::Files => (2, 0, 0),
            Layout::PerFile { counted: false } => (3, 0, inner.density),
            Layout::PerFile { counted: true } => (4, 0, 0),
            Layout::Groups => (5, 0, 0),
            Layout::Joined => (6, 0, 0),
            Layout::Zipped { rows } => (7, rows, 0),
        };
        [tag, rows, row_bytes, inner.uris.len() as u64].into_iter().for_each(|n| to.int(n));
        let mut before = "";
        for (uri, stat) in inner.uris.iter().zip(&inner.stats) {
            to.text_after(before, uri);
            to.stat(stat);
            before = uri;
        }
        to.rising(&inner.labels);
        if matches!(inner.layout, Layout::Joined | Layout::Zipped { .. }) {
            inner.joined.encode(&mut to);
        }
        for (file, table) in inner.tables.iter().enumerate() {
            table.encode(&mut to);
            Points::encode(inner.points_of(file).map(|points| &**points), &mut to);
        }
        to.seal()
    }

    /// Decodes [`SourceIndex::to_bytes`].
    ///
    /// # Errors
    /// Data when a bit of it differs, Version when another version wrote it.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        Self::decode(bytes, joined::DEPTH_MAX)
    }

    /// Decodes an index with at most `depth` indexes in each other.
    fn decode(bytes: &[u8], depth: usize) -> Result<Self> {
        let mut from = Decoder::open(bytes, MAGIC, VERSION..=DENSITY_VERSION)?;
        let (tag, rows, row_bytes) = (from.int()?, from.int()?, from.int()?);
        let layout = match tag {
            0 => Layout::Unknown,
            1 => Layout::Computed { rows, row_bytes },
            2 => Layout::Files,
            3 => Layout::PerFile { counted: false },
            4 => Layout::PerFile { counted: true },
            5 => Layout::Groups,
            6 => Layout::Joined,
            7 => Layout::Zipped { rows },
            other => return Err(Error::data(format!("an index holds an unknown layout {other}"))),
        };
        let files = from.count()?;
        let density = if layout == (Layout::PerFile { counted: false }) { row_bytes } else { 0 };
        if density > DENSITY_MAX {
            return Err(Error::data("an index holds a density that no source has"));
        }
        let mut inner = Inner { layout, density, ..Inner::default() };
        for _ in 0..files {
            let uri = from.text_after(inner.uris.last().map_or("", |u| u))?;
            inner.uris.push(uri.into());
            inner.stats.push(from.stat()?);
        }
        inner.labels = from.rising()?;
        if matches!(layout, Layout::Joined | Layout::Zipped { .. }) {
            inner.joined = Joined::decode(&mut from, depth)?;
        }
        if matches!(layout, Layout::PerFile { counted: true } | Layout::Groups) {
            for file in 0..files {
                inner.tables.push(Table::decode(&mut from)?);
                let points = Points::decode(&mut from, inner.stats[file].size)?;
                inner.points.push(points.map(Arc::new));
            }
        }
        let mut tables = inner.tables.iter().enumerate();
        if let Some((file, _)) = tables.find(|(file, table)| !table.is_within(inner.size_of(*file))) {
            return Err(Error::data("an index has rows behind the end of a file").with("file", &inner.uris[file]));
        }
        Self::new(inner)
    }
}

/// Returns the running sums of `counts`, from 0.
fn sums(counts: impl Iterator<Item = u64>) -> Result<Vec<u64>> {
    let mut starts = vec![0u64];
    let mut sum = 0u64;
    for rows in counts {
        if rows > SampleId::ROWS_MAX {
            return Err(Error::invalid(format!(
                "a block has {rows} rows, and at most {} can be named",
                SampleId::ROWS_MAX
            )));
        }
        sum = sum.checked_add(rows).ok_or_else(|| Error::invalid("the source has more than 2^64 rows"))?;
        starts.push(sum);
    }
    Ok(starts)
}

#[cfg(test)]
mod tests;
