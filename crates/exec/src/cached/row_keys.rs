//! The names of rows in the cache: each by its pinned file and its row number in that file.

use std::collections::HashMap;

use forebay_cache::{FileKey, RowKey};
use forebay_io::SourceIndex;

use crate::executable::row_source::RowSource;

/// Returns the key of a file: its address, and its pinned identity.
fn file_key(index: &SourceIndex, file: usize) -> FileKey {
    let (uri, size) = index.file(file).map_or(("", 0), |f| (f.uri, f.size));
    FileKey::of(uri, size, &index.identity(file).unwrap_or_default())
}

/// The key of rows without a file.
const UNFILED: FileKey = FileKey([0; 16]);

impl RowSource {
    /// Returns the cache keys of counted rows: each by its pinned file and its row number in that file. The key of a
    /// row without a file is its number alone, because the source's own id identifies the content.
    pub(crate) fn keys(&self, rows: &[u64]) -> Vec<RowKey> {
        match self {
            RowSource::Files(_, index) | RowSource::Combined(_, index) => keys(index, rows),
            _ => rows.iter().map(|&row| RowKey { file: UNFILED, row }).collect(),
        }
    }
}

fn keys(index: &SourceIndex, rows: &[u64]) -> Vec<RowKey> {
    if !index.content().is_empty() {
        let file = FileKey::of("zip", 0, index.content());
        return rows.iter().map(|&row| RowKey { file, row }).collect();
    }
    let parts: Vec<&SourceIndex> = index.parts().collect();
    let mut files = HashMap::new();
    let key = |&row: &u64| match (index.part_of(row), index.origin(row)) {
        // Datasets over one file may have different ops.
        (Some((part, row)), _) => {
            let own = keys(parts[part], &[row]);
            let RowKey { file, row } = own.first().copied().unwrap_or(RowKey { file: UNFILED, row });
            RowKey { file: *files.entry((part, file)).or_insert_with(|| of_part(part, file)), row }
        }
        (None, Some((file, row))) => {
            let number = (file, UNFILED);
            RowKey { file: *files.entry(number).or_insert_with(|| file_key(index, file)), row }
        }
        (None, None) => RowKey { file: UNFILED, row },
    };
    rows.iter().map(key).collect()
}

/// Returns the key of a dataset's file.
fn of_part(part: usize, file: FileKey) -> FileKey {
    let bytes = file.0.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    FileKey::of("part", part as u64, &bytes)
}
