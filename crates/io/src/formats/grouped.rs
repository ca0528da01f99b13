//! What Parquet and Arrow files have in common: groups of rows, decoded together.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::Schema;
use forebay_core::Result;
use forebay_data::Field;

use crate::index::table::Table;
use crate::store::Object;

/// A file whose rows are decoded group by group.
pub(crate) trait Grouped: Sized + Send + Sync {
    /// What a group is called.
    const GROUP: &'static str;
    /// Whether a column of a group is read by itself. Else all that are wanted are.
    const BY_COLUMN: bool;
    /// Decodes one group.
    type Batches: Iterator<Item = Result<RecordBatch>> + Send;

    /// Reads what is known of all groups: the footer, or `table`, which the index has of the file. Of the file's columns the wanted ones alone are decoded from here on.
    ///
    /// # Errors
    /// Data when it is not a file of this format.
    fn open(object: Arc<Object>, table: Option<&Table>, wanted: &[Field]) -> Result<Self>;

    /// Returns the columns of the file, as its writer has them.
    fn schema(&self) -> &Schema;

    /// Decodes columns of a group, in batches of at most `rows` rows. An error ends them.
    ///
    /// # Errors
    /// Data when the group cannot be read; Exhausted when it says that it is more than memory should be asked for.
    fn batches(&self, group: usize, wanted: &[Field], rows: usize) -> Result<Self::Batches>;
}
