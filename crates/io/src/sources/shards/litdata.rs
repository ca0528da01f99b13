//! Folders of LitData's chunks.

use std::sync::Arc;

use forebay_core::Result;
use forebay_data::Field;
use forebay_plan::{MdsColumn, Source, Wrap};

use crate::formats::litdata;
use crate::index::table::Table;
use crate::index::{Inner, Layout};
use crate::readers::{self, Reader};
use crate::sources::format::{FileAccess, Listed, Opening, SourceFormat};
use crate::sources::shards;
use crate::store::{Object, ReadThrough};

const HINT: &str = "name a folder that has an index.json, which litdata.optimize writes at its end";

pub(in crate::sources) struct Litdata<'s> {
    pub(in crate::sources) paths: &'s [String],
    pub(in crate::sources) columns: &'s [MdsColumn],
    pub(in crate::sources) fields: &'s [Field],
    pub(in crate::sources) wrap: Wrap,
}

pub(in crate::sources) fn infer(
    paths: &[String],
    columns: Option<&[String]>,
    near: Option<&dyn ReadThrough>,
) -> Result<Source> {
    let (paths, files) = shards::folders(paths, HINT)?;
    let litdata::Stored { columns, fields, wrap } = litdata::look(&files, columns, near)?;
    Ok(Source::Litdata { paths, columns, fields, wrap })
}

impl SourceFormat for Litdata<'_> {
    fn list(&self, _counted: bool, access: FileAccess<'_>) -> Result<Listed<'_>> {
        let read = |object: &Arc<Object>| {
            let index = litdata::Index::read(object)?;
            let fits = index.chunks.is_empty() || (index.columns == self.columns && index.wrap == self.wrap);
            Ok((index.chunks, fits))
        };
        let listed = shards::list(self.paths, &read, access)?;
        let check = |uri: &str, stat: &crate::store::Stat, table: &Table| match table {
            Table::Shard { rows, bytes } => litdata::check_size(uri, stat.size, *rows, *bytes, self.wrap),
            _ => Ok(()),
        };
        Ok(Listed { check: Some(Box::new(check)), ..listed })
    }

    fn fits(&self, index: &Inner) -> bool {
        matches!(index.layout, Layout::PerFile { .. })
    }

    fn open(&self, opening: Opening<'_>) -> Result<Arc<dyn Reader>> {
        let (schema, window_rows) = (opening.schema.clone(), opening.options.window_rows);
        let (columns, fields) = (self.columns.to_vec(), self.fields.to_vec());
        Ok(Arc::new(readers::mds::Mds::new(schema, opening.pool(), columns, fields, Some(self.wrap), window_rows)?))
    }
}
