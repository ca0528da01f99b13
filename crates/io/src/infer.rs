//! What the user left open, looked up once when the source is written: extensions, features, columns, fields.
//!
//! Paths are checked and made absolute here, but stay patterns: which files they stand for is pinned by the index.

use std::sync::Arc;

use forebay_core::{Error, ErrorKind, Result};
use forebay_data::{DType, Field, Kind, Schema};
use forebay_plan::Source;

use crate::formats::{
    arrow, compressed, example, image_folder, json, lines, litdata, mds, megatron, parquet, tar, tfrecord, tokens,
};
use crate::missing;
use crate::store::{self, Forward, Found, Object, ReadThrough};
use crate::tables::Table;
use crate::{Allowed, Progress};

/// Records that are looked at to find the features of an Example.
const RECORDS: u64 = 16;
/// Lines that are looked at to find the fields of JSON.
const LINES: u64 = 100;
/// Empty files that are passed over before giving up.
const FILES: usize = 16;

/// A source as the user wrote it.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the names are those of Source")]
pub enum Draft {
    Files {
        paths: Vec<String>,
    },
    ImageFolder {
        root: String,
    },
    /// With the extensions to read, a `?` behind those that a sample may lack.
    Tar {
        paths: Vec<String>,
        extensions: Option<Vec<String>>,
    },
    Tfrecord {
        paths: Vec<String>,
        features: Features,
        verify: bool,
    },
    /// With the columns that may be missing, where the user says so.
    Parquet {
        paths: Vec<String>,
        columns: Option<Vec<String>>,
        nullable: Option<Vec<String>>,
        together: Together,
    },
    /// As `Parquet`.
    Arrow {
        paths: Vec<String>,
        columns: Option<Vec<String>>,
        nullable: Option<Vec<String>>,
        together: Together,
    },
    Text {
        paths: Vec<String>,
    },
    Jsonl {
        paths: Vec<String>,
        fields: Option<Vec<Field>>,
    },
    Tokens {
        paths: Vec<String>,
        dtype: DType,
        length: u64,
        stride: Option<u64>,
        column: String,
    },
    Mds {
        paths: Vec<String>,
        columns: Option<Vec<String>>,
    },
    Litdata {
        paths: Vec<String>,
        columns: Option<Vec<String>>,
    },
    /// With or without the ending of either file.
    Megatron {
        paths: Vec<String>,
        column: String,
    },
}

/// How the files of a table make one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Together {
    /// Whether `key=value` parts of their paths are columns.
    pub partitions: bool,
    /// Whether all of them are looked at to find what columns they have together. Else all have those of the first.
    pub merged: bool,
}

/// What to read of a TFRecord.
#[derive(Debug, Clone, PartialEq)]
pub enum Features {
    /// The record's bytes.
    Raw,
    /// The features of the first records.
    Infer,
    /// These features.
    Given(Vec<Field>),
}

impl Draft {
    /// Returns the paths and patterns that the user gave.
    pub fn paths(&self) -> &[String] {
        match self {
            Self::ImageFolder { root } => std::slice::from_ref(root),
            Self::Files { paths }
            | Self::Tar { paths, .. }
            | Self::Tfrecord { paths, .. }
            | Self::Parquet { paths, .. }
            | Self::Arrow { paths, .. }
            | Self::Text { paths }
            | Self::Tokens { paths, .. }
            | Self::Megatron { paths, .. }
            | Self::Mds { paths, .. }
            | Self::Litdata { paths, .. }
            | Self::Jsonl { paths, .. } => paths,
        }
    }
}

/// Looks up what the user left open. What is read of remote files on the way goes through `near`.
///
/// # Errors
/// NotFound for a path or a glob without a file; Data when the first file is not of its format; Invalid when it holds
/// what no column can.
pub fn infer(draft: Draft, near: Option<&dyn ReadThrough>) -> Result<Source> {
    infer_following(draft, near, &|_, _| Ok(()))
}

