//! Arrow IPC files (Feather, version 2).

use std::sync::Arc;

use forebay_core::Result;
use forebay_plan::Source;

use super::{Columns, TableFiles, are_named, merged_times, open_groups, partitioned_files};
use crate::Progress;
use crate::formats::arrow;
use crate::index::table::Counted;
use crate::index::{Inner, Layout};
use crate::open_found::open_found as open;
use crate::readers::Reader;
use crate::sources::draft::{Inferred, Together};
use crate::sources::format::{FileAccess, Listed, Opening, SourceFormat};
use crate::store::{Object, ReadThrough};

pub(in crate::sources) struct Arrow<'s> {
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
    let look = |object: Arc<Object>| arrow::columns_of(&object);
    let ((fields, partitions, merged), times): (Columns, _) = if together.merged {
        merged_times(files.merged(look, columns, nullable, near, progress)?)
    } else {
        let stored = look(open(&files.found[0], near)?)?;
        let times = arrow::units(&stored);
        (files.columns(stored.into_iter().map(|column| column.field).collect(), columns, nullable, Ok)?, times)
    };
    let empty_lists = super::missing::empty_lists(&fields, &named);
    let source = Source::Arrow { paths: files.paths, fields, partitions, merged, empty_lists };
    Ok(Inferred { source, times })
}

impl SourceFormat for Arrow<'_> {
    fn list(&self, _counted: bool, _access: FileAccess<'_>) -> Result<Listed<'_>> {
        let (found, labels) = partitioned_files(self.source)?;
        let listed = Listed::scanned(found, Layout::Groups, "arrow".to_owned(), |object, stop| {
            let table = arrow::table(object, stop)?;
            Ok(Counted { table: table.into(), points: None })
        });
        Ok(Listed { labels, ..listed })
    }

    fn fits(&self, index: &Inner) -> bool {
        are_named(self.source, index)
    }

    fn open(&self, opening: Opening<'_>) -> Result<Arc<dyn Reader>> {
        open_groups::<arrow::File>(self.source, opening)
    }
}
