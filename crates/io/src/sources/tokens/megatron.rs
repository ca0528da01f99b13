//! Megatron's indexed datasets: a `.bin` file of token ids, and an `.idx` file beside it with the places of documents.

use std::sync::Arc;

use forebay_core::Result;
use forebay_plan::Source;

use crate::Allowed;
use crate::formats::megatron;
use crate::index::table::{Counted, Table};
use crate::index::{Inner, Layout};
use crate::readers::{self, Reader};
use crate::sources::format::{FileAccess, FileRows, FileToScan, Listed, Opening, Scan, SourceFormat};
use crate::sources::look_up::{FILES, listed, name_instead};
use crate::store::{self, Found};

pub(in crate::sources) struct Megatron<'s> {
    pub(in crate::sources) paths: &'s [String],
}

pub(in crate::sources) fn infer(paths: &[String], column: String) -> Result<Source> {
    let prefixes: Vec<String> = paths.iter().map(|path| megatron::prefix(path).to_owned()).collect();
    let indexes = prefixes.iter().map(|prefix| megatron::file(prefix, "idx")).collect();
    let hint = "name the .bin and .idx files without their endings, as --data-path of Megatron does";
    let (indexes, files) = listed(indexes, usize::MAX).map_err(|e| name_instead(e, hint))?;
    files.iter().take(FILES).try_for_each(|file| has_ids(&file.uri))?;
    Ok(Source::Megatron { paths: indexes.iter().map(|path| megatron::prefix(path).to_owned()).collect(), column })
}

/// Returns an error if an index exists without its file of ids.
fn has_ids(index: &str) -> Result<()> {
    store::stat(&megatron::file(megatron::prefix(index), "bin"), &Allowed::everything()).map(drop)
}

/// Lists the files of ids. A pattern is compared with the names of their indexes: a user who copies a dataset usually
/// copies the small file last.
fn list(paths: &[String]) -> Result<Vec<Found>> {
    let indexes: Vec<String> = paths.iter().map(|path| megatron::file(path, "idx")).collect();
    let ids = |found: Found| Found { uri: megatron::file(megatron::prefix(&found.uri), "bin"), stat: None };
    Ok(store::list(&indexes)?.into_iter().map(ids).collect())
}

/// Finds the documents of a file of ids by its index.
fn documents(ids: &FileToScan<'_>) -> Result<FileRows<'static>> {
    let uri = megatron::file(megatron::prefix(ids.uri), "idx");
    ids.access.allowed.check(&uri)?;
    let stat = store::stat(&uri, ids.access.allowed)?;
    let key = format!("megatron:{stat}");
    let scan: Scan<'static> = Box::new(move |ids, stop| {
        let index = ids.access.open(&uri, &stat)?;
        let table = Table::Documents(megatron::documents(index, stat.to_string(), ids.stat.size, stop)?);
        Ok(Counted { table: table.into(), points: None })
    });
    Ok(FileRows::Scan { key, scan })
}

impl SourceFormat for Megatron<'_> {
    fn list(&self, _counted: bool, _access: FileAccess<'_>) -> Result<Listed<'_>> {
        let listed = Listed::of(list(self.paths)?, Layout::PerFile { counted: true });
        Ok(Listed { rows: Some(Box::new(|_, ids| documents(ids))), ..listed })
    }

    fn fits(&self, index: &Inner) -> bool {
        matches!(index.layout, Layout::PerFile { .. })
    }

    fn open(&self, opening: Opening<'_>) -> Result<Arc<dyn Reader>> {
        Ok(Arc::new(readers::tokens::Tokens::new(opening.schema.clone(), opening.pool(), None)))
    }
}
