//! Makes a source of a draft: looks up the extensions, features, columns or fields that the user left open.

use forebay_core::Result;
use forebay_plan::Source;

use super::draft::{Draft, Inferred};
use super::shards::{litdata, mds};
use super::table::{arrow, parquet};
use super::tokens::{self, megatron};
use super::{files, image_folder, json, lines, tar, tfrecord};
use crate::Progress;
use crate::store::ReadThrough;

/// Looks up the parts that the user left open. Remote files are read through `near`.
///
/// # Errors
/// NotFound for a path or a glob without a file; Data when the first file is not of its format; Invalid when it has
/// values that fit no column.
pub fn infer(draft: Draft, near: Option<&dyn ReadThrough>) -> Result<Source> {
    infer_following(draft, near, &|_, _| Ok(())).map(|inferred| inferred.source)
}

/// As [`infer`]. Where all files are read, their number is reported to `progress`.
///
/// # Errors
/// As [`infer`]; any error that `progress` returns.
pub fn infer_following(draft: Draft, near: Option<&dyn ReadThrough>, progress: Progress<'_>) -> Result<Inferred> {
    let source = match draft {
        Draft::Files { paths } => files::infer(paths),
        Draft::Text { paths } => lines::infer_text(paths),
        Draft::ImageFolder { root } => image_folder::infer(&root),
        Draft::Tar { paths, extensions } => tar::infer(paths, extensions, near),
        Draft::Tfrecord { paths, features, verify } => tfrecord::infer(paths, features, verify, near),
        Draft::Parquet { paths, columns, nullable, together } => {
            return parquet::infer(paths, together, (columns, nullable), near, progress);
        }
        Draft::Arrow { paths, columns, nullable, together } => {
            return arrow::infer(paths, together, (columns, nullable), near, progress);
        }
        Draft::Json { paths, field, fields } => json::infer(paths, field, fields, near),
        Draft::Jsonl { paths, fields } => lines::infer_json(paths, fields, near),
        Draft::Csv(csv) => super::csv::infer(csv, near),
        Draft::Tokens { paths, dtype, length, stride, column } => {
            tokens::infer(paths, (dtype, length, stride), column, near)
        }
        Draft::Mds { paths, columns } => mds::infer(&paths, columns.as_deref(), near),
        Draft::Litdata { paths, columns } => litdata::infer(&paths, columns.as_deref(), near),
        Draft::Megatron { paths, column } => megatron::infer(&paths, column),
    };
    source.map(Inferred::from)
}
