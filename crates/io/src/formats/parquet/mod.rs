//! Parquet: reads footers, and row groups column by column.

mod decoded;
mod object;
mod statistics;

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::Schema as ArrowSchema;
use forebay_core::{Error, Result, expect_panics};
use forebay_data::Field;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder, RowSelection,
};
use parquet::basic::CompressionCodec;
use parquet::file::metadata::RowGroupMetaData;

use super::arrow;
use super::grouped::{DecodeOptions, Grouped};
use crate::index::table::Table;
use crate::store::{Ahead, Object};
use object::Ranges;

/// The supported compression codecs, as writers call them.
const CODECS: &str = "snappy, gzip, brotli, lz4 or zstd";

/// The footer of a file.
#[derive(Debug, Clone)]
pub(crate) struct File {
    object: Arc<Object>,
    footer: ArrowReaderMetadata,
}

impl File {
    /// Reads the footer.
    ///
    /// # Errors
    /// Data when it is not a Parquet file.
    pub(crate) fn open(object: Arc<Object>) -> Result<Self> {
        let footer = guarded(object.uri(), || {
            let footer = ArrowReaderMetadata::load(&Ranges::tail(object.clone())?, ArrowReaderOptions::new())?;
            let groups = footer.metadata().row_groups().iter().map(|group| i128::from(group.num_rows())).sum::<i128>();
            let rows = footer.metadata().file_metadata().num_rows();
            match groups == i128::from(rows) {
                true => Ok(footer),
                // A footer that lost a row group must not lose its rows without an error.
                false => Err(parquet::errors::ParquetError::General(format!(
                    "it has {rows} rows, and its row groups have {groups}"
                ))),
            }
        })?;
        Ok(Self { object, footer })
    }

    /// Returns the columns as they are read.
    pub(crate) fn fields(&self) -> Vec<Field> {
        arrow::fields(self.footer.schema())
    }

    /// Returns the columns as they are read, with their properties. A column without nulls in the footer's counts is
    /// never missing.
    pub(crate) fn columns(&self) -> Vec<arrow::Found> {
        let mut columns = arrow::found(self.footer.schema());
        let fields: Vec<Field> = columns.iter().map(|column| column.field.clone()).collect();
        let whole = self.is_whole(&fields);
        for (at, column) in columns.iter_mut().enumerate() {
            column.field.nullable &= !whole.as_ref().is_none_or(|whole| whole[at]);
        }
        columns
    }

    /// Returns, for each of these columns, whether the footer states that no row is missing; `None` when the file has
    /// no row.
    pub(crate) fn is_whole(&self, fields: &[Field]) -> Option<Vec<bool>> {
        let groups: Vec<_> = self.footer.metadata().row_groups().iter().filter(|group| group.num_rows() > 0).collect();
        let of = |field: &Field| {
            let leaves = self.leaves(std::slice::from_ref(field));
            // A column of several leaves, or of lists, may be missing where no leaf counts it.
            let &[leaf] = leaves.as_slice() else { return false };
            let column = self.footer.parquet_schema().column(leaf);
            let is_it = column.max_rep_level() == 0 && column.path().parts().join(".") == field.name;
            let missing = |group: &&RowGroupMetaData| group.columns().get(leaf)?.statistics()?.null_count_opt();
            is_it && groups.iter().all(|group| missing(group) == Some(0))
        };
        (!groups.is_empty()).then(|| fields.iter().map(of).collect())
    }

    /// Returns the rows of each row group.
    pub(crate) fn group_rows(&self) -> Vec<u64> {
        self.footer.metadata().row_groups().iter().map(|g| u64::try_from(g.num_rows()).unwrap_or(0)).collect()
    }

    /// Opens a row group: reads the bytes of the wanted columns, and decodes them on demand.
    fn group(&self, group: usize, options: DecodeOptions<'_>) -> Result<Batches> {
        let uri = self.object.uri();
        let leaves = self.leaves(options.fields);
        let blame = |e: Error| e.with("file", uri).with("row group", group);
        self.check_sizes(group, &leaves).map_err(blame)?;
        self.check_codecs(group, &leaves).map_err(blame)?;
        let metadata = self.footer.metadata();
        let head = metadata.row_groups().get(group).ok_or_else(|| blame(Error::data("this row group is not there")))?;
        let mask = ProjectionMask::leaves(self.footer.parquet_schema(), leaves.iter().copied());
        let bytes =
            guarded(uri, || Ranges::of_group(self.object.clone(), head, &leaves, options.ahead)).map_err(blame)?;
        let rows = decoded::rows_max(uri, &bytes, head, &leaves).map_err(blame)?.min(options.rows).max(1);
        let reader = guarded(uri, || {
            let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(bytes, self.footer.clone())
                .with_row_groups(vec![group])
                .with_projection(mask)
                .with_batch_size(rows);
            match options.kept {
                Some(kept) => builder.with_row_selection(RowSelection::from_boolean_buffer(kept.clone())).build(),
                None => builder.build(),
            }
        });
        let total = decoded::Total::new(head, &leaves);
        Ok(Batches { object: self.object.clone(), group, reader: Some(reader.map_err(blame)?), total })
    }

