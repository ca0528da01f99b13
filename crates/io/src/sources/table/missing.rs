//! Which columns of Parquet and Arrow files may be missing: what the user says, or what the footers of some files say.
//!
//! Writers call nearly every column nullable, and an array of numbers that may be missing is a masked one, which few can
//! use. Footers of Parquet count what is missing. Reading all of them would take as long as there are files, so some are read,
//! spread over all: what these have throughout is taken to be there in every file. A row that lacks it after all is an error
//! of that row. Decided once, when the source is written, as the rest of the schema: a job's processes find it there.

use forebay_core::{Error, ErrorKind, Result};
use forebay_data::{Field, Schema};

use crate::formats::parquet::File;
use crate::open_found::open_found as open;
use crate::store::{Found, ReadThrough};

/// The most files whose footers are read: what takes long in a store is asked for at once.
const FILES: usize = 16;

/// Returns the columns, of which those may be missing that have these names.
///
/// # Errors
/// NotFound for a name that is no column's.
pub(crate) fn say(fields: Vec<Field>, names: &[String]) -> Result<Vec<Field>> {
    let schema = Schema::new(fields)?;
    names.iter().try_for_each(|name| schema.field(name).map(drop))?;
    Ok(schema.fields().iter().map(|f| Field { nullable: names.contains(&f.name), ..f.clone() }).collect())
}

/// Returns the columns, of which those may be missing whose writers say so and which the footers do not count as whole.
///
/// # Errors
/// Whatever a store says. A file that cannot be read as Parquet says nothing: it is refused when its turn comes.
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

/// Returns what the footers of the files behind the first say, of as many as are read.
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

/// Returns `most` of so many places, or all: the first, the last, and between them as far apart as can be.
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
