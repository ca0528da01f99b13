//! CSV files, and files of the same kind with another delimiter.

use std::sync::Arc;

use forebay_core::{Error, Result};
use forebay_data::{Field, Schema};
use forebay_plan::{CsvDialect, Source};

use super::draft::{CsvDraft, CsvHeader};
use super::format::{FileAccess, Listed, Opening, SourceFormat, counted, recording};
use super::look_up::{empty, first, looked_up};
use crate::formats::csv::{Dialect, Scanner, TypeInference, check, is_blank, places};
use crate::formats::{compressed, lines};
use crate::index::table::Table;
use crate::index::{Inner, Layout};
use crate::readers::{Reader, frames};
use crate::store::{self, Forward, Found, Object, ReadThrough};

/// Records that are read to find types, and bytes to find out whether quoted fields have line breaks.
const RECORDS: usize = 1000;
const HEAD_BYTES: usize = 1 << 20;

pub(super) struct Csv<'s> {
    pub(super) paths: &'s [String],
    pub(super) names: &'s [String],
    pub(super) fields: &'s [Field],
    pub(super) dialect: &'s CsvDialect,
}

/// Infers the names and types of columns, or checks the fields that the user gave.
pub(super) fn infer(draft: CsvDraft, near: Option<&dyn ReadThrough>) -> Result<Source> {
    let (paths, files) = looked_up(draft.paths)?;
    let name = files.first().map_or("", |file| file.uri.rsplit('/').next().unwrap_or_default());
    let is_tsv = name.to_ascii_lowercase().contains(".tsv");
    let mut written = CsvDialect {
        delimiter: draft.delimiter.unwrap_or(if is_tsv { '\t' } else { ',' }),
        quote: draft.quote,
        null: draft.null,
        header: matches!(draft.header, CsvHeader::InFiles),
        multiline: draft.multiline.unwrap_or(true),
    };
    dialect(&written)?;
    let look = |object: Arc<Object>| {
        let mut written = written.clone();
        let mut forward = compressed::reading(object.clone())?;
        if draft.multiline.is_none() {
            written.multiline = has_line_breaks(&mut forward, &dialect(&written)?)?;
        }
        let rows = if draft.fields.is_some() { 0 } else { RECORDS };
        let columns =
            look_at_rows(&mut forward, &written, &draft.header, rows).map_err(|e| e.with("file", object.uri()))?;
        Ok(columns.map(|(names, found)| (written.multiline, names, found)))
    };
    let (multiline, names, found) = first(&files, near, look)?.ok_or_else(|| no_row(&files))?;
    written.multiline = multiline;
    let blame = |e: Error| e.with("file", &files[0].uri);
    let all = Schema::new(found).map_err(|e| blame(e).hint("name the columns: header=[...]"))?;
    let fields = match (draft.fields, draft.columns) {
        (Some(fields), _) => {
            fields.iter().try_for_each(|field| check(field).and_then(|()| all.field(&field.name).map(drop)))?;
            fields
        }
        (None, Some(columns)) => {
            columns.iter().map(|name| all.field(name).cloned()).collect::<Result<_>>().map_err(blame)?
        }
        (None, None) => all.fields().to_vec(),
    };
    Schema::new(fields.clone())?;
    Ok(Source::Csv { paths, names, fields, dialect: written })
}

/// Returns the error for files without a row: the types of columns are inferred from rows.
fn no_row(files: &[Found]) -> Error {
    let hint = "check that these are the right files, and not empty; with schema=, a file may have only a header";
    empty(files, "row").replace("hint", hint)
}

