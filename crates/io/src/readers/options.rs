//! How a source is read.

use std::sync::Arc;

use forebay_data::MemoryBudget;

use crate::store::ReadThrough;

/// How a source is read.
#[derive(Clone, Default)]
pub struct ReadOptions {
    /// What remote files are read through. Default: nothing.
    pub near: Option<Arc<dyn ReadThrough>>,
    /// What the plan says ([`forebay_plan::Sizing`]): groups of rows are kept decoded for two such windows. Default: 0, no windows.
    pub window_rows: u64,
    /// How much may be kept decoded. Default: as much as is of use.
    pub budget: MemoryBudget,
}
