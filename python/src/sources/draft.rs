//! Sources in the form in which Python writes them.

use bytes::Bytes;
use forebay_core::{Error, ErrorKind, Result};
use forebay_data::{Chunk, DType, Field, Schema, write_ipc};
use forebay_exec::PageCachedSource;
use forebay_io::{CsvDraft, CsvHeader, Draft, Features, Inferred, Progress, ReadThrough, Together};
use forebay_plan::{BlobId, Expr, Source};
use pyo3::prelude::*;
use serde::Deserialize;

/// A source that reads files, as JSON.
#[derive(Debug, Deserialize)]
#[serde(tag = "source", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Files {
    #[serde(rename = "files")]
    Whole {
        paths: Vec<String>,
    },
    ImageFolder {
        root: String,
    },
    Tar {
        paths: Vec<String>,
        extensions: Option<Vec<String>>,
    },
    Tfrecord {
        paths: Vec<String>,
        #[serde(default)]
        infer: bool,
        #[serde(default)]
        features: Option<Vec<Field>>,
        verify: bool,
    },
    Parquet {
        paths: Vec<String>,
        columns: Option<Vec<String>>,
        nullable: Option<Vec<String>>,
        #[serde(default)]
        hive: bool,
        #[serde(default)]
        merge: bool,
        #[serde(default)]
        filter: Option<Expr>,
    },
    Arrow {
        paths: Vec<String>,
        columns: Option<Vec<String>>,
        nullable: Option<Vec<String>>,
        #[serde(default)]
        hive: bool,
        #[serde(default)]
        merge: bool,
    },
    Text {
        paths: Vec<String>,
    },
    Json {
        paths: Vec<String>,
        field: Option<String>,
        fields: Option<Vec<Field>>,
    },
    Jsonl {
        paths: Vec<String>,
        fields: Option<Vec<Field>>,
    },
    Csv {
        paths: Vec<String>,
        /// `true`: in the files; `false`: numbered; a list: given by the user.
        header: Header,
        delimiter: Option<char>,
        quote: Option<char>,
        null: Vec<String>,
        multiline: Option<bool>,
        fields: Option<Vec<Field>>,
        columns: Option<Vec<String>>,
    },
    Tokens {
        paths: Vec<String>,
        dtype: String,
        length: u64,
        stride: Option<u64>,
        column: String,
    },
    Megatron {
        paths: Vec<String>,
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
}

/// The `header` of `from_csv`.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Header {
    InFiles(bool),
    Named(Vec<String>),
}

impl From<Header> for CsvHeader {
    fn from(header: Header) -> Self {
        match header {
            Header::InFiles(true) => CsvHeader::InFiles,
            Header::InFiles(false) => CsvHeader::Numbered,
            Header::Named(names) => CsvHeader::Named(names),
        }
    }
}

impl Files {
    fn filter(&self) -> Option<Expr> {
        match self {
            Files::Parquet { filter, .. } => filter.clone(),
            _ => None,
        }
    }
}

impl TryFrom<Files> for Draft {
    type Error = Error;

    fn try_from(files: Files) -> Result<Self> {
        Ok(match files {
            Files::Whole { paths } => Draft::Files { paths },
            Files::ImageFolder { root } => Draft::ImageFolder { root },
            Files::Tar { paths, extensions } => Draft::Tar { paths, extensions },
            Files::Tfrecord { paths, infer, features, verify } => {
                let features = match (features, infer) {
                    (Some(fields), _) => Features::Given(fields),
                    (None, true) => Features::Infer,
                    (None, false) => Features::Raw,
                };
                Draft::Tfrecord { paths, features, verify }
            }
            Files::Parquet { paths, columns, nullable, hive, merge, filter: _ } => {
                Draft::Parquet { paths, columns, nullable, together: Together { partitions: hive, merged: merge } }
            }
            Files::Arrow { paths, columns, nullable, hive, merge } => {
                Draft::Arrow { paths, columns, nullable, together: Together { partitions: hive, merged: merge } }
            }
            Files::Text { paths } => Draft::Text { paths },
            Files::Json { paths, field, fields } => Draft::Json { paths, field, fields },
            Files::Jsonl { paths, fields } => Draft::Jsonl { paths, fields },
            Files::Csv { paths, header, delimiter, quote, null, multiline, fields, columns } => Draft::Csv(CsvDraft {
                paths,
                header: header.into(),
                delimiter,
                quote,
                null,
                multiline,
                fields,
                columns,
            }),
            Files::Tokens { paths, dtype, length, stride, column } => {
                Draft::Tokens { paths, dtype: DType::parse(&dtype)?, length, stride, column }
            }
            Files::Megatron { paths, column } => Draft::Megatron { paths, column },
            Files::Mds { paths, columns } => Draft::Mds { paths, columns },
            Files::Litdata { paths, columns } => Draft::Litdata { paths, columns },
        })
    }
}

