//! Parquet files.

use std::sync::Arc;

use forebay_core::Result;
use forebay_plan::Source;

use super::filtered::Filtered;
use super::{Columns, TableFiles, are_named, merged_times, missing, open_groups, partitioned_files};
use crate::Progress;
use crate::formats::{arrow, parquet};
use crate::index::table::Table;
use crate::index::{Inner, Layout};
use crate::open_found::open_found as open;
use crate::readers::Reader;
use crate::sources::draft::{Inferred, Together};
use crate::sources::format::{FileAccess, FileRows, FileToScan, Listed, Opening, Scan, SourceFormat, counted};
use crate::store::ReadThrough;

pub(in crate::sources) struct Parquet<'s> {
    pub(in crate::sources) source: &'s Source,
}

pub(in crate::sources) fn infer(
    paths: Vec<String>,
    together: Together,
    (columns, nullable): (Option<Vec<String>>, Option<Vec<String>>),
    near: Option<&dyn ReadThrough>,
    progress: Progress<'_>,
) -> Result<Inferred> {
    let files = TableFiles::list(paths, together)?;
    let named = nullable.clone().unwrap_or_default();
    let look = |object| parquet::File::open(object).map(|file| file.columns());
    let ((fields, partitions, merged), times): (Columns, _) = if together.merged {
        merged_times(files.merged(look, columns, nullable, near, progress)?)
    } else {
        let file = parquet::File::open(open(&files.found[0], near)?)?;
        let find = |fields| missing::find(fields, &file, &files.found, near);
        (files.columns(file.fields(), columns, nullable, find)?, arrow::units(&file.columns()))
    };
    let empty_lists = missing::empty_lists(&fields, &named);
    let source = Source::Parquet { paths: files.paths, fields, partitions, merged, empty_lists, filter: None };
    Ok(Inferred { source, times })
}

impl SourceFormat for Parquet<'_> {
    fn list(&self, _counted: bool, access: FileAccess<'_>) -> Result<Listed<'_>> {
        let (found, labels) = partitioned_files(self.source)?;
        if let Some(first) = found.first() {
            access.allowed.check(&first.uri)?;
        }
        let filtered = Filtered::of(self.source, &found, &labels, &|found| access.open_found(found))?;
        let listed = match filtered {
            None => Listed::scanned(found, Layout::Groups, "parquet".to_owned(), |object, _| {
                counted(Table::Groups(parquet::group_rows(object)?), None)
            }),
            Some(filtered) => {
                let filtered = Arc::new(filtered);
                let rows = move |place: usize, _: &FileToScan<'_>| Ok(matching(Arc::clone(&filtered), place));
                Listed { rows: Some(Box::new(rows)), ..Listed::of(found, Layout::Groups) }
            }
        };
        Ok(Listed { labels, ..listed })
    }

    fn fits(&self, index: &Inner) -> bool {
        are_named(self.source, index)
    }

    fn open(&self, opening: Opening<'_>) -> Result<Arc<dyn Reader>> {
        open_groups::<parquet::File>(self.source, opening)
    }
}

/// Finds the rows of the row groups of a file that may match a condition.
fn matching(filtered: Arc<Filtered<'_>>, place: usize) -> FileRows<'_> {
    if filtered.leaves_out(place) {
        return FileRows::Known(Filtered::nothing());
    }
    let key = format!("parquet:{}", filtered.key(place));
    let scan: Scan<'_> = Box::new(move |file, _| filtered.scan(place, file.open()?));
    FileRows::Scan { key, scan }
}
