//! JSON documents: the objects of one array.

use std::sync::Arc;

use forebay_core::{Error, Result};
use forebay_data::{Field, Schema};
use forebay_plan::Source;

use super::format::{FileAccess, Listed, Opening, SourceFormat, counted, recording};
use super::look_up::{empty, first, looked_up};
use crate::formats::compressed;
use crate::formats::json::{self, document};
use crate::index::table::Table;
use crate::index::{Inner, Layout};
use crate::readers::{Reader, frames};
use crate::store::{self, Object, ReadThrough};

/// Objects that are read to find the fields.
const ROWS: u64 = 100;
/// Objects, and bytes, that are read at most while a field has only nulls and empty lists.
const ROWS_MAX: u64 = 10_000;
const BYTES_MAX: u64 = 4 << 20;

pub(super) struct Json<'s> {
    pub(super) paths: &'s [String],
    /// The member that is the array; `None` where the document is.
    pub(super) field: Option<&'s str>,
    pub(super) fields: &'s [Field],
}

/// Infers the fields, or checks the fields that the user named.
pub(super) fn infer(
    paths: Vec<String>,
    field: Option<String>,
    fields: Option<Vec<Field>>,
    near: Option<&dyn ReadThrough>,
) -> Result<Source> {
    let (paths, files) = looked_up(paths)?;
    let fields = match fields {
        Some(fields) => {
            fields.iter().try_for_each(json::check)?;
            fields
        }
        None => first(&files, near, |object| infer_fields(object, field.as_deref()))?
            .ok_or_else(|| empty(&files, "object"))?,
    };
    Schema::new(fields.clone()).map_err(|e| e.with("file", &files[0].uri))?;
    Ok(Source::Json { paths, field, fields })
}

impl SourceFormat for Json<'_> {
    fn list(&self, is_counted: bool, _access: FileAccess<'_>) -> Result<Listed<'_>> {
        let key = format!("json:{:?}", self.field);
        let layout = Layout::PerFile { counted: is_counted };
        let field = self.field;
        Ok(Listed::scanned(store::list(self.paths)?, layout, key, move |object, stop| {
            let mut forward = recording(compressed::reading(object)?);
            let begin = document::begin(&mut forward, field)?;
            let table = Table::Frames(document::starts(&mut forward, begin, field.is_none(), stop)?);
            counted(table, Some(forward))
        }))
    }

    fn fits(&self, index: &Inner) -> bool {
        matches!(index.layout, Layout::PerFile { .. })
    }

    fn open(&self, opening: Opening<'_>) -> Result<Arc<dyn Reader>> {
        self.fields.iter().try_for_each(json::check)?;
        let format = frames::Format::Json { field: self.field.map(str::to_owned), fields: self.fields.to_vec() };
        Ok(Arc::new(frames::Frames::new(opening.schema.clone(), opening.pool(), format)))
    }
}

fn infer_fields(object: Arc<Object>, field: Option<&str>) -> Result<Option<Vec<Field>>> {
    let mut forward = compressed::reading(object.clone())?;
    let mut seen = json::FieldInference::new(json::ITEM);
    let begin = document::begin(&mut forward, field)?;
    let (mut at, mut row) = (begin, 0);
    while (row < ROWS || (row < ROWS_MAX && at - begin < BYTES_MAX && seen.has_field_without_type()))
        && let Some(len) = document::next(&mut forward, at, Some(row), field.is_none())?
    {
        let blame = |e: Error| e.with("file", object.uri()).with("offset", at).with("record", row);
        seen.push(document::trim(forward.at(at, len as usize)?)).map_err(blame)?;
        (at, row) = (at + len, row + 1);
    }
    Ok((row > 0).then(|| seen.fields()))
}
