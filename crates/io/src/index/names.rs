//! Names and origins of the rows of an index.

use forebay_core::SampleId;

use super::table::Table;
use super::{FILES_IN_BLOCK, Layout, ROWS_IN_BLOCK, SourceIndex};
use crate::readers::windows::offset_of;

impl SourceIndex {
    /// Returns the id of a row by its number. A row that is not counted, or past the end, is row 0 of block 0.
    pub fn locate(&self, row: u64) -> SampleId {
        match self.0.layout {
            Layout::Unknown | Layout::PerFile { counted: false } => SampleId(0),
            Layout::Joined => self.0.joined.locate(row),
            Layout::Computed { rows, .. } | Layout::Zipped { rows } if row < rows => {
                SampleId::new(row / ROWS_IN_BLOCK, row % ROWS_IN_BLOCK)
            }
            Layout::Files if row < self.0.uris.len() as u64 => {
                SampleId::new(row / FILES_IN_BLOCK, row % FILES_IN_BLOCK)
            }
            Layout::Computed { .. } | Layout::Zipped { .. } | Layout::Files => SampleId(0),
            Layout::PerFile { counted: true } | Layout::Groups => {
                let after = self.0.starts.partition_point(|&s| s <= row);
                if after == 0 || after == self.0.starts.len() {
                    return SampleId(0);
                }
                SampleId::new(after as u64 - 1, row - self.0.starts[after - 1])
            }
        }
    }

    /// Returns a function as [`SourceIndex::locate`], which keeps the last block: neighbours are mostly in one.
    pub(crate) fn locator(&self) -> impl FnMut(u64) -> SampleId {
        let (mut block, mut rows) = (0, 0..0);
        move |row| {
            if rows.contains(&row) {
                return SampleId::new(block, row - rows.start);
            }
            let id = self.locate(row);
            if matches!(self.0.layout, Layout::PerFile { counted: true } | Layout::Groups) {
                block = id.block();
                let ends = self.0.starts.get(block as usize).zip(self.0.starts.get(block as usize + 1));
                rows = ends.map_or(0..0, |(start, end)| *start..*end);
            }
            id
        }
    }

    /// Returns the file of a counted row, by its place in [`SourceIndex::files`], and the row's number in the file.
    /// `None` where rows are in no file, are not counted, or the row does not exist.
    pub fn origin(&self, row: u64) -> Option<(usize, u64)> {
        let firsts = match self.0.layout {
            Layout::Files => return (row < self.0.uris.len() as u64).then_some((row as usize, 0)),
            Layout::PerFile { counted: true } => &self.0.starts,
            Layout::Groups => &self.0.firsts,
            Layout::Joined => return self.0.joined.origin(row),
            Layout::Unknown | Layout::Computed { .. } | Layout::Zipped { .. } | Layout::PerFile { counted: false } => {
                return None;
            }
        };
        let after = firsts.partition_point(|&first| first <= row);
        (after > 0 && after < firsts.len()).then(|| (after - 1, row - firsts[after - 1]))
    }

    /// Returns the identity of a file, which with its uri distinguishes its content from any other content of that uri,
    /// and from the same file as part of another source. It has the size, mtime or etag, and the class, the offset
    /// where the path's columns begin, or the identity of the file that locates the rows, where these apply.
    pub fn identity(&self, file: usize) -> Option<String> {
        if let Some((part, file)) = self.0.joined.of_file(file) {
            return part.identity(file);
        }
        let stat = self.0.stats.get(file)?;
        let told_by = match self.0.tables.get(file).map(|table| &**table) {
            Some(Table::Documents(documents)) => Some(&documents.told_by),
            _ => None,
        };
        Some(match (self.0.labels.get(file), told_by) {
            (Some(begin), _) if self.0.layout == Layout::Groups => format!("{stat}, columns from {begin} on"),
            (Some(label), _) => format!("{stat}, class {label}"),
            (None, Some(told_by)) => format!("{stat}, documents {told_by}"),
            (None, None) => stat.to_string(),
        })
    }

    /// Returns the file of a block of [`Layout::PerFile`] or [`Layout::Groups`], and the number of its row group.
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

    /// Returns the place of a sample in readable form: `shards/train-000.tar#17 (key 00017)`.
    pub fn describe_sample(&self, sample: SampleId) -> String {
        let (block, row) = (sample.block(), sample.row());
        let inner = &self.0;
        let uri = |file: usize| inner.uris.get(file).map_or("(no such file)", |u| u);
        match inner.layout {
            Layout::Unknown => format!("row {row}"),
            Layout::Joined => inner.joined.describe(sample).unwrap_or_else(|| format!("row {row}")),
            Layout::Computed { .. } | Layout::Zipped { .. } => format!("row {}", block * ROWS_IN_BLOCK + row),
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
}