    /// Refuses a row group that states a size above the memory limit.
    fn check_sizes(&self, group: usize, leaves: &[usize]) -> Result<()> {
        let columns = self.footer.metadata().row_groups().get(group).map_or(&[][..], |g| g.columns());
        leaves.iter().filter_map(|&leaf| columns.get(leaf)).try_for_each(decoded::check)
    }

    /// Refuses a row group with a column whose compression is not supported.
    fn check_codecs(&self, group: usize, leaves: &[usize]) -> Result<()> {
        let columns = self.footer.metadata().row_groups().get(group).map_or(&[][..], |g| g.columns());
        let mut wanted = leaves.iter().filter_map(|&leaf| columns.get(leaf));
        match wanted.find(|column| column.compression_codec() == CompressionCodec::LZO) {
            Some(column) => {
                let (name, codec) = (column.column_path().string(), column.compression_codec());
                Err(Error::data(format!("column {name:?} is compressed with {codec}, which is not supported"))
                    .with("fault", "file")
                    .hint(format!("write the file again with one of {CODECS}, or leave the column out with columns=")))
            }
            None => Ok(()),
        }
    }

    /// Returns the indices of the file's leaf columns that make up the wanted columns.
    fn leaves(&self, wanted: &[Field]) -> Vec<usize> {
        let within =
            |path: &str, name: &str| path.strip_prefix(name).is_some_and(|r| r.is_empty() || r.starts_with('.'));
        let leaves = self.footer.parquet_schema().columns().iter().enumerate();
        leaves
            .filter(|(_, leaf)| wanted.iter().any(|f| within(&leaf.path().parts().join("."), &f.name)))
            .map(|(i, _)| i)
            .collect()
    }
}

impl Grouped for File {
    const GROUP: &'static str = "row group";
    const BY_COLUMN: bool = true;
    type Batches = Batches;

    fn open(object: Arc<Object>, _table: Option<&Table>, _wanted: &[Field]) -> Result<Self> {
        Self::open(object)
    }

    fn schema(&self) -> &ArrowSchema {
        self.footer.schema()
    }

    fn request(&self, group: usize, fields: &[Field]) -> Option<Ahead> {
        let head = self.footer.metadata().row_groups().get(group)?;
        Ahead::request(&self.object, object::ranges(head, &self.leaves(fields)))
    }

    fn batches(&self, group: usize, options: DecodeOptions<'_>) -> Result<Batches> {
        self.group(group, options)
    }
}

/// The batches of a row group.
pub(crate) struct Batches {
    object: Arc<Object>,
    group: usize,
    reader: Option<ParquetRecordBatchReader>,
    total: decoded::Total,
}

impl Iterator for Batches {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let (uri, mut reader) = (self.object.uri(), self.reader.take()?);
        let batch = guarded(uri, || Ok(reader.next().transpose()?)).transpose()?;
        let batch = batch.and_then(|batch| self.total.add(&batch).map(|()| batch));
        let batch = batch.map_err(|e| e.with("file", uri).with("row group", self.group));
        self.reader = Some(reader).filter(|_| batch.is_ok());
        Some(batch)
    }
}

/// Returns the rows of each row group of a file.
pub(crate) fn group_rows(object: Arc<Object>) -> Result<Vec<u64>> {
    Ok(File::open(object)?.group_rows())
}

/// Runs the decoder and names the file in its errors. The decoder reports some corrupt files by a panic.
pub(crate) fn guarded<T>(uri: &str, decode: impl FnOnce() -> parquet::errors::Result<T>) -> Result<T> {
    let result = expect_panics(decode);
    let corrupt = |what: String| {
        Error::data(format!("not a parquet file that can be read: {what}"))
            .with("file", uri)
            .hint("the file is truncated, corrupt or of another format: write or fetch it again; or name the files to read by a pattern, data/*.parquet")
    };
    let unsupported = |what: String| {
        Error::data(format!("this parquet file has what is not supported: {what}"))
            .with("file", uri)
            .hint("write it again without that, or leave such columns out with columns=")
    };
    match result {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(parquet::errors::ParquetError::External(e))) => match e.downcast::<Error>() {
            Ok(ours) => Err(*ours),
            Err(e) => Err(corrupt(e.to_string())),
        },
        Ok(Err(parquet::errors::ParquetError::NYI(what))) => Err(unsupported(what)),
        Ok(Err(e)) if e.to_string().contains("encrypt") => Err(unsupported("it is encrypted".to_owned())),
        Ok(Err(e)) => Err(corrupt(e.to_string())),
        Err(_) => Err(corrupt("the decoder gave up".to_owned())),
    }
}
