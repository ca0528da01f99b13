//! Lines of files: text, and JSON objects.

use std::sync::Arc;

use forebay_core::{Error, Result};
use forebay_data::{Field, Schema};
use forebay_plan::Source;

use super::format::{FileAccess, Listed, Opening, SourceFormat, counted, recording};
use super::look_up::{empty, first, looked_up};
use crate::formats::{compressed, json, lines};
use crate::index::table::Table;
use crate::index::{Inner, Layout};
use crate::readers::{Reader, frames};
use crate::store::{self, Object, ReadThrough};

/// Lines that are read to find the fields of JSON.
const LINES: u64 = 100;
/// Lines, and bytes, that are read at most while a field has only nulls and empty lists.
const LINES_MAX: u64 = 10_000;
const BYTES_MAX: u64 = 4 << 20;

pub(super) struct Lines<'s> {
    pub(super) paths: &'s [String],
    /// The fields of JSON objects; `None` for text.
    pub(super) fields: Option<&'s [Field]>,
}

pub(super) fn infer_text(paths: Vec<String>) -> Result<Source> {
    Ok(Source::Text { paths: looked_up(paths)?.0 })
}

/// Infers the fields, or checks the fields that the user named.
pub(super) fn infer_json(
    paths: Vec<String>,
    fields: Option<Vec<Field>>,
    near: Option<&dyn ReadThrough>,
) -> Result<Source> {
    let (paths, files) = looked_up(paths)?;
    let fields = match fields {
        Some(fields) => {
            fields.iter().try_for_each(json::check)?;
            fields
        }
        None => first(&files, near, infer_fields)?.ok_or_else(|| empty(&files, "line"))?,
    };
    Schema::new(fields.clone()).map_err(|e| e.with("file", &files[0].uri))?;
    Ok(Source::Jsonl { paths, fields })
}

impl SourceFormat for Lines<'_> {
    fn list(&self, is_counted: bool, _access: FileAccess<'_>) -> Result<Listed<'_>> {
        // A blank line at the end is a row of text, but not of JSON.
        let is_text = self.fields.is_none();
        let key = if is_text { "lines" } else { "jsonl" }.to_owned();
        let layout = Layout::PerFile { counted: is_counted };
        Ok(Listed::scanned(store::list(self.paths)?, layout, key, move |object, stop| {
            let mut forward = recording(compressed::reading(object)?);
            let table = Table::Frames(lines::starts(&mut forward, is_text, stop)?);
            counted(table, Some(forward))
        }))
    }

    fn fits(&self, index: &Inner) -> bool {
        matches!(index.layout, Layout::PerFile { .. })
    }

    fn open(&self, opening: Opening<'_>) -> Result<Arc<dyn Reader>> {
        let format = match self.fields {
            None => frames::Format::Text,
            Some(fields) => {
                fields.iter().try_for_each(json::check)?;
                frames::Format::Jsonl { fields: fields.to_vec() }
            }
        };
        Ok(Arc::new(frames::Frames::new(opening.schema.clone(), opening.pool(), format)))
    }
}

fn infer_fields(object: Arc<Object>) -> Result<Option<Vec<Field>>> {
    let mut forward = compressed::reading(object.clone())?;
    let mut seen = json::FieldInference::new(json::LINE);
    let (mut at, mut line) = (lines::begin(&mut forward)?, 0);
    while (line < LINES || (line < LINES_MAX && at < BYTES_MAX && seen.has_field_without_type()))
        && let Some(len) = lines::next(&mut forward, at, Some(line))?
    {
        if lines::is_blank(forward.at(at, len as usize)?)
            && lines::skip_blank(&mut forward, at, Some(line), lines::is_blank)?.is_none()
        {
            break;
        }
        let blame = |e: Error| e.with("file", object.uri()).with("offset", at).with("file_line", line + 1);
        seen.push(lines::trim(forward.at(at, len as usize)?)).map_err(blame)?;
        (at, line) = (at + len, line + 1);
    }
    Ok((line > 0).then(|| seen.fields()))
}
