//! What a job pins of a source: which files, which content, and where every row is.
//!
//! Invariants: an index is plain data, the same on every machine that it is sent to; a row's place in it never moves
//! while the files stay the same, for files keep the order of the user's patterns.

mod build;
mod cache;
pub(crate) mod codec;
mod room;
pub(crate) mod table;

use std::sync::Arc;

use forebay_core::{Error, Result, SampleId};
use forebay_plan::Extent;

use crate::Allowed;
use crate::formats::compressed;
use crate::readers::windows::offset_of;
use crate::store::Stat;
use crate::store::decoded::Points;
pub(crate) use build::{build, check};
use codec::{Decoder, Encoder};
use table::Table;

/// Files of one block of `Files` and `ImageFolder`.
pub(crate) const FILES_IN_BLOCK: u64 = 1024;
/// Rows of one block of `Memory`, `Range` and `MapDataset`.
pub const ROWS_IN_BLOCK: u64 = 65_536;

const MAGIC: [u8; 4] = *b"FBIX";
const VERSION: u8 = 2;

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
    /// Of `ImageFolder`: each file's class.
    pub(crate) labels: Vec<u64>,
    /// Of counted files that hold many rows: where they are.
    pub(crate) tables: Vec<Arc<Table>>,
    /// Of each of them, where decoding can begin, if the file is compressed as a whole.
    pub(crate) points: Vec<Option<Arc<Points>>>,
    /// The first row of each block, and the number of rows; empty when it is computed or not counted.
    starts: Vec<u64>,
    /// The first row of each file, where files have several blocks.
    firsts: Vec<u64>,
    /// The first block of each file there, and the number of blocks.
    first_blocks: Vec<u64>,
    /// Which of them may be opened: not part of what is written.
    pub(crate) allowed: Allowed,
}

/// How rows lie in blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Layout {
    /// Nothing is known: one block that is read from its start (a generator).
    #[default]
    Unknown,
    /// Rows that are computed, in blocks of [`ROWS_IN_BLOCK`]: nothing is stored.
    Computed { rows: u64, row_bytes: u64 },
    /// One row a file, in blocks of [`FILES_IN_BLOCK`].
    Files,
    /// One block a file.
    PerFile { counted: bool },
    /// One block for each row group of each file.
    Groups,
}

impl Inner {
    /// Returns the points of a file that is compressed as a whole, and counted.
    pub(crate) fn points_of(&self, file: usize) -> Option<&Arc<Points>> {
        self.points.get(file)?.as_ref()
    }

    /// Returns the bytes that a file's rows lie in: where it is compressed and counted, of what it holds.
    pub(crate) fn size_of(&self, file: usize) -> u64 {
        let stored = self.stats.get(file).map_or(0, |stat| stat.size);
        self.points_of(file).map_or(stored, |points| points.size)
    }
}

