//! Flat files of token ids.

pub(super) mod megatron;

use std::sync::Arc;

use forebay_core::{Error, Result};
use forebay_data::DType;
use forebay_plan::Source;

use super::format::{FileAccess, Listed, Opening, SourceFormat, counted};
use super::look_up::{first, looked_up};
use crate::formats::tokens;
use crate::index::table::Table;
use crate::index::{Inner, Layout};
use crate::readers::{self, Reader};
use crate::store::{self, Found, ReadThrough};

pub(super) struct Tokens<'s> {
    pub(super) paths: &'s [String],
    pub(super) rows: tokens::Rows,
}

pub(super) fn infer(
    paths: Vec<String>,
    (dtype, length, stride): (DType, u64, Option<u64>),
    column: String,
    near: Option<&dyn ReadThrough>,
) -> Result<Source> {
    let stride = stride.unwrap_or(length);
    Source::Tokens { paths: Vec::new(), dtype, length, stride, column: column.clone() }.schema()?;
    let (paths, files) = looked_up(paths)?;
    let rows = tokens::Rows { dtype, length, stride };
    first(&files, near, |object| Ok((tokens::rows(&object, rows)?.rows > 0).then_some(())))?
        .ok_or_else(|| no_row(&files, length))?;
    Ok(Source::Tokens { paths, dtype, length, stride, column })
}

/// Returns the error when no file is as long as one row of token ids.
fn no_row(files: &[Found], length: u64) -> Error {
    Error::data(format!("there is no row of {length} ids in the first files"))
        .with("file", files.first().map_or("", |f| &f.uri))
        .hint("what is behind the last whole row of a file is left out: use a smaller length, or join the files")
}

impl SourceFormat for Tokens<'_> {
    fn list(&self, _counted: bool, _access: FileAccess<'_>) -> Result<Listed<'_>> {
        let tokens::Rows { dtype, length, stride } = self.rows;
        let key = format!("tokens:{dtype}:{length}:{stride}");
        let layout = Layout::PerFile { counted: true };
        Ok(Listed::scanned(store::list(self.paths)?, layout, key, |object, _| {
            counted(Table::Even(tokens::rows(&object, self.rows)?), None)
        }))
    }

    fn fits(&self, index: &Inner) -> bool {
        matches!(index.layout, Layout::PerFile { .. })
    }

    fn open(&self, opening: Opening<'_>) -> Result<Arc<dyn Reader>> {
        let even = Some((self.rows.dtype, self.rows.length as usize));
        Ok(Arc::new(readers::tokens::Tokens::new(opening.schema.clone(), opening.pool(), even)))
    }
}
