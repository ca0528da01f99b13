//! Files with columns (Parquet, Arrow): picks the columns of the files and of their paths that make one table.

pub(super) mod arrow;
pub(crate) mod filtered;
mod merged;
pub(crate) mod missing;
pub(super) mod parquet;

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_core::{Error, Result};
use forebay_data::{Field, Schema};
use forebay_plan::{Merged, Source, TimeUnit};

use super::draft::Together;
use super::format::Opening;
use super::look_up::exists;
use crate::Progress;
use crate::formats;
use crate::formats::grouped::Grouped;
use crate::index::{Inner, Layout};
use crate::open_found::open_found as open;
use crate::partitions;
use crate::readers::{Groups, Reader, partitioned};
use crate::store::{self, Found, Object, ReadThrough};
use merged::Merging;

/// The files of a table, and the columns of their paths.
pub(crate) struct TableFiles {
    pub(crate) paths: Vec<String>,
    pub(crate) found: Vec<Found>,
    /// For each uri, the offset where the folders begin that may have columns.
    begins: Vec<u64>,
    /// The columns of these folders.
    said: Vec<Field>,
}

impl TableFiles {
    /// Lists the files, and reads the columns of their paths.
    ///
    /// # Errors
    /// As [`partitions::list`] and [`partitions::find`]; NotFound where the first file does not exist.
    pub(crate) fn list(paths: Vec<String>, together: Together) -> Result<Self> {
        let paths = paths.iter().map(|p| store::absolute(p).map(store::files_of)).collect::<Result<Vec<_>>>()?;
        let (found, begins) = partitions::list(&paths)?;
        exists(&found[0])?;
        let said = if together.partitions { partitions::find(&found, &begins)? } else { Vec::new() };
        Ok(Self { paths, found, begins, said })
    }

    /// Picks columns of the files and of their paths, and decides which may be missing: `find` decides for the columns
    /// of the files. Also returns the names of the path columns.
    ///
    /// # Errors
    /// NotFound for a name without a column; Data for a column that has different types in files and paths, or that a
    /// path lacks.
    pub(crate) fn columns(
        &self,
        stored: Vec<Field>,
        columns: Option<Vec<String>>,
        nullable: Option<Vec<String>>,
        find: impl FnOnce(Vec<Field>) -> Result<Vec<Field>>,
    ) -> Result<Columns> {
        let is_said = |field: &Field| self.said.iter().any(|said| said.name == field.name);
        let blame = |e: Error| e.with("file", &self.found[0].uri);
        let all = stored.iter().filter(|field| !is_said(field)).chain(&self.said).cloned().collect();
        let picked = select(all, columns).map_err(blame)?;
        let is_picked = |field: &&Field| picked.iter().any(|picked| picked.name == field.name);
        stored
            .iter()
            .filter(is_picked)
            .try_for_each(|field| partitions::check_stored(&self.said, field))
            .map_err(blame)?;
        let fields = match nullable {
            Some(names) => missing::say(picked, &names)?,
            None => {
                let found = find(picked.iter().filter(|field| !is_said(field)).cloned().collect())?;
                let narrowed = |field: Field| found.iter().find(|f| f.name == field.name).cloned().unwrap_or(field);
                picked.into_iter().map(narrowed).collect()
            }
        };
        let uris: Vec<&str> = self.found.iter().map(|found| found.uri.as_str()).collect();
        let said = || fields.iter().filter(|field| is_said(field));
        said().try_for_each(|field| partitions::column(field, &uris, &self.begins).map(drop))?;
        let names = said().map(|field| field.name.clone()).collect();
        Ok((fields, names, None))
    }

    /// As [`TableFiles::columns`], for the merged columns of all files.
    ///
    /// # Errors
    /// As [`TableFiles::columns`] and [`Merging::check`].
    pub(crate) fn merged(
        &self,
        look: impl Fn(Arc<Object>) -> Result<Vec<formats::arrow::Found>> + Sync,
        columns: Option<Vec<String>>,
        nullable: Option<Vec<String>>,
        near: Option<&dyn ReadThrough>,
        progress: Progress<'_>,
    ) -> Result<Columns> {
        let together = Merging::of(&self.found, &|file| look(open(file, near)?), progress)?;
        let (fields, names, _) = self.columns(together.fields(), columns, nullable, Ok)?;
        let merged = together.check(fields.iter().filter(|field| !names.contains(&field.name)), &self.found)?;
        Ok((fields, names, Some(merged)))
    }
}

/// Lists the files of a source and, if it reads columns of their paths, the offset in each path where the folders begin
/// that may have columns.
pub(super) fn partitioned_files(source: &Source) -> Result<(Vec<Found>, Vec<u64>)> {
    let (found, begins) = partitions::list(&source.paths())?;
    let uris: Vec<&str> = found.iter().map(|found| found.uri.as_str()).collect();
    let labels = if source.partitions().next().is_some() { begins } else { Vec::new() };
    source.partitions().try_for_each(|field| partitions::column(field, &uris, &labels).map(drop))?;
    Ok((found, labels))
}

/// Says whether an index has groups, and the labels that path columns need.
pub(super) fn are_named(source: &Source, index: &Inner) -> bool {
    let are_named = source.partitions().next().is_none() || index.labels.len() == index.uris.len();
    index.layout == Layout::Groups && are_named
}

/// Opens a reader of files whose rows are decoded in groups.
pub(super) fn open_groups<F: Grouped + 'static>(source: &Source, opening: Opening<'_>) -> Result<Arc<dyn Reader>> {
    let Opening { schema, index, options, .. } = opening;
    partitioned::over(source, schema, index, |schema, index| {
        let (window_rows, conditions) = (options.window_rows, options.conditions.clone());
        let pool = crate::readers::Pool::new(index, options);
        let nulls = (source.merged().cloned(), source.empty_lists().to_vec());
        Arc::new(Groups::<F>::new(schema, nulls, pool, (window_rows, conditions)))
    })
}

/// The columns to read, the names of the path columns, and the merged types if files were merged.
pub(crate) type Columns = (Vec<Field>, Vec<String>, Option<Merged>);

/// Returns the columns of merged files, and the units of their time columns.
pub(super) fn merged_times(columns: Columns) -> (Columns, BTreeMap<String, TimeUnit>) {
    let clocks = columns.2.iter().flat_map(|merged| &merged.times);
    let times = clocks.filter_map(|(name, clock)| Some((name.clone(), formats::arrow::unit(clock)?))).collect();
    (columns, times)
}

/// Picks the columns that the user named, or all.
fn select(found: Vec<Field>, columns: Option<Vec<String>>) -> Result<Vec<Field>> {
    let Some(columns) = columns else {
        Schema::new(found.clone()).map_err(|e| e.hint("name the columns to read, without this one: columns=[...]"))?;
        return Ok(found);
    };
    let fields = columns.iter().map(|name| pick(&found, name)).collect::<Result<Vec<Field>>>()?;
    Schema::new(fields.clone())?;
    Ok(fields)
}

fn pick(found: &[Field], name: &str) -> Result<Field> {
    let mut named = found.iter().filter(|field| field.name == name);
    match (named.next(), named.next()) {
        (Some(field), None) => Ok(field.clone()),
        (Some(_), Some(_)) => Err(Error::invalid(format!("two columns are named {name:?}"))
            .hint("name the columns to read, without this one; or write the file with other names")),
        (None, _) => {
            let mut known: Vec<Field> = Vec::with_capacity(found.len());
            for field in found {
                if known.iter().all(|k| k.name != field.name) {
                    known.push(field.clone());
                }
            }
            Schema::new(known)?.field(name).cloned()
        }
    }
}