impl SourceIndex {
    pub(crate) fn new(mut inner: Inner) -> Result<Self> {
        inner.points.resize(inner.tables.len(), None);
        inner.starts = match inner.layout {
            Layout::PerFile { counted: true } => sums(inner.tables.iter().map(|t| t.rows()))?,
            Layout::Groups => sums(inner.tables.iter().flat_map(|t| match &**t {
                Table::Groups(rows) => rows.iter().copied(),
                _ => [].iter().copied(),
            }))?,
            _ => Vec::new(),
        };
        if inner.layout == Layout::Groups {
            inner.first_blocks = sums(inner.tables.iter().map(|t| t.groups()))?;
            inner.firsts = sums(inner.tables.iter().map(|t| t.rows()))?;
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

    /// Returns the same files, to be opened within what is allowed.
    pub fn within(self, allowed: Allowed) -> Self {
        let mut inner = Arc::try_unwrap(self.0).unwrap_or_else(|shared| (*shared).clone());
        inner.allowed = allowed;
        Self(Arc::new(inner))
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.0
    }

    /// Returns the number of rows, when they are counted.
    pub fn rows(&self) -> Option<u64> {
        match self.0.layout {
            Layout::Unknown | Layout::PerFile { counted: false } => None,
            Layout::Computed { rows, .. } => Some(rows),
            Layout::Files => Some(self.0.uris.len() as u64),
            Layout::PerFile { counted: true } | Layout::Groups => self.0.starts.last().copied(),
        }
    }

    /// Returns the number of source blocks.
    pub fn blocks(&self) -> u64 {
        let files = self.0.uris.len() as u64;
        match self.0.layout {
            Layout::Unknown => 1,
            Layout::Computed { rows, .. } => rows.div_ceil(ROWS_IN_BLOCK),
            Layout::Files => files.div_ceil(FILES_IN_BLOCK),
            Layout::PerFile { .. } => files,
            Layout::Groups => self.0.starts.len().saturating_sub(1) as u64,
        }
    }

    /// Returns the bytes of the source: of its files, or of its arrays in memory.
    pub fn bytes(&self) -> u64 {
        match self.0.layout {
            Layout::Computed { rows, row_bytes } => rows.saturating_mul(row_bytes),
            _ => self.0.stats.iter().fold(0, |sum, s| sum.saturating_add(s.size)),
        }
    }

    /// Returns what a plan needs to know of the source: of counted files, the bytes that they hold, compressed or not.
    pub fn extent(&self) -> Extent {
        let held = self.0.points.iter().enumerate().filter(|(_, points)| points.is_some());
        let bytes = held.fold(self.bytes(), |sum, (file, _)| {
            sum.saturating_sub(self.0.stats[file].size).saturating_add(self.0.size_of(file))
        });
        let is_compressed = self.0.uris.iter().any(|uri| compressed::is_named_so(uri));
        Extent { rows: self.rows(), blocks: self.blocks(), bytes, is_compressed }
    }

    /// Returns the pinned files in order.
    pub fn files(&self) -> impl ExactSizeIterator<Item = FileRef<'_>> {
        self.0.uris.iter().zip(&self.0.stats).map(|(uri, stat)| FileRef { uri, size: stat.size })
    }

    /// Returns the rows of a block, as the global numbers of its first and of the first after it.
    ///
    /// `None` when rows are not counted or there is no such block.
    pub fn block_rows(&self, block: u64) -> Option<std::ops::Range<u64>> {
        let rows = self.rows()?;
        let even = |n: u64| (block < rows.div_ceil(n)).then(|| block * n..rows.min((block + 1) * n));
        match self.0.layout {
            Layout::Computed { .. } => even(ROWS_IN_BLOCK),
            Layout::Files => even(FILES_IN_BLOCK),
            _ => {
                let at = usize::try_from(block).ok()?;
                Some(*self.0.starts.get(at)?..*self.0.starts.get(at + 1)?)
            }
        }
    }

    /// Returns the number of each block's first row, and of all rows; nothing when rows are not counted.
    pub fn block_starts(&self) -> Vec<u64> {
        let ends = (0..self.blocks()).filter_map(|block| self.block_rows(block)).map(|rows| rows.end);
        [0].into_iter().chain(ends).collect()
    }

    /// Returns the name of a row by its number. A row that is not counted, or past the end, is row 0 of block 0.
    pub fn locate(&self, row: u64) -> SampleId {
        match self.0.layout {
            Layout::Unknown | Layout::PerFile { counted: false } => SampleId(0),
            Layout::Computed { rows, .. } if row < rows => SampleId::new(row / ROWS_IN_BLOCK, row % ROWS_IN_BLOCK),
            Layout::Files if row < self.0.uris.len() as u64 => {
                SampleId::new(row / FILES_IN_BLOCK, row % FILES_IN_BLOCK)
            }
            Layout::Computed { .. } | Layout::Files => SampleId(0),
            Layout::PerFile { counted: true } | Layout::Groups => {
                let after = self.0.starts.partition_point(|&s| s <= row);
                if after == 0 || after == self.0.starts.len() {
                    return SampleId(0);
                }
                SampleId::new(after as u64 - 1, row - self.0.starts[after - 1])
            }
        }
    }

    /// Returns the file that a counted row is read from, by its place in [`SourceIndex::files`], and which of the file's
    /// rows it is. `None` where rows are in no file, are not counted, or there is no such row.
    pub fn origin(&self, row: u64) -> Option<(usize, u64)> {
        let firsts = match self.0.layout {
            Layout::Files => return (row < self.0.uris.len() as u64).then_some((row as usize, 0)),
            Layout::PerFile { counted: true } => &self.0.starts,
            Layout::Groups => &self.0.firsts,
            Layout::Unknown | Layout::Computed { .. } | Layout::PerFile { counted: false } => return None,
        };
        let after = firsts.partition_point(|&first| first <= row);
        (after > 0 && after < firsts.len()).then(|| (after - 1, row - firsts[after - 1]))
    }

    /// Returns what, with its uri, tells the content of a file from any other that was read from there, and from what the
    /// same file would give as part of another source: size, mtime or etag, and its class, if files have classes, or what
    /// tells its rows, if that is a file of its own.
    pub fn identity(&self, file: usize) -> Option<String> {
        let stat = self.0.stats.get(file)?;
        let told_by = match self.0.tables.get(file).map(|table| &**table) {
            Some(Table::Documents(documents)) => Some(&documents.told_by),
            _ => None,
        };
        Some(match (self.0.labels.get(file), told_by) {
            (Some(label), _) => format!("{stat}, class {label}"),
            (None, Some(told_by)) => format!("{stat}, documents {told_by}"),
            (None, None) => stat.to_string(),
        })
    }

    /// Returns the file of a block of [`Layout::PerFile`] or [`Layout::Groups`], and which row group of it.
    pub(crate) fn file_of(&self, block: u64) -> (usize, usize) {
        if self.0.layout != Layout::Groups {
            return (block as usize, 0);
        }
        let firsts = &self.0.first_blocks;
        let after = firsts.partition_point(|&first| first <= block);
        if after == 0 || after == firsts.len() {
            return (0, 0);
        }
        (after - 1, (block - firsts[after - 1]) as usize)
    }

    /// Says where a sample is, for people: `shards/train-000.tar#17 (key 00017)`.
    pub fn describe_sample(&self, sample: SampleId) -> String {
        let (block, row) = (sample.block(), sample.row());
        let inner = &self.0;
        let uri = |file: usize| inner.uris.get(file).map_or("(no such file)", |u| u);
        match inner.layout {
            Layout::Unknown => format!("row {row}"),
            Layout::Computed { .. } => format!("row {}", block * ROWS_IN_BLOCK + row),
            Layout::Files => uri((block * FILES_IN_BLOCK + row) as usize).to_owned(),
            Layout::Groups => {
                let (file, group) = self.file_of(block);
                format!("{}#{row} (row group {group})", uri(file))
            }
            Layout::PerFile { .. } if let Some(offset) = offset_of(sample) => {
                format!("{} at byte {offset}", uri(block as usize))
            }
            Layout::PerFile { .. } => {
                let name = format!("{}#{row}", uri(block as usize));
                match inner.tables.get(block as usize).map(|t| &**t) {
                    Some(Table::Tar(tar)) => format!("{name} (key {})", tar.key(row as usize)),
                    _ => name,
                }
            }
        }
    }

    /// Writes the index: versioned, checksummed, offsets as differences.
    pub fn to_bytes(&self) -> Vec<u8> {
        let inner = &self.0;
        let mut to = Encoder::new(MAGIC, VERSION);
        let (tag, rows, row_bytes) = match inner.layout {
            Layout::Unknown => (0, 0, 0),
            Layout::Computed { rows, row_bytes } => (1, rows, row_bytes),
            Layout::Files => (2, 0, 0),
            Layout::PerFile { counted: false } => (3, 0, 0),
            Layout::PerFile { counted: true } => (4, 0, 0),
            Layout::Groups => (5, 0, 0),
        };
        [tag, rows, row_bytes, inner.uris.len() as u64].into_iter().for_each(|n| to.int(n));
        let mut before = "";
        for (uri, stat) in inner.uris.iter().zip(&inner.stats) {
            to.text_after(before, uri);
            to.stat(stat);
            before = uri;
        }
        to.rising(&inner.labels);
        for (file, table) in inner.tables.iter().enumerate() {
            table.encode(&mut to);
            Points::encode(inner.points_of(file).map(|points| &**points), &mut to);
        }
        to.seal()
    }

    /// Reads [`SourceIndex::to_bytes`].
    ///
    /// # Errors
    /// Data when a bit of it differs, Version when another version wrote it.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut from = Decoder::open(bytes, MAGIC, VERSION)?;
        let (tag, rows, row_bytes) = (from.int()?, from.int()?, from.int()?);
        let layout = match tag {
            0 => Layout::Unknown,
            1 => Layout::Computed { rows, row_bytes },
            2 => Layout::Files,
            3 => Layout::PerFile { counted: false },
            4 => Layout::PerFile { counted: true },
            5 => Layout::Groups,
            other => return Err(Error::data(format!("an index holds an unknown layout {other}"))),
        };
        let files = from.count()?;
        let mut inner = Inner { layout, ..Inner::default() };
        for _ in 0..files {
            let uri = from.text_after(inner.uris.last().map_or("", |u| u))?;
            inner.uris.push(uri.into());
            inner.stats.push(from.stat()?);
        }
        inner.labels = from.rising()?;
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
mod tests {
    use super::*;
    use crate::store::Mark;
    use forebay_data::DType;
    use table::{Documents, Even, Span, TarTable};

    fn tars() -> SourceIndex {
        let mut tar = TarTable::default();
        tar.push("a/00", &[Some(Span { offset: 512, len: 9 }), None]);
        tar.push("a/01", &[Some(Span { offset: 2048, len: 0 }), Some(Span { offset: 4096, len: 3 })]);
        let tables = [Table::Tar(tar), Table::Tar(TarTable::default()), Table::Frames(vec![0, 7, 9])].map(Arc::new);
        let stat = |size, mark| Stat { size, mark };
        SourceIndex::new(Inner {
            layout: Layout::PerFile { counted: true },
            uris: ["/d/t-é0.tar", "/d/t-è1.tar", "s3://b/t"].map(Into::into).into(),
            stats: vec![
                stat(9000, Mark::Mtime(-3)),
                stat(0, Mark::Mtime(i64::MAX)),
                stat(9, Mark::Etag("\"x\"".into())),
            ],
            tables: tables.into(),
            points: vec![None; 3],
            ..Inner::default()
        })
        .expect("valid")
    }

    #[test]
    fn an_index_reads_back_what_it_wrote_and_refuses_every_flipped_bit() {
        let bytes = tars().to_bytes();
        assert_eq!(SourceIndex::from_bytes(&bytes).expect("valid"), tars());
        for i in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[i / 8] ^= 1 << (i % 8);
            assert!(SourceIndex::from_bytes(&bad).is_err(), "bit {i}");
            assert!(SourceIndex::from_bytes(&bytes[..i / 8]).is_err(), "first {} bytes", i / 8);
        }
    }

    fn documents(told_by: &str, starts: &[u64]) -> Documents {
        Documents { dtype: DType::Uint16, told_by: told_by.to_owned(), starts: starts.to_vec() }
    }

    fn of_tables(tables: Vec<Table>) -> SourceIndex {
        SourceIndex::new(Inner {
            layout: Layout::PerFile { counted: true },
            uris: (0..tables.len()).map(|i| format!("/d/{i}").into()).collect(),
            stats: tables.iter().map(|_| Stat { size: 4096, mark: Mark::Mtime(0) }).collect(),
            tables: tables.into_iter().map(Arc::new).collect(),
            ..Inner::default()
        })
        .expect("valid")
    }

    #[test]
    fn rows_that_other_files_tell_read_back_and_are_named_by_what_told_them() {
        let even = Even { start: 16, step: 8, len: 16, rows: 509 };
        let tables = |told_by| {
            vec![
                Table::Even(even),
                Table::Documents(documents(told_by, &[0, 0, 4096])),
                Table::Shard { rows: 7, bytes: 1 << 40 },
            ]
        };
        let index = of_tables(tables("one"));
        assert_eq!(SourceIndex::from_bytes(&index.to_bytes()), Ok(index.clone()));
        assert_eq!((index.rows(), index.locate(510).to_string()), (Some(509 + 2 + 7), "1:1".to_owned()));
        assert_eq!((even.span(508).map(|span| span.offset), even.span(509)), (Some(16 + 508 * 8), None));
        let other = of_tables(tables("another"));
        let differ: Vec<bool> = (0..3).map(|file| index.identity(file) != other.identity(file)).collect();
        assert_eq!(differ, [false, true, false]);
    }

    /// A row of such a length would be asked for as memory.
    #[test]
    fn an_index_with_rows_behind_the_end_of_a_file_is_refused() {
        let mut tar = TarTable::default();
        tar.push("a", &[Some(Span { offset: 512, len: 1 << 40 })]);
        let even = |step, len, rows| Table::Even(Even { start: 16, step, len, rows });
        for table in [
            Table::Tar(tar),
            Table::Frames(vec![0, 4097]),
            Table::Documents(documents("x", &[0, 4097])),
            even(8, 8, 511),
            even(8, u64::MAX, 1),
            even(u64::MAX, 8, 3),
        ] {
            let inner = Inner {
                layout: Layout::PerFile { counted: true },
                uris: ["/d/t.tar".into()].into(),
                stats: vec![Stat { size: 4096, mark: Mark::Mtime(0) }],
                tables: [Arc::new(table)].into(),
                points: vec![None],
                ..Inner::default()
            };
            let error =
                SourceIndex::from_bytes(&SourceIndex::new(inner).expect("valid").to_bytes()).expect_err("refused");
            assert_eq!(error.get("file"), Some("/d/t.tar"));
        }
    }

    #[test]
    fn rows_are_named_by_block_and_described() {
        let index = tars();
        let names: Vec<_> = (0..4).map(|row| index.locate(row).to_string()).collect();
        assert_eq!(names, ["0:0", "0:1", "2:0", "2:1"]);
        assert_eq!(index.describe_sample(index.locate(1)), "/d/t-é0.tar#1 (key a/01)");
        assert_eq!((index.rows(), index.blocks(), index.bytes()), (Some(4), 3, 9009));
        assert_eq!(index.block_rows(1), Some(2..2));
    }

    #[test]
    fn rows_keep_their_origin_when_files_come_before_them() {
        let origins: Vec<_> = (0..5).map(|row| tars().origin(row)).collect();
        assert_eq!(origins, [Some((0, 0)), Some((0, 1)), Some((2, 0)), Some((2, 1)), None]);
        let parquet = |groups: &[&[u64]]| {
            let stat = |i| Stat { size: i, mark: Mark::Etag("x".into()) };
            SourceIndex::new(Inner {
                layout: Layout::Groups,
                uris: groups.iter().map(|_| "p".into()).collect(),
                stats: (0..groups.len() as u64).map(stat).collect(),
                tables: groups.iter().map(|rows| Arc::new(Table::Groups(rows.to_vec()))).collect(),
                ..Inner::default()
            })
            .expect("valid")
        };
        let index = parquet(&[&[2, 1], &[], &[3, 3]]);
        assert_eq!([0, 1, 2, 3, 4].map(|block| index.file_of(block)), [(0, 0), (0, 1), (2, 0), (2, 1), (0, 0)]);
        let origins: Vec<_> = [0, 2, 3, 6, 8, 9].map(|row| index.origin(row)).into();
        assert_eq!(origins, [Some((0, 0)), Some((0, 2)), Some((2, 0)), Some((2, 3)), Some((2, 5)), None]);
        assert_ne!(index.identity(0), index.identity(2));
    }

    #[test]
    fn computed_rows_take_no_memory_and_their_limit_is_said() {
        let range =
            |rows| SourceIndex::new(Inner { layout: Layout::Computed { rows, row_bytes: 8 }, ..Inner::default() });
        let index = range(1_000_000_000_000).expect("fits");
        assert!(index.to_bytes().len() < 64);
        assert_eq!(index.locate(999_999_999_999).to_string(), "15258789:4095");
        let e = range(u64::MAX).expect_err("too many");
        assert!(e.message().contains("at most 16777216 can be named"), "{e}");
    }
}
