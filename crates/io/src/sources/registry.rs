//! The format of each source. No other file lists all formats.

use std::sync::Arc;

use forebay_core::{Error, Result};
use forebay_plan::Source;

use super::format::{Opening, SourceFormat};
use super::shards::{litdata, mds};
use super::table::{arrow, parquet};
use super::tokens::{self, megatron};
use super::{computed, csv, files, image_folder, json, lines, tar, tfrecord};
use crate::readers::Reader;
use crate::{Blobs, ReadOptions, SourceIndex};

/// Returns the format of a source.
pub(crate) fn format_of(source: &Source) -> Box<dyn SourceFormat + '_> {
    match source {
        Source::Files { paths } => Box::new(files::Files { paths }),
        Source::ImageFolder { root } => Box::new(image_folder::ImageFolder { root }),
        Source::Tar { paths, extensions, .. } => Box::new(tar::Tar { paths, extensions }),
        Source::Tfrecord { paths, features, verify } => {
            Box::new(tfrecord::Tfrecord { paths, features: features.as_deref(), verify: *verify })
        }
        Source::Parquet { .. } => Box::new(parquet::Parquet { source }),
        Source::Arrow { .. } => Box::new(arrow::Arrow { source }),
        Source::Text { paths } => Box::new(lines::Lines { paths, fields: None }),
        Source::Jsonl { paths, fields } => Box::new(lines::Lines { paths, fields: Some(fields) }),
        Source::Json { paths, field, fields } => Box::new(json::Json { paths, field: field.as_deref(), fields }),
        Source::Csv { paths, names, fields, dialect } => Box::new(csv::Csv { paths, names, fields, dialect }),
        Source::Tokens { paths, dtype, length, stride, .. } => {
            let rows = crate::formats::tokens::Rows { dtype: *dtype, length: *length, stride: *stride };
            Box::new(tokens::Tokens { paths, rows })
        }
        Source::Megatron { paths, .. } => Box::new(megatron::Megatron { paths }),
        Source::Mds { paths, columns, fields, .. } => Box::new(mds::Mds { paths, columns, fields }),
        Source::Litdata { paths, columns, fields, wrap } => {
            Box::new(litdata::Litdata { paths, columns, fields, wrap: *wrap })
        }
        Source::Memory { .. }
        | Source::Range { .. }
        | Source::MapDataset { .. }
        | Source::Generator { .. }
        | Source::Combined(_) => Box::new(computed::Computed { source }),
    }
}

/// Opens a reader of a source, by an index of the same source.
///
/// # Errors
/// As [`crate::open`].
pub(crate) fn open(
    source: &Source,
    index: SourceIndex,
    blobs: &dyn Blobs,
    options: ReadOptions,
) -> Result<Arc<dyn Reader>> {
    let format = format_of(source);
    if matches!(source, Source::MapDataset { .. } | Source::Generator { .. }) {
        return Err(Error::internal(format!("{} is read by python", source.name())));
    }
    if matches!(source, Source::Combined(_)) {
        return Err(Error::internal(format!("{} is read part by part", source.name())));
    }
    if !format.fits(index.inner()) {
        return Err(Error::internal(format!("the index is not one of {}", source.name())));
    }
    let schema = Arc::new(source.schema()?);
    format.open(Opening { schema, index, blobs, options })
}
