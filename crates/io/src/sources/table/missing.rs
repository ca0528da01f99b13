//! Decides which columns of Parquet and Arrow files may be missing, from the user's list or the footers of some files.
//!
//! Writers declare nearly every column nullable, and an array of numbers that may be missing becomes a masked one,
//! which few users can use. Parquet footers count missing values. Reading all footers takes time proportional to the
//! number of files, so a sample of them is read: a column without missing values there is assumed complete in every
//! file. A row that lacks it after all is an error of that row. The decision is made once, when the user defines the
//! source, and is part of the schema that all processes of a job use.

use forebay_core::{Error, ErrorKind, Result};
use forebay_data::{Field, Kind, Schema};

use crate::formats::parquet::File;
use crate::open_found::open_found as open;
use crate::store::{Found, ReadThrough};

/// The most files whose footers are read, in parallel when they are in a store.
const FILES: usize = 16;

/// Returns the columns; the named ones may be missing.
///
/// # Errors
/// NotFound for a name without a column.
pub(crate) fn say(fields: Vec<Field>, names: &[String]) -> Result<Vec<Field>> {
    let schema = Schema::new(fields)?;
    names.iter().try_for_each(|name| schema.field(name).map(drop))?;
    Ok(schema.fields().iter().map(|f| Field { nullable: names.contains(&f.name), ..f.clone() }).collect())
}

/// Returns the columns of lists among the named ones: an array has no place for a missing list, so it is empty.
pub(crate) fn empty_lists(fields: &[Field], names: &[String]) -> Vec<String> {
    let is_list = |kind: &Kind| match kind {
        Kind::Tensor { shape, .. } => matches!(shape.as_slice(), [None, rest @ ..] if rest.iter().all(Option::is_some)),
        _ => false,
    };
    let lists = fields.iter().filter(|field| names.contains(&field.name) && is_list(&field.kind));
    lists.map(|field| field.name.clone()).collect()
}

/// Returns the columns; a column may be missing if its writer declared it nullable and the footers do not count it as
/// complete.
///
/// # Errors
/// Any error of a store. A file that cannot be read as Parquet is ignored here: its reader refuses it.
pub(crate) fn find(
    fields: Vec<Field>,
    first: &File,
    files: &[Found],
    near: Option<&dyn ReadThrough>,
) -> Result<Vec<Field>> {
    let mut said = first.is_whole(&fields).into_iter().collect::<Vec<_>>();
    let is_open = |at: usize| fields[at].nullable && said.iter().all(|whole| whole[at]);
    if (0..fields.len()).any(is_open) {
        said.extend(others(&fields, files, near)?);
    }
    let may_be_missing = |at: usize| said.is_empty() || !said.iter().all(|whole| whole[at]);
    let narrow =
        |(at, field): (usize, &Field)| Field { nullable: field.nullable && may_be_missing(at), ..field.clone() };
    Ok(fields.iter().enumerate().map(narrow).collect())
}

/// Returns the result of `File::is_whole` for a sample of the files after the first.
fn others(fields: &[Field], files: &[Found], near: Option<&dyn ReadThrough>) -> Result<Vec<Vec<bool>>> {
    let look = |found: &Found| match open(found, near).and_then(File::open) {
        Ok(file) => Ok(file.is_whole(fields)),
        Err(e) if matches!(e.kind(), ErrorKind::Data | ErrorKind::NotFound) => Ok(None),
        Err(e) => Err(e.with("file", &found.uri)),
    };
    let chosen = spread(files.len(), FILES).into_iter().skip(1).map(|at| &files[at]);
    let answers: Vec<Result<Option<Vec<bool>>>> = std::thread::scope(|scope| {
        let threads: Vec<_> = chosen.map(|found| scope.spawn(move || look(found))).collect();
        let end = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|_| Err(Error::internal("a footer could not be looked at")))
        };
        threads.into_iter().map(end).collect()
    });
    answers.into_iter().filter_map(Result::transpose).collect()
}

/// Returns `most` of `count` places, or all: the first, the last, and evenly spaced ones between.
fn spread(count: usize, most: usize) -> Vec<usize> {
    let taken = count.min(most);
    (0..taken).map(|i| i * (count - 1) / (taken - 1).max(1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_looked_at_are_spread_over_all() {
        assert_eq!(spread(1, 4), [0]);
        assert_eq!(spread(3, 4), [0, 1, 2]);
        assert_eq!(spread(10, 4), [0, 3, 6, 9]);
        assert_eq!(spread(1_000_000, 16).len(), 16);
        assert_eq!(spread(0, 4), [0; 0]);
    }
}