/// Looks up the properties that a source of files leaves open. Bytes of remote files that it reads are cached.
pub(crate) fn infer(json: &str, poll: &mut dyn FnMut() -> Result<()>) -> Result<Inferred> {
    let files: Files = serde_json::from_str(json).map_err(crate::errors::not_arguments)?;
    let filter = files.filter();
    let draft = Draft::try_from(files)?;
    let files = Source::Files { paths: draft.paths().to_vec() };
    let kept = crate::cache::keeping_bytes(&files)?;
    let near = kept.and_then(|kept| PageCachedSource::open(&files, 0, &kept.cache));
    let near = near.as_ref().map(|near| near as &dyn ReadThrough);
    let infer = |progress: Progress<'_>| forebay_io::infer_following(draft, near, progress);
    let Inferred { source, times } = crate::sources::indexing::followed("reading schemas", poll, infer)?;
    let source = filter.map_or(Ok(source.clone()), |filter| source.filtered(filter))?;
    Ok(Inferred { source, times })
}

/// Makes a source, and its blob, from a dictionary of arrays or lists with the rows first.
pub(crate) fn memory(columns: &Bound<'_, PyAny>) -> PyResult<(Source, Bytes)> {
    let py = columns.py();
    let raise = |e: Error| crate::errors::raise(py, &blame_argument(e));
    let read = || -> PyResult<(Vec<Field>, usize, Vec<arrow_array::ArrayRef>)> {
        let fields = crate::functions::probe::fields_of_batch(columns, crate::functions::probe::RowsSeen::All)?;
        fields.iter().try_for_each(Field::check).map_err(|e| crate::errors::raise(py, &e))?;
        let flat = crate::convert::rows::flatten(columns)?;
        let rows = flat.first().map_or(Ok(0), |(_, c)| c.len())?;
        if let Some((name, column)) = flat.iter().find(|(_, c)| c.len().is_ok_and(|n| n != rows)) {
            let message = format!("column {name:?} has {} rows, and {:?} has {rows}", column.len()?, flat[0].0);
            return Err(crate::errors::raise(py, &Error::invalid(message).hint("every column needs the same rows")));
        }
        let made = fields.iter().zip(&flat).map(|(f, (_, c))| crate::convert::values::batched_column(f, c, rows));
        let made = made.collect::<PyResult<_>>()?;
        Ok((fields, rows, made))
    };
    let (fields, rows, arrays) = read().map_err(|e| raise(crate::errors::from_value(py, &e)))?;
    let write = || -> Result<(Source, Bytes)> {
        let schema = Schema::new(fields.clone())?;
        let id = forebay_data::RowId { sample: forebay_core::SampleId(0), epoch: forebay_core::Epoch(0) };
        let chunk = Chunk::new(schema.into(), arrays, vec![id; rows].into())?;
        let mut bytes = Vec::with_capacity(chunk.num_bytes() + 1024);
        write_ipc(&[chunk], false, &mut bytes)?;
        let bytes = Bytes::from(bytes);
        Ok((Source::Memory { blob: BlobId::of(&bytes), rows: rows as u64, fields }, bytes))
    };
    write().map_err(raise)
}

/// Turns an error about a function's result into one about an argument.
fn blame_argument(error: Error) -> Error {
    if !matches!(error.kind(), ErrorKind::Function | ErrorKind::Data) {
        return error;
    }
    let message =
        error.message().trim_start_matches("returned the wrong structure: ").trim_start_matches("returned ").to_owned();
    let kept = error.context().iter().filter(|(k, _)| k != "hint" || !message.contains("should be"));
    kept.fold(Error::invalid(message.as_str()), |e, (k, v)| e.with(k, v))
}
