//! The common part of Parquet and Arrow files: groups of rows, decoded together.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::BooleanBuffer;
use arrow_schema::Schema;
use forebay_core::Result;
use forebay_data::Field;

use crate::index::table::Table;
use crate::store::{Ahead, Object};

/// Which part of a group is decoded, and in which steps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DecodeOptions<'a> {
    /// The columns.
    pub(crate) fields: &'a [Field],
    /// The most rows of a batch.
    pub(crate) rows: usize,
    /// One bit for each row of the group. A format that reads column by column decodes only the rows whose bit is set.
    pub(crate) kept: Option<&'a BooleanBuffer>,
    /// The bytes that [`Grouped::request`] has requested.
    pub(crate) ahead: Option<&'a Ahead>,
}

/// A file whose rows are decoded group by group.
pub(crate) trait Grouped: Sized + Send + Sync {
    /// The format's name for a group.
    const GROUP: &'static str;
    /// Whether a column of a group is read by itself. Otherwise all wanted columns are read together.
    const BY_COLUMN: bool;
    /// Decodes one group.
    type Batches: Iterator<Item = Result<RecordBatch>> + Send;

    /// Reads the metadata of all groups from the footer, or from `table`, the index of the file. From then on only the
    /// wanted columns are decoded.
    ///
    /// # Errors
    /// Data when it is not a file of this format.
    fn open(object: Arc<Object>, table: Option<&Table>, wanted: &[Field]) -> Result<Self>;

    /// Returns the columns of the file, as its writer declared them.
    fn schema(&self) -> &Schema;

    /// Requests the bytes of columns that threads decode one by one; `None` if they are here, or are read together.
    fn request(&self, group: usize, fields: &[Field]) -> Option<Ahead>;

    /// Decodes a part of a group, in batches. An error ends them.
    ///
    /// # Errors
    /// Data when the group cannot be read; Exhausted when it states a size above the memory limit.
    fn batches(&self, group: usize, options: DecodeOptions<'_>) -> Result<Self::Batches>;
}
