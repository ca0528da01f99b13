//! The common part of Parquet and Arrow files: groups of rows, decoded together.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::BooleanBuffer;
use arrow_schema::Schema;
use forebay_core::Result;
use forebay_data::Field;

use crate::index::table::Table;
use crate::store::Object;

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

    /// Decodes columns of a group, in batches of at most `rows` rows. An error ends them. With `kept`, which has one bit
    /// for each row, of a format that reads column by column only the rows whose bit is set.
    ///
    /// # Errors
    /// Data when the group cannot be read; Exhausted when it states a size above the memory limit.
    fn batches(
        &self,
        group: usize,
        wanted: &[Field],
        rows: usize,
        kept: Option<&BooleanBuffer>,
    ) -> Result<Self::Batches>;
}
