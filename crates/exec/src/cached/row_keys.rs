//! The names of rows in the cache: each by its pinned file and its row there.

use std::collections::HashMap;

use forebay_cache::{FileKey, RowKey};
use forebay_io::SourceIndex;

use crate::executable::row_source::RowSource;

/// Returns the key of a file: its address, and its pinned identity.
fn file_key(index: &SourceIndex, file: usize) -> FileKey {
    let (uri, size) = index.files().nth(file).map_or(("", 0), |f| (f.uri, f.size));
    FileKey::of(uri, size, &index.identity(file).unwrap_or_default())
}

impl RowSource {
    /// Returns the cache keys of counted rows: each by its pinned file and its row there. The key of a row without a
    /// file is its number alone, because the source's own id identifies the content.
    pub(crate) fn keys(&self, rows: &[u64]) -> Vec<RowKey> {
        let unfiled = FileKey([0; 16]);
        let RowSource::Files(_, index) = self else {
            return rows.iter().map(|&row| RowKey { file: unfiled, row }).collect();
        };
        let mut files = HashMap::new();
        let key = |&row: &u64| match index.origin(row) {
            Some((file, row)) => RowKey { file: *files.entry(file).or_insert_with(|| file_key(index, file)), row },
            None => RowKey { file: unfiled, row },
        };
        rows.iter().map(key).collect()
    }
}