/// As [`infer`]; `progress` hears of it where all files are looked at.
///
/// # Errors
/// As [`infer`]; what `progress` returns.
pub fn infer_following(draft: Draft, near: Option<&dyn ReadThrough>, progress: Progress<'_>) -> Result<Source> {
    Ok(match draft {
        Draft::Files { paths } => Source::Files { paths: looked_up(paths)?.0 },
        Draft::Text { paths } => Source::Text { paths: looked_up(paths)?.0 },
        Draft::ImageFolder { root } => {
            let root = store::absolute(&root)?.trim_end_matches('/').to_owned();
            image_folder::list(&root)?;
            Source::ImageFolder { root }
        }
        Draft::Tar { paths, extensions } => {
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
            Source::Tar { paths, extensions, optional }
        }
        Draft::Tfrecord { paths, features, verify } => {
            let (paths, files) = looked_up(paths)?;
            let features = match features {
                Features::Raw => None,
                Features::Infer => Some(infer_features(&files, near, verify)?),
                Features::Given(fields) => {
                    fields.iter().try_for_each(example::check)?;
                    Some(fields)
                }
            };
            Source::Tfrecord { paths, features, verify }
        }
        Draft::Parquet { paths, columns, nullable, together } => {
            let files = Table::list(paths, together)?;
            let look = |object| parquet::File::open(object).map(|file| file.columns());
            let (fields, partitions, merged) = match together.merged {
                true => files.merged(look, columns, nullable, near, progress)?,
                false => {
                    let file = parquet::File::open(open(&files.found[0], near)?)?;
                    let find = |fields| missing::find(fields, &file, &files.found, near);
                    files.columns(file.fields(), columns, nullable, find)?
                }
            };
            Source::Parquet { paths: files.paths, fields, partitions, merged, filter: None }
        }
        Draft::Arrow { paths, columns, nullable, together } => {
            let files = Table::list(paths, together)?;
            let look = |object: Arc<Object>| arrow::columns_of(&object);
            let (fields, partitions, merged) = match together.merged {
                true => files.merged(look, columns, nullable, near, progress)?,
                false => {
                    let stored = look(open(&files.found[0], near)?)?;
                    files.columns(stored.into_iter().map(|column| column.field).collect(), columns, nullable, Ok)?
                }
            };
            Source::Arrow { paths: files.paths, fields, partitions, merged }
        }
        Draft::Jsonl { paths, fields } => {
            let (paths, files) = looked_up(paths)?;
            let fields = match fields {
                Some(fields) => {
                    fields.iter().try_for_each(json::check)?;
                    fields
                }
                None => first(&files, near, infer_json)?.ok_or_else(|| empty(&files, "line"))?,
            };
            Schema::new(fields.clone()).map_err(|e| e.with("file", &files[0].uri))?;
            Source::Jsonl { paths, fields }
        }
        Draft::Tokens { paths, dtype, length, stride, column } => {
            let stride = stride.unwrap_or(length);
            Source::Tokens { paths: Vec::new(), dtype, length, stride, column: column.clone() }.schema()?;
            let (paths, files) = looked_up(paths)?;
            let rows = tokens::Rows { dtype, length, stride };
            first(&files, near, |object| Ok((tokens::rows(&object, rows)?.rows > 0).then_some(())))?
                .ok_or_else(|| no_row(&files, length))?;
            Source::Tokens { paths, dtype, length, stride, column }
        }
        Draft::Mds { paths, columns } => {
            let hint = "name a folder that has an index.json, which MDSWriter writes when it is closed; of several splits name one's folder";
            let (paths, files) = listed_folders(&paths, hint)?;
            let mds::Stored { columns, fields, packed } = mds::look(&files, columns.as_deref(), near)?;
            Source::Mds { paths, columns, fields, packed }
        }
        Draft::Litdata { paths, columns } => {
            let hint = "name a folder that has an index.json, which litdata.optimize writes at its end";
            let (paths, files) = listed_folders(&paths, hint)?;
            let litdata::Stored { columns, fields, wrap } = litdata::look(&files, columns.as_deref(), near)?;
            Source::Litdata { paths, columns, fields, wrap }
        }
        Draft::Megatron { paths, column } => {
            let prefixes: Vec<String> = paths.iter().map(|path| megatron::prefix(path).to_owned()).collect();
            let indexes = prefixes.iter().map(|prefix| megatron::file(prefix, "idx")).collect();
            let hint = "name the .bin and .idx files without their endings, as --data-path of Megatron does";
            let (indexes, files) = listed(indexes, usize::MAX).map_err(|e| told(e, hint))?;
            files.iter().take(FILES).try_for_each(|file| has_ids(&file.uri))?;
            Source::Megatron { paths: indexes.iter().map(|path| megatron::prefix(path).to_owned()).collect(), column }
        }
    })
}

/// Lists the indexes of folders, and returns also the folders.
fn listed_folders(paths: &[String], hint: &str) -> Result<(Vec<String>, Vec<Found>)> {
    let indexes = paths.iter().map(|folder| mds::index_of(folder)).collect();
    let (indexes, files) = listed(indexes, usize::MAX).map_err(|e| told(e, hint))?;
    let folder = |index: &String| index.strip_suffix("/index.json").unwrap_or(index).to_owned();
    Ok((indexes.iter().map(folder).collect(), files))
}