/// Reads the header and some of the first rows. `None` for a file without a row, if rows are requested.
fn look_at_rows(
    forward: &mut Forward,
    written: &CsvDialect,
    header: &CsvHeader,
    rows: usize,
) -> Result<Option<(Vec<String>, Vec<Field>)>> {
    let dialect = dialect(written)?;
    let begin = lines::begin(forward)?;
    let Some((end, first)) = dialect.header(forward, begin)? else { return Ok(None) };
    let (names, mut at) = match header {
        CsvHeader::InFiles => (first, end),
        CsvHeader::Numbered => ((1..=first.len()).map(|n| format!("column_{n}")).collect(), begin),
        CsvHeader::Named(names) if *names == first => {
            return Err(Error::invalid("header names the columns, and the file begins with these names, too")
                .hint("leave header out: the first line of each file has the names"));
        }
        CsvHeader::Named(names) if names.len() == first.len() => (names.clone(), begin),
        CsvHeader::Named(names) => {
            let message = format!("header names {} columns, and the first row has {}", names.len(), first.len());
            return Err(Error::invalid(message).hint("name all columns, and pick some with columns=[...]"));
        }
    };
    let (mut seen, mut blanks, mut count) = (TypeInference::new(names.len()), 0, 0);
    for row in 0..rows {
        let Some(len) = dialect.next(forward, at, Some(row as u64))? else { break };
        let record = forward.at(at, len as usize)?;
        if is_blank(record) {
            // At the end of a file such lines are no rows.
            blanks += 1;
        } else {
            let mut push = |record| seen.push(&dialect, &written.null, record).map_err(|e| e.with("offset", at));
            (0..std::mem::take(&mut blanks)).try_for_each(|_| push(b"".as_slice()))?;
            push(record)?;
            count += 1;
        }
        at += len;
    }
    if rows > 0 && count == 0 {
        return Ok(None);
    }
    let fields = seen.fields(&names);
    Ok(Some((names, fields)))
}

/// Says whether a quoted field at the beginning of a file has a line break.
fn has_line_breaks(forward: &mut Forward, dialect: &Dialect) -> Result<bool> {
    let begin = lines::begin(forward)?;
    let head = forward.at(begin, HEAD_BYTES)?;
    let (mut scanner, mut at) = (Scanner::new(dialect), 0);
    while let Some(end) = scanner.feed(&head[at..]) {
        if memchr::memchr(b'\n', &head[at..at + end - 1]).is_some() {
            return Ok(true);
        }
        at += end;
    }
    // The bytes after the last whole record may end within a quoted field.
    Ok(head.len() < HEAD_BYTES && memchr::memchr(b'\n', &head[at..]).is_some())
}

/// Returns the dialect of a file.
///
/// # Errors
/// Invalid for a character that cannot be a delimiter or a quote.
pub(crate) fn dialect(written: &CsvDialect) -> Result<Dialect> {
    let byte = |name: &str, letter: char| match u8::try_from(letter) {
        Ok(byte) if byte.is_ascii() && !matches!(byte, b'\n' | b'\r' | b'\0') => Ok(byte),
        _ => Err(Error::invalid(format!("{name}={letter:?} is no ASCII letter other than a line break"))
            .hint("use one letter, for example \",\", \";\" or \"\\t\"")),
    };
    let delimiter = byte("delimiter", written.delimiter)?;
    let quote = written.quote.map(|quote| byte("quote", quote)).transpose()?;
    if quote == Some(delimiter) {
        return Err(
            Error::invalid("delimiter and quote are the same letter").hint("say quote=None if there are no quotes")
        );
    }
    Ok(Dialect { delimiter, quote, multiline: written.multiline })
}

impl SourceFormat for Csv<'_> {
    fn list(&self, is_counted: bool, _access: FileAccess<'_>) -> Result<Listed<'_>> {
        let (dialect, header) = (dialect(self.dialect)?, self.header());
        let key = format!("csv:{:?}:{:?}", dialect, header);
        let layout = Layout::PerFile { counted: is_counted };
        Ok(Listed::scanned(store::list(self.paths)?, layout, key, move |object, stop| {
            let mut forward = recording(compressed::reading(object)?);
            let begin = dialect.begin(&mut forward, header)?;
            let table = Table::Frames(dialect.starts(&mut forward, begin, stop)?);
            counted(table, Some(forward))
        }))
    }

    fn fits(&self, index: &Inner) -> bool {
        matches!(index.layout, Layout::PerFile { .. })
    }

    fn open(&self, opening: Opening<'_>) -> Result<Arc<dyn Reader>> {
        self.fields.iter().try_for_each(check)?;
        let format = frames::Format::Csv(Box::new(frames::CsvFormat {
            dialect: dialect(self.dialect)?,
            null: self.dialect.null.clone(),
            has_header: self.dialect.header,
            places: places(self.names, self.fields)?,
            names: self.names.to_vec(),
            fields: self.fields.to_vec(),
        }));
        Ok(Arc::new(frames::Frames::new(opening.schema.clone(), opening.pool(), format)))
    }
}

impl Csv<'_> {
    /// Returns the header of each file, if files have one.
    fn header(&self) -> Option<&[String]> {
        self.dialect.header.then_some(self.names)
    }
}
