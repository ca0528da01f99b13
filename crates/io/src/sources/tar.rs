//! Tar shards with WebDataset's naming.

use std::sync::Arc;

use forebay_core::{Error, ErrorKind, Result};
use forebay_data::{Field, Kind, Schema};
use forebay_plan::Source;

use super::format::{FileAccess, Listed, Opening, SourceFormat, counted, recording};
use super::look_up::{empty, first, looked_up};
use crate::formats::{compressed, tar};
use crate::index::table::Table;
use crate::index::{Inner, Layout};
use crate::readers::{self, Reader};
use crate::store::{self, ReadThrough};

pub(super) struct Tar<'s> {
    pub(super) paths: &'s [String],
    pub(super) extensions: &'s [String],
}

/// Infers the extensions, or checks the extensions that the user named.
pub(super) fn infer(
    paths: Vec<String>,
    extensions: Option<Vec<String>>,
    near: Option<&dyn ReadThrough>,
) -> Result<Source> {
    let (paths, files) = looked_up(paths)?;
    let found = first(&files, near, |object| Ok(Some(tar::extensions(object)?).filter(|e| !e.is_empty())))?;
    let found = found.ok_or_else(|| empty(&files, "sample"))?;
    let (extensions, optional) = match extensions {
        Some(named) => name_extensions(&named, &found).map_err(|e| e.with("file", &files[0].uri))?,
        None => {
            let optional = found.iter().filter(|e| e.lacked).map(|e| e.name.clone()).collect();
            (found.into_iter().map(|e| e.name).collect(), optional)
        }
    };
    Ok(Source::Tar { paths, extensions, optional })
}

impl SourceFormat for Tar<'_> {
    fn list(&self, is_counted: bool, _access: FileAccess<'_>) -> Result<Listed<'_>> {
        let key = format!("tar:{}", self.extensions.join("\0"));
        let layout = Layout::PerFile { counted: is_counted };
        Ok(Listed::scanned(store::list(self.paths)?, layout, key, |object, stop| {
            let (table, forward) = tar::table(recording(compressed::skipping(object)?), self.extensions, stop)?;
            counted(Table::Tar(table), Some(forward))
        }))
    }

    fn fits(&self, index: &Inner) -> bool {
        matches!(index.layout, Layout::PerFile { .. })
    }

    fn open(&self, opening: Opening<'_>) -> Result<Arc<dyn Reader>> {
        let schema = opening.schema.clone();
        Ok(Arc::new(readers::tar::Tar::new(schema, opening.pool(), self.extensions.to_vec())))
    }
}

/// Parses the user's extensions. Returns all of them, and the ones that a sample may lack.
fn name_extensions(named: &[String], found: &[tar::Extension]) -> Result<(Vec<String>, Vec<String>)> {
    let (mut extensions, mut optional) = (Vec::new(), Vec::new());
    for name in named {
        let extension = name.strip_suffix('?').unwrap_or(name).to_owned();
        if extension.starts_with('.') {
            let hint = format!("leave out the dot: {:?}", extension.trim_start_matches('.'));
            return Err(Error::invalid(format!("{name:?} is no extension")).hint(hint));
        }
        if extension.len() < name.len() {
            optional.push(extension.clone());
        } else {
            let columns = found.iter().map(|e| Field::new(&e.name, Kind::Bytes)).collect();
            Schema::new(columns)?.field(&extension).map_err(|e| {
                let (message, columns) = (format!("no sample at the beginning has {name:?}"), e.get("columns"));
                let error = Error::new(ErrorKind::NotFound, message).with("extensions", columns.unwrap_or_default());
                error.hint(match e.get("hint") {
                    Some(near) => near.to_owned(),
                    None => format!("if only few samples have it, say so: {:?}", format!("{name}?")),
                })
            })?;
        }
        if extension == "__key__" || extensions.contains(&extension) {
            return Err(Error::invalid(format!("extensions: {extension:?} is there twice")).hint("name each once"));
        }
        extensions.push(extension);
    }
    Ok((extensions, optional))
}