/// Says what to name where there is no such file.
fn told(error: Error, hint: &str) -> Error {
    let is_missing = error.kind() == ErrorKind::NotFound && error.get("hint") == Some("check the path");
    if is_missing { error.replace("hint", hint) } else { error }
}

/// No file is as long as a row of token ids.
fn no_row(files: &[Found], length: u64) -> Error {
    Error::data(format!("there is no row of {length} ids in the first files"))
        .with("file", files.first().map_or("", |f| &f.uri))
        .hint("what is behind the last whole row of a file is left out: use a smaller length, or join the files")
}

/// Says that the file of ids is missing where its index is there.
fn has_ids(index: &str) -> Result<()> {
    store::stat(&megatron::file(megatron::prefix(index), "bin"), &Allowed::everything()).map(drop)
}

/// Refuses a file that a path names and that is not there.
pub(crate) fn exists(first: &Found) -> Result<()> {
    if first.stat.is_none() {
        store::stat(&first.uri, &Allowed::everything())?;
    }
    Ok(())
}

/// Makes patterns absolute and looks up the first files that they stand for, the first one's existence included.
fn looked_up(paths: Vec<String>) -> Result<(Vec<String>, Vec<Found>)> {
    listed(paths, FILES)
}

/// As [`looked_up`], with at most `most` files of each pattern of a store.
fn listed(paths: Vec<String>, most: usize) -> Result<(Vec<String>, Vec<Found>)> {
    let paths = paths.iter().map(|p| store::absolute(p).map(store::files_of)).collect::<Result<Vec<_>>>()?;
    let files = store::list_first(&paths, most)?;
    exists(&files[0])?;
    Ok((paths, files))
}

pub(crate) fn open(file: &Found, near: Option<&dyn ReadThrough>) -> Result<Arc<Object>> {
    // A user looks at files with rights of their own.
    let allowed = Allowed::everything();
    let stat = file.stat.clone().map_or_else(|| store::stat(&file.uri, &allowed), Ok)?;
    Object::open(&file.uri, &stat, near, &allowed).map(Arc::new)
}

/// Looks into files until one tells something.
fn first<T>(
    files: &[Found],
    near: Option<&dyn ReadThrough>,
    mut look: impl FnMut(Arc<Object>) -> Result<Option<T>>,
) -> Result<Option<T>> {
    for file in files.iter().take(FILES) {
        if let Some(found) = look(open(file, near)?)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

fn empty(files: &[Found], what: &str) -> Error {
    Error::data(format!("there is no {what} in the first files"))
        .with("file", files.first().map_or("", |f| &f.uri))
        .hint("check that these are the right files, and not empty")
}

/// Reads what the user named of the members of samples: all, and those of them that a sample may lack.
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

fn infer_features(files: &[Found], near: Option<&dyn ReadThrough>, verify: bool) -> Result<Vec<Field>> {
    let look = |object: Arc<Object>| {
        let mut forward = Forward::reading(object.clone()).unpacked(tfrecord::codec)?;
        let mut seen = example::FeatureInference::default();
        let (mut at, mut record) = (0, 0);
        while record < RECORDS
            && let Some(len) = tfrecord::next(&mut forward, at, Some(record), verify)?
        {
            let blame = |e: Error| e.with("file", object.uri()).with("offset", at).with("record", record);
            let frame = forward.at(at, len as usize)?;
            let payload = tfrecord::payload(frame, object.uri(), at, Some(record), verify)?;
            seen.push(payload).map_err(blame)?;
            (at, record) = (at + len, record + 1);
        }
        if record == 0 { Ok(None) } else { seen.fields().map(Some).map_err(|e| e.with("file", object.uri())) }
    };
    first(files, near, look)?.ok_or_else(|| empty(files, "record"))
}

fn infer_json(object: Arc<Object>) -> Result<Option<Vec<Field>>> {
    let mut forward = compressed::reading(object.clone())?;
    let mut seen = json::FieldInference::default();
    let (mut at, mut line) = (lines::begin(&mut forward)?, 0);
    while line < LINES
        && let Some(len) = lines::next(&mut forward, at, Some(line))?
    {
        if lines::is_blank(forward.at(at, len as usize)?) && lines::skip_blank(&mut forward, at, Some(line))?.is_none()
        {
            break;
        }
        let blame = |e: Error| e.with("file", object.uri()).with("offset", at).with("file_line", line + 1);
        seen.push(lines::trim(forward.at(at, len as usize)?)).map_err(blame)?;
        (at, line) = (at + len, line + 1);
    }
    Ok((line > 0).then(|| seen.fields()))
}
