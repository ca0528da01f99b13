//! Options for reading a source.

use std::sync::Arc;

use forebay_data::MemoryBudget;

use super::condition::RowCondition;
use crate::store::ReadThrough;

/// Options for reading a source.
#[derive(Clone, Default)]
pub struct ReadOptions {
    /// The cache through which remote files are read. Default: none.
    pub near: Option<Arc<dyn ReadThrough>>,
    /// The window size of the plan ([`forebay_plan::Sizing`]): groups of rows are kept decoded for two such windows.
    /// Default: 0, no windows.
    pub window_rows: u64,
    /// The memory for decoded rows. Default: as much as is useful.
    pub budget: MemoryBudget,
    /// With how many other readers this one shares the limit of open files. Default: none.
    pub others: usize,
    /// The conditions that rows must meet, in order: a reader may leave out other rows. Only the reader of Parquet files
    /// does. Default: none.
    pub conditions: Vec<Arc<dyn RowCondition>>,
}
